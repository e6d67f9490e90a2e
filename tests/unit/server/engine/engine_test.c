/* The engine on a tiny model: what is computed once, what comes out bit-equal whatever else happens, what is left
 * behind. The reference of each reply is the same request alone in an engine without a cache. */
#include "server/engine/engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/thread.h"
#include "model/batch.h"
#include "model/sampler.h"
#include "tests/unit/server/engine/bed.h"
#include "tests/unit/unit.h"

static struct bed bed, reference;
static bool has_reference;

static void open_bed(struct bed_args args)
{
    bed_open(&bed, &args);
}

static void open_reference(void)
{
    bed_open(&reference, &(struct bed_args){.sequences_max = BED_CHOICES_MAX, .no_cache = true});
    has_reference = true;
}

static void teardown(void)
{
    if (bed.engine != NULL)
        bed_expect_baseline(&bed);
    bed_close(&bed);
    if (has_reference)
        bed_close(&reference);
    has_reference = false;
}

static struct bed_reply *run(const int32_t *ids, uint32_t count, uint32_t max_tokens)
{
    return bed_run(&bed, bed_call(ids, count, max_tokens));
}

static struct bed_reply *run_alone(const int32_t *ids, uint32_t count, uint32_t max_tokens)
{
    return bed_run(&reference, bed_call(ids, count, max_tokens));
}

/* ---- the cache, seen from outside ---- */

START_TEST(the_same_prompt_again_computes_one_token)
{
    int32_t ids[300];
    open_bed((struct bed_args){0});
    bed_prompt(1, ids, 300);
    struct bed_reply *first = run(ids, 300, 20), *second = run(ids, 300, 20);
    ck_assert_uint_eq(first->start.cached_tokens, 0);
    ck_assert_uint_eq(first->usage.written_tokens, 300);
    ck_assert_uint_eq(second->start.cached_tokens, 299);
    ck_assert_uint_eq(second->usage.cached_tokens, 299);
    ck_assert_uint_eq(second->usage.prompt_tokens, 300);
    ck_assert_uint_eq(second->usage.completion_tokens, 20);
    ck_assert_uint_eq(second->usage.written_tokens, 1);
    bed_expect_equal(first, 0, second, 0);
    bed_release(first);
    bed_release(second);
}
END_TEST

START_TEST(prompts_of_every_length_are_found_again)
{
    int32_t ids[3 * BED_BLOCK + 1];
    open_bed((struct bed_args){.prefill_chunk = 40});
    for (uint32_t count = 1; count <= 3 * BED_BLOCK + 1; count++) {
        bed_prompt(1000 + count, ids, count);
        struct bed_reply *first = run(ids, count, 3);
        for (int round = 0; round < 2; round++) {
            struct bed_reply *again = run(ids, count, 3);
            ck_assert_uint_eq(again->usage.cached_tokens, count - 1);
            bed_expect_equal(first, 0, again, 0);
            bed_release(again);
        }
        bed_release(first);
    }
}
END_TEST

START_TEST(own_output_is_reused_in_the_next_turn)
{
    int32_t ids[BED_CONTEXT];
    uint32_t count = 50;
    open_bed((struct bed_args){0});
    open_reference();
    bed_prompt(1, ids, count);
    for (uint32_t turn = 0; turn < 10; turn++) {
        struct bed_reply *reply = run(ids, count, 25), *alone = run_alone(ids, count, 25);
        bed_expect_equal(reply, 0, alone, 0);
        /* All but what was not computed: the last token drawn, and the new ones. */
        if (turn > 0)
            ck_assert_uint_eq(reply->usage.cached_tokens, count - 10 - 1);
        memcpy(ids + count, reply->choices[0].ids, 25 * sizeof(*ids));
        bed_prompt(50 + turn, ids + count + 25, 10);
        count += 35;
        bed_release(reply);
        bed_release(alone);
    }
}
END_TEST

START_TEST(sixteen_at_once_compute_their_shared_prefix_once)
{
    enum { CLIENTS = 16, SHARED = 1000, TAIL = 20 };
    int32_t ids[SHARED + TAIL];
    struct bed_reply *replies[CLIENTS];
    open_bed((struct bed_args){.sequences_max = 16, .pages = 256});
    open_reference();
    bed_prompt(1, ids, SHARED);
    for (uint32_t i = 0; i < CLIENTS; i++) {
        bed_prompt(10 + i, ids + SHARED, TAIL);
        replies[i] = bed_submit(&bed, bed_call(ids, SHARED + TAIL, 30));
    }
    for (uint32_t i = 0; i < CLIENTS; i++) {
        bed_finish(replies[i]);
        ck_assert_msg(!replies[i]->failed, "%s", replies[i]->error.text);
    }
    struct engine_status status = engine_status(bed.engine);
    ck_assert_uint_eq(status.computed_tokens, SHARED + CLIENTS * TAIL);
    ck_assert_uint_eq(status.cached_tokens, (CLIENTS - 1) * SHARED);
    for (uint32_t i = 0; i < CLIENTS; i++) {
        bed_prompt(10 + i, ids + SHARED, TAIL);
        struct bed_reply *alone = run_alone(ids, SHARED + TAIL, 30);
        bed_expect_equal(replies[i], 0, alone, 0);
        bed_release(replies[i]);
        bed_release(alone);
    }
}
END_TEST

START_TEST(equal_prompts_at_once_compute_it_once)
{
    enum { CLIENTS = 8, PROMPT = 500 };
    int32_t ids[PROMPT];
    struct bed_reply *replies[CLIENTS];
    open_bed((struct bed_args){.prefill_chunk = 64});
    bed_prompt(1, ids, PROMPT);
    for (uint32_t i = 0; i < CLIENTS; i++)
        replies[i] = bed_submit(&bed, bed_call(ids, PROMPT, 10));
    for (uint32_t i = 0; i < CLIENTS; i++) {
        bed_finish(replies[i]);
        bed_expect_equal(replies[0], 0, replies[i], 0);
    }
    ck_assert_uint_eq(engine_status(bed.engine).computed_tokens, PROMPT + CLIENTS - 1);
    for (uint32_t i = 0; i < CLIENTS; i++)
        bed_release(replies[i]);
}
END_TEST

START_TEST(a_waiter_takes_over_when_the_leader_is_cancelled)
{
    enum { PROMPT = 1900 };
    int32_t ids[PROMPT];
    open_bed((struct bed_args){.prefill_chunk = 16});
    open_reference();
    bed_prompt(1, ids, PROMPT);
    struct bed_reply *alone = run_alone(ids, PROMPT, 5);
    bed_prompt(2, ids, 20);
    struct bed_reply *other = bed_submit(&bed, bed_call(ids, 20, 2000));
    bed_prompt(1, ids, PROMPT);
    struct bed_reply *leader = bed_submit(&bed, bed_call(ids, PROMPT, 5));
    while (!leader->started)
        bed_next(leader);
    struct bed_reply *waiters[3];
    for (int i = 0; i < 3; i++)
        waiters[i] = bed_submit(&bed, bed_call(ids, PROMPT, 5));
    for (int i = 0; i < 3; i++) {
        while (!waiters[i]->accepted)
            bed_next(waiters[i]);
    }
    engine_request_cancel(leader->request);
    bed_finish(leader);
    ck_assert(leader->failed);
    ck_assert_int_eq(leader->error.status, STATUS_CANCELLED);
    for (int i = 0; i < 3; i++) {
        bed_finish(waiters[i]);
        bed_expect_equal(waiters[i], 0, alone, 0);
        bed_release(waiters[i]);
    }
    /* What the leader had computed was not lost, and only one waiter went on from there, while another request ran. */
    ck_assert_uint_lt(engine_status(bed.engine).computed_tokens, PROMPT + 200);
    ck_assert_uint_eq(engine_status(bed.engine).running, 1);
    bed_release(other);
    bed_release(alone);
    bed_release(leader);
}
END_TEST

/* ---- sharing the pool ---- */

START_TEST(preempted_sequences_give_what_undisturbed_ones_do)
{
    enum { CLIENTS = 12, PROMPT = 90, OUTPUT = 150 };
    int32_t ids[PROMPT];
    struct bed_reply *replies[CLIENTS];
    open_bed((struct bed_args){.pages = 20, .sequences_max = 6, .prefill_chunk = 48});
    open_reference();
    for (uint32_t i = 0; i < CLIENTS; i++) {
        bed_prompt(i, ids, PROMPT);
        struct api_call *call = bed_call(ids, PROMPT, OUTPUT);
        call->sampling.temperature = i % 2 == 0 ? 0 : 1;
        call->sampling.has_seed = true;
        call->sampling.seed = i;
        replies[i] = bed_submit(&bed, call);
    }
    for (uint32_t i = 0; i < CLIENTS; i++) {
        bed_finish(replies[i]);
        ck_assert_msg(!replies[i]->failed, "%s", replies[i]->error.text);
        ck_assert_uint_eq(replies[i]->usage.cached_tokens, 0);
    }
    ck_assert_uint_gt(engine_status(bed.engine).preemptions, 0);
    for (uint32_t i = 0; i < CLIENTS; i++) {
        bed_prompt(i, ids, PROMPT);
        struct api_call *call = bed_call(ids, PROMPT, OUTPUT);
        call->sampling.temperature = i % 2 == 0 ? 0 : 1;
        call->sampling.has_seed = true;
        call->sampling.seed = i;
        struct bed_reply *alone = bed_run(&reference, call);
        bed_expect_equal(replies[i], 0, alone, 0);
        bed_release(replies[i]);
        bed_release(alone);
    }
}
END_TEST

START_TEST(one_that_needs_the_whole_pool_gets_it)
{
    int32_t ids[8 * BED_BLOCK];
    open_bed((struct bed_args){.pages = 8, .prefill_chunk = 48});
    open_reference();
    for (uint32_t which = 0; which < 4; which++) {
        uint32_t count = 8 * BED_BLOCK - 20 - which * 7;
        bed_prompt(which % 2, ids, count); /* each pair shares a prefix that fills the pool */
        struct bed_reply *reply = run(ids, count, 1000), *alone = run_alone(ids, count, 8 * BED_BLOCK - count);
        ck_assert_int_eq(reply->choices[0].reason, API_STOP_LENGTH);
        ck_assert_uint_eq(reply->usage.completion_tokens, 8 * BED_BLOCK - count);
        bed_expect_equal(reply, 0, alone, 0);
        bed_release(reply);
        bed_release(alone);
    }
}
END_TEST

START_TEST(random_mixes_are_exact_and_leave_nothing)
{
    uint64_t random = test_seed() + 8;
    int32_t ids[400];
    open_bed((struct bed_args){.pages = 40, .sequences_max = 5, .prefill_chunk = 33});
    open_reference();
    for (int round = 0; round < (test_long() ? 60 : 8); round++) {
        struct bed_reply *replies[10];
        uint32_t counts[10], outputs[10], kinds[10];
        for (uint32_t i = 0; i < 10; i++) {
            kinds[i] = (uint32_t)test_random_below(&random, 4);
            counts[i] = 1 + (uint32_t)test_random_below(&random, 300);
            outputs[i] = 1 + (uint32_t)test_random_below(&random, 60);
            bed_prompt(kinds[i], ids, counts[i]);
            replies[i] = bed_submit(&bed, bed_call(ids, counts[i], outputs[i]));
        }
        for (uint32_t i = 0; i < 10; i++) {
            bed_prompt(kinds[i], ids, counts[i]);
            struct bed_reply *alone = run_alone(ids, counts[i], outputs[i]);
            bed_finish(replies[i]);
            bed_expect_equal(replies[i], 0, alone, 0);
            bed_release(alone);
            bed_release(replies[i]);
        }
    }
}
END_TEST

/* ---- choices ---- */

static struct api_call *choices_call(const int32_t *ids, uint32_t count, uint32_t choices)
{
    struct api_call *call = bed_call(ids, count, 24);
    call->choices = choices;
    call->sampling.temperature = 1;
    call->sampling.has_seed = true;
    call->sampling.seed = 42;
    return call;
}

START_TEST(choices_share_the_prompt_and_equal_single_runs)
{
    int32_t ids[333];
    open_bed((struct bed_args){0});
    bed_prompt(1, ids, 333);
    struct bed_reply *all = bed_run(&bed, choices_call(ids, 333, 5));
    struct engine_status status = engine_status(bed.engine);
    ck_assert_uint_eq(status.computed_tokens, 333);
    ck_assert_uint_eq(all->usage.completion_tokens, 5 * 24);
    ck_assert_uint_eq(all->usage.prompt_tokens, 333);
    for (uint32_t n = 1; n <= 5; n++) {
        struct bed_reply *some = bed_run(&bed, choices_call(ids, 333, n));
        ck_assert_uint_eq(some->usage.cached_tokens, 332);
        for (uint32_t i = 0; i < n; i++)
            bed_expect_equal(all, i, some, i);
        bed_release(some);
    }
    bool differ = false;
    for (uint32_t i = 1; i < 5; i++)
        differ = differ || memcmp(all->choices[0].ids, all->choices[i].ids, 24 * sizeof(int32_t)) != 0;
    ck_assert(differ);
    bed_release(all);
}
END_TEST

/* What choice `choice` draws after `ids`, by hand: the model alone, a row a step. */
static void draw_by_hand(struct model *model, const int32_t *prompt, uint32_t count, uint32_t choice, int32_t *drawn)
{
    struct sampler_params params = {
        .temperature = 1, .top_p = 1, .repetition_penalty = 1, .seed = 42, .choice = choice, .logprobs = 4};
    struct sampler *sampler;
    struct error error;
    int32_t ids[200];
    uint32_t pages[BED_CONTEXT / BED_BLOCK], position = 0;
    memcpy(ids, prompt, count * sizeof(*ids));
    for (uint32_t i = 0; i < BED_CONTEXT / BED_BLOCK; i++)
        pages[i] = i;
    ck_assert_int_eq(sampler_open(&params, ids, count, 24, &sampler, &error), STATUS_OK);
    for (uint32_t i = 0; i < 24; i++) {
        struct sample_row row = sampler_row(sampler, count);
        struct batch_sequence sequence = {.ids = ids + position,
                                          .count = count - position,
                                          .position = position,
                                          .pages = {pages},
                                          .sample = &row,
                                          .sample_count = 1};
        struct batch batch = {.sequences = &sequence, .sequence_count = 1};
        struct sample_result result;
        model_step_submit(model, &batch);
        ck_assert_int_eq(model_step_collect(model, &result), STATUS_OK);
        position = count;
        ids[count++] = drawn[i] = result.id;
        sampler_accept(sampler, result.id);
    }
    sampler_close(sampler);
}

START_TEST(draws_are_keyed_by_seed_choice_and_position)
{
    int32_t ids[90], drawn[24];
    open_bed((struct bed_args){0});
    open_reference();
    engine_close(reference.engine); /* its model is used by hand */
    reference.engine = NULL;
    bed_prompt(1, ids, 90);
    struct bed_reply *reply = bed_run(&bed, choices_call(ids, 90, 4));
    for (uint32_t choice = 0; choice < 4; choice++) {
        draw_by_hand(reference.model, ids, 90, choice, drawn);
        ck_assert_uint_eq(reply->choices[choice].count, 24);
        for (uint32_t i = 0; i < 24; i++)
            ck_assert_int_eq(reply->choices[choice].ids[i], drawn[i]);
    }
    bed_release(reply);
}
END_TEST

START_TEST(choices_without_a_cache_are_the_same)
{
    int32_t ids[100];
    open_bed((struct bed_args){0});
    open_reference();
    bed_prompt(1, ids, 100);
    struct bed_reply *cached = bed_run(&bed, choices_call(ids, 100, 4));
    struct bed_reply *plain = bed_run(&reference, choices_call(ids, 100, 4));
    ck_assert_uint_eq(plain->usage.cached_tokens, 0);
    ck_assert_uint_eq(plain->usage.written_tokens, 0);
    for (uint32_t i = 0; i < 4; i++)
        bed_expect_equal(cached, i, plain, i);
    bed_release(cached);
    bed_release(plain);
}
END_TEST

START_TEST(choices_in_a_pool_too_small_for_all_finish)
{
    int32_t ids[150];
    open_bed((struct bed_args){.pages = 10, .sequences_max = 6, .prefill_chunk = 48});
    open_reference();
    bed_prompt(1, ids, 150);
    struct api_call *call = choices_call(ids, 150, 6), *again = choices_call(ids, 150, 6);
    call->max_tokens = again->max_tokens = 100;
    struct bed_reply *tight = bed_run(&bed, call), *wide = bed_run(&reference, again);
    ck_assert_uint_gt(engine_status(bed.engine).preemptions, 0);
    for (uint32_t i = 0; i < 6; i++)
        bed_expect_equal(tight, i, wide, i);
    bed_release(tight);
    bed_release(wide);
}
END_TEST

START_TEST(a_seed_fixes_the_reply_and_its_absence_does_not)
{
    int32_t ids[60];
    struct bed_reply *replies[4];
    open_bed((struct bed_args){0});
    bed_prompt(1, ids, 60);
    for (uint32_t i = 0; i < 4; i++) {
        struct api_call *call = choices_call(ids, 60, 1);
        call->sampling.has_seed = i < 2;
        replies[i] = bed_run(&bed, call);
    }
    bed_expect_equal(replies[0], 0, replies[1], 0);
    ck_assert(memcmp(replies[2]->choices[0].ids, replies[3]->choices[0].ids, 24 * sizeof(int32_t)) != 0);
    for (uint32_t i = 0; i < 4; i++)
        bed_release(replies[i]);
}
END_TEST

/* ---- ends ---- */

START_TEST(no_tokens_asked_for_means_prefill_only)
{
    int32_t ids[100];
    open_bed((struct bed_args){0});
    bed_prompt(1, ids, 100);
    struct api_call *call = bed_call(ids, 100, 0);
    call->choices = 2;
    struct bed_reply *reply = bed_run(&bed, call);
    ck_assert_uint_eq(reply->usage.completion_tokens, 0);
    ck_assert_uint_eq(reply->usage.written_tokens, 100);
    for (uint32_t i = 0; i < 2; i++)
        ck_assert(reply->choices[i].stopped && reply->choices[i].reason == API_STOP_LENGTH &&
                  reply->choices[i].count == 0);
    struct bed_reply *next = run(ids, 100, 3);
    ck_assert_uint_eq(next->usage.cached_tokens, 99);
    bed_release(reply);
    bed_release(next);
}
END_TEST

START_TEST(a_stop_id_and_a_stop_string_end_a_reply)
{
    int32_t ids[40];
    open_bed((struct bed_args){0});
    bed_prompt(1, ids, 40);
    struct bed_reply *whole = run(ids, 40, 30);
    const struct bed_choice *choice = &whole->choices[0];

    struct api_call *call = bed_call(ids, 40, 30);
    call->stop_ids = &choice->ids[7];
    call->stop_id_count = 1;
    struct bed_reply *by_id = bed_run(&bed, call);
    uint32_t first = 0;
    while (choice->ids[first] != choice->ids[7])
        first++;
    ck_assert_uint_eq(by_id->choices[0].count, first + 1);
    ck_assert_int_eq(by_id->choices[0].reason, API_STOP_END);

    char needle[3] = {choice->text.data[10], choice->text.data[11], 0};
    struct api_stop stop = {needle, 2};
    call = bed_call(ids, 40, 30);
    call->stop = &stop;
    call->stop_count = 1;
    struct bed_reply *by_text = bed_run(&bed, call);
    size_t at = (size_t)(strstr(choice->text.data, needle) - choice->text.data);
    ck_assert_uint_eq(by_text->choices[0].text.size, at);
    ck_assert_int_eq(by_text->choices[0].reason, API_STOP_END);
    bed_release(whole);
    bed_release(by_id);
    bed_release(by_text);
}
END_TEST

static void expect_refused(struct api_call *call, const char *field, const char *code)
{
    struct bed_reply *reply = bed_submit(&bed, call);
    bed_finish(reply);
    ck_assert(reply->failed && !reply->accepted);
    ck_assert_int_eq(reply->error.status, STATUS_INVALID);
    ck_assert_str_eq(reply->error.field, field);
    ck_assert_str_eq(reply->error.code, code);
    bed_release(reply);
}

START_TEST(what_cannot_be_served_is_refused_before_work)
{
    static int32_t ids[BED_CONTEXT];
    open_bed((struct bed_args){.sequences_max = 4});
    bed_prompt(1, ids, BED_CONTEXT);
    expect_refused(bed_call(ids, BED_CONTEXT, 5), "prompt", "context_length_exceeded");
    expect_refused(bed_call(ids, 0, 5), "prompt", "");
    expect_refused(choices_call(ids, 10, 5), "n", "");
    struct bed_reply *fits = run(ids, BED_CONTEXT - 3, 100);
    ck_assert_uint_eq(fits->usage.completion_tokens, 3);
    bed_release(fits);

    struct api_call *chat = api_call_blank(API_CHAT);
    chat->is_chat = true;
    struct bed_reply *reply = bed_submit(&bed, chat);
    bed_finish(reply);
    ck_assert_int_eq(reply->error.status, STATUS_UNSUPPORTED); /* no template was given */
    bed_release(reply);
    ck_assert_uint_eq(engine_status(bed.engine).steps > 0, 1);
}
END_TEST

START_TEST(a_full_queue_says_so)
{
    int32_t ids[1500];
    struct bed_reply *replies[20];
    uint32_t refused = 0;
    open_bed((struct bed_args){.sequences_max = 1, .queue_max = 3});
    bed_prompt(1, ids, 1500);
    for (uint32_t i = 0; i < 20; i++) {
        replies[i] = bed_submit(&bed, bed_call(ids, 1500, 50));
        if (replies[i]->request == NULL) {
            ck_assert_int_eq(replies[i]->error.status, STATUS_BUSY);
            ck_assert_str_eq(replies[i]->error.code, "queue_full");
            refused++;
        }
    }
    ck_assert_uint_ge(refused, 15);
    for (uint32_t i = 0; i < 20; i++)
        bed_release(replies[i]);
}
END_TEST

START_TEST(tokenize_and_detokenize_are_answered)
{
    static const char words[] = "Hello, w\xc3\xb6rld! <|im_end|>";
    open_bed((struct bed_args){0});
    struct api_call *call = api_call_blank(API_TOKENIZE);
    call->prompt = words;
    call->prompt_size = strlen(words);
    struct bed_reply *tokens = bed_run(&bed, call);
    const struct bed_choice *ids = &tokens->choices[0];
    ck_assert_uint_gt(ids->count, 5);
    ck_assert_uint_eq(tokens->usage.prompt_tokens, ids->count);
    for (uint32_t i = 0; i < ids->count; i++)
        ck_assert_int_ge(ids->ids[i], 17); /* no control token came of text */

    call = api_call_blank(API_DETOKENIZE);
    call->prompt_ids = ids->ids;
    call->prompt_id_count = ids->count;
    struct bed_reply *text = bed_run(&bed, call);
    ck_assert_uint_eq(text->choices[0].text.size, strlen(words));
    ck_assert(memcmp(text->choices[0].text.data, words, strlen(words)) == 0);
    bed_release(tokens);
    bed_release(text);
}
END_TEST

START_TEST(a_conversation_is_rendered_and_its_text_stays_text)
{
    static const char words[] = "<|im_end|> is <|im_start|>text";
    open_bed((struct bed_args){.chat = true});
    struct api_call *call = api_call_blank(API_TOKENIZE);
    struct chat_value *role = chat_text(&call->arena, "user", 4), *message = chat_object(&call->arena);
    role->trusted = true;
    chat_object_put(&call->arena, message, "role", 4, role);
    chat_object_put(&call->arena, message, "content", 7, chat_text(&call->arena, words, strlen(words)));
    call->chat.messages = chat_list(&call->arena);
    chat_list_add(&call->arena, call->chat.messages, message);
    call->is_chat = true;
    call->return_token_strings = true;
    struct bed_reply *reply = bed_run(&bed, call);
    uint32_t control = 0;
    for (uint32_t i = 0; i < reply->choices[0].count; i++) {
        struct tokenizer_piece piece;
        ck_assert(tokenizer_piece(bed.tokenizer, reply->choices[0].ids[i], &piece));
        control += piece.control;
    }
    /* system, user and the reply's beginning: three starts and two ends, all the template's */
    ck_assert_uint_eq(control, 5);
    bed_release(reply);
}
END_TEST

/* ---- cancelling ---- */

START_TEST(cancels_at_any_point_leave_nothing_and_harm_nobody)
{
    uint64_t random = test_seed() + 9, slowest_ns = 0;
    int32_t ids[600];
    open_bed((struct bed_args){.pages = 80, .sequences_max = 4, .prefill_chunk = 32});
    open_reference();
    for (int round = 0; round < 40; round++) {
        struct bed_reply *replies[6];
        uint32_t counts[6];
        for (uint32_t i = 0; i < 6; i++) {
            counts[i] = 1 + (uint32_t)test_random_below(&random, 500);
            bed_prompt(test_random_below(&random, 3), ids, counts[i]);
            replies[i] = bed_submit(&bed, bed_call(ids, counts[i], 1 + (uint32_t)test_random_below(&random, 80)));
        }
        for (uint32_t i = 0; i < 5; i++) {
            uint64_t events = test_random_below(&random, 3) == 0 ? 0 : test_random_below(&random, 40);
            while (replies[i]->events < events && bed_next(replies[i]))
                ;
            if (i == 4) {
                engine_request_cancel(replies[i]->request);
                bed_finish(replies[i]);
                ck_assert(!replies[i]->failed || replies[i]->error.status == STATUS_CANCELLED);
            }
            bed_release(replies[i]);
        }
        uint64_t start = clock_ns();
        bed_release(replies[5]);
        bed_expect_baseline(&bed);
        uint64_t took = clock_ns() - start;
        slowest_ns = took > slowest_ns ? took : slowest_ns;
    }
    printf("slowest way back to the baseline: %.1f ms\n", (double)slowest_ns / 1e6);
    for (uint32_t which = 0; which < 3; which++) {
        bed_prompt(which, ids, 500);
        struct bed_reply *reply = run(ids, 500, 20), *alone = run_alone(ids, 500, 20);
        bed_expect_equal(reply, 0, alone, 0);
        bed_release(reply);
        bed_release(alone);
    }
}
END_TEST

START_TEST(a_long_step_that_is_ended_early_harms_nobody)
{
    static int32_t ids[1900];
    open_bed((struct bed_args){.prefill_chunk = 8000});
    open_reference();
    for (uint32_t round = 0; round < 3; round++) {
        struct bed_reply *replies[4];
        for (uint32_t i = 0; i < 4; i++) {
            bed_prompt(4 * round + i, ids, 1900);
            replies[i] = bed_submit(&bed, bed_call(ids, 1900, 20));
        }
        while (!replies[0]->started)
            bed_next(replies[0]);
        for (uint32_t i = 1; i < 4; i++)
            bed_release(replies[i]);
        bed_finish(replies[0]);
        bed_prompt(4 * round, ids, 1900);
        struct bed_reply *alone = run_alone(ids, 1900, 20);
        bed_expect_equal(replies[0], 0, alone, 0);
        bed_release(replies[0]);
        bed_release(alone);
    }
}
END_TEST

START_TEST(five_hundred_requests_return_to_the_baseline)
{
    uint64_t random = test_seed() + 10;
    int32_t ids[100];
    struct bed_reply *replies[50];
    open_bed((struct bed_args){.pages = 64});
    for (int round = 0; round < 10; round++) {
        for (uint32_t i = 0; i < 50; i++) {
            uint32_t count = 1 + (uint32_t)test_random_below(&random, 100);
            bed_prompt(test_random_below(&random, 40), ids, count);
            replies[i] = bed_submit(&bed, bed_call(ids, count, (uint32_t)test_random_below(&random, 12)));
        }
        for (uint32_t i = 0; i < 50; i++) {
            bed_finish(replies[i]);
            ck_assert_msg(!replies[i]->failed, "%s", replies[i]->error.text);
            bed_release(replies[i]);
        }
        bed_expect_baseline(&bed);
    }
    ck_assert_uint_eq(engine_status(bed.engine).requests, 500);
}
END_TEST

START_TEST(a_reader_that_stays_away_is_given_up)
{
    int32_t ids[20];
    open_bed((struct bed_args){0});
    bed_prompt(1, ids, 20);
    struct api_call *call = choices_call(ids, 20, 8);
    call->max_tokens = 1500;
    call->top_logprobs = 20;
    struct bed_reply *reply = bed_submit(&bed, call);
    while (!reply->started)
        bed_next(reply);
    bed_expect_baseline(&bed);
    bed_finish(reply);
    ck_assert(reply->failed);
    ck_assert_int_eq(reply->error.status, STATUS_CANCELLED);
    ck_assert_uint_lt(engine_status(bed.engine).generated_tokens, 8 * 1500);
    bed_release(reply);
}
END_TEST

START_TEST(closing_ends_what_runs_and_what_waits)
{
    int32_t ids[800];
    struct bed_reply *replies[6];
    open_bed((struct bed_args){.sequences_max = 2, .prefill_chunk = 16});
    for (uint32_t i = 0; i < 6; i++) {
        bed_prompt(i, ids, 800);
        replies[i] = bed_submit(&bed, bed_call(ids, 800, 1000));
    }
    while (!replies[0]->started)
        bed_next(replies[0]);
    engine_close(bed.engine);
    bed.engine = NULL;
    for (uint32_t i = 0; i < 6; i++) {
        bed_finish(replies[i]);
        ck_assert(replies[i]->failed);
        ck_assert_str_eq(replies[i]->error.code, "draining");
        bed_release(replies[i]);
    }
}
END_TEST

Suite *suite(void)
{
    Suite *suite = suite_create("server/engine");
    TCase *tests = tcase_create("engine");
    tcase_add_checked_fixture(tests, NULL, teardown);
    tcase_add_test(tests, the_same_prompt_again_computes_one_token);
    tcase_add_test(tests, prompts_of_every_length_are_found_again);
    tcase_add_test(tests, own_output_is_reused_in_the_next_turn);
    tcase_add_test(tests, sixteen_at_once_compute_their_shared_prefix_once);
    tcase_add_test(tests, equal_prompts_at_once_compute_it_once);
    tcase_add_test(tests, a_waiter_takes_over_when_the_leader_is_cancelled);
    tcase_add_test(tests, preempted_sequences_give_what_undisturbed_ones_do);
    tcase_add_test(tests, one_that_needs_the_whole_pool_gets_it);
    tcase_add_test(tests, random_mixes_are_exact_and_leave_nothing);
    tcase_add_test(tests, choices_share_the_prompt_and_equal_single_runs);
    tcase_add_test(tests, draws_are_keyed_by_seed_choice_and_position);
    tcase_add_test(tests, choices_without_a_cache_are_the_same);
    tcase_add_test(tests, choices_in_a_pool_too_small_for_all_finish);
    tcase_add_test(tests, a_seed_fixes_the_reply_and_its_absence_does_not);
    tcase_add_test(tests, no_tokens_asked_for_means_prefill_only);
    tcase_add_test(tests, a_stop_id_and_a_stop_string_end_a_reply);
    tcase_add_test(tests, what_cannot_be_served_is_refused_before_work);
    tcase_add_test(tests, a_full_queue_says_so);
    tcase_add_test(tests, tokenize_and_detokenize_are_answered);
    tcase_add_test(tests, a_conversation_is_rendered_and_its_text_stays_text);
    tcase_add_test(tests, cancels_at_any_point_leave_nothing_and_harm_nobody);
    tcase_add_test(tests, a_long_step_that_is_ended_early_harms_nobody);
    tcase_add_test(tests, five_hundred_requests_return_to_the_baseline);
    tcase_add_test(tests, a_reader_that_stays_away_is_given_up);
    tcase_add_test(tests, closing_ends_what_runs_and_what_waits);
    suite_add_tcase(suite, tests);
    return suite;
}
