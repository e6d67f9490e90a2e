/* What falls into which bucket, and what the engine counts of requests that finish, leave and wait. */
#include "server/engine/stats.h"

#include <string.h>

#include "tests/unit/server/engine/bed.h"
#include "tests/unit/unit.h"

static struct bed bed;

static void teardown(void)
{
    bed_end(&bed);
}

static struct stats_numbers numbers(void)
{
    struct stats_numbers out;
    engine_numbers(bed.engine, &out);
    return out;
}

static uint64_t count(const struct stats_numbers *from, enum stats_histogram which)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i <= STATS_BOUNDS_MAX; i++)
        sum += from->histograms[which].counts[i];
    return sum;
}

START_TEST(a_bound_is_within_its_bucket)
{
    struct stats stats = {0};
    struct stats_numbers out;
    uint32_t bounds;
    const double *values = stats_bounds(STATS_QUEUE_SECONDS, &bounds);
    stats_open(&stats);
    stats_observe(&stats, STATS_QUEUE_SECONDS, 0);
    for (uint32_t i = 0; i < bounds; i++) {
        stats_observe(&stats, STATS_QUEUE_SECONDS, values[i]);
        stats_observe(&stats, STATS_QUEUE_SECONDS, values[i] * 1.0001);
    }
    stats_read(&stats, &out);
    for (uint32_t i = 0; i < bounds; i++)
        ck_assert_uint_eq(out.histograms[STATS_QUEUE_SECONDS].counts[i], 2);
    ck_assert_uint_eq(out.histograms[STATS_QUEUE_SECONDS].counts[bounds], 1);
    ck_assert_uint_eq(count(&out, STATS_QUEUE_SECONDS), 2 * bounds + 1);
    ck_assert_uint_eq(count(&out, STATS_DECODE_SECONDS), 0);
    stats_close(&stats);
}
END_TEST

START_TEST(bounds_ascend_and_fit)
{
    for (int which = 0; which < STATS_HISTOGRAMS; which++) {
        uint32_t bounds;
        const double *values = stats_bounds((enum stats_histogram)which, &bounds);
        ck_assert(bounds > 0 && bounds <= STATS_BOUNDS_MAX);
        for (uint32_t i = 1; i < bounds; i++)
            ck_assert(values[i - 1] < values[i]);
    }
}
END_TEST

START_TEST(lengths_have_the_names_of_their_ranges)
{
    static const struct {
        uint32_t tokens;
        const char *name;
    } cases[] = {
        {0, "0-256"},          {1, "0-256"},        {256, "0-256"},         {257, "257-1024"},
        {1024, "257-1024"},    {1025, "1025-4096"}, {4096, "1025-4096"},    {4097, "4097-16384"},
        {16384, "4097-16384"}, {16385, "16385-"},   {UINT32_MAX, "16385-"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
        ck_assert_str_eq(stats_length_name(stats_length(cases[i].tokens)), cases[i].name);
    ck_assert_str_eq(stats_length_name(0), "unknown");
}
END_TEST

START_TEST(a_finished_request_is_counted_once_everywhere)
{
    int32_t ids[40];
    bed_open(&bed, &(struct bed_args){0});
    bed_prompt(1, ids, 40);
    for (int i = 0; i < 3; i++)
        bed_release(bed_run(&bed, bed_call(ids, 40, 5)));
    struct stats_numbers now = numbers();
    ck_assert_uint_eq(now.ends[STATS_END_LENGTH], 3);
    for (int which = 0; which < STATS_HISTOGRAMS; which++)
        ck_assert_uint_eq(count(&now, (enum stats_histogram)which), which == STATS_INTER_TOKEN_SECONDS ? 12 : 3);
    ck_assert(now.histograms[STATS_PROMPT_TOKENS].sum == 120 && now.histograms[STATS_GENERATED_TOKENS].sum == 15);
    double parts = now.histograms[STATS_QUEUE_SECONDS].sum + now.histograms[STATS_PREFILL_SECONDS].sum;
    double first = now.histograms[STATS_FIRST_TOKEN_SECONDS].sum;
    double whole = now.histograms[STATS_REQUEST_SECONDS].sum;
    ck_assert_double_eq_tol(parts, first, 1e-9);
    ck_assert_double_eq_tol(first + now.histograms[STATS_DECODE_SECONDS].sum, whole, 1e-9);
    ck_assert_double_le(now.histograms[STATS_INTER_TOKEN_SECONDS].sum, whole - first + 1e-9);
}
END_TEST

START_TEST(choices_share_a_first_token_and_have_gaps_of_their_own)
{
    int32_t ids[40];
    bed_open(&bed, &(struct bed_args){0});
    bed_prompt(1, ids, 40);
    bed_release(bed_run(&bed, bed_choices_call(ids, 40, 3)));
    struct stats_numbers now = numbers();
    ck_assert_uint_eq(count(&now, STATS_FIRST_TOKEN_SECONDS), 1);
    ck_assert_uint_eq(count(&now, STATS_INTER_TOKEN_SECONDS), 3 * 23);
    ck_assert(now.histograms[STATS_GENERATED_TOKENS].sum == 72);
    ck_assert_uint_eq(now.ends[STATS_END_LENGTH], 1);
}
END_TEST

/* Two grow beyond the pool: one has to leave and is looked up again. */
START_TEST(lookups_are_counted_once_a_request_whatever_happens_to_it)
{
    int32_t ids[4][40];
    struct bed_reply *replies[4];
    bed_open(&bed, &(struct bed_args){.pages = 8, .sequences_max = 4});
    for (uint32_t i = 0; i < 4; i++) {
        bed_prompt(i + 1, ids[i], 40);
        replies[i] = bed_submit(&bed, bed_call(ids[i], 40, 100));
    }
    for (uint32_t i = 0; i < 4; i++) {
        bed_finish(replies[i]);
        bed_release(replies[i]);
    }
    struct engine_status status = engine_status(bed.engine);
    struct stats_numbers now = numbers();
    ck_assert_uint_gt(status.preemptions, 0);
    ck_assert_uint_eq(status.preempted, 0);
    ck_assert_uint_eq(status.queried_tokens, 160);
    ck_assert_uint_eq(status.cached_tokens, 0);
    ck_assert_uint_eq(count(&now, STATS_QUEUE_SECONDS), 4);
    ck_assert_uint_eq(count(&now, STATS_FIRST_TOKEN_SECONDS), 4);
    bed_release(bed_run(&bed, bed_call(ids[3], 40, 2)));
    status = engine_status(bed.engine);
    ck_assert_uint_eq(status.queried_tokens, 200);
    ck_assert_uint_le(status.cached_tokens, 39);
}
END_TEST

START_TEST(nothing_is_looked_up_without_a_cache)
{
    int32_t ids[40];
    bed_open(&bed, &(struct bed_args){.no_cache = true});
    bed_prompt(1, ids, 40);
    bed_release(bed_run(&bed, bed_call(ids, 40, 2)));
    ck_assert_uint_eq(engine_status(bed.engine).queried_tokens, 0);
    ck_assert_uint_eq(engine_status(bed.engine).prompt_tokens, 40);
}
END_TEST

/* One runs, two wait behind it; then all leave. */
START_TEST(those_that_wait_are_counted_by_their_length)
{
    static int32_t ids[3][600];
    static const uint32_t counts[3] = {10, 20, 600};
    struct bed_reply *replies[3];
    struct engine_status status;
    bed_open(&bed, &(struct bed_args){.sequences_max = 1});
    for (uint32_t i = 0; i < 3; i++) {
        bed_prompt(i + 1, ids[i], counts[i]);
        replies[i] = bed_submit(&bed, bed_call(ids[i], counts[i], 1400));
        while (!(i == 0 ? replies[i]->started : replies[i]->accepted))
            ck_assert(bed_next(replies[i]));
    }
    do {
        status = engine_status(bed.engine);
    } while (status.waiting_by_length[0] > 0); /* handed over after it was accepted */
    ck_assert_uint_eq(status.waiting, 2);
    ck_assert_uint_eq(status.waiting_by_length[stats_length(20)], 1);
    ck_assert_uint_eq(status.waiting_by_length[stats_length(600)], 1);
    for (uint32_t i = 3; i-- > 0;) {
        engine_request_cancel(replies[i]->request);
        bed_finish(replies[i]);
        bed_release(replies[i]);
    }
    bed_expect_baseline(&bed);
    status = engine_status(bed.engine);
    for (uint32_t i = 0; i < STATS_LENGTHS; i++)
        ck_assert_uint_eq(status.waiting_by_length[i], 0);
    struct stats_numbers now = numbers();
    ck_assert_uint_eq(now.ends[STATS_END_CANCELLED], 3);
    ck_assert_uint_eq(count(&now, STATS_QUEUE_SECONDS), 1);
    ck_assert_uint_eq(count(&now, STATS_REQUEST_SECONDS), 0);
}
END_TEST

Suite *suite(void)
{
    Suite *stats = suite_create("engine/stats");
    TCase *tests = tcase_create("stats");
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, NULL, teardown);
    tcase_add_test(tests, a_bound_is_within_its_bucket);
    tcase_add_test(tests, bounds_ascend_and_fit);
    tcase_add_test(tests, lengths_have_the_names_of_their_ranges);
    tcase_add_test(tests, a_finished_request_is_counted_once_everywhere);
    tcase_add_test(tests, choices_share_a_first_token_and_have_gaps_of_their_own);
    tcase_add_test(tests, lookups_are_counted_once_a_request_whatever_happens_to_it);
    tcase_add_test(tests, nothing_is_looked_up_without_a_cache);
    tcase_add_test(tests, those_that_wait_are_counted_by_their_length);
    suite_add_tcase(stats, tests);
    return stats;
}
