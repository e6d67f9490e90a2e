/* Over the CPU backend: each matrix is packed three times, whole, and with either half of its columns zeroed. Adding a
 * zero changes no partial sum, so the two halves are exactly the two parts of a split reduction. One open backend at a
 * time. See split_k.h. */
#include "tests/conformance/split_k.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/base/check.h"

struct split_matrix {
    struct matrix *whole;
    struct matrix *low;
    struct matrix *high;
};

static uint32_t open_threads;

static const struct split_matrix *parts(const struct matrix *matrix)
{
    return (const struct split_matrix *)(const void *)matrix;
}

static enum status split_open(const struct kernels_args *args, struct kernels **out, struct error *error)
{
    open_threads = args->threads;
    return kernels_cpu.open(args, out, error);
}

/* A block of zero bytes decodes to zeros in every type. */
static struct matrix *pack_half(struct kernels *kernels, const struct tensor_view *view, bool low)
{
    const struct tensor_type_facts *facts = tensor_type_facts((uint32_t)view->type);
    size_t row_bytes = (size_t)view->columns / facts->block_elements * facts->block_bytes;
    size_t half = view->columns / facts->block_elements / 2 * facts->block_bytes;
    uint8_t *copy = malloc(row_bytes * view->rows);
    struct tensor_view changed = *view;
    struct matrix *packed;
    struct error error;
    CHECK(copy != NULL);
    memcpy(copy, view->data, row_bytes * view->rows);
    for (size_t row = 0; row < view->rows; row++)
        memset(copy + row * row_bytes + (low ? half : 0), 0, low ? row_bytes - half : half);
    changed.data = copy;
    CHECK(kernels_cpu.matrix_pack(kernels, &changed, &packed, &error) == STATUS_OK);
    free(copy);
    return packed;
}

static enum status split_pack(struct kernels *kernels, const struct tensor_view *view, struct matrix **out,
                              struct error *error)
{
    struct split_matrix *matrix = malloc(sizeof(*matrix));
    CHECK(matrix != NULL);
    enum status status = kernels_cpu.matrix_pack(kernels, view, &matrix->whole, error);
    CHECK(status == STATUS_OK);
    matrix->low = pack_half(kernels, view, true);
    matrix->high = pack_half(kernels, view, false);
    *out = (struct matrix *)(void *)matrix;
    return status;
}

static void split_free(struct kernels *kernels, struct matrix *matrix)
{
    const struct split_matrix *split = parts(matrix);
    kernels_cpu.matrix_free(kernels, split->whole);
    kernels_cpu.matrix_free(kernels, split->low);
    kernels_cpu.matrix_free(kernels, split->high);
    free(matrix);
}

static struct activations *split_activations_take(struct kernels *kernels, uint32_t rows_max, uint32_t columns,
                                                  const struct matrix *const *consumers, uint32_t count)
{
    const struct matrix **whole = malloc(count * sizeof(const struct matrix *));
    CHECK(whole != NULL);
    for (uint32_t i = 0; i < count; i++)
        whole[i] = parts(consumers[i])->whole;
    struct activations *taken = kernels_cpu.activations_take(kernels, rows_max, columns, whole, count);
    free(whole);
    return taken;
}

static void split_embed(struct kernels *kernels, const struct matrix *table, const int32_t *ids, uint32_t rows,
                        float *out)
{
    kernels_cpu.embed(kernels, parts(table)->whole, ids, rows, out);
}

static void split_matmul(struct kernels *kernels, const struct matmul_args *args)
{
    struct matmul_args part = *args;
    for (uint32_t i = 0; i < args->count; i++)
        part.matrix[i] = open_threads > 1 ? parts(args->matrix[i])->low : parts(args->matrix[i])->whole;
    kernels_cpu.matmul(kernels, &part);
    if (open_threads <= 1)
        return;
    for (uint32_t i = 0; i < args->count; i++) {
        part.matrix[i] = parts(args->matrix[i])->high;
        part.bias[i] = NULL;
        part.accumulate[i] = true;
    }
    kernels_cpu.matmul(kernels, &part);
}

/* Everything else is the CPU's; forwarded, since a table of constants cannot be copied from another. */
#define FORWARD(name, parameters, arguments) \
    static void split_##name parameters      \
    {                                        \
        kernels_cpu.name arguments;          \
    }
FORWARD(close, (struct kernels * k), (k))
FORWARD(floats_give, (struct kernels * k, float *floats), (k, floats))
FORWARD(upload, (struct kernels * k, float *to, const float *from, size_t count), (k, to, from, count))
FORWARD(download, (struct kernels * k, float *to, const float *from, size_t count), (k, to, from, count))
FORWARD(activations_give, (struct kernels * k, struct activations *a), (k, a))
FORWARD(norm, (struct kernels * k, const struct norm_args *a), (k, a))
FORWARD(rope_append, (struct kernels * k, const struct rope_append_args *a), (k, a))
FORWARD(attention, (struct kernels * k, const struct attention_args *a), (k, a))
FORWARD(swiglu, (struct kernels * k, const struct swiglu_args *a), (k, a))
FORWARD(sample, (struct kernels * k, const struct sample_args *a), (k, a))
FORWARD(kv_copy_rows, (struct kernels * k, const struct kv_copy_args *a), (k, a))
FORWARD(kv_poison, (struct kernels * k, uint32_t page), (k, page))
FORWARD(wait, (struct kernels * k), (k))

static const char *split_variant(const struct kernels *kernels)
{
    return kernels_cpu.variant(kernels);
}

static struct kernels_memory split_memory(const struct kernels *kernels)
{
    return kernels_cpu.memory(kernels);
}

static float *split_floats_take(struct kernels *kernels, size_t count)
{
    return kernels_cpu.floats_take(kernels, count);
}

const struct kernel_ops split_k_ops = {
    .name = "split-k",
    .open = split_open,
    .close = split_close,
    .variant = split_variant,
    .memory = split_memory,
    .matrix_pack = split_pack,
    .matrix_free = split_free,
    .floats_take = split_floats_take,
    .floats_give = split_floats_give,
    .upload = split_upload,
    .download = split_download,
    .activations_take = split_activations_take,
    .activations_give = split_activations_give,
    .embed = split_embed,
    .norm = split_norm,
    .matmul = split_matmul,
    .rope_append = split_rope_append,
    .attention = split_attention,
    .swiglu = split_swiglu,
    .sample = split_sample,
    .kv_copy_rows = split_kv_copy_rows,
    .kv_poison = split_kv_poison,
    .wait = split_wait,
};
