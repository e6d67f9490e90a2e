/* matmul in every type, mode, variant, row count and thread count: near a double-precision twin, and the same bits. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/kernels/bed.h"
#include "tests/unit/unit.h"

#define ROWS 61
#define QUANT 32

/* Everything one case computes; outputs (ROWS, outputs) each. */
struct matmul_case {
    enum tensor_type type;
    uint32_t outputs;
    uint32_t columns;
    enum activation_mode mode;
    uint8_t *weights;
    float *x;    /* (ROWS, columns) */
    float *bias; /* (outputs) */
    float *held; /* (ROWS, outputs): what out holds before */
};

static float *host_random(size_t count, uint64_t *random)
{
    float *floats = malloc(count * sizeof(float));
    ck_assert_ptr_nonnull(floats);
    for (size_t i = 0; i < count; i++)
        floats[i] = bed_normal(random) * (test_random_below(random, 50) == 0 ? 20.0f : 1.0f);
    return floats;
}

static struct matmul_case case_make(enum tensor_type type, uint32_t outputs, uint32_t columns,
                                    enum activation_mode mode, uint64_t *random)
{
    struct matmul_case c = {.type = type, .outputs = outputs, .columns = columns, .mode = mode};
    c.weights = bed_weights(type, outputs, columns, random);
    c.x = host_random((size_t)ROWS * columns, random);
    c.bias = host_random(outputs, random);
    c.held = host_random((size_t)ROWS * outputs, random);
    memset(c.x, 0, columns * sizeof(float)); /* a row of zeros */
    return c;
}

static void case_free(struct matmul_case *c)
{
    free(c->weights);
    free(c->x);
    free(c->bias);
    free(c->held);
}

static struct activations *take(struct kernels *kernels, uint32_t rows, uint32_t columns, const struct matrix *a,
                                const struct matrix *b)
{
    const struct matrix *consumers[2] = {a, b};
    struct activations *taken = kernels_cpu.activations_take(kernels, rows, columns, consumers, 2);
    ck_assert_ptr_nonnull(taken);
    return taken;
}

/* Puts x through norm with weights that are powers of two, so that all variants see hard inputs. */
static void run_norm(struct kernels *kernels, const struct matmul_case *c, uint32_t first, uint32_t rows,
                     struct activations *out)
{
    float *x = bed_floats(kernels, (size_t)rows * c->columns);
    float *weight = bed_floats(kernels, c->columns);
    kernels_cpu.upload(kernels, x, c->x + (size_t)first * c->columns, (size_t)rows * c->columns);
    for (uint32_t k = 0; k < c->columns; k++)
        weight[k] = (float)(1 << k % 3);
    struct norm_args norm = {
        .x = x, .weight = weight, .epsilon = 1e-5f, .rows = rows, .columns = c->columns, .out = out};
    kernels_cpu.norm(kernels, &norm);
    kernels_cpu.floats_give(kernels, x);
    kernels_cpu.floats_give(kernels, weight);
}

/* Rows first .. first + rows - 1 of the case on one backend: plain into out[0], with bias and residual into out[1]. */
static void run_case(struct kernels *kernels, const struct matmul_case *c, uint32_t first, uint32_t rows, float *out[2])
{
    struct matrix *matrix = bed_pack(kernels, c->type, c->weights, c->outputs, c->columns);
    struct activations *input = take(kernels, rows, c->columns, matrix, matrix);
    float *device[2], *bias = bed_floats(kernels, c->outputs);
    size_t count = (size_t)rows * c->outputs;

    run_norm(kernels, c, first, rows, input);
    for (int i = 0; i < 2; i++)
        device[i] = bed_floats(kernels, count);
    kernels_cpu.upload(kernels, bias, c->bias, c->outputs);
    kernels_cpu.upload(kernels, device[1], c->held + (size_t)first * c->outputs, count);
    struct matmul_args args = {
        .input = input,
        .rows = rows,
        .count = 2,
        .matrix = {matrix, matrix},
        .bias = {NULL, bias},
        .out = {device[0], device[1]},
        .accumulate = {false, true},
    };
    kernels_cpu.matmul(kernels, &args);
    kernels_cpu.wait(kernels);
    for (int i = 0; i < 2; i++) {
        kernels_cpu.download(kernels, out[i], device[i], count);
        kernels_cpu.floats_give(kernels, device[i]);
    }
    kernels_cpu.floats_give(kernels, bias);
    kernels_cpu.activations_give(kernels, input);
    kernels_cpu.matrix_free(kernels, matrix);
}

/* The activations as the contract quantizes them, in double; or as they are. */
static void twin_activations(const struct matmul_case *c, uint32_t row, bool quantized, double *out)
{
    const float *x = c->x + (size_t)row * c->columns;
    double sum = 0;
    for (uint32_t k = 0; k < c->columns; k++)
        sum += (double)x[k] * x[k];
    double scale = 1.0 / sqrt(sum / c->columns + (double)1e-5f);
    for (uint32_t k = 0; k < c->columns; k++)
        out[k] = x[k] * scale * (1 << k % 3);
    for (uint32_t b = 0; quantized && b < c->columns; b += QUANT) {
        double amax = 0;
        for (uint32_t k = b; k < b + QUANT; k++)
            amax = fmax(amax, fabs(out[k]));
        for (uint32_t k = b; k < b + QUANT && amax > 0; k++)
            out[k] = nearbyint(out[k] * 127 / amax) * amax / 127;
    }
}

/* A value that lies between two integers may round either way in float: what one step of one element is worth. */
static void check_twin(const struct matmul_case *c, float *const out[2])
{
    bool quantized = c->mode == ACTIVATIONS_INT8 && tensor_type_facts(c->type)->block_elements > 1;
    float *weights = malloc((size_t)c->outputs * c->columns * sizeof(float));
    double *x = malloc(c->columns * sizeof(double));
    tensor_dequantize(c->type, c->weights, (size_t)c->outputs * c->columns, weights);
    for (uint32_t row = 0; row < ROWS; row++) {
        twin_activations(c, row, quantized, x);
        for (uint32_t o = 0; o < c->outputs; o++) {
            double sum = 0, scale = 1e-30;
            for (uint32_t k = 0; k < c->columns; k++) {
                sum += weights[(size_t)o * c->columns + k] * x[k];
                scale += fabs(weights[(size_t)o * c->columns + k] * x[k]);
            }
            size_t at = (size_t)row * c->outputs + o;
            double expected = (double)c->held[at] + sum + c->bias[o];
            bed_near("plain", out[0][at], sum, scale, quantized ? 2e-3 : 2e-6);
            bed_near("with bias and residual", out[1][at], expected, scale + fabs(c->held[at]) + fabs(c->bias[o]),
                     quantized ? 2e-3 : 2e-6);
        }
    }
    free(weights);
    free(x);
}

static void outputs_take(const struct matmul_case *c, float *out[2])
{
    for (int i = 0; i < 2; i++) {
        out[i] = malloc((size_t)ROWS * c->outputs * sizeof(float));
        ck_assert_ptr_nonnull(out[i]);
    }
}

static void compare(const struct matmul_case *c, float *const got[2], float *const expected[2], uint32_t first,
                    uint32_t rows, const char *cpu, uint32_t threads)
{
    char what[160];
    snprintf(what, sizeof(what), "%s (%u, %u) mode %d, %s, %u threads, rows %u+%u", tensor_type_facts(c->type)->name,
             c->outputs, c->columns, (int)c->mode, cpu, threads, first, rows);
    for (int i = 0; i < 2; i++)
        bed_equal(what, got[i], expected[i] + (size_t)first * c->outputs, (size_t)rows * c->outputs);
}

/* All variants against what scalar computed for all rows at once. */
static void check_bits(const struct matmul_case *c, float *const expected[2], uint64_t *random)
{
    static const uint32_t row_counts[] = {1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11,
                                          12, 13, 14, 15, 16, 17, 18, 19, 20, 29, 61};
    const char *names[TEST_VARIANTS_MAX];
    uint32_t variants = bed_variants(names);
    float *got[2];
    outputs_take(c, got);
    for (uint32_t v = 0; v < variants; v++) {
        uint32_t threads = 1 + (uint32_t)test_random_below(random, 4);
        struct bed_args args = {.cpu = names[v], .threads = threads, .mode = c->mode, .rows_max = ROWS};
        struct kernels *kernels = bed_open(&args);
        for (size_t i = 0; i < sizeof(row_counts) / sizeof(row_counts[0]); i++) {
            uint32_t rows = row_counts[i];
            uint32_t first = (uint32_t)test_random_below(random, ROWS - rows + 1);
            if (strcmp(names[v], "scalar") == 0 && i % 7 != 3)
                continue;
            run_case(kernels, c, first, rows, got);
            compare(c, got, expected, first, rows, names[v], threads);
        }
        bed_close(kernels);
    }
    for (int i = 0; i < 2; i++)
        free(got[i]);
}

static void check_case(enum tensor_type type, uint32_t outputs, uint32_t columns, enum activation_mode mode,
                       uint64_t *random)
{
    struct bed_args scalar = {.cpu = "scalar", .threads = 1, .mode = mode, .rows_max = ROWS};
    struct matmul_case c = case_make(type, outputs, columns, mode, random);
    struct kernels *kernels = bed_open(&scalar);
    float *expected[2];
    outputs_take(&c, expected);
    run_case(kernels, &c, 0, ROWS, expected);
    bed_close(kernels);
    check_twin(&c, expected);
    check_bits(&c, expected, random);
    for (int i = 0; i < 2; i++)
        free(expected[i]);
    case_free(&c);
}

static void check_type(enum tensor_type type, enum activation_mode mode)
{
    static const uint32_t outputs[] = {1, 15, 16, 17, 50, 130};
    static const uint32_t blocks[] = {1, 3, 2, 5, 18, 4};
    uint64_t random = test_seed() * 1000 + type;
    uint32_t block = tensor_type_facts(type)->block_elements;
    for (size_t i = 0; i < sizeof(outputs) / sizeof(outputs[0]); i++) {
        uint32_t columns = blocks[i] * block;
        if (block == 1)
            columns = (uint32_t[]){1, 17, 100, 64, 577, 33}[i];
        else if (block == 256)
            columns = (blocks[i] + 1) / 2 * block;
        check_case(type, outputs[i], columns, mode, &random);
    }
}

START_TEST(int8_activations_give_the_same_bits_everywhere)
{
    check_type(test_types[_i], ACTIVATIONS_INT8);
}
END_TEST

START_TEST(float_activations_give_the_same_bits_everywhere)
{
    check_type(test_types[_i], ACTIVATIONS_F32);
}
END_TEST

/* Many rows and outputs, so that slabs and chunks of the work division come into play. */
START_TEST(large_products_do_not_depend_on_their_division)
{
    enum { OUTPUTS = 700, COLUMNS = 2048, LARGE_ROWS = 260 };
    uint64_t random = test_seed() + 77;
    const char *names[TEST_VARIANTS_MAX];
    bed_variants(names);
    uint8_t *weights = bed_weights(TENSOR_Q4_1, OUTPUTS, COLUMNS, &random);
    float *x = host_random((size_t)LARGE_ROWS * COLUMNS, &random);
    float *first = malloc((size_t)LARGE_ROWS * OUTPUTS * sizeof(float));
    for (uint32_t threads = 1; threads <= 4; threads++) {
        struct bed_args args = {.cpu = names[0], .threads = threads, .rows_max = LARGE_ROWS};
        struct kernels *kernels = bed_open(&args);
        struct matrix *matrix = bed_pack(kernels, TENSOR_Q4_1, weights, OUTPUTS, COLUMNS);
        struct activations *input = take(kernels, LARGE_ROWS, COLUMNS, matrix, matrix);
        struct matmul_case c = {.columns = COLUMNS, .x = x};
        float *out = bed_floats(kernels, (size_t)LARGE_ROWS * OUTPUTS);
        run_norm(kernels, &c, 0, LARGE_ROWS, input);
        struct matmul_args matmul = {.input = input, .rows = LARGE_ROWS, .count = 1, .matrix = {matrix}, .out = {out}};
        kernels_cpu.matmul(kernels, &matmul);
        if (threads == 1)
            memcpy(first, out, (size_t)LARGE_ROWS * OUTPUTS * sizeof(float));
        bed_equal("threads", out, first, (size_t)LARGE_ROWS * OUTPUTS);
        kernels_cpu.floats_give(kernels, out);
        kernels_cpu.activations_give(kernels, input);
        kernels_cpu.matrix_free(kernels, matrix);
        bed_close(kernels);
    }
    free(weights);
    free(x);
    free(first);
}
END_TEST

START_TEST(quantized_weights_stay_quantized)
{
    uint64_t random = test_seed();
    struct bed_args args = {.cpu = "scalar", .threads = 1, .rows_max = 1};
    for (int t = 0; t < TEST_TYPES; t++) {
        struct kernels *kernels = bed_open(&args);
        const struct tensor_type_facts *facts = tensor_type_facts(test_types[t]);
        uint8_t *weights = bed_weights(test_types[t], 64, 1024, &random);
        struct matrix *matrix = bed_pack(kernels, test_types[t], weights, 64, 1024);
        double file = 64.0 * 1024 / facts->block_elements * facts->block_bytes;
        double packed = (double)kernels_cpu.memory(kernels).weights_bytes;
        ck_assert_msg(packed >= file && packed <= 1.04 * file, "%s takes %.3f of its file size", facts->name,
                      packed / file);
        kernels_cpu.matrix_free(kernels, matrix);
        ck_assert_uint_eq(kernels_cpu.memory(kernels).weights_bytes, 0);
        bed_close(kernels);
        free(weights);
    }
}
END_TEST

START_TEST(embedding_rows_are_what_dequantizing_gives)
{
    enum { ROWS_OF_TABLE = 37, COLUMNS = 512 };
    enum tensor_type type = test_types[_i];
    uint64_t random = test_seed() + type;
    struct bed_args args = {.cpu = "auto", .threads = 2, .rows_max = 40};
    struct kernels *kernels = bed_open(&args);
    uint8_t *weights = bed_weights(type, ROWS_OF_TABLE, COLUMNS, &random);
    struct matrix *matrix = bed_pack(kernels, type, weights, ROWS_OF_TABLE, COLUMNS);
    float *expected = malloc(sizeof(float) * ROWS_OF_TABLE * COLUMNS);
    float *out = bed_floats(kernels, (size_t)40 * COLUMNS);
    int32_t ids[40];
    tensor_dequantize(type, weights, (size_t)ROWS_OF_TABLE * COLUMNS, expected);
    for (int i = 0; i < 40; i++)
        ids[i] = (int32_t)test_random_below(&random, ROWS_OF_TABLE);
    kernels_cpu.embed(kernels, matrix, ids, 40, out);
    kernels_cpu.wait(kernels);
    for (int i = 0; i < 40; i++)
        bed_equal(tensor_type_facts(type)->name, out + (size_t)i * COLUMNS, expected + (size_t)ids[i] * COLUMNS,
                  COLUMNS);
    kernels_cpu.floats_give(kernels, out);
    kernels_cpu.matrix_free(kernels, matrix);
    bed_close(kernels);
    free(weights);
    free(expected);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("matmul");
    TCase *t = tcase_create("matmul");
    tcase_add_loop_test(t, int8_activations_give_the_same_bits_everywhere, 0, TEST_TYPES);
    tcase_add_loop_test(t, float_activations_give_the_same_bits_everywhere, 0, TEST_TYPES);
    tcase_add_test(t, large_products_do_not_depend_on_their_division);
    tcase_add_test(t, quantized_weights_stay_quantized);
    tcase_add_loop_test(t, embedding_rows_are_what_dequantizing_gives, 0, TEST_TYPES);
    suite_add_tcase(s, t);
    return s;
}
