/* One request: its headers are judged, its body collected (or drained, when it is refused anyway: a client that is
 * still sending would see a broken pipe instead of the reason), then it is answered at once or handed to the engine. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "kernels/base/log.h"
#include "server/net/net_private.h"

#define DISCARD_FACTOR 4 /* bodies up to so many times the limit are drained, for the reason to be read */

/* ---- headers ---- */

static void refuse(struct exchange *exchange, enum status status, const char *code, const char *text)
{
    exchange->refused = true;
    error_set(&exchange->error, status, "%s", text);
    snprintf(exchange->error.code, sizeof(exchange->error.code), "%s", code);
}

static const char *header(const struct exchange *exchange, const char *name)
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

/* Where the body ends must be said once and clearly: two readings of it are how requests are smuggled. */
static bool framing_is_clear(struct exchange *exchange)
{
    const char *encoding = header(exchange, "Transfer-Encoding");
    uint32_t lengths = header_count(exchange, "Content-Length");
    if (lengths > 1 || (lengths == 1 && encoding != NULL))
        refuse(exchange, STATUS_INVALID, "invalid_request", "the body's length is given twice");
    else if (encoding != NULL &&
             (strcasecmp(encoding, "chunked") != 0 || header_count(exchange, "Transfer-Encoding") > 1))
        refuse(exchange, STATUS_UNSUPPORTED, "invalid_request", "Transfer-Encoding must be chunked");
    else if (!names_are_clear(exchange))
        refuse(exchange, STATUS_INVALID, "invalid_request", "a header's name has a character that names do not have");
    return !exchange->refused;
}

static void refuse_size(struct exchange *exchange)
{
    exchange->refused = true;
    error_set(&exchange->error, STATUS_TOO_LARGE, "the body has more than %zu bytes", exchange->net->args.body_max);
}

static void judge(struct exchange *exchange, const char *url)
{
    const char *length = header(exchange, "Content-Length");
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
        refuse(exchange, STATUS_BUSY, "draining", "the server is stopping");
    } else if (length != NULL && strtoull(length, NULL, 10) > exchange->net->args.body_max) {
        refuse_size(exchange);
    }
}

static struct exchange *exchange_open(struct net *net, struct MHD_Connection *mhd, const char *method)
{
    struct exchange *exchange = calloc(1, sizeof(*exchange));
    if (exchange == NULL)
        return NULL;
    exchange->net = net;
    exchange->mhd = mhd;
    exchange->began_ns = clock_ns();
    exchange->keepalive_at_ns = UINT64_MAX;
    exchange->body.limit = net->args.body_max;
    snprintf(exchange->method, sizeof(exchange->method), "%s", method);
    request_id_make(net, exchange->id);
    return exchange;
}

/* A refusal goes out now only where the client does not send before it is told to, or where the connection cannot be
 * trusted to say what follows. */
static enum MHD_Result begin(struct exchange *exchange, const char *url)
{
    bool room = connection_attach(exchange);
    connection_set_deadline(exchange, exchange->net->args.body_timeout_ms);
    if (!framing_is_clear(exchange)) {
        exchange->must_close = true;
        return respond_error(exchange, &exchange->error);
    }
    judge(exchange, url);
    if (!room && !exchange->refused && exchange->endpoint != NULL && exchange->endpoint->parse != NULL)
        refuse(exchange, STATUS_BUSY, "overloaded", "too many connections");
    exchange->must_close = exchange->must_close || !room;
    if (!exchange->refused || header(exchange, "Expect") == NULL)
        return MHD_YES;
    exchange->must_close = true;
    return respond_error(exchange, &exchange->error);
}

/* ---- body ---- */

static enum MHD_Result receive(struct exchange *exchange, const char *bytes, size_t size)
{
    if (!exchange->refused) {
        buffer_append(&exchange->body, bytes, size);
        if (!exchange->body.failed)
            return MHD_YES;
        if (exchange->body.size + size > exchange->net->args.body_max)
            refuse_size(exchange);
        else
            refuse(exchange, STATUS_NO_MEMORY, "overloaded", "not enough memory for the body");
        buffer_free(&exchange->body);
    }
    exchange->discarded += size;
    if (exchange->discarded / DISCARD_FACTOR <= exchange->net->args.body_max)
        return MHD_YES;
    respond_log_refusal(exchange, &exchange->error);
    return MHD_NO;
}

/* ---- answers ---- */

static enum MHD_Result answer(struct exchange *exchange)
{
    struct buffer body = {0};
    struct error error;
    const struct api_endpoint *endpoint = exchange->endpoint;
    enum status status = endpoint->answer != NULL
                             ? endpoint->answer(exchange->net->args.facts, exchange->rest, &body, &error)
                             : health_write(exchange->net, &body, &error);
    if (status == STATUS_OK)
        return respond(exchange, 200, &body);
    buffer_free(&body);
    return respond_error(exchange, &error);
}

static enum status submit(struct exchange *exchange, struct error *error)
{
    struct net *net = exchange->net;
    struct api_call *call;
    enum status status = api_call_open(exchange->endpoint, exchange->body.data == NULL ? "" : exchange->body.data,
                                       exchange->body.size, net->args.facts, &call, error);
    buffer_free(&exchange->body);
    if (status != STATUS_OK)
        return status;
    status = engine_submit(net->args.engine, call, exchange->id, exchange_wake, exchange, &exchange->request, error);
    if (status != STATUS_OK)
        return status;
    return api_reply_open(engine_request_call(exchange->request), net->args.facts, exchange->id, &exchange->reply,
                          error);
}

static enum MHD_Result fail(struct exchange *exchange, const struct error *error)
{
    enum MHD_Result result = respond_error(exchange, error);
    exchange_release(exchange);
    return result;
}

static enum MHD_Result fail_stopping(struct exchange *exchange)
{
    exchange->must_close = true;
    refuse(exchange, STATUS_BUSY, "draining", "the server is stopping");
    engine_request_stop(exchange->request);
    return fail(exchange, &exchange->error);
}

/* The events so far: the status is known with the first, a whole body with the last. */
static enum MHD_Result advance(struct exchange *exchange)
{
    struct api_event event;
    for (;;) {
        if (exchange_is_gone(exchange))
            return MHD_NO;
        if (!engine_request_take(exchange->request, &event)) {
            if (net_is_closing(exchange->net))
                return fail_stopping(exchange);
            if (exchange_suspend(exchange, false))
                return MHD_YES;
            continue;
        }
        if (event.type == API_EVENT_ERROR)
            return fail(exchange, &event.error);
        api_reply_event(exchange->reply, &event, &exchange->out);
        if (engine_request_call(exchange->request)->stream)
            return stream_begin(exchange);
        if (event.type == API_EVENT_END) {
            exchange_release(exchange);
            return respond(exchange, 200, &exchange->out);
        }
    }
}

static enum MHD_Result process(struct exchange *exchange)
{
    struct error error;
    connection_set_deadline(exchange, 0);
    if (exchange->refused)
        return respond_error(exchange, &exchange->error);
    if (exchange->endpoint == NULL)
        return respond_options(exchange);
    if (exchange->endpoint->parse == NULL)
        return answer(exchange);
    if (submit(exchange, &error) != STATUS_OK)
        return fail(exchange, &error);
    return advance(exchange);
}

enum MHD_Result exchange_handle(void *context, struct MHD_Connection *mhd, const char *url, const char *method,
                                const char *version, const char *upload, size_t *upload_size, void **state)
{
    struct exchange *exchange = *state;
    (void)version;
    if (exchange == NULL) {
        exchange = exchange_open(context, mhd, method);
        *state = exchange;
        return exchange == NULL ? MHD_NO : begin(exchange, url);
    }
    if (*upload_size > 0) {
        enum MHD_Result result = receive(exchange, upload, *upload_size);
        *upload_size = 0;
        return result;
    }
    if (exchange->received)
        return advance(exchange);
    exchange->received = true;
    return process(exchange);
}

/* ---- the end ---- */

void exchange_release(struct exchange *exchange)
{
    api_reply_close(exchange->reply);
    exchange->reply = NULL;
    if (exchange->request != NULL)
        engine_request_release(exchange->request);
    exchange->request = NULL;
}

void exchange_completed(void *context, struct MHD_Connection *mhd, void **state, enum MHD_RequestTerminationCode code)
{
    struct net *net = context;
    struct exchange *exchange = *state;
    (void)mhd;
    if (exchange == NULL)
        return;
    connection_detach(exchange);
    exchange_release(exchange);
    log_event(LOG_DEBUG, "http",
              (struct log_field[]){log_text("id", exchange->id), log_text("method", exchange->method),
                                   log_text("path", exchange->path.data == NULL ? "" : exchange->path.data),
                                   log_integer("status", exchange->http_status),
                                   log_text("end", code == MHD_REQUEST_TERMINATED_COMPLETED_OK ? "ok" : "aborted"),
                                   log_number("ms", (double)(clock_ns() - exchange->began_ns) / 1e6)},
              6);
    buffer_free(&exchange->path);
    buffer_free(&exchange->body);
    buffer_free(&exchange->out);
    free(exchange);
    *state = NULL;

    pthread_mutex_lock(&net->lock);
    if (--net->exchange_count == 0)
        pthread_cond_broadcast(&net->none_left);
    pthread_mutex_unlock(&net->lock);
}
