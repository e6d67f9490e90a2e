/* Several choices of one request: one prompt, draws of their own, the same ones however they come to be computed. */
#include "server/engine/engine.h"

#include <string.h>

#include "model/batch.h"
#include "model/sampler.h"
#include "tests/unit/server/engine/bed.h"
#include "tests/unit/unit.h"

static struct bed bed, reference;

static void teardown(void)
{
    bed_end(&bed);
    bed_end(&reference);
}

START_TEST(choices_share_the_prompt_and_equal_single_runs)
{
    int32_t ids[333];
    bed_open(&bed, &(struct bed_args){0});
    bed_prompt(1, ids, 333);
    struct bed_reply *all = bed_run(&bed, bed_choices_call(ids, 333, 5));
    struct engine_status status = engine_status(bed.engine);
    ck_assert_uint_eq(status.computed_tokens, 333);
    ck_assert_uint_eq(all->usage.completion_tokens, 5 * 24);
    ck_assert_uint_eq(all->usage.prompt_tokens, 333);
    for (uint32_t n = 1; n <= 5; n++) {
        struct bed_reply *some = bed_run(&bed, bed_choices_call(ids, 333, n));
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
    bed_open(&bed, &(struct bed_args){0});
    bed_open_reference(&reference);
    engine_close(reference.engine); /* its model is used by hand */
    reference.engine = NULL;
    bed_prompt(1, ids, 90);
    struct bed_reply *reply = bed_run(&bed, bed_choices_call(ids, 90, 4));
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
    bed_open(&bed, &(struct bed_args){0});
    bed_open_reference(&reference);
    bed_prompt(1, ids, 100);
    struct bed_reply *cached = bed_run(&bed, bed_choices_call(ids, 100, 4));
    struct bed_reply *plain = bed_run(&reference, bed_choices_call(ids, 100, 4));
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
    bed_open(&bed, &(struct bed_args){.pages = 10, .sequences_max = 6, .prefill_chunk = 48});
    bed_open_reference(&reference);
    bed_prompt(1, ids, 150);
    struct api_call *call = bed_choices_call(ids, 150, 6), *again = bed_choices_call(ids, 150, 6);
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
    bed_open(&bed, &(struct bed_args){0});
    bed_prompt(1, ids, 60);
    for (uint32_t i = 0; i < 4; i++) {
        struct api_call *call = bed_choices_call(ids, 60, 1);
        call->sampling.has_seed = i < 2;
        replies[i] = bed_run(&bed, call);
    }
    bed_expect_equal(replies[0], 0, replies[1], 0);
    ck_assert(memcmp(replies[2]->choices[0].ids, replies[3]->choices[0].ids, 24 * sizeof(int32_t)) != 0);
    for (uint32_t i = 0; i < 4; i++)
        bed_release(replies[i]);
}
END_TEST

Suite *suite(void)
{
    Suite *suite = suite_create("server/engine");
    TCase *tests = tcase_create("choices");
    tcase_add_checked_fixture(tests, NULL, teardown);
    tcase_add_test(tests, choices_share_the_prompt_and_equal_single_runs);
    tcase_add_test(tests, draws_are_keyed_by_seed_choice_and_position);
    tcase_add_test(tests, choices_without_a_cache_are_the_same);
    tcase_add_test(tests, choices_in_a_pool_too_small_for_all_finish);
    tcase_add_test(tests, a_seed_fixes_the_reply_and_its_absence_does_not);
    suite_add_tcase(suite, tests);
    return suite;
}
