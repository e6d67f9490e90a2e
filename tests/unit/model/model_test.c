/* Opening a model, its fingerprint and memory, and what one step gives back. Arithmetic is for tests/conformance. */
#include "tests/unit/unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "model/batch.h"
#include "model/model.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/tiny_model.h"

#define VOCABULARY 96

static const struct sample_row greedy = {.top_p = 1, .repetition_penalty = 1};

static struct model_file *tiny_file(const struct tiny_model *tiny)
{
    char path[TINY_PATH_BYTES];
    struct model_file *file;
    struct error error;
    tiny_model_save(tiny, path);
    ck_assert_msg(model_file_open(path, &file, &error) == STATUS_OK, "%s", error.text);
    unlink(path);
    return file;
}

static struct model_args small_args(void)
{
    return (struct model_args){.ops = &kernels_cpu,
                               .threads = 1,
                               .context = 128,
                               .block_tokens = 32,
                               .kv_bytes = 1 << 20,
                               .rows_max = 64,
                               .sequences_max = 4,
                               .logits_rows_max = 64};
}

static struct model *open_tiny(const char *name)
{
    struct model_file *file = tiny_file(tiny_model_named(name));
    struct model_args args = small_args();
    struct model *model;
    struct error error;
    ck_assert_msg(model_open(file, &args, &model, &error) == STATUS_OK, "%s", error.text);
    model_file_close(file); /* an open model does not need it */
    model_keep_logits(model, true);
    return model;
}

static void assert_refused(const struct model_args *args, const char *field, const char *words)
{
    struct model_file *file = tiny_file(tiny_model_named("f32"));
    struct model *model;
    struct error error;
    ck_assert_int_eq(model_open(file, args, &model, &error), STATUS_INVALID);
    ck_assert_ptr_null(model);
    ck_assert_str_eq(error.field, field);
    ck_assert_msg(strstr(error.text, words) != NULL, "'%s' does not say '%s'", error.text, words);
    model_file_close(file);
}

START_TEST(refuses_kv_memory_too_small_for_one_sequence)
{
    struct model_args args = small_args();
    args.kv_bytes = 4 * 32 * 384 - 1; /* 3 layers, 2 KV heads of 16 elements, K and V, half: 384 bytes a token */
    assert_refused(&args, "kv-memory", "one sequence of 128 tokens needs 0.0 MiB (49152 bytes)");
}
END_TEST

START_TEST(refuses_a_context_longer_than_the_model_was_trained_for)
{
    struct model_args args = small_args();
    args.context = 513;
    assert_refused(&args, "context", "--context is 513; the model was trained for at most 512 tokens");
}
END_TEST

START_TEST(an_unset_context_is_the_trained_one)
{
    struct model_file *file = tiny_file(tiny_model_named("f32"));
    struct model_args args = small_args();
    struct model *model;
    struct error error;
    args.context = 0;
    ck_assert_msg(model_open(file, &args, &model, &error) == STATUS_OK, "%s", error.text);
    ck_assert_uint_eq(model_context(model), 512);
    ck_assert_uint_eq(model_kv_pages(model), (1 << 20) / model_kv_layout(model)->page_bytes);
    model_close(model);
    model_file_close(file);
}
END_TEST

struct seen {
    double last;
    int calls;
};

static void see_progress(void *context, double part)
{
    struct seen *seen = context;
    ck_assert(part >= seen->last && part <= 1);
    seen->last = part;
    seen->calls++;
}

START_TEST(reports_progress_up_to_the_end)
{
    struct model_file *file = tiny_file(tiny_model_named("q8_0"));
    struct model_args args = small_args();
    struct seen seen = {0, 0};
    struct model *model;
    struct error error;
    args.progress = see_progress;
    args.progress_context = &seen;
    ck_assert_msg(model_open(file, &args, &model, &error) == STATUS_OK, "%s", error.text);
    ck_assert_int_gt(seen.calls, 10);
    ck_assert(seen.last == 1);
    ck_assert_uint_gt(model_memory(model).weights_bytes, 0);
    ck_assert_uint_eq(model_memory(model).kv_bytes, model_kv_pages(model) * model_kv_layout(model)->page_bytes);
    model_close(model);
    model_file_close(file);
}
END_TEST

static struct model_fingerprint fingerprint_of(struct tiny_model tiny, size_t flipped)
{
    char path[TINY_PATH_BYTES];
    struct buffer bytes = {0};
    struct model_args args = small_args();
    struct model_file *file;
    struct model *model;
    struct error error;
    tiny_model_save(&tiny, path);
    tiny_model_write(&tiny, &bytes);
    if (flipped > 0)
        bytes.data[bytes.size - flipped] ^= 1;
    gguf_save(&bytes, path);
    ck_assert_msg(model_file_open(path, &file, &error) == STATUS_OK, "%s", error.text);
    ck_assert_msg(model_open(file, &args, &model, &error) == STATUS_OK, "%s", error.text);
    struct model_fingerprint fingerprint = model_fingerprint(model);
    model_close(model);
    model_file_close(file);
    unlink(path);
    buffer_free(&bytes);
    return fingerprint;
}

static bool same_fingerprint(struct model_fingerprint a, struct model_fingerprint b)
{
    return a.low == b.low && a.high == b.high;
}

static void add_nothing_that_matters(struct gguf_writer *w)
{
    gguf_text(w, "general.description", "the same weights in another file");
}

START_TEST(fingerprints_are_equal_only_for_equal_weights)
{
    struct tiny_model tiny = *tiny_model_named("q4_1"), described = tiny, seeded = tiny;
    described.add = add_nothing_that_matters;
    seeded.seed++;
    struct model_fingerprint first = fingerprint_of(tiny, 0);
    ck_assert(first.low != 0 && first.high != 0);
    ck_assert(same_fingerprint(first, fingerprint_of(tiny, 0)));
    ck_assert(same_fingerprint(first, fingerprint_of(described, 0)));
    ck_assert(!same_fingerprint(first, fingerprint_of(seeded, 0)));
    for (size_t flipped = 1; flipped < 4000; flipped += 777)
        ck_assert(!same_fingerprint(first, fingerprint_of(tiny, flipped)));
}
END_TEST

/* ---- a step ---- */

static const uint32_t some_pages[] = {5, 2, 9, 7}, other_pages[] = {1, 0, 3, 4};
static const int32_t some_ids[] = {3, 1, 4, 1, 5, 9, 2, 6}, other_ids[] = {2, 7, 1, 8};

static enum status step(struct model *model, const struct batch_sequence *sequences, uint32_t count,
                        const atomic_bool *abandon, struct sample_result *results)
{
    model_step_submit(model, &(struct batch){.sequences = sequences, .sequence_count = count, .abandon = abandon});
    return model_step_collect(model, results);
}

static int32_t most_probable(const float *logits)
{
    int32_t best = 0;
    for (int32_t i = 1; i < VOCABULARY; i++)
        if (logits[i] > logits[best])
            best = i;
    return best;
}

START_TEST(results_come_in_the_order_of_sequences_rows_and_draws)
{
    struct model *model = open_tiny("f32");
    struct sample_row draws[6] = {greedy, greedy, greedy, greedy, greedy, greedy};
    struct sample_result results[5];
    float rows[3][VOCABULARY];
    struct batch_sequence sequences[] = {
        {.ids = some_ids, .count = 8, .pages = {some_pages}, .sample = draws, .sample_count = 1, .logits_rows = 3},
        {.ids = other_ids, .count = 4, .pages = {other_pages}, .sample = draws, .sample_count = 2},
    };
    ck_assert_int_eq(step(model, sequences, 2, NULL, results), STATUS_OK);
    for (uint32_t i = 0; i < 5; i++)
        ck_assert_int_eq(results[i].id, most_probable(model_logits(model, i)));
    ck_assert_ptr_null(model_logits(model, 5));
    ck_assert_mem_eq(model_logits(model, 3), model_logits(model, 4), sizeof(rows[0])); /* drawn from twice */
    for (uint32_t i = 0; i < 3; i++)
        memcpy(rows[i], model_logits(model, i), sizeof(rows[i]));
    /* The same three rows, one by one. */
    for (uint32_t i = 0; i < 3; i++) {
        struct batch_sequence one = {
            .ids = some_ids, .count = 6 + i, .pages = {some_pages}, .sample = draws, .sample_count = 1};
        ck_assert_int_eq(step(model, &one, 1, NULL, results), STATUS_OK);
        ck_assert_mem_eq(model_logits(model, 0), rows[i], sizeof(rows[i]));
    }
    model_close(model);
}
END_TEST

START_TEST(a_sequence_that_draws_nothing_gives_no_results)
{
    struct model *model = open_tiny("f32");
    struct sample_result result;
    struct batch_sequence sequences[] = {
        {.ids = some_ids, .count = 8, .pages = {some_pages}},
        {.ids = other_ids, .count = 4, .pages = {other_pages}, .sample = &greedy, .sample_count = 1},
    };
    ck_assert_int_eq(step(model, sequences, 2, NULL, &result), STATUS_OK);
    ck_assert_int_eq(result.id, most_probable(model_logits(model, 0)));
    ck_assert_ptr_null(model_logits(model, 1));
    ck_assert_int_eq(step(model, sequences, 1, NULL, NULL), STATUS_OK);
    ck_assert_ptr_null(model_logits(model, 0));
    ck_assert_int_eq(step(model, NULL, 0, NULL, NULL), STATUS_OK);
    model_close(model);
}
END_TEST

START_TEST(an_abandoned_step_can_be_run_again)
{
    struct model *model = open_tiny("q8_0");
    struct sample_result result;
    float expected[VOCABULARY];
    struct batch_sequence sequence = {
        .ids = some_ids, .count = 8, .pages = {some_pages}, .sample = &greedy, .sample_count = 1};
    atomic_bool abandon = false;
    ck_assert_int_eq(step(model, &sequence, 1, &abandon, &result), STATUS_OK);
    memcpy(expected, model_logits(model, 0), sizeof(expected));
    atomic_store(&abandon, true);
    ck_assert_int_eq(step(model, &sequence, 1, &abandon, &result), STATUS_CANCELLED);
    ck_assert_ptr_null(model_logits(model, 0));
    atomic_store(&abandon, false);
    ck_assert_int_eq(step(model, &sequence, 1, &abandon, &result), STATUS_OK);
    ck_assert_mem_eq(model_logits(model, 0), expected, sizeof(expected));
    model_close(model);
}
END_TEST

START_TEST(a_read_of_a_poisoned_page_shows)
{
    struct model *model = open_tiny("f32");
    struct sample_result result;
    struct batch_sequence sequence = {.ids = some_ids, .count = 7, .pages = {some_pages}};
    struct batch_sequence last = {
        .ids = some_ids + 7, .count = 1, .position = 7, .pages = {some_pages}, .sample = &greedy, .sample_count = 1};
    ck_assert_int_eq(step(model, &sequence, 1, NULL, NULL), STATUS_OK);
    ck_assert_int_eq(step(model, &last, 1, NULL, &result), STATUS_OK);
    ck_assert(isfinite(model_logits(model, 0)[0]));
    model_kv_poison(model, some_pages[0]);
    ck_assert_int_eq(step(model, &last, 1, NULL, &result), STATUS_OK);
    ck_assert(isnan(model_logits(model, 0)[0]));
    model_close(model);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("model");
    TCase *t = tcase_create("model");
    tcase_add_test(t, refuses_kv_memory_too_small_for_one_sequence);
    tcase_add_test(t, refuses_a_context_longer_than_the_model_was_trained_for);
    tcase_add_test(t, an_unset_context_is_the_trained_one);
    tcase_add_test(t, reports_progress_up_to_the_end);
    tcase_add_test(t, fingerprints_are_equal_only_for_equal_weights);
    tcase_add_test(t, results_come_in_the_order_of_sequences_rows_and_draws);
    tcase_add_test(t, a_sequence_that_draws_nothing_gives_no_results);
    tcase_add_test(t, an_abandoned_step_can_be_run_again);
    tcase_add_test(t, a_read_of_a_poisoned_page_shows);
    suite_add_tcase(s, t);
    return s;
}
