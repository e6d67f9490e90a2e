/* Requests with several prompts, and prompts that must not share KV. */
#include <math.h>
#include <string.h>

#include "server/engine/identity.h"
#include "tests/unit/server/engine/bed.h"
#include "tests/unit/unit.h"

#define PROMPTS 4
#define TOKENS 100

static struct bed bed;

static void teardown(void)
{
    bed_end(&bed);
}

/* Prompts 0 .. PROMPTS-1, of different lengths. */
static struct api_call *batch_call(uint32_t choices, uint32_t max_tokens)
{
    int32_t ids[TOKENS] = {0};
    struct api_call *call = bed_choices_call(ids, 0, choices);
    struct api_prompt *prompts = api_call_add_prompts(call, PROMPTS);
    call->max_tokens = max_tokens;
    for (uint32_t p = 0; p < PROMPTS; p++) {
        bed_prompt(p, ids, TOKENS - p);
        bed_set_prompt(call, &prompts[p], ids, TOKENS - p);
    }
    return call;
}

static struct api_call *single_call(uint32_t which, uint32_t choices, uint32_t max_tokens)
{
    int32_t ids[TOKENS];
    bed_prompt(which, ids, TOKENS - which);
    struct api_call *call = bed_choices_call(ids, TOKENS - which, choices);
    call->max_tokens = max_tokens;
    return call;
}

START_TEST(a_batch_gives_what_its_prompts_give_alone)
{
    bed_open(&bed, &(struct bed_args){.sequences_max = 3}); /* fewer than it has choices */
    struct bed_reply *batch = bed_run(&bed, batch_call(2, 12));
    ck_assert_uint_eq(batch->usage.prompt_tokens, 4 * TOKENS - 6);
    ck_assert_uint_eq(batch->usage.completion_tokens, PROMPTS * 2 * 12);
    ck_assert_uint_eq(batch->usage.cached_tokens, 0);
    ck_assert_uint_eq(engine_status(bed.engine).requests, 1);
    for (uint32_t p = 0; p < PROMPTS; p++) {
        struct bed_reply *single = bed_run(&bed, single_call(p, 2, 12));
        for (uint32_t j = 0; j < 2; j++)
            bed_expect_equal(batch, p * 2 + j, single, j);
        bed_release(single);
    }
    struct bed_reply *again = bed_run(&bed, batch_call(2, 12));
    ck_assert_uint_eq(again->usage.cached_tokens, 4 * TOKENS - 6 - PROMPTS); /* of each all but the last */
    for (uint32_t i = 0; i < PROMPTS * 2; i++)
        bed_expect_equal(again, i, batch, i);
    bed_release(again);
    bed_release(batch);
}
END_TEST

START_TEST(a_cancelled_batch_leaves_nothing)
{
    bed_open(&bed, &(struct bed_args){.sequences_max = 3});
    struct bed_reply *batch = bed_submit(&bed, batch_call(2, 1000));
    while (!batch->started)
        ck_assert(bed_next(batch));
    engine_request_cancel(batch->request);
    bed_finish(batch);
    ck_assert_int_eq(batch->error.status, STATUS_CANCELLED);
    bed_release(batch);
}
END_TEST

START_TEST(a_prompt_that_cannot_be_served_refuses_the_batch)
{
    static int32_t ids[BED_CONTEXT];
    bed_open(&bed, &(struct bed_args){0});
    struct api_call *call = batch_call(1, 5);
    bed_prompt(9, ids, BED_CONTEXT);
    bed_set_prompt(call, (struct api_prompt *)(uintptr_t)&call->prompts[2], ids, BED_CONTEXT);
    struct bed_reply *reply = bed_submit(&bed, call);
    bed_finish(reply);
    ck_assert(reply->failed && !reply->accepted);
    ck_assert_str_eq(reply->error.code, "context_length_exceeded");
    bed_release(reply);
    ck_assert_uint_eq(engine_status(bed.engine).requests, 0);
}
END_TEST

START_TEST(a_batch_that_needs_too_much_memory_is_refused)
{
    int32_t ids[TOKENS];
    bed_open(&bed, &(struct bed_args){.sequences_max = 1});
    struct api_call *call = bed_call(ids, 0, BED_CONTEXT);
    struct api_prompt *prompts = api_call_add_prompts(call, 64);
    call->sampling.repetition_penalty = 1.5F;
    bed_prompt(1, ids, TOKENS);
    for (uint32_t i = 0; i < 64; i++)
        bed_set_prompt(call, &prompts[i], ids, TOKENS);
    struct bed_reply *reply = bed_submit(&bed, call);
    bed_finish(reply);
    ck_assert_int_eq(reply->error.status, STATUS_INVALID);
    ck_assert_str_eq(reply->error.field, "prompt");
    ck_assert_ptr_nonnull(strstr(reply->error.text, "memory"));
    bed_release(reply);
    struct bed_reply *longest = bed_run(&bed, bed_call(ids, TOKENS, 20)); /* the limit lets every single one through */
    bed_release(longest);
}
END_TEST

static struct api_call *echo_call(const int32_t *ids, uint32_t count, uint32_t choices, uint32_t max_tokens)
{
    struct api_call *call = bed_call(ids, count, max_tokens);
    call->echo = true;
    call->choices = choices;
    return call;
}

/* The echo of `echo` tells of ids from..to-1 what `drawn` told when it drew them. */
static void expect_same_scores(const struct bed_choice *echo, const struct bed_choice *drawn, uint32_t from,
                               uint32_t to)
{
    for (uint32_t i = from; i < to; i++) {
        ck_assert_int_eq(echo->ids[i], drawn->ids[i - from]);
        ck_assert(memcmp(&echo->logprobs[i], &drawn->logprobs[i - from], sizeof(float)) == 0);
    }
}

START_TEST(a_prompts_token_is_scored_as_when_it_was_drawn)
{
    int32_t ids[TOKENS + 60];
    bed_open(&bed, &(struct bed_args){.prefill_chunk = 33});
    bed_prompt(0, ids, TOKENS);
    struct bed_reply *drawn = bed_run(&bed, bed_call(ids, TOKENS, 60));
    memcpy(ids + TOKENS, drawn->choices[0].ids, 60 * sizeof(*ids));
    struct bed_reply *echo = bed_run(&bed, echo_call(ids, TOKENS + 60, 2, 5));
    ck_assert_uint_eq(echo->usage.cached_tokens, 0); /* although all of it is there */
    for (uint32_t j = 0; j < 2; j++) {
        const struct bed_choice *choice = &echo->choices[j];
        ck_assert_uint_eq(choice->echoed, TOKENS + 60);
        ck_assert_uint_eq(choice->count, TOKENS + 65);
        ck_assert(isnan(choice->logprobs[0]));
        ck_assert(memcmp(choice->ids, ids, sizeof(ids)) == 0);
        expect_same_scores(choice, &drawn->choices[0], TOKENS, TOKENS + 60);
    }
    struct bed_reply *only = bed_run(&bed, echo_call(ids, TOKENS + 60, 1, 0));
    ck_assert_uint_eq(only->choices[0].count, TOKENS + 60);
    ck_assert(memcmp(only->choices[0].logprobs, echo->choices[0].logprobs, (TOKENS + 60) * sizeof(float)) == 0);
    struct bed_reply *one = bed_run(&bed, echo_call(ids, 1, 1, 3));
    ck_assert_uint_eq(one->choices[0].echoed, 1);
    bed_release(one);
    bed_release(only);
    bed_release(echo);
    bed_release(drawn);
}
END_TEST

START_TEST(an_echo_without_logprobs_uses_the_cache)
{
    int32_t ids[TOKENS];
    bed_open(&bed, &(struct bed_args){0});
    bed_prompt(0, ids, TOKENS);
    struct bed_reply *plain = bed_run(&bed, bed_call(ids, TOKENS, 9));
    struct api_call *call = echo_call(ids, TOKENS, 1, 9);
    call->logprobs = false;
    struct bed_reply *echo = bed_run(&bed, call);
    ck_assert_uint_eq(echo->usage.cached_tokens, TOKENS - 1);
    ck_assert_uint_eq(echo->choices[0].echoed, 0);
    ck_assert_uint_gt(echo->choices[0].text.size, plain->choices[0].text.size);
    bed_release(echo);
    bed_release(plain);
}
END_TEST

START_TEST(scores_survive_preemption_and_neighbours)
{
    enum { ALL = 6 };
    struct bed_reply *replies[ALL], *alone[ALL];
    struct bed reference;
    int32_t ids[TOKENS];
    bed_open_reference(&reference);
    bed_open(&bed, &(struct bed_args){.pages = 10, .sequences_max = 6, .prefill_chunk = 48});
    for (uint32_t i = 0; i < ALL; i++) {
        bed_prompt(i, ids, TOKENS);
        replies[i] = bed_submit(&bed, echo_call(ids, TOKENS, 1, 60));
    }
    for (uint32_t i = 0; i < ALL; i++) {
        bed_prompt(i, ids, TOKENS);
        alone[i] = bed_run(&reference, echo_call(ids, TOKENS, 1, 60));
        bed_finish(replies[i]);
        ck_assert_msg(!replies[i]->failed, "%s", replies[i]->error.text);
        bed_expect_equal(replies[i], 0, alone[i], 0);
        bed_release(replies[i]);
        bed_release(alone[i]);
    }
    bed_end(&reference);
}
END_TEST

static struct bed_reply *run_in(const char *space, const char *salt)
{
    struct api_call *call = single_call(0, 1, 4);
    call->cache_salt = salt;
    call->cache_salt_size = salt == NULL ? 0 : strlen(salt);
    struct bed_reply *reply = bed_submit_as(&bed, &(struct engine_submission){.call = call, .space = space});
    bed_finish(reply);
    ck_assert(!reply->failed);
    return reply;
}

static void expect_cached(const char *space, const char *salt, uint32_t cached)
{
    struct bed_reply *reply = run_in(space, salt);
    ck_assert_msg(reply->usage.cached_tokens == cached, "%s/%s: %u", space, salt == NULL ? "" : salt,
                  reply->usage.cached_tokens);
    bed_release(reply);
}

START_TEST(spaces_and_salts_do_not_share)
{
    static const char *const places[][2] = {{"", NULL},   {"a", NULL}, {"", "a"}, {"a", "a"},
                                            {"aa", NULL}, {"", "aa"},  {"a", "b"}};
    bed_open(&bed, &(struct bed_args){0});
    for (uint32_t round = 0; round < 2; round++) {
        for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++)
            expect_cached(places[i][0], places[i][1], round == 0 ? 0 : TOKENS - 1);
    }
}
END_TEST

START_TEST(nobody_waits_for_a_prefix_of_another_salt)
{
    struct bed_reply *replies[2];
    int32_t ids[1000];
    bed_open(&bed, &(struct bed_args){.prefill_chunk = 32});
    bed_prompt(0, ids, 1000);
    for (uint32_t i = 0; i < 2; i++) {
        struct api_call *call = bed_call(ids, 1000, 4);
        call->cache_salt = i == 0 ? "x" : "y";
        call->cache_salt_size = 1;
        replies[i] = bed_submit(&bed, call);
    }
    for (uint32_t i = 0; i < 2; i++) {
        bed_finish(replies[i]);
        ck_assert_uint_eq(replies[i]->usage.cached_tokens, 0);
    }
    bed_expect_equal(replies[0], 0, replies[1], 0);
    bed_release(replies[0]);
    bed_release(replies[1]);
    ck_assert_uint_eq(engine_status(bed.engine).computed_tokens, 2000);
}
END_TEST

START_TEST(no_space_and_no_salt_is_the_bare_identity)
{
    struct kv_identity identity = {.layers = 3};
    struct block_key bare = block_key_root(&identity, "", 0, 0), root;
    struct error error;
    ck_assert_int_eq(identity_root(&identity, "", NULL, 0, &root, &error), STATUS_OK);
    ck_assert(memcmp(&root, &bare, sizeof(root)) == 0);
    ck_assert_int_eq(identity_root(&identity, "", "x", 1, &root, &error), STATUS_OK);
    ck_assert(memcmp(&root, &bare, sizeof(root)) != 0);
}
END_TEST

Suite *suite(void)
{
    Suite *suite = suite_create("server/engine/prompts");
    TCase *tests = tcase_create("prompts");
    tcase_add_checked_fixture(tests, NULL, teardown);
    tcase_add_test(tests, a_batch_gives_what_its_prompts_give_alone);
    tcase_add_test(tests, a_cancelled_batch_leaves_nothing);
    tcase_add_test(tests, a_prompt_that_cannot_be_served_refuses_the_batch);
    tcase_add_test(tests, a_batch_that_needs_too_much_memory_is_refused);
    tcase_add_test(tests, a_prompts_token_is_scored_as_when_it_was_drawn);
    tcase_add_test(tests, an_echo_without_logprobs_uses_the_cache);
    tcase_add_test(tests, scores_survive_preemption_and_neighbours);
    tcase_add_test(tests, spaces_and_salts_do_not_share);
    tcase_add_test(tests, nobody_waits_for_a_prefix_of_another_salt);
    tcase_add_test(tests, no_space_and_no_salt_is_the_bare_identity);
    suite_add_tcase(suite, tests);
    return suite;
}
