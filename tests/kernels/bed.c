#include "tests/kernels/bed.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/unit.h"

const enum tensor_type test_types[TEST_TYPES] = {
    TENSOR_F32,  TENSOR_F16,  TENSOR_BF16, TENSOR_Q4_0, TENSOR_Q4_1, TENSOR_Q5_0,
    TENSOR_Q5_1, TENSOR_Q8_0, TENSOR_Q4_K, TENSOR_Q5_K, TENSOR_Q6_K,
};

struct kv_layout bed_layout(const struct bed_args *args)
{
    struct kv_layer_shape full = {KV_FULL, 0, args->heads > 0 ? args->heads : 1,
                                  args->head_dim > 0 ? args->head_dim : 16};
    struct kv_layer_shape shapes[2] = {full, full};
    struct kv_layout layout;
    struct error error;
    if (args->window > 0) {
        shapes[1].kind = KV_WINDOW;
        shapes[1].window = args->window;
    }
    enum status status =
        kv_layout_plan(shapes, 2, args->block_tokens > 0 ? args->block_tokens : 16, KV_F16, KV_F16, &layout, &error);
    ck_assert_msg(status == STATUS_OK, "%s", error.text);
    return layout;
}

static enum status try_open(const struct bed_args *args, struct kernels **out, struct error *error)
{
    struct kernels_args open = {
        .cpu = args->cpu,
        .threads = args->threads,
        .activations = args->mode,
        .rows_max = args->rows_max,
        .runs_max = 64,
        .context = args->context > 0 ? args->context : 64,
        .query_heads_max = args->query_heads > 0 ? args->query_heads : 1,
        .vocabulary = 100,
        .sample_rows_max = 1,
        .rope_base = 10000.0,
        .rope_dims = args->rope_dims,
        .layout = bed_layout(args),
        .pages = args->pages > 0 ? args->pages : 1,
    };
    return kernels_cpu.open(&open, out, error);
}

struct kernels *bed_open(const struct bed_args *args)
{
    struct kernels *kernels;
    struct error error;
    enum status status = try_open(args, &kernels, &error);
    ck_assert_msg(status == STATUS_OK, "%s", error.text);
    return kernels;
}

void bed_close(struct kernels *kernels)
{
    kernels_cpu.close(kernels);
}

uint32_t bed_variants(const char *names[TEST_VARIANTS_MAX])
{
    static const char *const all[] = {"avx512", "avx2", "scalar"};
    uint32_t count = 0;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        struct bed_args args = {.cpu = all[i], .threads = 1, .rows_max = 1};
        struct kernels *kernels;
        struct error error;
        if (try_open(&args, &kernels, &error) != STATUS_OK)
            continue;
        ck_assert_str_eq(kernels_cpu.variant(kernels), all[i]);
        bed_close(kernels);
        names[count++] = all[i];
    }
    ck_assert_uint_ge(count, 1);
    return count;
}

float bed_normal(uint64_t *random)
{
    double sum = 0;
    for (int i = 0; i < 4; i++)
        sum += test_random_unit(random) - 0.5;
    return (float)(sum * 1.7320508);
}

/* A finite f16 of moderate size, either sign. */
static void put_scale(uint8_t *bytes, uint64_t *random)
{
    uint16_t half = (uint16_t)(0x1c00 + test_random_below(random, 0x0c00));
    half |= (uint16_t)(test_random_below(random, 2) << 15);
    memcpy(bytes, &half, 2);
}

uint8_t *bed_weights(enum tensor_type type, uint32_t rows, uint32_t columns, uint64_t *random)
{
    const struct tensor_type_facts *facts = tensor_type_facts(type);
    size_t blocks = (size_t)rows * (columns / facts->block_elements);
    uint8_t *data = malloc(blocks * facts->block_bytes);
    ck_assert_ptr_nonnull(data);
    for (size_t i = 0; i < blocks * facts->block_bytes; i++)
        data[i] = (uint8_t)test_random(random);
    for (size_t b = 0; b < blocks; b++) {
        uint8_t *block = data + b * facts->block_bytes;
        float value = bed_normal(random);
        if (type == TENSOR_F32)
            memcpy(block, &value, 4);
        else if (type == TENSOR_BF16)
            memcpy(block, (uint8_t *)&value + 2, 2);
        else
            put_scale(type == TENSOR_Q6_K ? block + 208 : block, random);
        if (type == TENSOR_Q4_1 || type == TENSOR_Q5_1 || type == TENSOR_Q4_K || type == TENSOR_Q5_K)
            put_scale(block + 2, random);
    }
    return data;
}

struct matrix *bed_pack(struct kernels *kernels, enum tensor_type type, const void *data, uint32_t rows,
                        uint32_t columns)
{
    struct tensor_view view = {data, type, rows, columns};
    struct matrix *matrix;
    struct error error;
    enum status status = kernels_cpu.matrix_pack(kernels, &view, &matrix, &error);
    ck_assert_msg(status == STATUS_OK, "%s", error.text);
    return matrix;
}

float *bed_floats(struct kernels *kernels, size_t count)
{
    float *floats = kernels_cpu.floats_take(kernels, count);
    ck_assert_ptr_nonnull(floats);
    return floats;
}

float *bed_random(struct kernels *kernels, size_t count, uint64_t *random)
{
    float *floats = bed_floats(kernels, count);
    for (size_t i = 0; i < count; i++)
        floats[i] = bed_normal(random);
    return floats;
}

void bed_equal(const char *what, const float *got, const float *expected, size_t count)
{
    if (memcmp(got, expected, count * sizeof(float)) == 0)
        return;
    size_t i = 0;
    while (memcmp(&got[i], &expected[i], sizeof(float)) == 0)
        i++;
    ck_abort_msg("%s: element %zu is %a, expected %a", what, i, (double)got[i], (double)expected[i]);
}

void bed_near(const char *what, float got, double expected, double scale, double tolerance)
{
    double difference = fabs((double)got - expected);
    if (!(difference <= tolerance * scale))
        ck_abort_msg("%s: got %.9g, expected %.9g, off by %.3g with a scale of %.3g", what, (double)got, expected,
                     difference, scale);
}
