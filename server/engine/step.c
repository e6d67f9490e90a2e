/* The step loop's body. Nothing here allocates. */
#include "server/engine/step.h"

#include <math.h>

#include "kernels/base/check.h"
#include "kernels/base/log.h"
#include "kernels/base/size.h"
#include "server/engine/engine_state.h"
#include "server/engine/place.h"

/* A step that is expected to be over sooner is not worth ending early. */
#define ABANDON_MS 50.0
/* No step is ended early while so much has been lost: at least half of the time goes to steps that count, however
 * many clients come and go. */
#define LOST_MS_MAX 400.0
/* Share of the newest step in the measured time of steps without prompts. */
#define SPEED_WEIGHT 0.25

/* ---- plan ---- */

/* A prompt that is scored takes no more of the step's budget than it can use. */
static uint32_t at_once(const struct loop *loop, const struct sequence *sequence, uint32_t rows)
{
    uint32_t to_score = sequence_rows_to_score(sequence);
    return to_score == 0 ? rows : (uint32_t)size_min(to_score, loop->batch.scores_max);
}

static struct scheduler_sequence view_of(const struct loop *loop, const struct sequence *sequence)
{
    struct scheduler_sequence view = {.slots = step_batch_forks(sequence) ? sequence->request->choices_each : 1};
    if (sequence->state == SEQUENCE_WAITING) {
        view.phase = SCHEDULER_WAITING;
        view.position = sequence->count - sequence->rows_left;
        view.rows_left = at_once(loop, sequence, sequence->rows_left);
        view.pages_needed = sequence->pages_needed;
        view.held_back = sequence->held_back;
        return view;
    }
    view.phase = sequence_decodes(sequence) ? SCHEDULER_DECODE : SCHEDULER_PREFILL;
    view.position = sequence->committed;
    view.rows_left = at_once(loop, sequence, sequence->count - sequence->committed);
    view.pages_needed = place_pages_to_extend(loop, sequence);
    view.pages_held = place_pages_held(loop, sequence);
    return view;
}

/* All that run, and as many of those that wait as there is room for: the queue's limit, and those preempted. */
static void gather(struct loop *loop)
{
    uint32_t room = loop->plan_max - loop->limits.sequences_max, waiting = 0;
    loop->plan_count = 0;
    for (struct sequence *s = loop->oldest; s != NULL; s = s->younger) {
        if (s->state == SEQUENCE_WAITING && waiting++ >= room)
            continue;
        CHECK(loop->plan_count < loop->plan_max);
        loop->planned[loop->plan_count] = s;
        loop->views[loop->plan_count++] = view_of(loop, s);
    }
}

static void plan(struct loop *loop)
{
    place_look_again(loop);
    gather(loop);
    struct scheduler_state state = {
        .sequences = loop->views,
        .count = loop->plan_count,
        .pages_available = cache_pages_available(loop->cache),
        .cost = loop->cost,
    };
    scheduler_plan(&loop->limits, &state, loop->decisions);
}

/* False: nobody had to leave. The youngest leave first, so that a plan is not needed for each. */
static bool preempt(struct loop *loop)
{
    bool any = false;
    for (uint32_t i = loop->plan_count; i-- > 0;) {
        if (loop->decisions[i].action == SCHEDULER_PREEMPT) {
            place_preempt(loop, loop->planned[i]);
            any = true;
        }
    }
    return any;
}

static struct api_token token_of(const struct loop *loop, int32_t id, float logprob)
{
    struct tokenizer_piece piece = {0};
    tokenizer_piece(loop->engine->args.tokenizer, id, &piece);
    return (struct api_token){.id = id, .text = piece.data, .size = piece.size, .logprob = logprob};
}

static void attach_token(struct loop *loop, const struct engine_request *request, const struct sample_result *result,
                         struct api_event *event)
{
    loop->tokens[0] = token_of(loop, result->id, result->logprob);
    loop->tokens[0].top = &loop->tokens[1];
    if (request->call->logprobs)
        loop->tokens[0].top_count = result->top_count;
    for (uint32_t i = 0; i < loop->tokens[0].top_count; i++)
        loop->tokens[1 + i] = token_of(loop, result->top[i].id, result->top[i].logprob);
    event->tokens = loop->tokens;
    event->token_count = 1;
}

/* There is room for it: it was made for all that a request's prompts have to say. */
static void post_of_prompt(const struct sequence *first, struct api_event *event)
{
    uint32_t choices = first->request->choices_each;
    event->type = API_EVENT_ECHO;
    for (uint32_t i = 0; i < choices; i++) {
        event->choice = first[i].choice;
        CHECK(request_post(first->request, event));
    }
}

/* The prompt's text, and its first token, which nothing comes before. */
static void post_echo(struct loop *loop, const struct sequence *first)
{
    const struct api_call *call = first->request->call;
    struct api_event event = {.text = first->prompt->echo, .text_size = first->prompt->echo_size};
    if (!call->echo)
        return;
    if (first->scores) {
        struct tokenizer_piece piece = {0};
        tokenizer_piece(loop->engine->args.tokenizer, first->ids[0], &piece);
        loop->tokens[0] = token_of(loop, first->ids[0], NAN);
        loop->tokens[0].hidden = piece.control && call->prompts[0].text != NULL; /* it was put before the text */
        event.tokens = loop->tokens;
        event.token_count = 1;
    }
    post_of_prompt(first, &event);
}

/* The rows that are now committed told of the tokens behind them; one that was preempted has told of some before. */
static void post_scores(struct loop *loop, struct sequence *first, uint32_t rows, const struct sample_result *results)
{
    for (uint32_t i = 0; i < rows; i++) {
        uint32_t place = first->committed - rows + i + 1;
        struct api_event event = {.text = ""};
        if (place < first->scored)
            continue;
        attach_token(loop, first->request, &results[i], &event);
        post_of_prompt(first, &event);
        first->scored = place + 1;
    }
}

static void observe(struct loop *loop, enum stats_histogram which, uint64_t from_ns, uint64_t to_ns)
{
    stats_observe(&loop->engine->stats, which, (double)(to_ns - from_ns) / 1e9);
}

static void post_started(struct loop *loop, struct sequence *sequence)
{
    struct engine_request *request = sequence->request;
    struct request_prompt *prompt = sequence->prompt;
    if (prompt->started)
        return;
    prompt->started = true;
    prompt->cached = sequence->hit;
    request->usage.cached_tokens += sequence->hit;
    loop->status.cached_tokens += sequence->hit;
    if (loop->status.prefix_cache && !sequence->scores)
        loop->status.queried_tokens += prompt->count;
    if (request->started) {
        post_echo(loop, sequence);
        return;
    }
    request->started = true;
    request->started_ns = clock_ns();
    observe(loop, STATS_QUEUE_SECONDS, request->submitted_ns, request->started_ns);
    loop_publish(loop); /* running before it waits no more: at no time does it look gone */
    engine_waits_no_more(loop->engine, request);
    struct api_event event = {.type = API_EVENT_STARTED, .usage = request->usage};
    request_post(request, &event);
    post_echo(loop, sequence);
}

/* One that does not get in for lack of pages keeps those behind it out, as in the plan. */
static void admit(struct loop *loop)
{
    bool closed = false;
    for (uint32_t i = 0; i < loop->plan_count; i++) {
        if (loop->decisions[i].action != SCHEDULER_ADMIT)
            continue;
        enum place_outcome outcome =
            closed ? PLACE_NO_PAGES : place_admit(loop, loop->planned[i], loop->status.running);
        if (outcome == PLACE_ADMITTED)
            post_started(loop, loop->planned[i]);
        else
            loop->decisions[i].action = SCHEDULER_IDLE;
        closed = closed || outcome == PLACE_NO_PAGES;
    }
}

static void fill_batch(struct loop *loop)
{
    step_batch_clear(&loop->batch);
    for (uint32_t i = 0; i < loop->plan_count; i++) {
        const struct scheduler_decision *decision = &loop->decisions[i];
        struct sequence *sequence = loop->planned[i];
        if (decision->action != SCHEDULER_RUN && decision->action != SCHEDULER_ADMIT)
            continue;
        uint32_t left = sequence->count - sequence->committed;
        uint32_t rows = step_batch_rows(&loop->batch, sequence, decision->rows < left ? decision->rows : left);
        if (rows > 0 && place_extend(loop, sequence))
            step_batch_add(&loop->batch, sequence, rows, loop->groups);
    }
}

static void note_written(struct loop *loop)
{
    const uint32_t block = loop->limits.block_tokens;
    for (uint32_t i = 0; i < loop->batch.count; i++) {
        const struct batch_sequence *run = &loop->batch.sequences[i];
        uint32_t last = (run->position + run->count - 1) / block;
        for (uint32_t index = run->position / block; index <= last; index++) {
            for (uint32_t group = 0; group < loop->groups; group++)
                loop_note_written(loop, run->pages[group][index]);
        }
    }
}

/* ---- run ---- */

static double expected_ms(const struct loop *loop)
{
    double units = step_cost_units(&loop->cost, loop->batch.rows, loop->batch.attended);
    double by_rows = loop->cost.speed > 0 ? units / loop->cost.speed : ABANDON_MS;
    return by_rows > loop->decode_ms ? by_rows : loop->decode_ms;
}

/* Marks the requests of this step, so that a cancel knows whether it can end it. False: a cancel came in before. */
static bool begin_step(struct loop *loop)
{
    struct engine *engine = loop->engine;
    pthread_mutex_lock(&engine->lock);
    bool begun = !engine->cancel_posted && !engine->loop_stopping;
    for (uint32_t i = 0; begun && i < loop->batch.count; i++)
        loop->batch.entries[i].sequence->request->in_step = true;
    atomic_store(&engine->abandon, false);
    engine->step_running = begun;
    engine->step_abandonable = loop->lost_ms < LOST_MS_MAX && expected_ms(loop) >= ABANDON_MS;
    pthread_mutex_unlock(&engine->lock);
    return begun;
}

static void end_step(struct loop *loop)
{
    struct engine *engine = loop->engine;
    pthread_mutex_lock(&engine->lock);
    engine->step_running = false;
    for (uint32_t i = 0; i < loop->batch.count; i++)
        loop->batch.entries[i].sequence->request->in_step = false;
    pthread_mutex_unlock(&engine->lock);
}

/* Whether the step computed rows of a request that goes on. */
static bool is_shared(const struct loop *loop)
{
    bool shared = false;
    for (uint32_t i = 0; i < loop->batch.count; i++)
        shared = shared || !request_cancelled(loop->batch.entries[i].sequence->request);
    return shared;
}

static void measure(struct loop *loop, double ms)
{
    if (loop->batch.prefill_rows > 0)
        step_cost_learn(&loop->cost, loop->batch.rows, loop->batch.attended, ms);
    else
        loop->decode_ms += (loop->decode_ms > 0 ? SPEED_WEIGHT : 1) * (ms - loop->decode_ms);
}

/* ---- results ---- */

static void count_rows(struct loop *loop, struct sequence *sequence, uint32_t rows)
{
    uint32_t from = sequence->committed, to = from + rows;
    uint32_t known =
        sequence->computed_before > sequence->prompt_count ? sequence->computed_before : sequence->prompt_count;
    uint32_t prefilled = from >= known ? 0 : (to < known ? to : known) - from;
    loop->status.computed_tokens += prefilled;
    sequence->request->computed += prefilled;
    if (loop->engine->args.prefix_cache && from < sequence->prompt_count) {
        struct request_prompt *prompt = sequence->prompt;
        uint32_t end = to < sequence->prompt_count ? to : sequence->prompt_count;
        uint32_t kept = end > prompt->cached ? end - prompt->cached : 0;
        if (kept > prompt->written) {
            sequence->request->usage.written_tokens += kept - prompt->written;
            prompt->written = kept;
        }
    }
}

static void post_stop(struct loop *loop, struct sequence *sequence, enum api_stop_reason reason)
{
    struct engine_request *request = sequence->request;
    struct api_event event = {.type = API_EVENT_STOP, .choice = sequence->choice, .stop_reason = reason};
    request_post(request, &event);
    request->last_reason = reason;
    loop_end_sequence(loop, sequence);
    if (++request->choices_ended == request->choices)
        loop_end_request(loop, request, NULL);
}

/* False: the reader is too far behind, or there is no memory for its text; the request has ended. */
static bool post_text(struct loop *loop, struct sequence *sequence, const struct sample_result *result,
                      const struct deliver_output *output)
{
    struct engine_request *request = sequence->request;
    struct api_event event = {
        .type = API_EVENT_TEXT,
        .choice = sequence->choice,
        .text = output->text,
        .text_size = output->text_size,
    };
    struct error error;
    if (request_wants_tokens(request))
        attach_token(loop, request, result, &event);
    if (output->failed) {
        error_no_memory(&error, "a reply's text");
    } else if ((event.text_size == 0 && event.token_count == 0) || request_post(request, &event)) {
        return true;
    } else {
        error_set(&error, STATUS_CANCELLED, "the reader of this reply is too far behind; it was ended");
    }
    loop_end_request(loop, request, &error);
    return false;
}

/* All tokens of a step are drawn when it ends. */
static void note_drawn(struct loop *loop, struct sequence *sequence)
{
    struct engine_request *request = sequence->request;
    uint64_t now = loop->status.last_step_ns;
    if (request->first_token_ns == 0) {
        request->first_token_ns = now;
        observe(loop, STATS_FIRST_TOKEN_SECONDS, request->submitted_ns, now);
        observe(loop, STATS_PREFILL_SECONDS, request->started_ns, now);
    }
    if (sequence->drawn_ns != 0)
        observe(loop, STATS_INTER_TOKEN_SECONDS, sequence->drawn_ns, now);
    sequence->drawn_ns = now;
}

static void accept(struct loop *loop, struct sequence *sequence, const struct sample_result *result)
{
    struct engine_request *request = sequence->request;
    note_drawn(loop, sequence);
    CHECK(sequence->count < sequence->capacity);
    sequence->ids[sequence->count++] = result->id;
    sampler_accept(sequence->sampler, result->id);
    request->usage.completion_tokens++;
    loop->status.generated_tokens++;
    struct deliver_output output = deliver_push(&sequence->deliver, result->id);
    if (post_text(loop, sequence, result, &output) && output.finished)
        post_stop(loop, sequence, output.reason);
}

/* The first token of every choice is drawn from one row; the others then begin on what the first one has computed. */
static void fork_choices(struct loop *loop, struct sequence *first, const struct sample_result *results)
{
    uint32_t choices = first->request->choices_each;
    for (uint32_t i = choices - 1; i > 0; i--)
        loop_insert(loop, &first[i], first);
    for (uint32_t i = 0; i < choices; i++) {
        if (first[i].state != SEQUENCE_ENDED)
            accept(loop, &first[i], &results[i]);
    }
    for (uint32_t i = 1; i < choices; i++) {
        if (first[i].state == SEQUENCE_WAITING)
            place_look(loop, &first[i]);
    }
}

static void finish_prefill_only(struct loop *loop, struct sequence *first)
{
    uint32_t choices = first->request->choices_each;
    for (uint32_t i = 0; i < choices; i++)
        post_stop(loop, &first[i], API_STOP_LENGTH);
}

static void take_result(struct loop *loop, const struct step_entry *entry, const struct sample_result *results)
{
    struct sequence *sequence = entry->sequence;
    if (sequence->state != SEQUENCE_RUNNING) /* its request ended with another choice in this step */
        return;
    count_rows(loop, sequence, entry->rows);
    place_commit(loop, sequence, entry->rows);
    if (entry->scores) {
        post_scores(loop, sequence, entry->rows, results);
        return;
    }
    if (entry->draws == 0) {
        if (sequence->sampler == NULL && sequence->committed == sequence->count)
            finish_prefill_only(loop, sequence);
        return;
    }
    if (step_batch_forks(sequence))
        fork_choices(loop, sequence, results);
    else
        accept(loop, sequence, &results[0]);
}

static void take_results(struct loop *loop)
{
    const struct sample_result *results = loop->batch.results;
    for (uint32_t i = 0; i < loop->batch.count; i++) {
        take_result(loop, &loop->batch.entries[i], results);
        results += loop->batch.entries[i].draws;
    }
}

static void fail_step(struct loop *loop, enum status status)
{
    struct error error;
    error_set(&error, STATUS_INTERNAL, "the model failed in this step (%s)", status_name(status));
    log_line(LOG_ERROR, "a step of %u sequences failed: %s", loop->batch.count, status_name(status));
    for (uint32_t i = 0; i < loop->batch.count; i++) {
        if (loop->batch.entries[i].sequence->state == SEQUENCE_RUNNING)
            loop_end_request(loop, loop->batch.entries[i].sequence->request, &error);
    }
}

/* Nothing could run although the pool was counted: a bug of the accounts must not become a server that spins. Those
 * held back are looked at first: what they wait for may be gone. */
static void unblock(struct loop *loop)
{
    struct error error;
    struct sequence *victim = loop->oldest;
    if (loop->held_count > 0 && loop->status.running == 0) {
        loop->lease_ended = true;
        return;
    }
    for (struct sequence *s = loop->oldest; s != NULL; s = s->younger)
        victim = s->state == SEQUENCE_RUNNING ? s : victim;
    error_set(&error, STATUS_INTERNAL, "no KV memory could be found for this request");
    log_event(LOG_ERROR, "no_kv_memory", (struct log_field[]){log_text("id", victim->request->id)}, 1);
    loop_end_request(loop, victim->request, &error);
}

void step_run(struct loop *loop)
{
    plan(loop);
    while (preempt(loop))
        plan(loop);
    admit(loop);
    fill_batch(loop);
    if (loop->batch.count == 0) {
        unblock(loop);
        return;
    }
    if (!begin_step(loop))
        return;
    note_written(loop);
    struct batch batch = {
        .sequences = loop->batch.sequences,
        .sequence_count = loop->batch.count,
        .abandon = &loop->engine->abandon,
        .progress_ns = &loop->engine->layer_ns,
    };
    uint64_t start_ns = clock_ns();
    model_step_submit(loop->model, &batch);
    enum status status = model_step_collect(loop->model, loop->batch.results);
    uint64_t end_ns = clock_ns();
    double ms = (double)(end_ns - start_ns) / 1e6;
    end_step(loop);
    if (status == STATUS_CANCELLED) {
        loop->lost_ms += is_shared(loop) ? ms : 0;
        return;
    }
    loop->lost_ms = loop->lost_ms > ms ? loop->lost_ms - ms : 0;
    loop->status.steps++;
    loop->status.last_step_ns = end_ns;
    if (status != STATUS_OK) {
        fail_step(loop, status);
        return;
    }
    measure(loop, ms);
    take_results(loop);
}
