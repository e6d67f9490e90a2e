/* The body: collected, or drained when the request is refused anyway (a client that is still sending would see a broken
 * pipe instead of the reason). */
#include <stdio.h>

#include "server/net/net_private.h"

#define DISCARD_FACTOR 4 /* bodies up to so many times the limit are drained, for the reason to be read */

void body_refuse_size(struct exchange *exchange)
{
    exchange->refused = true;
    error_set(&exchange->error, STATUS_TOO_LARGE, "the body has more than %zu bytes", exchange->net->args.body_max);
}

void body_timeout_error(const struct net *net, struct error *error)
{
    error_set(error, STATUS_INVALID, "the body did not come within %u s", (net->args.body_timeout_ms + 999) / 1000);
    snprintf(error->code, sizeof(error->code), "request_timeout");
}

void body_log_timeout(struct exchange *exchange)
{
    struct error error;
    body_timeout_error(exchange->net, &error);
    exchange->http_status = api_error_status(&error);
    respond_log_refusal(exchange, &error);
}

enum MHD_Result body_receive(struct exchange *exchange, const char *bytes, size_t size)
{
    connection_count_body(exchange, size);
    if (!exchange->refused) {
        buffer_append(&exchange->body, bytes, size);
        if (!exchange->body.failed)
            return MHD_YES;
        if (exchange->body.size + size > exchange->net->args.body_max)
            body_refuse_size(exchange);
        else
            exchange_refuse(exchange, STATUS_NO_MEMORY, "overloaded", "not enough memory for the body");
        buffer_free(&exchange->body);
    }
    exchange->discarded += size;
    if (exchange->discarded / DISCARD_FACTOR <= exchange->net->args.body_max)
        return MHD_YES;
    respond_past(exchange, &exchange->error);
    respond_log_refusal(exchange, &exchange->error);
    return MHD_NO;
}
