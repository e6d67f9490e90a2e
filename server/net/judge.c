/* What is decided from a request's headers: which endpoint it wants, and whether that takes it now. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "server/net/net_private.h"
#include "server/net/page.h"

#define SPACE " \t"

const char *judge_header(const struct exchange *exchange, const char *name)
{
    return MHD_lookup_connection_value(exchange->mhd, MHD_HEADER_KIND, name);
}

/* ---- what the body is written in ---- */

/* "utf-8", in any case, quoted or not; "utf8" is not its name, but what some call it. */
static bool is_utf8(const char *charset)
{
    charset += *charset == '"';
    size_t size = strcspn(charset, "\";" SPACE);
    return (size == 5 && strncasecmp(charset, "utf-8", size) == 0) ||
           (size == 4 && strncasecmp(charset, "utf8", size) == 0);
}

/* Every other type is taken for what it must be, JSON: many a script sends none, or a form's. */
static bool type_is_known(const char *type)
{
    if (strncasecmp(type, "multipart/", strlen("multipart/")) == 0)
        return false;
    for (const char *at = strchr(type, ';'); at != NULL; at = strchr(at, ';')) {
        at += 1 + strspn(at + 1, SPACE);
        if (strncasecmp(at, "charset=", strlen("charset=")) == 0 && !is_utf8(at + strlen("charset=")))
            return false;
    }
    return true;
}

static void judge_media(struct exchange *exchange)
{
    const char *type = judge_header(exchange, "Content-Type");
    const char *encoding = judge_header(exchange, "Content-Encoding");
    char text[160];
    if (encoding != NULL && *encoding != '\0' && strcasecmp(encoding, "identity") != 0)
        snprintf(text, sizeof(text), "Content-Encoding is \"%.40s\"; bodies are sent as they are", encoding);
    else if (type != NULL && !type_is_known(type))
        snprintf(text, sizeof(text), "Content-Type is \"%.60s\"; a body is JSON in UTF-8 (application/json)", type);
    else
        return;
    exchange_refuse(exchange, STATUS_UNSUPPORTED, "unsupported_media_type", text);
}

/* ---- where it goes ---- */

static void find_endpoint(struct exchange *exchange, const char *url)
{
    struct error error;
    bool options = strcmp(exchange->method, "OPTIONS") == 0;
    if (options && strcmp(url, "*") == 0) {
        exchange->allow = "GET, HEAD, POST, OPTIONS";
        return;
    }
    if (url_path(url, &exchange->path, &error) == STATUS_OK) {
        exchange->endpoint =
            api_endpoint_find(exchange->method, exchange->path.data, &exchange->rest, &exchange->allow, &error);
        if (exchange->endpoint != NULL || (options && exchange->allow != NULL))
            return;
    }
    exchange->refused = true;
    exchange->error = error;
}

/* The server's own pages are answered to the end: they tell that it is near. */
static bool needs_admission(const struct exchange *exchange)
{
    return exchange->endpoint != NULL && (exchange->endpoint->parse != NULL || exchange->endpoint->answer != NULL);
}

/* ---- who asks ---- */

static enum auth_need need_of(const struct exchange *exchange)
{
    const struct api_endpoint *endpoint = exchange->endpoint;
    if (strcmp(exchange->method, "OPTIONS") == 0)
        return AUTH_NONE;
    bool is_page = endpoint != NULL && endpoint->parse == NULL && endpoint->answer == NULL;
    return is_page ? page_find(endpoint->path)->need : AUTH_KEY;
}

/* Who may not ask is told so, and not whether there is such a path. */
static void judge_client(struct exchange *exchange)
{
    struct auth *auth = exchange->net->args.auth;
    struct auth_request request = {
        .host = judge_header(exchange, "Host"),
        .origin = judge_header(exchange, "Origin"),
        .authorization = judge_header(exchange, "Authorization"),
        .api_key = judge_header(exchange, "x-api-key"),
        .need = need_of(exchange),
    };
    struct error error;
    if (auth == NULL || auth_judge(auth, &request, exchange->began_ns, &exchange->grant, &error) == STATUS_OK)
        return;
    exchange->refused = true;
    exchange->error = error;
}

void judge_target(struct exchange *exchange, const char *url)
{
    find_endpoint(exchange, url);
    judge_client(exchange);
    if (exchange->refused)
        return;
    if (needs_admission(exchange) && !drain_admit(exchange)) {
        exchange_refuse(exchange, STATUS_BUSY, "draining", "the server is stopping");
    } else if (body_declared(exchange) > exchange->net->args.body_max) {
        body_refuse_size(exchange);
    } else if (exchange->endpoint != NULL && exchange->endpoint->parse != NULL) {
        judge_media(exchange);
    }
}
