/* The handle's side of a request, and the way events take to it. */
#include "server/engine/request.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/log.h"
#include "kernels/base/size.h"
#include "kernels/base/thread.h"
#include "server/engine/engine_state.h"

/* Bytes of events on their way to one reader. */
#define MAILBOX_BYTES_MIN ((size_t)64 << 10)
#define MAILBOX_BYTES_MAX ((size_t)1 << 20)
#define MAILBOX_BYTES_MAX_TOKENS ((size_t)8 << 20)

void request_queue_push(struct request_queue *queue, struct engine_request *request)
{
    request->next = NULL;
    if (queue->last == NULL)
        queue->first = request;
    else
        queue->last->next = request;
    queue->last = request;
}

struct engine_request *request_queue_pop(struct request_queue *queue)
{
    struct engine_request *request = queue->first;
    if (request != NULL) {
        queue->first = request->next;
        request->next = NULL;
        if (queue->first == NULL)
            queue->last = NULL;
    }
    return request;
}

/* ---- life ---- */

bool request_wants_tokens(const struct engine_request *request)
{
    return request->call->logprobs || request->call->return_token_ids;
}

size_t request_prompt_bytes(const struct engine_request *request, const struct request_prompt *prompt)
{
    const struct api_call *call = request->call;
    uint32_t top = call->top_logprobs;
    size_t bytes = call->return_token_ids ? mailbox_bytes_of(prompt->count, 0, 0) : 0;
    size_t echo = call->echo ? mailbox_bytes_of(0, 0, prompt->echo_size) : 0;
    if (call->echo && call->logprobs)
        echo += prompt->count * mailbox_bytes_of(1, top, (1 + (size_t)top) * request->engine->piece_max);
    return bytes + echo * request->choices_each;
}

enum status request_make_room(struct engine_request *request, struct error *error)
{
    const struct api_call *call = request->call;
    bool tokens = request_wants_tokens(request);
    size_t most = tokens ? MAILBOX_BYTES_MAX_TOKENS : MAILBOX_BYTES_MAX, bytes = MAILBOX_BYTES_MIN;
    for (uint32_t i = 0; i < request->prompt_count && bytes < most; i++)
        bytes += mailbox_bytes_for(request->choices_each, request->prompts[i].tokens_max, tokens,
                                   call->logprobs ? call->top_logprobs : 0);
    return mailbox_resize(&request->mailbox, size_min(bytes, most), request->prompt_bytes, request->choices, error);
}

static void free_parts(struct engine_request *request)
{
    buffer_free(&request->body);
    free(request->space);
    api_call_close(request->call);
    free(request);
}

enum status request_open(struct engine *engine, const struct engine_submission *submission, struct engine_request **out,
                         struct error *error)
{
    struct engine_request *request = calloc(1, sizeof(*request));
    if (request == NULL) {
        struct buffer body = submission->body;
        buffer_free(&body);
        api_call_close(submission->call);
        return error_no_memory(error, "a request");
    }
    request->engine = engine;
    request->call = submission->call;
    request->endpoint = submission->endpoint;
    request->facts = submission->facts;
    request->body = submission->body;
    request->space = strdup(submission->space == NULL ? "" : submission->space);
    request->wake = submission->wake;
    request->wake_context = submission->wake_context;
    request->submitted_ns = clock_ns();
    snprintf(request->id, sizeof(request->id), "%s", submission->request_id);
    if (request->space == NULL || mailbox_open(&request->mailbox, 0, 0, error) != STATUS_OK) {
        free_parts(request);
        return error_no_memory(error, "a request");
    }
    pthread_mutex_init(&request->wake_lock, NULL);
    atomic_init(&request->holders, 2);
    atomic_fetch_add(&engine->holders, 1);
    *out = request;
    return STATUS_OK;
}

/* A name that is spelt wrong is one that nobody knows: the client's author may look for it here. */
static void note_ignored(struct engine_request *request)
{
    const struct api_call *call = request->call;
    struct buffer names = {0};
    if (call->unknown_count == 0)
        return;
    stats_count_ignored(&request->engine->stats, call->unknown_count);
    for (uint32_t i = 0; i < call->unknown_count && i < API_UNKNOWN_NAMES_MAX; i++)
        buffer_printf(&names, "%s%s", i > 0 ? "," : "", call->unknown[i]);
    log_event(LOG_DEBUG, "ignored_fields",
              (struct log_field[]){log_text("id", request->id), log_integer("count", call->unknown_count),
                                   log_text("names", names.data)},
              3);
    buffer_free(&names);
}

enum status request_parse(struct engine_request *request, struct error *error)
{
    if (request->call == NULL) {
        const struct buffer *body = &request->body;
        enum status status = api_call_open(request->endpoint, body->data == NULL ? "" : body->data, body->size,
                                           request->facts, &request->call, error);
        buffer_free(&request->body);
        if (status != STATUS_OK)
            return status;
        note_ignored(request);
    }
    request->prompt_count = api_call_prompts(request->call);
    request->choices = api_call_choices(request->call);
    request->choices_each = request->choices / request->prompt_count;
    return STATUS_OK;
}

void request_let_go(struct engine_request *request)
{
    if (atomic_fetch_sub(&request->holders, 1) > 1)
        return;
    for (uint32_t i = 0; request->sequences != NULL && i < request->choices; i++)
        sequence_close(&request->sequences[i]);
    free(request->sequences);
    for (uint32_t i = 0; request->prompts != NULL && i < request->prompt_count; i++)
        buffer_free(&request->prompts[i].decoded);
    free(request->prompts);
    free(request->end_ids);
    mailbox_close(&request->mailbox);
    pthread_mutex_destroy(&request->wake_lock);
    engine_let_go(request->engine);
    free_parts(request);
}

bool request_cancelled(struct engine_request *request)
{
    return atomic_load(&request->cancel) != REQUEST_GOES_ON;
}

enum status request_cancel_error(struct engine_request *request, struct error *error)
{
    static const char *const reasons[] = {
        [REQUEST_GOES_ON] = "the request was cancelled", [REQUEST_CANCELLED] = "the request was cancelled",
        [REQUEST_DISCONNECTED] = "the client has gone",  [REQUEST_STALLED] = "the client does not read its reply",
        [REQUEST_STOPPED] = "the server is stopping",
    };
    return error_set(error, STATUS_CANCELLED, "%s", reasons[atomic_load(&request->cancel)]);
}

/* ---- events ---- */

bool request_post(struct engine_request *request, const struct api_event *event)
{
    enum mailbox_outcome outcome = mailbox_put(&request->mailbox, event);
    if (outcome == MAILBOX_PUT_FIRST) {
        pthread_mutex_lock(&request->wake_lock);
        if (request->wake != NULL)
            request->wake(request->wake_context);
        pthread_mutex_unlock(&request->wake_lock);
    }
    return outcome != MAILBOX_FULL;
}

static double milliseconds(uint64_t from_ns, uint64_t to_ns)
{
    return from_ns == 0 || to_ns <= from_ns ? 0 : (double)(to_ns - from_ns) / 1e6;
}

static enum stats_end end_of(const struct engine_request *request, const struct error *error)
{
    if (error == NULL)
        return request->last_reason == API_STOP_LENGTH ? STATS_END_LENGTH : STATS_END_STOP;
    if (strcmp(error->code, "draining") == 0)
        return STATS_END_STOPPED;
    if (error->status != STATUS_CANCELLED)
        return STATS_END_FAILED;
    switch (atomic_load(&request->cancel)) {
    case REQUEST_CANCELLED:
        return STATS_END_CANCELLED;
    case REQUEST_DISCONNECTED:
        return STATS_END_DISCONNECTED;
    case REQUEST_STOPPED:
        return STATS_END_STOPPED;
    default: /* nobody else ended it: its mailbox is full */
        return STATS_END_SLOW_READER;
    }
}

/* Without its seed a request that draws cannot be repeated: one that the client does not know is told. */
static bool tells_seed(const struct engine_request *request)
{
    if (!request->has_seed)
        return false;
    const struct api_sampling *sampling = &request->call->sampling;
    return log_enabled(LOG_DEBUG) || (!sampling->has_seed && sampling->temperature > 0);
}

static void observe(struct engine_request *request, enum stats_histogram which, uint64_t from_ns, uint64_t to_ns)
{
    stats_observe(&request->engine->stats, which, milliseconds(from_ns, to_ns) / 1e3);
}

static void count(struct engine_request *request, enum stats_end end, uint64_t now)
{
    struct stats *stats = &request->engine->stats;
    stats_count_end(stats, end);
    if (end != STATS_END_STOP && end != STATS_END_LENGTH)
        return;
    if (request->first_token_ns != 0)
        observe(request, STATS_DECODE_SECONDS, request->first_token_ns, now);
    observe(request, STATS_REQUEST_SECONDS, request->submitted_ns, now);
    stats_observe(stats, STATS_PROMPT_TOKENS, request->usage.prompt_tokens);
    stats_observe(stats, STATS_GENERATED_TOKENS, request->usage.completion_tokens);
}

static void write_log(const struct engine_request *request, enum stats_end end, uint64_t now, const struct error *error)
{
    uint64_t started = request->started_ns == 0 ? now : request->started_ns;
    uint64_t first = request->first_token_ns == 0 ? now : request->first_token_ns;
    double decode_ms = milliseconds(first, now);
    uint32_t generated = request->usage.completion_tokens;
    uint32_t decoded = generated > request->choices ? generated - request->choices : 0; /* after the first ones */
    struct log_field fields[13] = {
        log_text("id", request->id),
        log_text("finish", stats_end_name(end)),
        log_integer("prompt", request->usage.prompt_tokens),
        log_integer("cached", request->usage.cached_tokens),
        log_integer("computed", request->computed),
        log_integer("generated", generated),
        log_number("ttft_ms", milliseconds(request->submitted_ns, request->first_token_ns)),
        log_number("queue_ms", milliseconds(request->submitted_ns, started)),
        log_number("prefill_ms", milliseconds(started, first)),
        log_number("decode_ms", decode_ms),
        log_number("tokens_per_s", decode_ms > 0 ? decoded * 1e3 / decode_ms : 0),
    };
    size_t field_count = 11;
    if (tells_seed(request))
        fields[field_count++] = log_integer("seed", (int64_t)request->seed); /* as a client gives it */
    if (error != NULL)
        fields[field_count++] = log_text("error", error->text);
    log_event(LOG_INFO, "request", fields, field_count);
}

void request_end(struct engine_request *request, const struct error *error)
{
    struct api_event event = {.type = API_EVENT_END, .usage = request->usage};
    if (error != NULL) {
        event.type = API_EVENT_ERROR;
        event.error = *error;
    }
    const struct api_call *call = request->call;
    bool generates = call == NULL || api_kind_generates(call->kind);
    bool refused = error != NULL && error->status != STATUS_CANCELLED && !request->accepted;
    if (generates && !refused) {
        enum stats_end end = end_of(request, error);
        uint64_t now = clock_ns();
        count(request, end, now);
        write_log(request, end, now, error);
    }
    atomic_store(&request->ended, true);
    request_post(request, &event);
}

/* ---- the handle ---- */

const struct api_call *engine_request_call(const struct engine_request *request)
{
    return request->shown;
}

bool engine_request_take(struct engine_request *request, struct api_event *event)
{
    if (!mailbox_take(&request->mailbox, event))
        return false;
    if (event->type != API_EVENT_ERROR)
        request->shown = request->call;
    return true;
}

static void cancel(struct engine_request *request, enum request_cancel reason)
{
    unsigned goes_on = REQUEST_GOES_ON;
    if (atomic_compare_exchange_strong(&request->cancel, &goes_on, reason) && !atomic_load(&request->ended))
        engine_notice_cancel(request->engine, request);
}

void engine_request_cancel(struct engine_request *request)
{
    cancel(request, REQUEST_CANCELLED);
}

void engine_request_stop(struct engine_request *request)
{
    cancel(request, REQUEST_STOPPED);
}

void engine_request_drop(struct engine_request *request)
{
    cancel(request, REQUEST_STALLED);
}

void engine_request_release(struct engine_request *request)
{
    cancel(request, REQUEST_DISCONNECTED);
    pthread_mutex_lock(&request->wake_lock);
    request->wake = NULL;
    pthread_mutex_unlock(&request->wake_lock);
    request_let_go(request);
}
