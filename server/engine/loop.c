/* The engine thread: what it waits for, who it lets go, and the list of sequences. */
#include "server/engine/loop.h"

#include <stdlib.h>

#include "kernels/base/check.h"
#include "server/engine/engine_state.h"
#include "server/engine/identity.h"
#include "server/engine/place.h"
#include "server/engine/step.h"

/* What costs more than a step is done in checked builds only. */
#if CHECKED
static void verify(const struct cache *cache)
{
    cache_verify(cache);
}

/* A page that was never written to shows what it is, and it may be memory that nobody has touched: thousands of them
 * would hold the engine up for half a second. */
static void poison(void *context, uint32_t page)
{
    struct loop *loop = context;
    if (loop->page_written[page])
        model_kv_poison(loop->model, page);
    loop->page_written[page] = false;
}
#define PAGE_FREED poison

static enum status open_written(struct loop *loop, struct error *error)
{
    loop->page_written = calloc(model_kv_pages(loop->model), sizeof(*loop->page_written));
    return loop->page_written == NULL ? error_no_memory(error, "the engine's pages") : STATUS_OK;
}

void loop_note_written(struct loop *loop, uint32_t page)
{
    loop->page_written[page] = true;
}
#else
static void verify(const struct cache *cache)
{
    (void)cache;
}
#define PAGE_FREED NULL

static enum status open_written(struct loop *loop, struct error *error)
{
    (void)loop;
    (void)error;
    return STATUS_OK;
}

void loop_note_written(struct loop *loop, uint32_t page)
{
    (void)loop;
    (void)page;
}
#endif

/* ---- the list ---- */

void loop_insert(struct loop *loop, struct sequence *sequence, struct sequence *after)
{
    CHECK(sequence->state == SEQUENCE_IDLE);
    after = after == NULL ? loop->youngest : after;
    sequence->state = SEQUENCE_WAITING;
    sequence->older = after;
    sequence->younger = after == NULL ? loop->oldest : after->younger;
    *(sequence->older == NULL ? &loop->oldest : &sequence->older->younger) = sequence;
    *(sequence->younger == NULL ? &loop->youngest : &sequence->younger->older) = sequence;
}

void loop_end_sequence(struct loop *loop, struct sequence *sequence)
{
    bool listed = sequence->state == SEQUENCE_WAITING || sequence->state == SEQUENCE_RUNNING;
    place_release(loop, sequence);
    sequence->state = SEQUENCE_ENDED;
    if (!listed)
        return;
    loop->held_count -= sequence->held_back;
    sequence->held_back = false;
    loop->status.preempted -= sequence->preempted;
    sequence->preempted = false;
    *(sequence->older == NULL ? &loop->oldest : &sequence->older->younger) = sequence->younger;
    *(sequence->younger == NULL ? &loop->youngest : &sequence->younger->older) = sequence->older;
    sequence->older = sequence->younger = NULL;
}

void loop_publish(struct loop *loop)
{
    struct cache_stats stats = cache_stats(loop->cache);
    struct engine_status *status = &loop->status;
    status->pages_total = stats.pages_total;
    status->pages_free = stats.pages_free;
    status->pages_leased = stats.pages_leased;
    status->pages_cached = stats.pages_cached;
    status->evicted_blocks = stats.evicted_blocks;
    pthread_mutex_lock(&loop->engine->lock);
    loop->engine->published = *status;
    if (status->last_step_ns > loop->engine->beats.loop_ns)
        loop->engine->beats.loop_ns = status->last_step_ns;
    pthread_mutex_unlock(&loop->engine->lock);
}

/* The numbers are out before the reader can know that the request is over. */
void loop_end_request(struct loop *loop, struct engine_request *request, const struct error *error)
{
    for (uint32_t i = 0; i < request->choices; i++)
        loop_end_sequence(loop, &request->sequences[i]);
    engine_waits_no_more(loop->engine, request);
    loop_publish(loop);
    request_end(request, error);
    request->next = loop->finished;
    loop->finished = request;
}

static void let_finished_go(struct loop *loop)
{
    while (loop->finished != NULL) {
        struct engine_request *request = loop->finished;
        loop->finished = request->next;
        request_let_go(request);
    }
}

/* ---- arrivals and cancels ---- */

static void arrive(struct loop *loop, struct engine_request *request)
{
    loop->status.requests++;
    loop->status.prompt_tokens += request->usage.prompt_tokens;
    for (uint32_t i = 0; i < request->choices; i += request->choices_each) {
        loop_insert(loop, &request->sequences[i], NULL);
        place_look(loop, &request->sequences[i]);
    }
}

/* Those not yet prepared have nothing but their place in the queue. */
static void drop_unprepared(struct loop *loop)
{
    struct engine *engine = loop->engine;
    struct request_queue kept = {0}, dropped = {0};
    struct engine_request *request;
    pthread_mutex_lock(&engine->lock);
    while ((request = request_queue_pop(&engine->to_prepare)) != NULL)
        request_queue_push(request_cancelled(request) ? &dropped : &kept, request);
    engine->to_prepare = kept;
    if (kept.first == NULL)
        engine->beats.queue_ns = 0;
    pthread_mutex_unlock(&engine->lock);

    struct error error;
    while ((request = request_queue_pop(&dropped)) != NULL) {
        engine_waits_no_more(engine, request);
        request_cancel_error(request, &error);
        request_end(request, &error);
        request_let_go(request);
    }
}

static void drop_cancelled(struct loop *loop)
{
    struct error error;
    struct sequence *sequence = loop->oldest;
    while (sequence != NULL) {
        if (request_cancelled(sequence->request)) {
            request_cancel_error(sequence->request, &error);
            loop_end_request(loop, sequence->request, &error);
            sequence = loop->oldest; /* its neighbours may have gone with it */
        } else {
            sequence = sequence->younger;
        }
    }
    drop_unprepared(loop);
}

/* Sleeps until there is something to do. False: the engine closes. */
static bool wait_for_work(struct loop *loop)
{
    struct engine *engine = loop->engine;
    pthread_mutex_lock(&engine->lock);
    while (!engine->loop_stopping && engine->arrivals.first == NULL && !engine->cancel_posted && loop->oldest == NULL) {
        engine->beats.loop_ns = 0;
        pthread_cond_wait(&engine->loop_wake, &engine->lock);
    }
    engine_begin_work(&engine->beats.loop_ns);
    bool stopping = engine->loop_stopping, cancelled = engine->cancel_posted;
    struct request_queue arrivals = engine->arrivals;
    engine->arrivals = (struct request_queue){0};
    engine->cancel_posted = false;
    pthread_mutex_unlock(&engine->lock);

    struct engine_request *request;
    while ((request = request_queue_pop(&arrivals)) != NULL) {
        /* Its cancel may have been looked at while a prepare thread still had it. */
        cancelled = cancelled || request_cancelled(request);
        arrive(loop, request);
    }
    if (cancelled)
        drop_cancelled(loop);
    return !stopping;
}

static void run(void *context)
{
    struct loop *loop = context;
    while (wait_for_work(loop)) {
        if (loop->oldest != NULL) {
            step_run(loop);
            verify(loop->cache);
        }
        loop_publish(loop);
        let_finished_go(loop);
    }
    struct error error;
    engine_closing_error(&error);
    while (loop->oldest != NULL)
        loop_end_request(loop, loop->oldest->request, &error);
    let_finished_go(loop);
}

/* ---- open and close ---- */

static void release(struct loop *loop)
{
    if (loop->cache != NULL)
        cache_close(loop->cache);
    step_batch_close(&loop->batch);
    free(loop->planned);
    free(loop->views);
    free(loop->decisions);
    free(loop->page_written);
    free(loop);
}

static enum status open_cache(struct loop *loop, struct error *error)
{
    const struct engine *engine = loop->engine;
    struct cache_args args = {
        .layout = model_kv_layout(loop->model),
        .pages = model_kv_pages(loop->model),
        .leases_max = engine->args.sequences_max,
        .lease_tokens_max = engine->context,
        .enabled = engine->args.prefix_cache,
        .key_bits = engine->args.cache_key_bits,
        .page_freed = PAGE_FREED,
        .page_freed_context = loop,
    };
    return cache_open(&args, &loop->cache, error);
}

/* Tokens of one sequence whose pages fit the pool: pages grow with tokens, so halving finds it. */
static uint32_t find_pool_tokens(const struct loop *loop)
{
    uint32_t pages = model_kv_pages(loop->model), fits = 0, beyond = loop->engine->context + 1;
    while (beyond - fits > 1) {
        uint32_t middle = fits + (beyond - fits) / 2;
        if (cache_pages_for(loop->cache, middle) <= pages)
            fits = middle;
        else
            beyond = middle;
    }
    return fits;
}

static enum status open_parts(struct loop *loop, struct error *error)
{
    const struct engine_args *args = &loop->engine->args;
    loop->plan_max = args->queue_max + 3 * args->sequences_max;
    loop->planned = calloc(loop->plan_max, sizeof(*loop->planned));
    loop->views = calloc(loop->plan_max, sizeof(*loop->views));
    loop->decisions = calloc(loop->plan_max, sizeof(*loop->decisions));
    if (loop->planned == NULL || loop->views == NULL || loop->decisions == NULL)
        return error_no_memory(error, "the engine's plan");
    if (step_batch_open(args->sequences_max, args->score_rows, &loop->batch, error) != STATUS_OK)
        return error->status;
    if (open_written(loop, error) != STATUS_OK)
        return error->status;
    return open_cache(loop, error);
}

enum status loop_open(struct engine *engine, struct loop **out, struct error *error)
{
    const struct kv_layout *layout = model_kv_layout(engine->args.model);
    struct loop *loop = calloc(1, sizeof(*loop));
    if (loop == NULL)
        return error_no_memory(error, "the engine");
    loop->engine = engine;
    loop->model = engine->args.model;
    loop->groups = layout->group_count;
    loop->cost = step_cost_start();
    loop->limits = (struct scheduler_limits){
        .sequences_max = engine->args.sequences_max,
        .rows_max = engine->args.prefill_chunk + engine->args.sequences_max,
        .prefill_chunk = engine->args.prefill_chunk,
        .block_tokens = layout->block_tokens,
        .pages_per_block = layout->group_count,
        .step_ms = engine->args.step_ms,
    };
    if (open_parts(loop, error) != STATUS_OK)
        goto fail;
    engine->identity = identity_of(loop->model, engine->args.activations);
    engine->pool_tokens_max = find_pool_tokens(loop);
    loop->status.prefix_cache = engine->args.prefix_cache;
    loop->status.block_tokens = layout->block_tokens;
    loop_publish(loop);
    if (thread_start("engine", run, loop, &loop->thread, error) != STATUS_OK)
        goto fail;
    *out = loop;
    return STATUS_OK;
fail:
    release(loop);
    return error->status;
}

void loop_close(struct loop *loop)
{
    thread_join(&loop->thread);
    release(loop);
}
