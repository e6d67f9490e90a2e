/* Whole replies and their headers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/log.h"
#include "server/net/net_private.h"

#define EXPOSED "x-request-id, request-id, retry-after"
#define LOGGED_PATH_BYTES 256

/* A browser shows a reply to its page only if that page's origin is allowed by name. */
static void add_cors(const struct exchange *exchange, struct MHD_Response *response)
{
    const char *allowed = exchange->net->args.cors_origin;
    const char *origin = MHD_lookup_connection_value(exchange->mhd, MHD_HEADER_KIND, "Origin");
    if (allowed == NULL || origin == NULL || (strcmp(allowed, "*") != 0 && strcmp(allowed, origin) != 0))
        return;
    MHD_add_response_header(response, "Access-Control-Allow-Origin", origin);
    MHD_add_response_header(response, "Vary", "Origin");
    MHD_add_response_header(response, "Access-Control-Expose-Headers", EXPOSED);
}

void respond_add_headers(const struct exchange *exchange, struct MHD_Response *response)
{
    MHD_add_response_header(response, "x-request-id", exchange->id);
    MHD_add_response_header(response, "request-id", exchange->id);
    add_cors(exchange, response);
    if (exchange->must_close)
        MHD_add_response_header(response, "Connection", "close");
}

/* Clients try again after 429 and 5xx unless they are told that it is of no use. */
static void add_retry(struct MHD_Response *response, uint32_t http_status)
{
    if (http_status == 429 || http_status == 503)
        MHD_add_response_header(response, "Retry-After", "1");
    else if (http_status >= 500)
        MHD_add_response_header(response, "x-should-retry", "false");
}

static enum MHD_Result queue(struct exchange *exchange, uint32_t http_status, struct MHD_Response *response)
{
    respond_add_headers(exchange, response);
    exchange->http_status = http_status;
    enum MHD_Result result = MHD_queue_response(exchange->mhd, http_status, response);
    MHD_destroy_response(response);
    return result;
}

/* A reply that there was no memory for is one more failure to tell, in few bytes. */
static uint32_t replace_failed(struct exchange *exchange, uint32_t http_status, struct buffer *body)
{
    struct error error;
    if (!body->failed)
        return http_status;
    log_line(LOG_ERROR, "request %s: not enough memory for its reply", exchange->id);
    buffer_free(body);
    error_no_memory(&error, "the reply");
    api_error_body(exchange->endpoint, &error, body);
    buffer_byte(body, '\n');
    return api_error_status(&error);
}

enum MHD_Result respond(struct exchange *exchange, uint32_t http_status, struct buffer *body)
{
    buffer_byte(body, '\n'); /* a terminal's prompt begins on a line of its own */
    http_status = replace_failed(exchange, http_status, body);
    struct MHD_Response *response =
        body->failed ? NULL : MHD_create_response_from_buffer(body->size, body->data, MHD_RESPMEM_MUST_FREE);
    if (response == NULL) {
        buffer_free(body);
        return MHD_NO;
    }
    *body = (struct buffer){0};
    MHD_add_response_header(response, "Content-Type", "application/json");
    if (http_status == 405 && exchange->allow != NULL)
        MHD_add_response_header(response, "Allow", exchange->allow);
    add_retry(response, http_status);
    return queue(exchange, http_status, response);
}

/* What a client did wrong is its own affair; that work is turned away is the operator's. */
void respond_log_refusal(const struct exchange *exchange, const struct error *error)
{
    uint32_t http_status = api_error_status(error);
    char path[LOGGED_PATH_BYTES];
    snprintf(path, sizeof(path), "%s", exchange->path.data == NULL ? "" : exchange->path.data);
    log_event(http_status == 429 || http_status >= 500 ? LOG_WARN : LOG_INFO, "refused",
              (struct log_field[]){log_text("id", exchange->id), log_text("method", exchange->method),
                                   log_text("path", path), log_integer("status", http_status),
                                   log_text("code", api_error_code(error)), log_text("message", error->text)},
              6);
}

enum MHD_Result respond_error(struct exchange *exchange, const struct error *error)
{
    struct buffer body = {0};
    api_error_body(exchange->endpoint, error, &body);
    respond_log_refusal(exchange, error);
    return respond(exchange, api_error_status(error), &body);
}

enum MHD_Result respond_options(struct exchange *exchange)
{
    static char nothing[] = "";
    const char *headers = MHD_lookup_connection_value(exchange->mhd, MHD_HEADER_KIND, "Access-Control-Request-Headers");
    struct MHD_Response *response = MHD_create_response_from_buffer(0, nothing, MHD_RESPMEM_PERSISTENT);
    if (response == NULL)
        return MHD_NO;
    MHD_add_response_header(response, "Allow", exchange->allow);
    MHD_add_response_header(response, "Access-Control-Allow-Methods", exchange->allow);
    /* Named one by one: "*" does not stand for Authorization. */
    if (headers != NULL)
        MHD_add_response_header(response, "Access-Control-Allow-Headers", headers);
    MHD_add_response_header(response, "Access-Control-Max-Age", "600");
    return queue(exchange, 204, response);
}
