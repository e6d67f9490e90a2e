/* The sampler's history and what it hands to the operation. */
#include "model/sampler.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/unit.h"

static const struct sampler_params plain = {.temperature = 1, .top_p = 1, .repetition_penalty = 1};

static struct sampler *open_sampler(const struct sampler_params *params, const int32_t *prompt, size_t prompt_count,
                                    uint32_t tokens_max)
{
    struct sampler *sampler;
    struct error error;
    enum status status = sampler_open(params, prompt, prompt_count, tokens_max, &sampler, &error);
    ck_assert_msg(status == STATUS_OK, "%s", error.text);
    return sampler;
}

static const struct sample_count *count_for(const struct sample_row *row, int32_t id)
{
    const struct sample_count *found = NULL;
    for (uint32_t i = 0; i < row->count_count; i++) {
        if (row->counts[i].id == id) {
            ck_assert_ptr_null(found); /* ids are distinct */
            found = &row->counts[i];
        }
    }
    return found;
}

START_TEST(parameters_reach_the_row)
{
    struct sample_bias bias[] = {{3, 1.5f}, {9, -100}};
    struct sampler_params params = {.temperature = 0.5f,
                                    .top_k = 7,
                                    .top_p = 0.25f,
                                    .min_p = 0.125f,
                                    .repetition_penalty = 1.5f,
                                    .presence_penalty = -1,
                                    .frequency_penalty = 2,
                                    .bias = bias,
                                    .bias_count = 2,
                                    .seed = 99,
                                    .choice = 4,
                                    .logprobs = 6};
    struct sampler *sampler = open_sampler(&params, NULL, 0, 10);
    memset(bias, 0, sizeof(bias)); /* it was copied */
    struct sample_row row = sampler_row(sampler, 123);
    ck_assert(row.temperature == 0.5f && row.top_p == 0.25f && row.min_p == 0.125f);
    ck_assert(row.repetition_penalty == 1.5f && row.presence_penalty == -1 && row.frequency_penalty == 2);
    ck_assert_uint_eq(row.top_k, 7);
    ck_assert_uint_eq(row.seed, 99);
    ck_assert_uint_eq(row.choice, 4);
    ck_assert_uint_eq(row.position, 123);
    ck_assert_uint_eq(row.logprobs, 6);
    ck_assert_uint_eq(row.bias_count, 2);
    ck_assert(row.bias[0].id == 3 && row.bias[0].value == 1.5f && row.bias[1].id == 9);
    ck_assert_uint_eq(row.count_count, 0);
    sampler_close(sampler);
}
END_TEST

START_TEST(without_penalties_no_history_is_kept)
{
    static const int32_t prompt[] = {1, 2, 3};
    struct sampler *sampler = open_sampler(&plain, prompt, 3, 5);
    sampler_accept(sampler, 7);
    ck_assert_uint_eq(sampler_row(sampler, 4).count_count, 0);
    sampler_close(sampler);
}
END_TEST

START_TEST(presence_and_frequency_look_at_what_was_generated_only)
{
    static const int32_t prompt[] = {1, 2, 3};
    struct sampler_params params = plain;
    params.frequency_penalty = 0.5f;
    struct sampler *sampler = open_sampler(&params, prompt, 3, 5);
    ck_assert_uint_eq(sampler_row(sampler, 3).count_count, 0);
    sampler_accept(sampler, 2);
    sampler_accept(sampler, 8);
    sampler_accept(sampler, 2);
    struct sample_row row = sampler_row(sampler, 6);
    ck_assert_uint_eq(row.count_count, 2);
    ck_assert_uint_eq(count_for(&row, 2)->generated, 2);
    ck_assert_uint_eq(count_for(&row, 8)->generated, 1);
    ck_assert(!count_for(&row, 2)->in_prompt);
    sampler_close(sampler);
}
END_TEST

START_TEST(repetition_looks_at_the_prompt_too)
{
    static const int32_t prompt[] = {5, 5, 6, 5};
    struct sampler_params params = plain;
    params.repetition_penalty = 1.1f;
    struct sampler *sampler = open_sampler(&params, prompt, 4, 3);
    sampler_accept(sampler, 6);
    sampler_accept(sampler, 7);
    struct sample_row row = sampler_row(sampler, 6);
    ck_assert_uint_eq(row.count_count, 3);
    ck_assert(count_for(&row, 5)->in_prompt && count_for(&row, 5)->generated == 0);
    ck_assert(count_for(&row, 6)->in_prompt && count_for(&row, 6)->generated == 1);
    ck_assert(!count_for(&row, 7)->in_prompt && count_for(&row, 7)->generated == 1);
    sampler_close(sampler);
}
END_TEST

START_TEST(end_ids_are_banned_until_min_tokens_were_drawn)
{
    int32_t end_ids[] = {0, 2};
    struct sampler_params params = plain;
    params.end_ids = end_ids;
    params.end_count = 2;
    params.min_tokens = 3;
    struct sampler *sampler = open_sampler(&params, NULL, 0, 8);
    end_ids[1] = 77;
    for (uint32_t drawn = 0; drawn < 3; drawn++) {
        struct sample_row row = sampler_row(sampler, drawn);
        ck_assert_uint_eq(row.banned_count, 2);
        ck_assert_int_eq(row.banned[1], 2);
        sampler_accept(sampler, 40);
    }
    ck_assert_uint_eq(sampler_row(sampler, 3).banned_count, 0);
    sampler_close(sampler);
}
END_TEST

/* Random ids against plain counting; nothing moves, so nothing was allocated after the opening. */
START_TEST(a_long_history_is_counted_in_place)
{
    enum { PROMPT = 3000, TOKENS = 5000, IDS = 1200 };
    static int32_t prompt[PROMPT];
    static uint32_t generated[IDS];
    static bool in_prompt[IDS];
    uint64_t state = test_seed();
    struct sampler_params params = plain;
    params.repetition_penalty = 2;
    for (int i = 0; i < PROMPT; i++) {
        prompt[i] = (int32_t)test_random_below(&state, IDS);
        in_prompt[prompt[i]] = true;
    }
    struct sampler *sampler = open_sampler(&params, prompt, PROMPT, TOKENS);
    const struct sample_count *counts = sampler_row(sampler, 0).counts;
    for (int i = 0; i < TOKENS; i++) {
        int32_t id = (int32_t)test_random_below(&state, IDS);
        generated[id]++;
        sampler_accept(sampler, id);
    }
    struct sample_row row = sampler_row(sampler, 0);
    ck_assert_ptr_eq(row.counts, counts);
    uint32_t expected = 0;
    for (int32_t id = 0; id < IDS; id++) {
        if (!in_prompt[id] && generated[id] == 0)
            continue;
        const struct sample_count *count = count_for(&row, id);
        ck_assert_ptr_nonnull(count);
        ck_assert_uint_eq(count->generated, generated[id]);
        ck_assert_int_eq(count->in_prompt, in_prompt[id]);
        expected++;
    }
    ck_assert_uint_eq(row.count_count, expected);
    sampler_close(sampler);
}
END_TEST

START_TEST(a_parameter_out_of_range_is_named)
{
    struct sampler_params params[12];
    static const char *const fields[12] = {"temperature",
                                           "temperature",
                                           "top_p",
                                           "top_p",
                                           "min_p",
                                           "min_p",
                                           "repetition_penalty",
                                           "repetition_penalty",
                                           "presence_penalty",
                                           "frequency_penalty",
                                           "logprobs",
                                           "frequency_penalty"};
    for (int i = 0; i < 12; i++)
        params[i] = plain;
    params[0].temperature = -0.1f;
    params[1].temperature = NAN;
    params[2].top_p = 1.01f;
    params[3].top_p = -0.5f;
    params[4].min_p = 2;
    params[5].min_p = NAN;
    params[6].repetition_penalty = 0;
    params[7].repetition_penalty = INFINITY;
    params[8].presence_penalty = INFINITY;
    params[9].frequency_penalty = NAN;
    params[10].logprobs = SAMPLE_LOGPROBS_MAX + 1;
    params[11].frequency_penalty = -INFINITY;
    for (int i = 0; i < 12; i++) {
        struct sampler *sampler = (struct sampler *)&params;
        struct error error;
        ck_assert_int_eq(sampler_open(&params[i], NULL, 0, 1, &sampler, &error), STATUS_INVALID);
        ck_assert_str_eq(error.field, fields[i]);
        ck_assert_ptr_null(sampler);
    }
}
END_TEST

START_TEST(more_tokens_than_can_be_kept_are_refused_at_open)
{
    static const int32_t prompt[] = {1};
    struct sampler_params params = plain;
    struct sampler *sampler;
    struct error error;
    params.repetition_penalty = 2;
    ck_assert_int_eq(sampler_open(&params, prompt, 1, UINT32_MAX, &sampler, &error), STATUS_NO_MEMORY);
    ck_assert_ptr_null(sampler);
    sampler_close(sampler);
}
END_TEST

Suite *suite(void)
{
    Suite *sampler = suite_create("sampler");
    TCase *cases = tcase_create("sampler");
    tcase_add_test(cases, parameters_reach_the_row);
    tcase_add_test(cases, without_penalties_no_history_is_kept);
    tcase_add_test(cases, presence_and_frequency_look_at_what_was_generated_only);
    tcase_add_test(cases, repetition_looks_at_the_prompt_too);
    tcase_add_test(cases, end_ids_are_banned_until_min_tokens_were_drawn);
    tcase_add_test(cases, a_long_history_is_counted_in_place);
    tcase_add_test(cases, a_parameter_out_of_range_is_named);
    tcase_add_test(cases, more_tokens_than_can_be_kept_are_refused_at_open);
    suite_add_tcase(sampler, cases);
    return sampler;
}
