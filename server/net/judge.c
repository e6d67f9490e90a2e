/* What is decided from a request's headers alone: whether its framing can be trusted, which endpoint it wants, and
 * whether that one takes it now. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "server/net/net_private.h"

const char *judge_header(const struct exchange *exchange, const char *name)
{
    return MHD_lookup_connection_value(exchange->mhd, MHD_HEADER_KIND, name);
}

struct header_count {
    const char *name;
    uint32_t count;
};

static enum MHD_Result count_header(void *context, enum MHD_ValueKind kind, const char *name, const char *value)
{
    struct header_count *wanted = context;
    (void)kind;
    (void)value;
    wanted->count += strcasecmp(name, wanted->name) == 0;
    return MHD_YES;
}

static uint32_t header_count(struct exchange *exchange, const char *name)
{
    struct header_count wanted = {.name = name};
    MHD_get_connection_values(exchange->mhd, MHD_HEADER_KIND, count_header, &wanted);
    return wanted.count;
}

static bool is_name_byte(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr("!#$%&'*+-.^_`|~", c) != NULL);
}

static enum MHD_Result check_name(void *context, enum MHD_ValueKind kind, const char *name, const char *value)
{
    bool *good = context;
    (void)kind;
    (void)value;
    for (; *name != '\0' && *good; name++)
        *good = is_name_byte(*name);
    return MHD_YES;
}

/* "Content-Length : 5" is a length for some readers and for others a header that they do not know. */
static bool names_are_clear(struct exchange *exchange)
{
    bool good = true;
    MHD_get_connection_values(exchange->mhd, MHD_HEADER_KIND, check_name, &good);
    return good;
}

bool judge_framing(struct exchange *exchange)
{
    const char *encoding = judge_header(exchange, "Transfer-Encoding");
    uint32_t lengths = header_count(exchange, "Content-Length");
    if (lengths > 1 || (lengths == 1 && encoding != NULL))
        exchange_refuse(exchange, STATUS_INVALID, "invalid_request", "the body's length is given twice");
    else if (encoding != NULL &&
             (strcasecmp(encoding, "chunked") != 0 || header_count(exchange, "Transfer-Encoding") > 1))
        exchange_refuse(exchange, STATUS_UNSUPPORTED, "invalid_request", "Transfer-Encoding must be chunked");
    else if (!names_are_clear(exchange))
        exchange_refuse(exchange, STATUS_INVALID, "invalid_request",
                        "a header's name has a character that names do not have");
    return !exchange->refused;
}

void judge_target(struct exchange *exchange, const char *url)
{
    const char *length = judge_header(exchange, "Content-Length");
    struct error error;
    if (url_path(url, &exchange->path, &error) != STATUS_OK) {
        exchange->refused = true;
        exchange->error = error;
        return;
    }
    exchange->endpoint =
        api_endpoint_find(exchange->method, exchange->path.data, &exchange->rest, &exchange->allow, &error);
    if (exchange->endpoint == NULL && !(strcmp(exchange->method, "OPTIONS") == 0 && exchange->allow != NULL)) {
        exchange->refused = true;
        exchange->error = error;
    } else if (net_is_closing(exchange->net)) {
        exchange->must_close = true;
        exchange_refuse(exchange, STATUS_BUSY, "draining", "the server is stopping");
    } else if (length != NULL && strtoull(length, NULL, 10) > exchange->net->args.body_max) {
        body_refuse_size(exchange);
    }
}
