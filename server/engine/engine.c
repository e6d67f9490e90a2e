/* Opening and closing the engine, and its door: submit, cancel, status. */
#include "server/engine/engine.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/check.h"
#include "kernels/base/size.h"
#include "server/engine/engine_state.h"
#include "server/engine/loop.h"
#include "server/engine/prepare.h"

/* What a request may have at most of what counts towards its memory. */
#define STOP_BYTES_MAX ((size_t)64 << 10)
#define END_IDS_MAX 2048

/* ---- open and close ---- */

void engine_let_go(struct engine *engine)
{
    if (atomic_fetch_sub(&engine->holders, 1) > 1)
        return;
    pthread_cond_destroy(&engine->prepare_wake);
    pthread_cond_destroy(&engine->loop_wake);
    pthread_mutex_destroy(&engine->lock);
    stats_close(&engine->stats);
    free(engine->model_id);
    free(engine);
}

static enum status check_args(const struct engine_args *args, struct error *error)
{
    if (args->sequences_max == 0)
        return error_field(error, STATUS_INVALID, "max-sequences", "max-sequences is 0; at least 1 must run");
    if (args->prefill_chunk == 0)
        return error_field(error, STATUS_INVALID, "prefill-chunk", "prefill-chunk is 0; it must be at least 1");
    if (args->score_rows == 0)
        return error_field(error, STATUS_INVALID, "score_rows", "score_rows is 0; it must be at least 1");
    if (args->queue_max == 0)
        return error_field(error, STATUS_INVALID, "queue", "the queue's limit is 0; at least 1 must be able to wait");
    return STATUS_OK;
}

static enum status start(struct engine *engine, struct error *error)
{
    if (loop_open(engine, &engine->loop, error) != STATUS_OK)
        return error->status;
    for (uint32_t i = 0; i < ENGINE_PREPARE_THREADS; i++) {
        if (prepare_open(engine, &engine->beats.prepare_ns[i], &engine->prepare[i], error) != STATUS_OK)
            return error->status;
    }
    return STATUS_OK;
}

static size_t longest_piece(const struct engine_args *args)
{
    size_t longest = 0;
    for (uint32_t id = 0; id < model_config(args->model)->vocabulary; id++) {
        struct tokenizer_piece piece = {0};
        tokenizer_piece(args->tokenizer, (int32_t)id, &piece);
        longest = size_max(longest, piece.size);
    }
    return longest;
}

/* As much as the sequences that can run at once take at their longest, with all that a request may ask for, and one
 * prompt's log-probabilities on their way out. */
static size_t request_bytes_max(const struct engine *engine)
{
    static const struct api_stop stop = {.text = "", .size = STOP_BYTES_MAX};
    const struct api_call call = {
        .sampling = {.repetition_penalty = 2, .bias_count = model_config(engine->args.model)->vocabulary},
        .stop = &stop,
        .stop_count = 1,
    };
    struct sequence_args longest = {
        .call = &call, .prompt_count = engine->context, .tokens_max = engine->context, .end_count = END_IDS_MAX};
    size_t echo =
        2 * engine->context * mailbox_bytes_of(1, API_TOP_LOGPROBS_MAX, (1 + API_TOP_LOGPROBS_MAX) * engine->piece_max);
    size_t bytes;
    return size_multiply(sequence_bytes(&longest), engine->args.sequences_max, &bytes) ? bytes + echo : SIZE_MAX;
}

enum status engine_open(const struct engine_args *args, struct engine **out, struct error *error)
{
    if (check_args(args, error) != STATUS_OK)
        return error->status;
    struct engine *engine = calloc(1, sizeof(*engine));
    if (engine == NULL)
        return error_no_memory(error, "the engine");
    engine->args = *args;
    engine->context = model_context(args->model);
    engine->piece_max = longest_piece(args);
    engine->request_bytes_max = request_bytes_max(engine);
    engine->model_id = strdup(args->model_id == NULL ? "" : args->model_id);
    engine->args.model_id = engine->model_id;
    atomic_init(&engine->holders, 1);
    stats_open(&engine->stats);
    pthread_mutex_init(&engine->lock, NULL);
    pthread_cond_init(&engine->prepare_wake, NULL);
    pthread_cond_init(&engine->loop_wake, NULL);
    enum status status = engine->model_id == NULL ? error_no_memory(error, "the engine") : start(engine, error);
    if (status != STATUS_OK) {
        engine_close(engine);
        return status;
    }
    *out = engine;
    return STATUS_OK;
}

void engine_closing_error(struct error *error)
{
    error_set(error, STATUS_BUSY, "the server is shutting down");
    error_code(error, "draining");
}

static void set_stopping(struct engine *engine, bool *stopping)
{
    pthread_mutex_lock(&engine->lock);
    *stopping = true;
    atomic_store(&engine->abandon, true);
    pthread_cond_broadcast(&engine->prepare_wake);
    pthread_cond_broadcast(&engine->loop_wake);
    pthread_mutex_unlock(&engine->lock);
}

/* The prepare threads first, so that nothing arrives at a loop that has ended. */
void engine_close(struct engine *engine)
{
    set_stopping(engine, &engine->prepare_stopping);
    for (uint32_t i = 0; i < ENGINE_PREPARE_THREADS; i++) {
        if (engine->prepare[i] != NULL)
            prepare_close(engine->prepare[i]);
    }
    set_stopping(engine, &engine->loop_stopping);
    if (engine->loop != NULL)
        loop_close(engine->loop);

    struct error error;
    struct engine_request *request;
    engine_closing_error(&error);
    while ((request = request_queue_pop(&engine->to_prepare)) != NULL) {
        engine_waits_no_more(engine, request);
        request_end(request, &error);
        request_let_go(request);
    }
    engine_let_go(engine);
}

/* ---- the door ---- */

static enum status enqueue(struct engine *engine, struct engine_request *request, struct error *error)
{
    enum status status = STATUS_OK;
    pthread_mutex_lock(&engine->lock);
    if (engine->prepare_stopping) {
        engine_closing_error(error);
        status = STATUS_BUSY;
    } else if (engine->waiting >= engine->args.queue_max) {
        status = error_set(error, STATUS_BUSY, "%" PRIu32 " requests are waiting, as many as may; try again later",
                           engine->waiting);
        error_code(error, "queue_full");
    } else {
        engine->waiting++;
        engine->waiting_by_length[0]++;
        request->counts_as_waiting = true;
        engine_begin_work(&engine->beats.queue_ns);
        request_queue_push(&engine->to_prepare, request);
        pthread_cond_signal(&engine->prepare_wake);
    }
    pthread_mutex_unlock(&engine->lock);
    return status;
}

enum status engine_submit(struct engine *engine, const struct engine_submission *submission,
                          struct engine_request **out, struct error *error)
{
    struct engine_request *request;
    if (request_open(engine, submission, &request, error) != STATUS_OK)
        return error->status;
    enum status status = enqueue(engine, request, error);
    if (status != STATUS_OK) {
        request_let_go(request); /* for the engine ... */
        request_let_go(request); /* ... and for the reader that gets no handle */
        return status;
    }
    *out = request;
    return STATUS_OK;
}

static void uncount(struct engine *engine, struct engine_request *request)
{
    engine->waiting -= request->counts_as_waiting;
    engine->waiting_by_length[request->length] -= request->counts_as_waiting;
    request->counts_as_waiting = false;
}

void engine_waits_no_more(struct engine *engine, struct engine_request *request)
{
    pthread_mutex_lock(&engine->lock);
    uncount(engine, request);
    pthread_mutex_unlock(&engine->lock);
}

void engine_notice_cancel(struct engine *engine, struct engine_request *request)
{
    pthread_mutex_lock(&engine->lock);
    engine->cancel_posted = true;
    engine_begin_work(&engine->beats.loop_ns);
    uncount(engine, request); /* a prepare thread may have it for a while yet; nobody waits for it */
    if (engine->step_running && engine->step_abandonable && request->in_step)
        atomic_store(&engine->abandon, true);
    pthread_cond_signal(&engine->loop_wake);
    pthread_mutex_unlock(&engine->lock);
}

struct engine_status engine_status(struct engine *engine)
{
    pthread_mutex_lock(&engine->lock);
    struct engine_status status = engine->published;
    status.waiting = engine->waiting;
    memcpy(status.waiting_by_length, engine->waiting_by_length, sizeof(status.waiting_by_length));
    pthread_mutex_unlock(&engine->lock);
    return status;
}

void engine_numbers(struct engine *engine, struct stats_numbers *out)
{
    stats_read(&engine->stats, out);
}

/* ---- signs of life ---- */

void engine_begin_work(uint64_t *progress_ns)
{
    if (*progress_ns == 0)
        *progress_ns = clock_ns();
}

static void keep_oldest(struct engine_heartbeat *oldest, uint64_t progress_ns, const char *thread)
{
    if (progress_ns != 0 && (oldest->progress_ns == 0 || progress_ns < oldest->progress_ns))
        *oldest = (struct engine_heartbeat){.progress_ns = progress_ns, .thread = thread};
}

struct engine_heartbeat engine_heartbeat(struct engine *engine)
{
    struct engine_heartbeat oldest = {.thread = "engine"};
    pthread_mutex_lock(&engine->lock);
    struct engine_beats beats = engine->beats;
    pthread_mutex_unlock(&engine->lock);
    uint64_t layer_ns = atomic_load_explicit(&engine->layer_ns, memory_order_relaxed);
    if (beats.loop_ns != 0 && layer_ns > beats.loop_ns)
        beats.loop_ns = layer_ns;
    keep_oldest(&oldest, beats.loop_ns, "engine");
    keep_oldest(&oldest, beats.queue_ns, "prepare");
    for (uint32_t i = 0; i < ENGINE_PREPARE_THREADS; i++)
        keep_oldest(&oldest, beats.prepare_ns[i], "prepare");
    return oldest;
}
