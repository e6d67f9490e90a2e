/* See bed.h. */
#include "tests/unit/server/engine/bed.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/base/check.h"
#include "kernels/base/log.h"
#include "kernels/base/thread.h"
#include "tests/support/tiny_model.h"
#include "tests/unit/unit.h"

/* The first ids of the tokenizer are its special tokens; the rest up to here are single characters. */
#define VOCABULARY 96
#define FIRST_ID 17

static const struct tiny_model tiny = {
    .name = "engine",
    .seed = 77,
    .layers = 2,
    .width = 96,
    .ffn_width = 160,
    .heads = 6,
    .kv_heads = 2,
    .head_dim = 16,
    .vocabulary = VOCABULARY,
    .context = BED_CONTEXT,
    .matrix_type = TENSOR_Q4_1,
    .embedding_type = TENSOR_Q8_0,
};

/* ---- model and engine ---- */

static void open_tokenizer(struct bed *bed)
{
    struct error error;
    ck_assert_msg(model_file_open(test_model_path(), &bed->file, &error) == STATUS_OK, "%s", error.text);
    ck_assert_msg(tokenizer_open(bed->file, &bed->tokenizer, &error) == STATUS_OK, "%s", error.text);
}

static void open_template(struct bed *bed)
{
    struct model_text source;
    struct error error;
    struct chat_template_tokens tokens = {
        .bos_token = tokenizer_special_text(bed->tokenizer, tokenizer_bos(bed->tokenizer)),
        .eos_token = tokenizer_special_text(bed->tokenizer, tokenizer_eos(bed->tokenizer)),
    };
    ck_assert(model_file_text(bed->file, "tokenizer.chat_template", &source));
    ck_assert_msg(chat_template_open(source.data, source.size, &tokens, &bed->chat_template, &error) == STATUS_OK, "%s",
                  error.text);
}

static uint64_t page_bytes(void)
{
    struct kv_layer_shape shapes[8];
    struct kv_layout layout;
    struct error error;
    for (uint32_t i = 0; i < tiny.layers; i++)
        shapes[i] = (struct kv_layer_shape){.kind = KV_FULL, .heads = tiny.kv_heads, .head_dim = tiny.head_dim};
    ck_assert_int_eq(kv_layout_plan(shapes, tiny.layers, BED_BLOCK, KV_F16, KV_F16, &layout, &error), STATUS_OK);
    return layout.page_bytes;
}

static void open_model(struct bed *bed, const struct bed_args *args)
{
    char path[TINY_PATH_BYTES];
    struct model_file *file;
    struct error error;
    uint32_t sequences = args->sequences_max, pages = args->pages;
    struct model_args model_args = {
        .ops = args->ops == NULL ? &kernels_cpu : args->ops,
        .cpu = test_cpu(),
        .threads = 1,
        .context = pages * BED_BLOCK < BED_CONTEXT ? pages * BED_BLOCK : BED_CONTEXT,
        .block_tokens = BED_BLOCK,
        .kv_bytes = pages * page_bytes(),
        .rows_max = args->prefill_chunk + sequences,
        .sequences_max = sequences,
        .logits_rows_max = sequences + BED_SCORE_ROWS,
    };
    tiny_model_save(&tiny, path);
    ck_assert_msg(model_file_open(path, &file, &error) == STATUS_OK, "%s", error.text);
    ck_assert_msg(model_open(file, &model_args, &bed->model, &error) == STATUS_OK, "%s", error.text);
    ck_assert_uint_eq(model_kv_pages(bed->model), pages);
    model_file_close(file);
    unlink(path);
}

void bed_open(struct bed *bed, const struct bed_args *given)
{
    struct bed_args args = *given;
    struct error error;
    args.pages = args.pages == 0 ? 4 * BED_CONTEXT / BED_BLOCK : args.pages;
    args.sequences_max = args.sequences_max == 0 ? 8 : args.sequences_max;
    args.prefill_chunk = args.prefill_chunk == 0 ? 96 : args.prefill_chunk;
    *bed = (struct bed){0};
    log_setup(LOG_WARN, LOG_FORMAT_TEXT); /* a line a request drowns what a test has to say */
    open_tokenizer(bed);
    if (args.chat)
        open_template(bed);
    open_model(bed, &args);
    struct engine_args engine_args = {
        .model = bed->model,
        .tokenizer = bed->tokenizer,
        .chat_template = bed->chat_template,
        .sequences_max = args.sequences_max,
        .prefill_chunk = args.prefill_chunk,
        .queue_max = args.queue_max == 0 ? 64 : args.queue_max,
        .score_rows = BED_SCORE_ROWS,
        .prefix_cache = !args.no_cache,
        .cache_key_bits = args.key_bits,
        .model_id = "tiny",
    };
    ck_assert_msg(engine_open(&engine_args, &bed->engine, &error) == STATUS_OK, "%s", error.text);
}

void bed_close(struct bed *bed)
{
    if (bed->engine != NULL)
        engine_close(bed->engine);
    model_close(bed->model);
    if (bed->chat_template != NULL)
        chat_template_close(bed->chat_template);
    tokenizer_close(bed->tokenizer);
    model_file_close(bed->file);
}

void bed_open_reference(struct bed *bed)
{
    bed_open(bed, &(struct bed_args){.sequences_max = BED_CHOICES_MAX, .no_cache = true});
}

void bed_end(struct bed *bed)
{
    if (bed->model == NULL)
        return;
    if (bed->engine != NULL)
        bed_expect_baseline(bed);
    bed_close(bed);
    *bed = (struct bed){0};
}

/* ---- calls ---- */

void bed_prompt(uint64_t which, int32_t *ids, uint32_t count)
{
    const uint32_t kinds = VOCABULARY - FIRST_ID;
    uint64_t random = which * 1000003;
    for (uint32_t i = 0; i < count; i++)
        ids[i] = FIRST_ID + (int32_t)(i == 0 ? which % kinds : test_random_below(&random, kinds));
}

void bed_set_prompt(struct api_call *call, struct api_prompt *prompt, const int32_t *ids, uint32_t count)
{
    int32_t *copy = arena_array(&call->arena, count + 1, sizeof(*copy));
    if (count > 0)
        memcpy(copy, ids, count * sizeof(*copy));
    prompt->ids = copy;
    prompt->id_count = count;
}

struct api_call *bed_call(const int32_t *ids, uint32_t count, uint32_t max_tokens)
{
    struct api_call *call = api_call_blank(API_COMPLETION);
    struct api_prompt *prompt = api_call_add_prompts(call, 1);
    bed_set_prompt(call, prompt, ids, count);
    call->has_max_tokens = true;
    call->max_tokens = max_tokens;
    call->sampling.temperature = 0;
    call->ignore_eos = true;
    call->logprobs = true;
    call->return_token_ids = true;
    call->top_logprobs = 3;
    return call;
}

struct api_call *bed_choices_call(const int32_t *ids, uint32_t count, uint32_t choices)
{
    struct api_call *call = bed_call(ids, count, 24);
    call->choices = choices;
    call->sampling.temperature = 1;
    call->sampling.has_seed = true;
    call->sampling.seed = 42;
    return call;
}

/* ---- replies ---- */

static void wake(void *context)
{
    struct bed_reply *reply = context;
    pthread_mutex_lock(&reply->lock);
    reply->wakes++;
    pthread_cond_signal(&reply->woken);
    pthread_mutex_unlock(&reply->lock);
}

struct bed_reply *bed_submit(struct bed *bed, struct api_call *call)
{
    return bed_submit_as(bed, &(struct engine_submission){.call = call});
}

struct bed_reply *bed_submit_as(struct bed *bed, const struct engine_submission *given)
{
    struct bed_reply *reply = calloc(1, sizeof(*reply));
    struct engine_submission submission = *given;
    submission.request_id = "test";
    submission.wake = wake;
    submission.wake_context = reply;
    pthread_mutex_init(&reply->lock, NULL);
    pthread_cond_init(&reply->woken, NULL);
    if (engine_submit(bed->engine, &submission, &reply->request, &reply->error) != STATUS_OK) {
        ck_assert_ptr_null(reply->request);
        reply->failed = reply->ended = true;
    }
    return reply;
}

static void take_tokens(struct bed_choice *choice, const struct api_event *event)
{
    for (uint32_t i = 0; i < event->token_count; i++) {
        ck_assert_uint_lt(choice->count, BED_CONTEXT);
        choice->ids[choice->count] = event->tokens[i].id;
        choice->logprobs[choice->count++] = event->tokens[i].logprob;
        ck_assert_uint_le(event->tokens[i].top_count, 20);
    }
}

static void take_prompt(struct bed_reply *reply, const struct api_event *event)
{
    free(reply->prompt);
    reply->prompt = calloc((size_t)event->token_count + 1, sizeof(*reply->prompt));
    reply->prompt_count = event->token_count;
    for (uint32_t i = 0; i < event->token_count; i++)
        reply->prompt[i] = event->tokens[i].id;
}

static void take_event(struct bed_reply *reply, const struct api_event *event)
{
    struct bed_choice *choice = &reply->choices[event->choice % BED_CHOICES_MAX];
    ck_assert(!reply->ended);
    reply->events++;
    switch (event->type) {
    case API_EVENT_ACCEPTED:
        ck_assert(!reply->accepted && event->usage.prompt_tokens > 0);
        reply->accepted = true;
        break;
    case API_EVENT_PROMPT:
        ck_assert(reply->accepted && !reply->started);
        take_prompt(reply, event);
        break;
    case API_EVENT_STARTED:
        ck_assert(reply->accepted && !reply->started);
        reply->started = true;
        reply->start = event->usage;
        break;
    case API_EVENT_ECHO:
        ck_assert(choice->count == choice->echoed); /* before anything that was drawn */
        choice->echoed += event->token_count;
        /* fallthrough */
    case API_EVENT_TEXT:
    case API_EVENT_TOKENS:
        ck_assert(!choice->stopped && (event->type == API_EVENT_TOKENS || reply->started));
        take_tokens(choice, event);
        buffer_append(&choice->text, event->text, event->text_size);
        break;
    case API_EVENT_STOP:
        ck_assert(reply->started && !choice->stopped);
        choice->stopped = true;
        choice->reason = event->stop_reason;
        break;
    case API_EVENT_END:
        reply->ended = true;
        reply->usage = event->usage;
        break;
    case API_EVENT_ERROR:
        reply->ended = reply->failed = true;
        reply->error = event->error;
        break;
    }
}

bool bed_next(struct bed_reply *reply)
{
    struct api_event event;
    if (reply->ended)
        return false;
    while (!engine_request_take(reply->request, &event)) {
        pthread_mutex_lock(&reply->lock);
        while (reply->wakes == 0)
            pthread_cond_wait(&reply->woken, &reply->lock);
        reply->wakes = 0;
        pthread_mutex_unlock(&reply->lock);
    }
    take_event(reply, &event);
    return true;
}

void bed_finish(struct bed_reply *reply)
{
    while (bed_next(reply))
        ;
}

void bed_release(struct bed_reply *reply)
{
    if (reply->request != NULL)
        engine_request_release(reply->request);
    pthread_mutex_destroy(&reply->lock);
    pthread_cond_destroy(&reply->woken);
    for (uint32_t i = 0; i < BED_CHOICES_MAX; i++)
        buffer_free(&reply->choices[i].text);
    free(reply->prompt);
    free(reply);
}

struct bed_reply *bed_run(struct bed *bed, struct api_call *call)
{
    struct bed_reply *reply = bed_submit(bed, call);
    bed_finish(reply);
    ck_assert_msg(!reply->failed, "%s", reply->error.text);
    return reply;
}

void bed_expect_equal(const struct bed_reply *a, uint32_t choice_a, const struct bed_reply *b, uint32_t choice_b)
{
    const struct bed_choice *x = &a->choices[choice_a], *y = &b->choices[choice_b];
    ck_assert_uint_eq(x->count, y->count);
    for (uint32_t i = 0; i < x->count; i++)
        ck_assert_msg(x->ids[i] == y->ids[i] && memcmp(&x->logprobs[i], &y->logprobs[i], sizeof(float)) == 0,
                      "token %u of %u: %d (%.9g) and %d (%.9g)", i, x->count, x->ids[i], (double)x->logprobs[i],
                      y->ids[i], (double)y->logprobs[i]);
    ck_assert_uint_eq(x->text.size, y->text.size);
    ck_assert(x->text.size == 0 || memcmp(x->text.data, y->text.data, x->text.size) == 0);
    ck_assert(x->stopped && y->stopped && x->reason == y->reason);
}

void bed_expect_baseline(struct bed *bed)
{
    struct engine_status status;
    uint64_t start = clock_ns();
    do {
        status = engine_status(bed->engine);
        ck_assert_msg(clock_ns() - start < UINT64_C(200000000000), "running %u waiting %u leased %u", status.running,
                      status.waiting, status.pages_leased);
        sched_yield();
    } while (status.running != 0 || status.waiting != 0 || status.pages_leased != 0);
    ck_assert_uint_eq(status.pages_free + status.pages_cached, status.pages_total);
}
