/* Promise 1: logits depend on nothing but the ids before them. Whole rows are compared bit by bit with one reference,
 * over random draws of everything that must not matter. */
#include "tests/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/conformance/shuffle.h"
#include "tests/conformance/split_k.h"
#include "tests/support/tiny_model.h"

#define DRAWS 50 /* of each of the four */

static const struct {
    const char *name;
    enum activation_mode activations;
} tiny_cases[] = {
    {"q4_1", ACTIVATIONS_INT8},
    {"q4_k", ACTIVATIONS_INT8},
    {"bias", ACTIVATIONS_INT8}, /* float weights */
    {"q8_0", ACTIVATIONS_F32},
};

/* The fast variants mostly; scalar now and then, since it is slow and the reference is scalar too. */
static const char *draw_variant(uint64_t *random)
{
    const char *const *variants = run_variants();
    uint64_t count = 0;
    while (variants[count] != NULL)
        count++;
    if (count == 1 || test_random_below(random, 10) == 0)
        return variants[0];
    return variants[1 + test_random_below(random, count - 1)];
}

static struct run_args tiny_run(const char *path, int i)
{
    return (struct run_args){
        .path = path, .cpu = "scalar", .activations = tiny_cases[i].activations, .threads = 1, .rows_max = 64};
}

static void print_result(const char *name, const struct shuffle_result *result)
{
    printf("%s: %llu rows of logits compared in %llu steps, %llu prefixes taken over, %llu preempted, %llu different\n",
           name, (unsigned long long)result->rows, (unsigned long long)result->steps, (unsigned long long)result->hits,
           (unsigned long long)result->preempted, (unsigned long long)result->different);
}

START_TEST(nothing_but_the_ids_matters)
{
    char path[TINY_PATH_BYTES];
    struct shuffle_reference reference;
    struct shuffle_result result = {0};
    uint64_t random = test_seed() + 1000 * (uint64_t)_i;
    tiny_model_save(tiny_model_named(tiny_cases[_i].name), path);
    struct run_args run = tiny_run(path, _i);
    shuffle_reference_open(&reference, &run, SHUFFLE_TOKENS_MAX, 1, test_random(&random));
    for (int draw = 0; draw < (test_long() ? 10 * DRAWS : DRAWS); draw++) {
        run.cpu = draw_variant(&random);
        run.threads = 1 + (uint32_t)test_random_below(&random, 4);
        uint32_t chunk = 1 + (uint32_t)test_random_below(&random, 300);
        shuffle_run(&reference,
                    &(struct shuffle_draw){.run = run,
                                           .seed = test_random(&random),
                                           .chunk_max = chunk,
                                           .logits_rows_max = SHUFFLE_TOKENS_MAX,
                                           .sequences = chunk < 16 ? 2 : 5},
                    &result);
    }
    print_result(tiny_cases[_i].name, &result);
    ck_assert_uint_gt(result.rows, 2000);
    ck_assert_uint_gt(result.hits, 50);
    ck_assert_uint_gt(result.preempted, 10);
    ck_assert_uint_eq(result.different, 0);
    shuffle_reference_close(&reference);
    unlink(path);
}
END_TEST

START_TEST(a_reduction_split_by_threads_is_noticed)
{
    char path[TINY_PATH_BYTES];
    struct shuffle_reference reference;
    struct shuffle_result one_thread = {0}, two_threads = {0};
    tiny_model_save(tiny_model_named(tiny_cases[_i].name), path);
    struct run_args run = tiny_run(path, _i);
    run.ops = &split_k_ops;
    shuffle_reference_open(&reference, &run, 40, 8, 1);
    struct shuffle_draw draw = {.run = run, .seed = 1, .chunk_max = 8, .logits_rows_max = 8, .sequences = 4};
    shuffle_run(&reference, &draw, &one_thread);
    draw.run.threads = 2;
    shuffle_run(&reference, &draw, &two_threads);
    print_result("one thread", &one_thread);
    print_result("two threads", &two_threads);
    ck_assert_uint_gt(one_thread.rows, 10);
    ck_assert_uint_eq(one_thread.different, 0);
    ck_assert_uint_gt(two_threads.different, 0);
    shuffle_reference_close(&reference);
    unlink(path);
}
END_TEST

/* ---- every hit length ---- */

#define HIT_TOKENS 97 /* three blocks and one */
#define HIT_PAGES 4

/* Positions hit .. HIT_TOKENS-1 over the first `hit` rows of pages 0 .. 3, shared or copied. */
static void run_hit(struct model *model, const int32_t *ids, uint32_t hit, struct sample_result *results)
{
    static const uint32_t fresh[HIT_PAGES] = {7, 4, 6, 5};
    struct sample_row draws[HIT_TOKENS];
    uint32_t table[HIT_PAGES], page_tokens = model_kv_layout(model)->groups[0].page_tokens;
    for (uint32_t i = 0; i < HIT_PAGES; i++) {
        model_kv_poison(model, fresh[i]);
        table[i] = i < hit / page_tokens ? i : fresh[i];
    }
    for (uint32_t i = 0; i < HIT_TOKENS; i++)
        draws[i] = run_greedy;
    if (hit % page_tokens != 0)
        model_kv_copy(model, 0, hit / page_tokens, fresh[hit / page_tokens], hit % page_tokens);
    struct batch_sequence sequence = {.ids = ids + hit,
                                      .count = HIT_TOKENS - hit,
                                      .position = hit,
                                      .pages = {table},
                                      .sample = draws,
                                      .sample_count = 1,
                                      .logits_rows = HIT_TOKENS - hit};
    model_step_submit(model, &(struct batch){.sequences = &sequence, .sequence_count = 1});
    ck_assert_int_eq(model_step_collect(model, results), STATUS_OK);
}

START_TEST(a_prefix_hit_of_every_length_is_exact)
{
    char path[TINY_PATH_BYTES];
    int32_t ids[HIT_TOKENS];
    struct sample_result results[HIT_TOKENS];
    const struct tiny_model *tiny = tiny_model_named(tiny_cases[_i].name);
    size_t row = tiny->vocabulary * sizeof(float);
    float *expected = malloc(HIT_TOKENS * row);
    tiny_model_save(tiny, path);
    struct run_args args = {
        .path = path, .activations = tiny_cases[_i].activations, .threads = 2, .context = 128, .kv_sequences = 2};
    struct model *model = run_open(&args);
    ck_assert_uint_le(HIT_TOKENS, HIT_PAGES * model_kv_layout(model)->groups[0].page_tokens);
    for (uint32_t i = 0; i < HIT_TOKENS; i++)
        ids[i] = tiny_model_id(tiny, i);
    run_whole(model, &(struct run_whole){.ids = ids, .count = HIT_TOKENS, .chunk = 20, .logits = expected});
    for (uint32_t hit = 0; hit < HIT_TOKENS; hit++) {
        run_hit(model, ids, hit, results);
        for (uint32_t i = hit; i < HIT_TOKENS; i++)
            ck_assert_msg(memcmp(model_logits(model, i - hit), expected + (size_t)i * tiny->vocabulary, row) == 0,
                          "hit %u, position %u", hit, i);
    }
    model_close(model);
    free(expected);
    unlink(path);
}
END_TEST

/* ---- the default model ---- */

START_TEST(the_default_model_is_exact)
{
    struct shuffle_reference reference;
    struct shuffle_result result = {0};
    uint64_t random = test_seed() + 7;
    struct run_args run = {
        .path = test_model_path(), .activations = ACTIVATIONS_INT8, .threads = 1, .context = 320, .rows_max = 64};
    shuffle_reference_open(&reference, &run, 270, 64, test_random(&random));
    for (int draw = 0; draw < (test_long() ? 12 : 4); draw++) {
        const char *const *variants = run_variants();
        run.cpu = variants[1] != NULL ? draw_variant(&random) : variants[0];
        if (!test_long() && variants[1] != NULL && strcmp(run.cpu, "scalar") == 0)
            run.cpu = variants[1]; /* minutes */
        run.threads = 1 + (uint32_t)test_random_below(&random, 4);
        shuffle_run(&reference,
                    &(struct shuffle_draw){.run = run,
                                           .seed = test_random(&random),
                                           .chunk_max = 1 + (uint32_t)test_random_below(&random, 300),
                                           .logits_rows_max = 3,
                                           .sequences = 5},
                    &result);
    }
    print_result("default model", &result);
    ck_assert_uint_gt(result.rows, 20);
    ck_assert_uint_eq(result.different, 0);
    shuffle_reference_close(&reference);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("exactness");
    TCase *shuffle = tcase_create("shuffle"), *split = tcase_create("split"), *hits = tcase_create("hits");
    TCase *whole = tcase_create("default model");
    int cases = sizeof(tiny_cases) / sizeof(tiny_cases[0]);
    tcase_add_loop_test(shuffle, nothing_but_the_ids_matters, 0, cases);
    tcase_add_loop_test(split, a_reduction_split_by_threads_is_noticed, 0, cases);
    tcase_add_loop_test(hits, a_prefix_hit_of_every_length_is_exact, 0, cases);
    tcase_add_test(whole, the_default_model_is_exact);
    suite_add_tcase(s, shuffle);
    suite_add_tcase(s, split);
    suite_add_tcase(s, hits);
    suite_add_tcase(s, whole);
    return s;
}
