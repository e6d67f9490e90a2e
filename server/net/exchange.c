/* One request: its headers are judged (judge.c), its body collected (body.c), then it is answered at once or handed to
 * the engine. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "kernels/base/log.h"
#include "server/net/net_private.h"
#include "server/net/page.h"

void exchange_refuse(struct exchange *exchange, enum status status, const char *code, const char *text)
{
    exchange->refused = true;
    error_set(&exchange->error, status, "%s", text);
    error_code(&exchange->error, code);
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

/* Other expectations than this one are ignored, as HTTP allows. */
static bool asks_first(const struct exchange *exchange, const char *version)
{
    const char *expect = judge_header(exchange, "Expect");
    return expect != NULL && strcasecmp(expect, "100-continue") == 0 && strcmp(version, "HTTP/1.0") != 0;
}

/* A refusal goes out now only where the client does not send before it is told to, where its body is more than is read
 * past, or where the connection cannot be trusted to say what follows. */
static enum MHD_Result begin(struct exchange *exchange, const char *url, const char *method, const char *version)
{
    bool room = connection_attach(exchange);
    request_id_note_client(exchange);
    if (!framing_is_clear(exchange, method, version)) {
        exchange->must_close = true;
        return respond_error(exchange, &exchange->error);
    }
    judge_target(exchange, url);
    if (!room && !exchange->refused && exchange->endpoint != NULL && exchange->endpoint->parse != NULL)
        exchange_refuse(exchange, STATUS_BUSY, "overloaded", "too many connections");
    exchange->must_close = exchange->must_close || !room;
    if (!exchange->refused || !(asks_first(exchange, version) || body_is_beyond_reading(exchange)))
        return MHD_YES;
    exchange->must_close = true;
    return respond_error(exchange, &exchange->error);
}

/* ---- answers ---- */

static enum MHD_Result answer(struct exchange *exchange)
{
    struct buffer body = {0};
    struct error error;
    const struct api_endpoint *endpoint = exchange->endpoint;
    const struct page *page = endpoint->answer == NULL ? page_find(endpoint->path) : NULL;
    enum status status = page == NULL ? endpoint->answer(exchange->net->args.facts, exchange->rest, &body, &error)
                                      : page->write(exchange->net, &body, &error);
    if (status == STATUS_OK)
        return page == NULL ? respond(exchange, 200, &body) : respond_page(exchange, page->content_type, &body);
    buffer_free(&body);
    return respond_error(exchange, &error);
}

static enum status submit(struct exchange *exchange, struct error *error)
{
    struct engine_submission submission = {
        .endpoint = exchange->endpoint,
        .body = exchange->body,
        .facts = exchange->net->args.facts,
        .request_id = exchange->id,
        .space = exchange->grant.space,
        .wake = exchange_wake,
        .wake_context = exchange,
    };
    exchange->body = (struct buffer){0};
    return engine_submit(exchange->net->args.engine, &submission, &exchange->request, error);
}

/* The reply needs the call, which is there with the first event that is no error. */
static enum status add_event(struct exchange *exchange, const struct api_event *event, struct error *error)
{
    if (exchange->reply == NULL && api_reply_open(engine_request_call(exchange->request), exchange->net->args.facts,
                                                  exchange->id, &exchange->reply, error) != STATUS_OK)
        return error->status;
    api_reply_event(exchange->reply, event, &exchange->out);
    return STATUS_OK;
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
    exchange_refuse(exchange, STATUS_BUSY, "draining", "the server is stopping");
    engine_request_stop(exchange->request);
    return fail(exchange, &exchange->error);
}

/* The events so far: the status is known with the first, a whole body with the last. */
static enum MHD_Result advance(struct exchange *exchange)
{
    struct api_event event;
    struct error error;
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
        if (add_event(exchange, &event, &error) != STATUS_OK)
            return fail(exchange, &error);
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
    connection_enter(exchange, PHASE_WORK, 0);
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
    if (exchange == NULL) {
        exchange = exchange_open(context, mhd, method);
        *state = exchange;
        return exchange == NULL ? respond_no_memory(context, mhd) : begin(exchange, url, method, version);
    }
    if (*upload_size > 0) {
        enum MHD_Result result = body_receive(exchange, upload, *upload_size);
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
    if (exchange->stalled && exchange->request != NULL)
        engine_request_drop(exchange->request);
    exchange_release(exchange);
    if (exchange->timed_out)
        body_log_timeout(exchange);
    if (net->args.auth != NULL)
        auth_end(net->args.auth, &exchange->grant);
    log_event(LOG_DEBUG, "http",
              (struct log_field[]){log_text("id", exchange->id), log_text("client_id", exchange->client_id),
                                   log_text("method", exchange->method),
                                   log_text("path", exchange->path.data == NULL ? "" : exchange->path.data),
                                   log_integer("status", exchange->http_status),
                                   log_text("end", code == MHD_REQUEST_TERMINATED_COMPLETED_OK ? "ok" : "aborted"),
                                   log_number("ms", (double)(clock_ns() - exchange->began_ns) / 1e6)},
              7);
    buffer_free(&exchange->path);
    body_release(exchange);
    buffer_free(&exchange->out);
    if (exchange->serving && exchange->http_status == 200)
        pace_note_end(&net->pace, clock_ns());
    free(exchange);
    *state = NULL;

    pthread_mutex_lock(&net->lock);
    if (--net->exchange_count == 0)
        pthread_cond_broadcast(&net->none_left);
    pthread_mutex_unlock(&net->lock);
}
