/* The body: collected, or drained when the request is refused anyway (a client that is still sending would see a broken
 * pipe instead of the reason). */
#include <stdlib.h>

#include "server/net/net_private.h"

#define DISCARD_FACTOR 4 /* bodies up to so many times the limit are drained, for the reason to be read */

uint64_t body_declared(const struct exchange *exchange)
{
    const char *length = judge_header(exchange, "Content-Length");
    return length == NULL ? 0 : strtoull(length, NULL, 10);
}

bool body_is_beyond_reading(const struct exchange *exchange)
{
    return body_declared(exchange) / DISCARD_FACTOR > exchange->net->args.body_max;
}

void body_refuse_size(struct exchange *exchange)
{
    exchange->refused = true;
    error_set(&exchange->error, STATUS_TOO_LARGE, "the body has more than %zu bytes", exchange->net->args.body_max);
}

void body_timeout_error(const struct net *net, struct error *error)
{
    error_set(error, STATUS_INVALID, "the body did not come within %u s", (net->args.body_timeout_ms + 999) / 1000);
    error_code(error, "request_timeout");
}

void body_log_timeout(struct exchange *exchange)
{
    struct error error;
    body_timeout_error(exchange->net, &error);
    exchange->http_status = api_error_status(&error);
    refusal_log(exchange, &error);
}

void body_release(struct exchange *exchange)
{
    buffer_free(&exchange->body);
    exchange->net->body_bytes -= exchange->body_counted;
    exchange->body_counted = 0;
}

static void keep(struct exchange *exchange, const char *bytes, size_t size)
{
    struct net *net = exchange->net;
    if (size > net->args.body_max - exchange->body.size)
        body_refuse_size(exchange);
    else if (size > net->args.body_memory_max - net->body_bytes)
        exchange_refuse(exchange, STATUS_BUSY, "overloaded",
                        "the bodies of other requests take all the memory that bodies may; try again later");
    else
        buffer_append(&exchange->body, bytes, size);
    if (exchange->body.failed)
        exchange_refuse(exchange, STATUS_NO_MEMORY, "overloaded", "not enough memory for the body");
    if (exchange->refused) {
        body_release(exchange);
        return;
    }
    exchange->body_counted += size;
    net->body_bytes += size;
}

/* The body of a request whose endpoint takes none is read past, as is one that was refused. */
enum MHD_Result body_receive(struct exchange *exchange, const char *bytes, size_t size)
{
    bool wanted = !exchange->refused && exchange->endpoint != NULL && exchange->endpoint->parse != NULL;
    connection_count_body(exchange, size);
    if (wanted)
        keep(exchange, bytes, size);
    if (wanted && !exchange->refused)
        return MHD_YES;
    exchange->discarded += size;
    if (exchange->discarded / DISCARD_FACTOR <= exchange->net->args.body_max)
        return MHD_YES;
    if (!exchange->refused)
        body_refuse_size(exchange);
    respond_past(exchange, &exchange->error);
    refusal_log(exchange, &exchange->error);
    return MHD_NO;
}
