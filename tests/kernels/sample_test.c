/* The operation `sample` on an opened backend: rows are independent, whatever the number of rows and threads. */
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/sample.h"
#include "kernels/kernels.h"
#include "tests/unit/unit.h"

#define VOCABULARY 1000
#define ROWS 17

static struct kernels *open_backend(uint32_t threads)
{
    struct kernels_args args = {
        .cpu = "auto",
        .threads = threads,
        .rows_max = ROWS,
        .runs_max = ROWS,
        .context = 64,
        .query_heads_max = 1,
        .vocabulary = VOCABULARY,
        .sample_rows_max = ROWS,
        .rope_base = 10000,
        .rope_dims = 16,
        .pages = 1,
    };
    struct kv_layer_shape shape = {.kind = KV_FULL, .heads = 1, .head_dim = 16};
    struct kernels *kernels = NULL;
    struct error error;
    enum status status = kv_layout_plan(&shape, 1, 16, KV_F16, KV_F16, &args.layout, &error);
    if (status == STATUS_OK)
        status = kernels_cpu.open(&args, &kernels, &error);
    ck_assert_msg(status == STATUS_OK, "%s", error.text);
    return kernels;
}

static void fill_row(struct sample_row *row, uint64_t *state)
{
    *row = (struct sample_row){
        .temperature = (float)test_random_below(state, 3),
        .top_k = (uint32_t)test_random_below(state, 2) * 20,
        .top_p = test_random_below(state, 2) ? 1 : 0.8f,
        .repetition_penalty = 1,
        .seed = test_random(state),
        .position = (uint32_t)test_random_below(state, 1000),
        .logprobs = (uint32_t)test_random_below(state, 8),
        .scores = test_random_below(state, 4) == 0,
        .scored = (int32_t)test_random_below(state, VOCABULARY),
    };
}

START_TEST(every_row_is_what_it_is_alone)
{
    static float logits[ROWS * VOCABULARY], alone[VOCABULARY];
    static uint64_t scratch[VOCABULARY];
    struct sample_row row[ROWS];
    struct sample_result result[ROWS], expected;
    struct kernels *kernels = open_backend(1 + (uint32_t)_i);
    float *device = kernels_cpu.floats_take(kernels, ROWS * VOCABULARY);
    uint64_t state = test_seed();
    ck_assert_ptr_nonnull(device);
    for (uint32_t rows = 0; rows <= ROWS; rows++) {
        for (uint32_t i = 0; i < ROWS * VOCABULARY; i++)
            logits[i] = (float)(test_random_unit(&state) * 20 - 10);
        for (uint32_t r = 0; r < ROWS; r++)
            fill_row(&row[r], &state);
        memset(result, 0xFF, sizeof(result));
        kernels_cpu.upload(kernels, device, logits, ROWS * VOCABULARY);
        kernels_cpu.sample(kernels,
                           &(struct sample_args){
                               .logits = device, .rows = rows, .vocabulary = VOCABULARY, .row = row, .result = result});
        kernels_cpu.wait(kernels);
        for (uint32_t r = 0; r < rows; r++) {
            memcpy(alone, logits + (size_t)r * VOCABULARY, sizeof(alone));
            sample_draw(alone, VOCABULARY, &row[r], scratch, &expected);
            ck_assert_mem_eq(&result[r], &expected, sizeof(expected));
        }
        for (uint32_t r = rows; r < ROWS; r++)
            ck_assert_int_eq(result[r].id, -1);
    }
    kernels_cpu.floats_give(kernels, device);
    kernels_cpu.close(kernels);
}
END_TEST

Suite *suite(void)
{
    Suite *sample = suite_create("sample operation");
    TCase *cases = tcase_create("sample");
    tcase_add_loop_test(cases, every_row_is_what_it_is_alone, 0, 4);
    suite_add_tcase(sample, cases);
    return sample;
}
