/* The body: collected, or drained when the request is refused anyway (a client that is still sending would see a broken
 * pipe instead of the reason). */
#include "server/net/net_private.h"

#define DISCARD_FACTOR 4 /* bodies up to so many times the limit are drained, for the reason to be read */

void body_refuse_size(struct exchange *exchange)
{
    exchange->refused = true;
    error_set(&exchange->error, STATUS_TOO_LARGE, "the body has more than %zu bytes", exchange->net->args.body_max);
}

enum MHD_Result body_receive(struct exchange *exchange, const char *bytes, size_t size)
{
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
    respond_log_refusal(exchange, &exchange->error);
    return MHD_NO;
}
