/* Sampling against a plain reference: double precision and a full sort. */
#include "kernels/cpu/sample.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/unit.h"

#define VOCABULARY_MAX 49152

static const struct sample_row plain = {.temperature = 1, .top_p = 1, .repetition_penalty = 1};

/* ---- the reference ---- */

struct entry {
    double logit, probability;
    int32_t id;
};

static int by_logit(const void *left, const void *right)
{
    const struct entry *a = left, *b = right;
    if (a->logit != b->logit)
        return a->logit < b->logit ? 1 : -1;
    return a->id < b->id ? -1 : 1;
}

static int by_id(const void *left, const void *right)
{
    const struct entry *a = left, *b = right;
    return a->id < b->id ? -1 : 1;
}

/* The kept tokens in ascending order with their probabilities; returns how many. `near_cut`: a nucleus so close to its
 * cut that rounding may decide. */
static size_t reference_kept(const float *logits, uint32_t vocabulary, const struct sample_row *row,
                             struct entry *entries, bool *near_cut)
{
    size_t count = vocabulary;
    double total = 0, sum = 0;
    for (uint32_t id = 0; id < vocabulary; id++)
        entries[id] = (struct entry){.logit = (double)logits[id], .id = (int32_t)id};
    qsort(entries, count, sizeof(*entries), by_logit);
    for (size_t i = 0; i < count; i++)
        entries[i].probability = exp((entries[i].logit - entries[0].logit) / (double)row->temperature);
    if (row->top_k > 0 && row->top_k < count)
        count = row->top_k;
    for (size_t i = 0; i < count; i++)
        total += entries[i].probability;
    *near_cut = false;
    if (row->top_p < 1) {
        size_t kept = 0;
        while (kept < count && (kept == 0 || sum < (double)row->top_p * total)) {
            sum += entries[kept++].probability;
            *near_cut = *near_cut || fabs(sum - (double)row->top_p * total) < 1e-5 * total;
        }
        count = kept;
    }
    size_t kept = 0;
    while (kept < count && entries[kept].probability >= (double)row->min_p)
        kept++;
    for (size_t i = kept; i < count; i++)
        *near_cut = *near_cut || fabs(entries[i].probability - (double)row->min_p) < 1e-6;
    total = 0;
    for (size_t i = 0; i < kept; i++)
        total += entries[i].probability;
    for (size_t i = 0; i < kept; i++)
        entries[i].probability /= total;
    qsort(entries, kept, sizeof(*entries), by_id);
    return kept;
}

static int32_t reference_draw(const struct entry *entries, size_t count, double uniform)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        sum += entries[i].probability;
        if (sum > uniform)
            return entries[i].id;
    }
    return entries[count - 1].id;
}

/* ---- helpers ---- */

static float logits_store[VOCABULARY_MAX], logits_copy[VOCABULARY_MAX];
static struct entry entries_store[VOCABULARY_MAX];
static uint64_t scratch_store[VOCABULARY_MAX];

/* Draws from a copy, so that the logits stay. */
static struct sample_result draw(const float *logits, uint32_t vocabulary, const struct sample_row *row)
{
    struct sample_result result;
    ck_assert_uint_le(sample_scratch_bytes(vocabulary), sizeof(scratch_store));
    memcpy(logits_copy, logits, vocabulary * sizeof(float));
    sample_draw(logits_copy, vocabulary, row, scratch_store, &result);
    if (result.id < 0 || (uint32_t)result.id >= vocabulary)
        ck_abort_msg("drew %d of %u", result.id, vocabulary);
    return result;
}

/* Roughly normal, times `spread`. */
static void random_logits(float *logits, uint32_t vocabulary, double spread, uint64_t *state)
{
    for (uint32_t id = 0; id < vocabulary; id++) {
        double sum = -6;
        for (int i = 0; i < 12; i++)
            sum += test_random_unit(state);
        logits[id] = (float)(sum * spread);
    }
}

static struct sample_row random_row(uint32_t vocabulary, uint64_t *state)
{
    static const float temperatures[] = {0.05f, 0.3f, 0.7f, 1, 1.5f, 2};
    static const float parts[] = {0, 0.01f, 0.1f, 0.5f, 0.8f, 0.9f, 0.95f, 0.99f, 0.9999f, 0.9999999f};
    struct sample_row row = plain;
    row.temperature = temperatures[test_random_below(state, 6)];
    if (test_random_below(state, 2) == 0)
        row.top_k = 1 + (uint32_t)test_random_below(state, test_random_below(state, 2) ? 60 : vocabulary + 10);
    if (test_random_below(state, 2) == 0)
        row.top_p = parts[test_random_below(state, 10)];
    if (test_random_below(state, 3) == 0)
        row.min_p = parts[test_random_below(state, 6)];
    row.seed = test_random(state);
    return row;
}

/* ---- tests ---- */

/* The same uniform number must give the reference's token, but for numbers within rounding of a border. */
static void compare_draws(uint32_t vocabulary, double spread, int cases, int draws, uint64_t seed)
{
    int compared = 0;
    for (int number = 0; number < cases; number++) {
        struct sample_row row = random_row(vocabulary, &seed);
        bool near_cut;
        random_logits(logits_store, vocabulary, spread, &seed);
        if (number % 3 == 0) { /* ties */
            for (uint32_t id = 0; id < vocabulary; id++)
                logits_store[id] = roundf(logits_store[id] * 2) / 2;
        }
        size_t count = reference_kept(logits_store, vocabulary, &row, entries_store, &near_cut);
        if (near_cut)
            continue;
        for (int i = 0; i < draws; i++) {
            row.position = (uint32_t)i;
            row.choice = (uint32_t)number;
            double uniform = sample_uniform(row.seed, row.choice, row.position);
            int32_t id = draw(logits_store, vocabulary, &row).id;
            bool same = id == reference_draw(entries_store, count, uniform) ||
                        id == reference_draw(entries_store, count, uniform - 1e-5) ||
                        id == reference_draw(entries_store, count, uniform + 1e-5);
            if (!same)
                ck_abort_msg("case %d: temperature %g top_k %u top_p %g min_p %g: drew %d, expected %d", number,
                             (double)row.temperature, row.top_k, (double)row.top_p, (double)row.min_p, id,
                             reference_draw(entries_store, count, uniform));
            compared++;
        }
    }
    ck_assert_int_ge(compared, cases * draws / 2);
}

START_TEST(draws_of_a_small_vocabulary_are_the_references)
{
    static const uint32_t vocabularies[] = {1, 2, 15, 16, 17, 255, 256, 257, 600};
    compare_draws(vocabularies[_i], 1 + _i % 4, 300, 20, test_seed() + (uint64_t)_i);
}
END_TEST

START_TEST(draws_of_a_large_vocabulary_are_the_references)
{
    static const double spreads[] = {0.0, 0.3, 1, 3, 10};
    compare_draws(VOCABULARY_MAX, spreads[_i], test_long() ? 300 : 24, 4, test_seed() + (uint64_t)_i);
}
END_TEST

/* Pearson's statistic of many draws under different positions; the bound is six deviations above its mean. */
START_TEST(frequencies_follow_the_probabilities)
{
    enum { TOKENS = 40, DRAWS = 40000 };
    static const struct sample_row rows[] = {
        {.temperature = 1, .top_p = 1, .repetition_penalty = 1},
        {.temperature = 0.7f, .top_p = 0.9f, .repetition_penalty = 1},
        {.temperature = 1.3f, .top_p = 1, .top_k = 12, .repetition_penalty = 1},
        {.temperature = 2, .top_p = 1, .min_p = 0.1f, .repetition_penalty = 1},
        {.temperature = 1, .top_p = 0.95f, .top_k = 20, .min_p = 0.02f, .repetition_penalty = 1},
    };
    uint64_t state = test_seed() + (uint64_t)_i;
    struct sample_row row = rows[_i];
    uint32_t seen[TOKENS] = {0};
    bool near_cut;
    double statistic = 0;
    random_logits(logits_store, TOKENS, 1.5, &state);
    size_t count = reference_kept(logits_store, TOKENS, &row, entries_store, &near_cut);
    row.seed = state;
    for (uint32_t i = 0; i < DRAWS; i++) {
        row.position = i;
        seen[draw(logits_store, TOKENS, &row).id]++;
    }
    uint32_t expected_only = 0;
    for (size_t i = 0; i < count; i++) {
        double expected = entries_store[i].probability * DRAWS;
        double difference = seen[entries_store[i].id] - expected;
        statistic += difference * difference / expected;
        expected_only += seen[entries_store[i].id];
    }
    ck_assert_uint_eq(expected_only, DRAWS);
    ck_assert_uint_gt(count, 5);
    ck_assert(statistic < (double)count + 6 * sqrt(2 * (double)count));
}
END_TEST

START_TEST(the_uniform_number_depends_on_seed_choice_and_position_only)
{
    enum { CELLS = 64, DRAWS = 64000 };
    uint32_t cells[CELLS] = {0};
    double first = sample_uniform(7, 1, 2);
    ck_assert(first == sample_uniform(7, 1, 2));
    ck_assert(first != sample_uniform(8, 1, 2));
    ck_assert(first != sample_uniform(7, 2, 2));
    ck_assert(first != sample_uniform(7, 1, 3));
    ck_assert(sample_uniform(7, 2, 1) != sample_uniform(7, 1, 2));
    for (uint32_t axis = 0; axis < 3; axis++) {
        double statistic = 0;
        memset(cells, 0, sizeof(cells));
        for (uint32_t i = 0; i < DRAWS; i++) {
            double u = sample_uniform(axis == 0 ? i : 0, axis == 1 ? i : 0, axis == 2 ? i : 0);
            if (!(u >= 0 && u < 1))
                ck_abort_msg("%g is not in [0, 1)", u);
            cells[(int)(u * CELLS)]++;
        }
        for (int i = 0; i < CELLS; i++)
            statistic += (cells[i] - 1000.0) * (cells[i] - 1000.0) / 1000.0;
        ck_assert(statistic < CELLS + 6 * sqrt(2 * CELLS));
    }
}
END_TEST

START_TEST(greedy_takes_the_largest_and_of_equal_ones_the_lowest_id)
{
    uint64_t state = test_seed();
    struct sample_row row = plain;
    row.temperature = 0;
    row.top_p = 0.1f;
    row.top_k = 3;
    for (uint32_t vocabulary = 1; vocabulary < 300; vocabulary++) {
        random_logits(logits_store, vocabulary, 1, &state);
        uint32_t a = (uint32_t)test_random_below(&state, vocabulary);
        uint32_t b = (uint32_t)test_random_below(&state, vocabulary);
        logits_store[a] = logits_store[b] = 50;
        if (draw(logits_store, vocabulary, &row).id != (int32_t)(a < b ? a : b))
            ck_abort_msg("vocabulary %u", vocabulary);
    }
}
END_TEST

/* All ids that come up in many draws, as a count; `highest` is the largest of them. */
static size_t ids_drawn(const float *logits, uint32_t vocabulary, struct sample_row row, int32_t *highest)
{
    static bool seen[VOCABULARY_MAX];
    size_t count = 0;
    memset(seen, 0, sizeof(seen));
    *highest = -1;
    for (row.position = 0; row.position < 600; row.position++) {
        int32_t id = draw(logits, vocabulary, &row).id;
        count += !seen[id];
        seen[id] = true;
        *highest = id > *highest ? id : *highest;
    }
    return count;
}

START_TEST(cuts_at_equal_logits_keep_the_lower_ids)
{
    int32_t highest;
    struct sample_row row = plain;
    for (int i = 0; i < 20; i++)
        logits_store[i] = 3;
    ck_assert_uint_eq(ids_drawn(logits_store, 20, row, &highest), 20);
    row.top_k = 5;
    ck_assert_uint_eq(ids_drawn(logits_store, 20, row, &highest), 5);
    ck_assert_int_eq(highest, 4);
    row.top_p = 0.5f; /* of those five: 3 reach 0.6 */
    ck_assert_uint_eq(ids_drawn(logits_store, 20, row, &highest), 3);
    ck_assert_int_eq(highest, 2);
    row.top_k = 0;
    ck_assert_uint_eq(ids_drawn(logits_store, 20, row, &highest), 10);
    ck_assert_int_eq(highest, 9);
    row.top_p = 0;
    ck_assert_uint_eq(ids_drawn(logits_store, 20, row, &highest), 1);
    ck_assert_int_eq(highest, 0);
    /* Zeros of both signs are equal. */
    row = plain;
    row.top_k = 2;
    for (int i = 0; i < 20; i++)
        logits_store[i] = i < 2 ? -0.0f : 0.0f;
    ck_assert_uint_eq(ids_drawn(logits_store, 20, row, &highest), 2);
    ck_assert_int_eq(highest, 1);
}
END_TEST

START_TEST(min_p_is_relative_to_the_most_probable_token)
{
    int32_t highest;
    struct sample_row row = plain;
    static const float logits[] = {2, 1, 0, -1, -30};
    row.min_p = 0.99f;
    ck_assert_uint_eq(ids_drawn(logits, 5, row, &highest), 1);
    row.min_p = 0.3f; /* e^-1 = 0.37, e^-2 = 0.14 */
    ck_assert_uint_eq(ids_drawn(logits, 5, row, &highest), 2);
    row.temperature = 2; /* e^-0.5 = 0.61, e^-1 = 0.37, e^-1.5 = 0.22 */
    ck_assert_uint_eq(ids_drawn(logits, 5, row, &highest), 3);
    row.min_p = 1;
    ck_assert_uint_eq(ids_drawn(logits, 5, row, &highest), 1);
    ck_assert_int_eq(highest, 0);
}
END_TEST

START_TEST(any_temperature_above_zero_is_one)
{
    static const float temperatures[] = {1e-45f, 1e-38f, 1e-20f, 1e-6f, 1e-3f, 1e30f, 3e38f};
    static const float logits[] = {-1, 4, 4, 3.999f, 2};
    int32_t highest;
    struct sample_row row = plain;
    row.temperature = temperatures[_i];
    size_t count = ids_drawn(logits, 5, row, &highest);
    ck_assert_uint_eq(count, temperatures[_i] < 1e-3f ? 2 : temperatures[_i] < 1 ? 3 : 5);
    row.top_p = 0.9999f;
    ck_assert_uint_eq(ids_drawn(logits, 5, row, &highest), count);
}
END_TEST

START_TEST(bias_and_penalties_change_logits_in_their_order)
{
    static const struct sample_bias bias[] = {{0, 1.5f}, {3, -100}, {-1, 50}, {6, 50}};
    static const struct sample_count counts[] = {
        {.id = 0, .in_prompt = true},  {.id = 1, .generated = 2},   {.id = 2, .generated = 1, .in_prompt = true},
        {.id = 4, .in_prompt = false}, {.id = 100, .generated = 1}, {.id = -5, .in_prompt = true},
    };
    static const int32_t banned[] = {5, 77, -3};
    struct sample_row row = {.temperature = 0,
                             .top_p = 1,
                             .repetition_penalty = 2,
                             .presence_penalty = 0.5f,
                             .frequency_penalty = 0.25f,
                             .bias = bias,
                             .bias_count = 4,
                             .counts = counts,
                             .count_count = 6,
                             .banned = banned,
                             .banned_count = 3};
    static const float logits[] = {0.5f, -1, 3, 1, 0.25f, 99};
    draw(logits, 6, &row);
    ck_assert(logits_copy[0] == (0.5f + 1.5f) / 2);
    ck_assert(logits_copy[1] == -1 * 2 - 0.5f - 2 * 0.25f);
    ck_assert(logits_copy[2] == 3.0f / 2 - 0.5f - 0.25f);
    ck_assert(logits_copy[3] == 1 - 100.0f);
    ck_assert(logits_copy[4] == 0.25f);
    ck_assert(logits_copy[5] == -INFINITY);
}
END_TEST

START_TEST(a_banned_token_is_never_drawn)
{
    static const int32_t banned[] = {1, 3};
    static const float logits[] = {0, 9, 0.5f, 9, 0.25f};
    struct sample_row row = plain;
    row.banned = banned;
    row.banned_count = 2;
    for (int mode = 0; mode < 4; mode++) {
        row.top_k = mode & 1 ? 4 : 0;
        row.top_p = mode & 2 ? 0.999999f : 1;
        for (row.position = 0; row.position < 500; row.position++) {
            int32_t id = draw(logits, 5, &row).id;
            ck_assert(id != 1 && id != 3);
        }
    }
    row.temperature = 0;
    ck_assert_int_eq(draw(logits, 5, &row).id, 2);
}
END_TEST

START_TEST(log_probabilities_are_of_the_raw_logits)
{
    uint64_t state = test_seed();
    static const struct sample_bias bias[] = {{7, 100}};
    for (uint32_t vocabulary = 8; vocabulary < 400; vocabulary += 13) {
        struct sample_row row = plain;
        double total = 0;
        random_logits(logits_store, vocabulary, 2, &state);
        logits_store[3] = logits_store[5]; /* a tie */
        for (uint32_t id = 0; id < vocabulary; id++)
            total += exp((double)logits_store[id]);
        row.bias = bias;
        row.bias_count = 1;
        row.logprobs = 1 + (uint32_t)test_random_below(&state, SAMPLE_LOGPROBS_MAX);
        struct sample_result result = draw(logits_store, vocabulary, &row);
        ck_assert_int_eq(result.id, 7);
        ck_assert(fabs((double)result.logprob - ((double)logits_store[7] - log(total))) < 1e-5);

        uint32_t wanted = row.logprobs - 1 < vocabulary ? row.logprobs - 1 : vocabulary;
        struct sample_row all = plain;
        bool near_cut;
        all.top_k = wanted;
        ck_assert_uint_eq(result.top_count, wanted);
        if (wanted == 0)
            continue;
        ck_assert_uint_eq(reference_kept(logits_store, vocabulary, &all, entries_store, &near_cut), wanted);
        qsort(entries_store, wanted, sizeof(entries_store[0]), by_logit);
        for (uint32_t i = 0; i < wanted; i++) {
            ck_assert_int_eq(result.top[i].id, entries_store[i].id);
            ck_assert(fabs((double)result.top[i].logprob - (entries_store[i].logit - log(total))) < 1e-5);
        }
    }
}
END_TEST

START_TEST(more_log_probabilities_than_tokens_list_them_all)
{
    static const float logits[] = {1, 3, 2};
    struct sample_row row = plain;
    double sum = 0;
    row.logprobs = SAMPLE_LOGPROBS_MAX;
    struct sample_result result = draw(logits, 3, &row);
    ck_assert_uint_eq(result.top_count, 3);
    ck_assert_int_eq(result.top[0].id, 1);
    ck_assert_int_eq(result.top[1].id, 2);
    ck_assert_int_eq(result.top[2].id, 0);
    for (int i = 0; i < 3; i++)
        sum += exp((double)result.top[i].logprob);
    ck_assert(fabs(sum - 1) < 1e-6);
    row.logprobs = 0;
    ck_assert_uint_eq(draw(logits, 3, &row).top_count, 0);
}
END_TEST

START_TEST(log_probabilities_do_not_change_the_draw)
{
    uint64_t state = test_seed();
    for (int number = 0; number < 300; number++) {
        struct sample_row row = random_row(500, &state);
        random_logits(logits_store, 500, 2, &state);
        int32_t without = draw(logits_store, 500, &row).id;
        row.logprobs = 6;
        ck_assert_int_eq(draw(logits_store, 500, &row).id, without);
    }
}
END_TEST

START_TEST(what_is_not_a_finite_number_is_not_drawn)
{
    static const float logits[] = {NAN, 1, -NAN, -INFINITY, 2, -FLT_MAX};
    static const float nothing[] = {NAN, -INFINITY, -INFINITY, -INFINITY, NAN, NAN};
    static const float infinite[] = {NAN, 1, INFINITY, -INFINITY, 2, INFINITY};
    struct sample_row row = plain;
    for (int mode = 0; mode < 8; mode++) {
        row.top_k = mode & 1 ? 5 : 0;
        row.top_p = mode & 2 ? 0.9999999f : 1;
        row.logprobs = mode & 4 ? 6 : 0;
        for (row.position = 0; row.position < 200; row.position++) {
            int32_t id = draw(logits, 6, &row).id;
            ck_assert(id == 1 || id == 4);
        }
        draw(nothing, 6, &row);
        ck_assert_int_eq(draw(infinite, 6, &row).id, 2);
    }
    row.temperature = 0;
    ck_assert_int_eq(draw(logits, 6, &row).id, 4);
    draw(nothing, 6, &row);
}
END_TEST

/* The token that is drawn and the one that is scored have the same bits. */
START_TEST(a_scored_token_has_the_logprob_it_has_when_drawn)
{
    uint64_t state = test_seed() + 99;
    for (uint32_t round = 0; round < 200; round++) {
        struct sample_row row = random_row(500, &state);
        row.logprobs = 1 + round % 4;
        random_logits(logits_store, 500, 2, &state);
        struct sample_result drawn = draw(logits_store, 500, &row);
        row.scores = true;
        row.scored = drawn.id;
        struct sample_result scored = draw(logits_store, 500, &row);
        ck_assert_mem_eq(&scored, &drawn, sizeof(drawn));
        row.scored = (int32_t)(round % 500);
        scored = draw(logits_store, 500, &row);
        ck_assert_int_eq(scored.id, row.scored);
        for (uint32_t i = 0; i < scored.top_count; i++)
            ck_assert(scored.top[i].id != scored.id || scored.top[i].logprob == scored.logprob);
    }
}
END_TEST

Suite *suite(void)
{
    Suite *sample = suite_create("sample");
    TCase *cases = tcase_create("sample");
    tcase_add_loop_test(cases, draws_of_a_small_vocabulary_are_the_references, 0, 9);
    tcase_add_loop_test(cases, draws_of_a_large_vocabulary_are_the_references, 0, 5);
    tcase_add_loop_test(cases, frequencies_follow_the_probabilities, 0, 5);
    tcase_add_test(cases, the_uniform_number_depends_on_seed_choice_and_position_only);
    tcase_add_test(cases, greedy_takes_the_largest_and_of_equal_ones_the_lowest_id);
    tcase_add_test(cases, cuts_at_equal_logits_keep_the_lower_ids);
    tcase_add_test(cases, min_p_is_relative_to_the_most_probable_token);
    tcase_add_loop_test(cases, any_temperature_above_zero_is_one, 0, 7);
    tcase_add_test(cases, bias_and_penalties_change_logits_in_their_order);
    tcase_add_test(cases, a_banned_token_is_never_drawn);
    tcase_add_test(cases, log_probabilities_are_of_the_raw_logits);
    tcase_add_test(cases, more_log_probabilities_than_tokens_list_them_all);
    tcase_add_test(cases, log_probabilities_do_not_change_the_draw);
    tcase_add_test(cases, what_is_not_a_finite_number_is_not_drawn);
    tcase_add_test(cases, a_scored_token_has_the_logprob_it_has_when_drawn);
    suite_add_tcase(sample, cases);
    return sample;
}
