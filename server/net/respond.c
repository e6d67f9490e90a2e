/* Whole replies and their headers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "kernels/base/log.h"
#include "server/net/net_private.h"

#define PREFLIGHT_METHODS "GET, POST, OPTIONS, DELETE, HEAD"
#define EXPOSED "x-request-id, request-id, retry-after"
#define READ_BYTES_PER_MS 64 /* that the reader of a long reply has to keep up with */

/* False: there was no memory for it. */
static bool add(struct MHD_Response *response, const char *name, const char *value)
{
    return MHD_add_response_header(response, name, value) == MHD_YES;
}

static bool is_listed(const struct exchange *exchange, const char *origin)
{
    const struct auth *auth = exchange->net->args.auth;
    return auth != NULL && auth_is_cors_origin(auth, origin);
}

/* A browser shows a reply to its page only if that page's origin is allowed by name. */
static void add_cors(const struct exchange *exchange, struct MHD_Response *response)
{
    const char *origin = judge_header(exchange, "Origin");
    if (origin == NULL || !is_listed(exchange, origin))
        return;
    MHD_add_response_header(response, "Access-Control-Allow-Origin", origin);
    MHD_add_response_header(response, "Vary", "Origin");
    MHD_add_response_header(response, "Access-Control-Expose-Headers", EXPOSED);
}

static bool add_common(const struct exchange *exchange, struct MHD_Response *response)
{
    add_cors(exchange, response);
    return add(response, "x-request-id", exchange->id) && add(response, "request-id", exchange->id) &&
           (!(exchange->must_close || net_is_draining(exchange->net)) || add(response, "Connection", "close"));
}

static bool add_retry_after(struct MHD_Response *response, uint32_t seconds)
{
    char text[16];
    snprintf(text, sizeof(text), "%u", seconds);
    return add(response, "Retry-After", text);
}

/* ---- without memory ---- */

enum status respond_open(struct net *net, struct error *error)
{
    struct buffer body = {0};
    struct error text;
    error_no_memory(&text, "the reply");
    api_error_body(NULL, &text, &body);
    buffer_byte(&body, '\n');
    if (!body.failed)
        net->no_memory = MHD_create_response_from_buffer(body.size, body.data, MHD_RESPMEM_MUST_FREE);
    if (net->no_memory == NULL)
        buffer_free(&body);
    else if (add(net->no_memory, "Content-Type", "application/json") && add_retry_after(net->no_memory, 1))
        return STATUS_OK;
    return error_no_memory(error, "the HTTP server");
}

void respond_close(struct net *net)
{
    if (net->no_memory != NULL)
        MHD_destroy_response(net->no_memory);
}

enum MHD_Result respond_no_memory(struct net *net, struct MHD_Connection *mhd)
{
    return MHD_queue_response(mhd, 503, net->no_memory);
}

static void note_status(struct exchange *exchange, uint32_t http_status)
{
    exchange->http_status = http_status;
    metrics_count_response(&exchange->net->metrics, exchange->endpoint == NULL ? "other" : exchange->endpoint->path,
                           http_status);
}

static enum MHD_Result give_up(struct exchange *exchange, struct MHD_Response *response)
{
    if (response != NULL)
        MHD_destroy_response(response);
    log_event(LOG_ERROR, "no_memory_for_reply", (struct log_field[]){log_text("id", exchange->id)}, 1);
    note_status(exchange, 503);
    return respond_no_memory(exchange->net, exchange->mhd);
}

/* ---- replies ---- */

static uint32_t retry_after_s(const struct exchange *exchange)
{
    struct net *net = exchange->net;
    if (exchange->grant.retry_after_s > 0)
        return exchange->grant.retry_after_s;
    struct engine_status status = engine_status(net->args.engine);
    return pace_retry_after_s(&net->pace, status.waiting + 1, clock_ns());
}

/* Clients try again after 429 and 5xx unless they are told that it is of no use. */
static bool add_retry(const struct exchange *exchange, struct MHD_Response *response, uint32_t http_status)
{
    if (http_status == 429 || http_status == 503)
        return add_retry_after(response, retry_after_s(exchange));
    return http_status < 500 || add(response, "x-should-retry", "false");
}

enum MHD_Result respond_queue(struct exchange *exchange, uint32_t http_status, struct MHD_Response *response,
                              bool complete)
{
    if (!complete || !add_common(exchange, response))
        return give_up(exchange, response);
    note_status(exchange, http_status);
    connection_enter(exchange, PHASE_REPLY, exchange->net->args.stall_timeout_ms);
    enum MHD_Result result = MHD_queue_response(exchange->mhd, http_status, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result respond_typed(struct exchange *exchange, uint32_t http_status, const char *content_type,
                                     struct buffer *body)
{
    struct MHD_Response *response =
        body->failed ? NULL : MHD_create_response_from_buffer(body->size, body->data, MHD_RESPMEM_MUST_FREE);
    if (response == NULL) {
        buffer_free(body);
        return give_up(exchange, NULL);
    }
    uint32_t more_ms = (uint32_t)(body->size / READ_BYTES_PER_MS);
    *body = (struct buffer){0};
    bool allows = http_status == 405 && exchange->allow != NULL;
    bool complete = add(response, "Content-Type", content_type) &&
                    (!allows || add(response, "Allow", exchange->allow)) &&
                    (http_status != 401 || add(response, "WWW-Authenticate", "Bearer")) &&
                    add_retry(exchange, response, http_status);
    enum MHD_Result result = respond_queue(exchange, http_status, response, complete);
    connection_enter(exchange, PHASE_REPLY, exchange->net->args.stall_timeout_ms + more_ms);
    return result;
}

enum MHD_Result respond(struct exchange *exchange, uint32_t http_status, struct buffer *body)
{
    buffer_byte(body, '\n'); /* a terminal's prompt begins on a line of its own */
    return respond_typed(exchange, http_status, "application/json", body);
}

enum MHD_Result respond_page(struct exchange *exchange, const char *content_type, struct buffer *body)
{
    return respond_typed(exchange, 200, content_type, body);
}

enum MHD_Result respond_error(struct exchange *exchange, const struct error *error)
{
    struct buffer body = {0};
    api_error_body(exchange->endpoint, error, &body);
    refusal_log(exchange, error);
    return respond(exchange, api_error_status(error), &body);
}

void respond_past(const struct exchange *exchange, const struct error *error)
{
    struct buffer body = {0}, reply = {0};
    if (exchange->connection == NULL || !exchange->connection->plain)
        return;
    api_error_body(exchange->endpoint, error, &body);
    buffer_byte(&body, '\n');
    uint32_t http_status = api_error_status(error);
    buffer_printf(&reply,
                  "HTTP/1.1 %u %s\r\nContent-Type: application/json\r\nContent-Length: %zu\r\nx-request-id: %s\r\n"
                  "request-id: %s\r\nConnection: close\r\n\r\n%s",
                  http_status, MHD_get_reason_phrase_for(http_status), body.size, exchange->id, exchange->id,
                  body.data);
    if (!body.failed && !reply.failed)
        send(exchange->connection->fd, reply.data, reply.size, MSG_DONTWAIT | MSG_NOSIGNAL);
    buffer_free(&body);
    buffer_free(&reply);
}

enum MHD_Result respond_options(struct exchange *exchange)
{
    static char nothing[] = "";
    const char *origin = judge_header(exchange, "Origin");
    const char *headers = judge_header(exchange, "Access-Control-Request-Headers");
    struct MHD_Response *response = MHD_create_response_from_buffer(0, nothing, MHD_RESPMEM_PERSISTENT);
    bool complete = response != NULL && add(response, "Allow", exchange->allow);
    bool shown = origin == NULL || is_listed(exchange, origin);
    if (complete && shown)
        complete = add(response, "Access-Control-Allow-Methods", PREFLIGHT_METHODS) &&
                   add(response, "Access-Control-Max-Age", "600");
    /* Named one by one: "*" does not stand for Authorization. An empty list is none. */
    if (complete && shown && headers != NULL)
        MHD_add_response_header(response, "Access-Control-Allow-Headers", headers);
    return respond_queue(exchange, 204, response, complete);
}
