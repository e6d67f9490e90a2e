/* The body of a stream: libmicrohttpd asks for bytes, events become bytes, and while there are none the connection is
 * suspended. */
#include <string.h>

#include "kernels/base/size.h"
#include "server/net/net_private.h"

#define BLOCK_BYTES ((size_t)16 << 10)
#define ERROR_BYTES ((size_t)2 << 10) /* taken when a stream begins: room for its last words */

static size_t write_some(struct exchange *exchange, char *to, size_t room)
{
    size_t size = size_min(exchange->out.size - exchange->out_at, room);
    memcpy(to, exchange->out.data + exchange->out_at, size);
    exchange->out_at += size;
    if (exchange->out_at == exchange->out.size) {
        buffer_clear(&exchange->out);
        exchange->out_at = 0;
    }
    return size;
}

/* There is nothing else in `out` when an event is added. */
static void add_no_memory(struct exchange *exchange)
{
    struct api_event event = {.type = API_EVENT_ERROR};
    error_no_memory(&event.error, "the reply");
    buffer_clear(&exchange->out);
    api_reply_event(exchange->reply, &event, &exchange->out);
}

static void add_event(struct exchange *exchange, const struct api_event *event)
{
    api_reply_event(exchange->reply, event, &exchange->out);
    bool failed = exchange->out.failed;
    if (failed)
        add_no_memory(exchange);
    if (!failed && event->type != API_EVENT_END && event->type != API_EVENT_ERROR)
        return;
    exchange->ended = true;
    exchange_release(exchange);
}

static void add_stopping(struct exchange *exchange)
{
    struct api_event event = {.type = API_EVENT_ERROR};
    error_set(&event.error, STATUS_BUSY, "the server is stopping");
    error_code(&event.error, "draining");
    engine_request_stop(exchange->request);
    add_event(exchange, &event);
}

/* A reader that ends with an error leaves its connection to libmicrohttpd as closed, but not cleaned up: its socket stays
 * open until something else happens to it, which need not be soon. So the socket ends here, and writing the end of the
 * stream fails. */
static ssize_t give_up(struct exchange *exchange)
{
    struct net *net = exchange->net;
    if (exchange->connection == NULL)
        return MHD_CONTENT_READER_END_WITH_ERROR;
    pthread_mutex_lock(&net->lock);
    connection_shut(net, exchange->connection);
    pthread_mutex_unlock(&net->lock);
    return MHD_CONTENT_READER_END_OF_STREAM;
}

static ssize_t stream_read(void *context, uint64_t position, char *to, size_t room)
{
    struct exchange *exchange = context;
    struct api_event event;
    (void)position;
    connection_enter(exchange, PHASE_WORK, 0); /* the block before was read, or the system holds it */
    for (;;) {
        if (exchange_is_gone(exchange) || exchange->out.failed)
            return give_up(exchange);
        if (exchange->out.size > exchange->out_at || exchange->ended)
            connection_enter(exchange, PHASE_REPLY, exchange->net->args.stall_timeout_ms);
        if (exchange->out.size > exchange->out_at)
            return (ssize_t)write_some(exchange, to, room);
        if (exchange->ended)
            return MHD_CONTENT_READER_END_OF_STREAM;
        if (engine_request_take(exchange->request, &event))
            add_event(exchange, &event);
        else if (exchange_take_keepalive(exchange))
            api_reply_keepalive(exchange->reply, &exchange->out);
        else if (net_is_closing(exchange->net))
            add_stopping(exchange);
        else if (exchange_suspend(exchange, true))
            return 0;
    }
}

enum MHD_Result stream_begin(struct exchange *exchange)
{
    struct MHD_Response *response = NULL;
    if (buffer_reserve(&exchange->out, ERROR_BYTES))
        response = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK_BYTES, stream_read, exchange, NULL);
    bool complete = response != NULL &&
                    MHD_add_response_header(response, "Content-Type", "text/event-stream; charset=utf-8") == MHD_YES &&
                    MHD_add_response_header(response, "Cache-Control", "no-cache") == MHD_YES &&
                    MHD_add_response_header(response, "X-Accel-Buffering", "no") == MHD_YES;
    return respond_queue(exchange, 200, response, complete);
}
