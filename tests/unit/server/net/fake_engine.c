/* See fake_engine.h. */
#include "tests/unit/server/net/fake_engine.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/check.h"
#include "kernels/base/thread.h"

#define WAIT_S 20

struct item {
    struct item *next;
    struct api_event event;
    char text[];
};

struct engine_request {
    struct engine *engine;
    struct api_call *call;
    const struct api_call *shown;
    engine_wake *wake;
    void *wake_context;
    char id[64];
    struct item *first;
    struct item **last;
    struct item *taken;
    uint32_t pending;
    bool released;
    bool dropped;
    bool ended; /* END or ERROR was pushed */
};

struct engine {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct engine_request *requests[FAKE_REQUESTS_MAX];
    uint32_t count;
    uint32_t live;
    struct engine_heartbeat heartbeat;
    enum status refusal;
    char refusal_text[64];
};

struct engine *fake_engine_open(void)
{
    struct engine *engine = calloc(1, sizeof(*engine));
    pthread_mutex_init(&engine->lock, NULL);
    pthread_cond_init(&engine->changed, NULL);
    return engine;
}

void fake_engine_close(struct engine *engine)
{
    CHECK(engine->live == 0);
    for (uint32_t i = 0; i < engine->count; i++) {
        struct engine_request *request = engine->requests[i];
        CHECK(request->released && request->first == NULL && request->taken == NULL);
        free(request);
    }
    pthread_mutex_destroy(&engine->lock);
    pthread_cond_destroy(&engine->changed);
    free(engine);
}

void fake_engine_refuse(struct engine *engine, enum status status, const char *text)
{
    pthread_mutex_lock(&engine->lock);
    engine->refusal = status;
    snprintf(engine->refusal_text, sizeof(engine->refusal_text), "%s", text);
    pthread_mutex_unlock(&engine->lock);
}

/* ---- what the server calls ---- */

static void append(struct engine_request *request, const struct api_event *event)
{
    struct item *item = calloc(1, sizeof(*item) + event->text_size + 1);
    item->event = *event;
    if (event->text_size > 0)
        memcpy(item->text, event->text, event->text_size);
    item->event.text = item->text;
    *request->last = item;
    request->last = &item->next;
    request->pending++;
    request->ended = request->ended || event->type == API_EVENT_END || event->type == API_EVENT_ERROR;
}

/* At once, but told as an event, as the engine does. */
static struct engine_request *request_open(const struct engine_submission *submission)
{
    struct engine_request *request = calloc(1, sizeof(*request));
    struct api_event event = {.type = API_EVENT_ERROR};
    const struct buffer *body = &submission->body;
    CHECK(submission->call == NULL);
    request->wake = submission->wake;
    request->wake_context = submission->wake_context;
    request->last = &request->first;
    snprintf(request->id, sizeof(request->id), "%s", submission->request_id);
    if (api_call_open(submission->endpoint, body->data == NULL ? "" : body->data, body->size, submission->facts,
                      &request->call, &event.error) != STATUS_OK)
        append(request, &event);
    return request;
}

enum status engine_submit(struct engine *engine, const struct engine_submission *submission,
                          struct engine_request **out, struct error *error)
{
    enum status status = STATUS_OK;
    struct buffer body = submission->body;
    pthread_mutex_lock(&engine->lock);
    CHECK(engine->count < FAKE_REQUESTS_MAX);
    *out = NULL;
    if (engine->refusal != STATUS_OK) {
        status = error_set(error, engine->refusal, "%s", engine->refusal_text);
    } else {
        struct engine_request *request = request_open(submission);
        request->engine = engine;
        engine->requests[engine->count++] = request;
        engine->live++;
        *out = request;
    }
    buffer_free(&body);
    pthread_cond_broadcast(&engine->changed);
    pthread_mutex_unlock(&engine->lock);
    return status;
}

const struct api_call *engine_request_call(const struct engine_request *request)
{
    return request->shown;
}

bool engine_request_take(struct engine_request *request, struct api_event *event)
{
    pthread_mutex_lock(&request->engine->lock);
    free(request->taken);
    request->taken = request->first;
    if (request->taken != NULL) {
        request->first = request->taken->next;
        request->last = request->first == NULL ? &request->first : request->last;
        request->pending--;
        *event = request->taken->event;
        if (event->type != API_EVENT_ERROR)
            request->shown = request->call;
    }
    bool taken = request->taken != NULL;
    pthread_mutex_unlock(&request->engine->lock);
    return taken;
}

void engine_request_cancel(struct engine_request *request)
{
    (void)request;
}

void engine_request_stop(struct engine_request *request)
{
    (void)request;
}

void engine_request_drop(struct engine_request *request)
{
    pthread_mutex_lock(&request->engine->lock);
    request->dropped = true;
    pthread_mutex_unlock(&request->engine->lock);
}

void engine_request_release(struct engine_request *request)
{
    struct engine *engine = request->engine;
    pthread_mutex_lock(&engine->lock);
    CHECK(!request->released);
    request->released = true;
    engine->live--;
    free(request->taken);
    request->taken = NULL;
    while (request->first != NULL) {
        struct item *item = request->first;
        request->first = item->next;
        free(item);
    }
    api_call_close(request->call);
    request->call = NULL;
    pthread_cond_broadcast(&engine->changed);
    pthread_mutex_unlock(&engine->lock);
}

struct engine_status engine_status(struct engine *engine)
{
    pthread_mutex_lock(&engine->lock);
    struct engine_status status = {.running = engine->live, .requests = engine->count};
    pthread_mutex_unlock(&engine->lock);
    return status;
}

struct engine_heartbeat engine_heartbeat(struct engine *engine)
{
    pthread_mutex_lock(&engine->lock);
    struct engine_heartbeat heartbeat = engine->heartbeat;
    pthread_mutex_unlock(&engine->lock);
    return heartbeat;
}

void engine_numbers(struct engine *engine, struct stats_numbers *out)
{
    (void)engine;
    *out = (struct stats_numbers){0};
}

/* ---- what a test calls ---- */

void fake_engine_beat(struct engine *engine, struct engine_heartbeat heartbeat)
{
    pthread_mutex_lock(&engine->lock);
    engine->heartbeat = heartbeat;
    pthread_mutex_unlock(&engine->lock);
}

/* Under the lock. */
static void wait_for_change(struct engine *engine)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += WAIT_S;
    bool something_happened = pthread_cond_timedwait(&engine->changed, &engine->lock, &until) == 0;
    CHECK(something_happened);
}

struct engine_request *fake_engine_request(struct engine *engine, uint32_t n)
{
    pthread_mutex_lock(&engine->lock);
    while (engine->count <= n)
        wait_for_change(engine);
    struct engine_request *request = engine->requests[n];
    pthread_mutex_unlock(&engine->lock);
    return request;
}

const char *fake_request_id(struct engine *engine, uint32_t n)
{
    return fake_engine_request(engine, n)->id;
}

double fake_engine_wait_release(struct engine *engine, uint32_t n)
{
    uint64_t began = clock_ns();
    struct engine_request *request = fake_engine_request(engine, n);
    pthread_mutex_lock(&engine->lock);
    while (!request->released)
        wait_for_change(engine);
    pthread_mutex_unlock(&engine->lock);
    return (double)(clock_ns() - began) / 1e6;
}

bool fake_engine_is_released(struct engine *engine, uint32_t n)
{
    struct engine_request *request = fake_engine_request(engine, n);
    pthread_mutex_lock(&engine->lock);
    bool released = request->released;
    pthread_mutex_unlock(&engine->lock);
    return released;
}

bool fake_engine_was_dropped(struct engine *engine, uint32_t n)
{
    struct engine_request *request = fake_engine_request(engine, n);
    pthread_mutex_lock(&engine->lock);
    bool dropped = request->released && request->dropped;
    pthread_mutex_unlock(&engine->lock);
    return dropped;
}

bool fake_engine_was_cancelled(struct engine *engine, uint32_t n)
{
    struct engine_request *request = fake_engine_request(engine, n);
    pthread_mutex_lock(&engine->lock);
    bool cancelled = request->released && !request->ended;
    pthread_mutex_unlock(&engine->lock);
    return cancelled;
}

uint32_t fake_engine_submitted(struct engine *engine)
{
    pthread_mutex_lock(&engine->lock);
    uint32_t count = engine->count;
    pthread_mutex_unlock(&engine->lock);
    return count;
}

void fake_push(struct engine *engine, uint32_t n, const struct api_event *event)
{
    struct engine_request *request = fake_engine_request(engine, n);
    pthread_mutex_lock(&engine->lock);
    if (!request->released && !request->ended) {
        bool empty = request->first == NULL;
        append(request, event);
        if (empty)
            request->wake(request->wake_context);
    }
    pthread_mutex_unlock(&engine->lock);
}

void fake_push_text(struct engine *engine, uint32_t n, const char *text)
{
    fake_push(engine, n, &(struct api_event){.type = API_EVENT_TEXT, .text = text, .text_size = strlen(text)});
}

void fake_push_start(struct engine *engine, uint32_t n)
{
    fake_push(engine, n, &(struct api_event){.type = API_EVENT_ACCEPTED, .usage = {.prompt_tokens = 7}});
    fake_push(engine, n, &(struct api_event){.type = API_EVENT_STARTED, .usage = {.prompt_tokens = 7}});
}

void fake_push_end(struct engine *engine, uint32_t n)
{
    fake_push(engine, n, &(struct api_event){.type = API_EVENT_STOP, .stop_reason = API_STOP_END});
    fake_push(engine, n,
              &(struct api_event){.type = API_EVENT_END, .usage = {.prompt_tokens = 7, .completion_tokens = 3}});
}

void fake_push_error(struct engine *engine, uint32_t n, enum status status, const char *code, const char *text)
{
    struct api_event event = {.type = API_EVENT_ERROR};
    error_set(&event.error, status, "%s", text);
    snprintf(event.error.code, sizeof(event.error.code), "%s", code);
    fake_push(engine, n, &event);
}

uint32_t fake_pending(struct engine *engine, uint32_t n)
{
    struct engine_request *request = fake_engine_request(engine, n);
    pthread_mutex_lock(&engine->lock);
    uint32_t pending = request->pending;
    pthread_mutex_unlock(&engine->lock);
    return pending;
}
