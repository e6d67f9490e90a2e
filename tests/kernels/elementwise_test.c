/* norm and swiglu: near a double-precision twin, the same bits on every variant, hard values included. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/kernels/bed.h"
#include "tests/unit/unit.h"

#define ROWS 7

static const uint32_t column_counts[] = {1, 15, 17, 32, 96, 577, 1536};

struct result {
    float *norm;   /* (ROWS, columns) */
    float *swiglu; /* (ROWS, columns) */
    float *int8;   /* (ROWS, 16): swiglu's result, quantized, times a matrix; columns of whole blocks only */
};

/* Reads a row operation's output through an identity matrix. */
static void read_back(struct kernels *kernels, struct activations *from, const struct matrix *identity, float *out,
                      uint32_t columns)
{
    float *device = bed_floats(kernels, (size_t)ROWS * columns);
    struct matmul_args args = {.input = from, .rows = ROWS, .count = 1, .matrix = {identity}, .out = {device}};
    kernels_cpu.matmul(kernels, &args);
    kernels_cpu.wait(kernels);
    kernels_cpu.download(kernels, out, device, (size_t)ROWS * columns);
    kernels_cpu.floats_give(kernels, device);
}

static struct matrix *identity_matrix(struct kernels *kernels, uint32_t columns)
{
    float *ones = calloc((size_t)columns * columns, sizeof(float));
    for (uint32_t i = 0; i < columns; i++)
        ones[(size_t)i * columns + i] = 1.0f;
    struct matrix *identity = bed_pack(kernels, TENSOR_F32, ones, columns, columns);
    free(ones);
    return identity;
}

static void run(const char *cpu, uint32_t threads, const float *a, const float *b, uint32_t columns,
                const uint8_t *weights, struct result *result)
{
    struct bed_args args = {.cpu = cpu, .threads = threads, .rows_max = ROWS};
    struct kernels *kernels = bed_open(&args);
    bool quantized = columns % 32 == 0;
    const struct matrix *consumers[2] = {identity_matrix(kernels, columns), NULL};
    if (quantized)
        consumers[1] = bed_pack(kernels, TENSOR_Q8_0, weights, 16, columns);
    struct activations *out = kernels_cpu.activations_take(kernels, ROWS, columns, consumers, quantized ? 2 : 1);
    float *x = bed_floats(kernels, (size_t)ROWS * columns), *y = bed_floats(kernels, (size_t)ROWS * columns);
    kernels_cpu.upload(kernels, x, a, (size_t)ROWS * columns);
    kernels_cpu.upload(kernels, y, b, (size_t)ROWS * columns);
    static const uint32_t selected[ROWS] = {6, 0, 0, 3, 2, 1, 5};
    struct norm_args norm = {
        .x = x, .selected = selected, .weight = y, .epsilon = 1e-6f, .rows = ROWS, .columns = columns, .out = out};
    kernels_cpu.norm(kernels, &norm);
    read_back(kernels, out, consumers[0], result->norm, columns);
    struct swiglu_args swiglu = {.gate = x, .up = y, .rows = ROWS, .columns = columns, .out = out};
    kernels_cpu.swiglu(kernels, &swiglu);
    read_back(kernels, out, consumers[0], result->swiglu, columns);
    if (quantized) {
        float *device = bed_floats(kernels, ROWS * 16);
        struct matmul_args matmul = {.input = out, .rows = ROWS, .count = 1, .matrix = {consumers[1]}, .out = {device}};
        kernels_cpu.matmul(kernels, &matmul);
        kernels_cpu.download(kernels, result->int8, device, ROWS * 16);
        kernels_cpu.floats_give(kernels, device);
    }
    kernels_cpu.floats_give(kernels, x);
    kernels_cpu.floats_give(kernels, y);
    kernels_cpu.activations_give(kernels, out);
    for (int i = 0; i < 2; i++)
        kernels_cpu.matrix_free(kernels, (struct matrix *)(uintptr_t)consumers[i]);
    bed_close(kernels);
}

static struct result result_take(uint32_t columns)
{
    return (struct result){
        .norm = calloc((size_t)ROWS * columns, sizeof(float)),
        .swiglu = calloc((size_t)ROWS * columns, sizeof(float)),
        .int8 = calloc(ROWS * 16, sizeof(float)),
    };
}

static void result_free(struct result *result)
{
    free(result->norm);
    free(result->swiglu);
    free(result->int8);
}

static void check_twin(const struct result *result, const float *a, const float *b, uint32_t columns)
{
    static const uint32_t selected[ROWS] = {6, 0, 0, 3, 2, 1, 5};
    for (uint32_t row = 0; row < ROWS; row++) {
        const float *x = a + (size_t)selected[row] * columns;
        double squares = 0;
        for (uint32_t k = 0; k < columns; k++)
            squares += (double)x[k] * x[k];
        for (uint32_t k = 0; k < columns; k++) {
            size_t at = (size_t)row * columns + k;
            double normed = x[k] / sqrt(squares / columns + (double)1e-6f) * b[k];
            double silu = a[at] / (1.0 + exp(-(double)a[at])) * b[at];
            bed_near("norm", result->norm[at], normed, fabs(normed) + 1e-30, 1e-5);
            bed_near("swiglu", result->swiglu[at], silu, fabs(silu) + 1e-30, 1e-6);
        }
    }
}

START_TEST(every_variant_gives_the_same_bits)
{
    uint32_t columns = column_counts[_i];
    uint64_t random = test_seed() * 31 + columns;
    const char *names[TEST_VARIANTS_MAX];
    uint32_t variants = bed_variants(names);
    size_t count = (size_t)ROWS * columns;
    float *a = malloc(count * sizeof(float)), *b = malloc(count * sizeof(float));
    uint8_t *weights = bed_weights(TENSOR_Q8_0, 16, columns / 32 * 32 + 32, &random);
    for (size_t i = 0; i < count; i++) {
        a[i] = bed_normal(&random) * (i % 5 == 0 ? 30.0f : 1.0f);
        b[i] = bed_normal(&random);
    }
    struct result expected = result_take(columns), got = result_take(columns);
    run("scalar", 1, a, b, columns, weights, &expected);
    check_twin(&expected, a, b, columns);
    for (uint32_t v = 0; v < variants; v++)
        for (uint32_t threads = 1; threads <= 3; threads += 2) {
            run(names[v], threads, a, b, columns, weights, &got);
            bed_equal(names[v], got.norm, expected.norm, count);
            bed_equal(names[v], got.swiglu, expected.swiglu, count);
            bed_equal(names[v], got.int8, expected.int8, ROWS * 16);
        }
    result_free(&expected);
    result_free(&got);
    free(a);
    free(b);
    free(weights);
}
END_TEST

/* Zeros, denormals, huge values, infinities and NaNs: nothing crashes, and all variants still agree. */
START_TEST(hard_values_give_the_same_bits)
{
    enum { COLUMNS = 64 };
    static const float hard[] = {0.0f,     -0.0f,   1e-40f,  -1e-45f, 3e38f, -3e38f, 88.3f,    88.4f,
                                 -87.336f, -87.34f, -104.0f, 1e-38f,  1e30f, 0.5f,   1.5e-36f, -88.38f};
    uint64_t random = test_seed();
    const char *names[TEST_VARIANTS_MAX];
    uint32_t variants = bed_variants(names);
    float a[ROWS * COLUMNS], b[ROWS * COLUMNS];
    uint8_t *weights = bed_weights(TENSOR_Q8_0, 16, COLUMNS, &random);
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        a[i] = hard[test_random_below(&random, sizeof(hard) / sizeof(hard[0]))];
        b[i] = i / COLUMNS == 2 ? 1e-38f : 1.0f;
    }
    for (int i = 0; i < COLUMNS; i++)
        a[i] = 1e-39f * (float)i;
    struct result expected = result_take(COLUMNS), got = result_take(COLUMNS);
    run("scalar", 1, a, b, COLUMNS, weights, &expected);
    for (uint32_t v = 0; v < variants; v++) {
        run(names[v], 1, a, b, COLUMNS, weights, &got);
        for (int i = 0; i < ROWS * COLUMNS; i++) {
            ck_assert_int_eq(isnan(got.swiglu[i]), isnan(expected.swiglu[i]));
            ck_assert_int_eq(isnan(got.norm[i]), isnan(expected.norm[i]));
        }
        for (int i = 0; i < ROWS * 16; i++)
            if (isnan(expected.int8[i]))
                ck_assert(isnan(got.int8[i]));
            else
                bed_equal(names[v], &got.int8[i], &expected.int8[i], 1);
    }
    result_free(&expected);
    result_free(&got);
    free(weights);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("elementwise");
    TCase *t = tcase_create("elementwise");
    tcase_add_loop_test(t, every_variant_gives_the_same_bits, 0,
                        (int)(sizeof(column_counts) / sizeof(column_counts[0])));
    tcase_add_test(t, hard_values_give_the_same_bits);
    suite_add_tcase(s, t);
    return s;
}
