/* Row operations: embed, norm, rope and append, swiglu. Workers share rows; little work stays with the caller, for whom
 * waking the others would take longer. */
#include <string.h>

#include "kernels/base/check.h"
#include "kernels/cpu/cpu.h"

#define ALONE_ELEMENTS 8192u

typedef void row_body(const struct kernels *kernels, const void *args, uint32_t row, uint32_t worker);

struct row_job {
    const struct kernels *kernels;
    row_body *body;
    const void *args;
    uint32_t rows;
};

static void do_rows(void *context, uint32_t worker)
{
    const struct row_job *job = context;
    uint32_t workers = job->kernels->workers;
    uint32_t end = pool_share(job->rows, worker + 1, workers);
    for (uint32_t row = pool_share(job->rows, worker, workers); row < end; row++)
        job->body(job->kernels, job->args, row, worker);
}

static void for_rows(const struct kernels *kernels, row_body *body, const void *args, uint32_t rows, size_t elements)
{
    struct row_job job = {kernels, body, args, rows};
    if (rows > 1 && rows * elements > ALONE_ELEMENTS) {
        pool_run(kernels->pool, do_rows, &job);
        return;
    }
    for (uint32_t row = 0; row < rows; row++)
        body(kernels, args, row, 0);
}

void cpu_store_row(const struct kernels *kernels, struct activations *out, uint32_t row, const float *x)
{
    if (out->floats != NULL && x != out->floats + (size_t)row * out->columns)
        memcpy(out->floats + (size_t)row * out->columns, x, out->columns * sizeof(float));
    if (out->quantized != NULL)
        kernels->variant->quantize_row(x, out->blocks, activations_group(out, row), row % ACTIVATION_GROUP);
}

float *cpu_row_buffer(const struct kernels *kernels, struct activations *out, uint32_t row, uint32_t worker)
{
    if (out->floats != NULL)
        return out->floats + (size_t)row * out->columns;
    return worker_scratch(kernels, worker);
}

struct embed_args {
    const struct matrix *table;
    const int32_t *ids;
    float *out;
};

static void embed_row(const struct kernels *kernels, const void *context, uint32_t row, uint32_t worker)
{
    const struct embed_args *args = context;
    (void)kernels;
    (void)worker;
    matrix_row_read(args->table, (uint32_t)args->ids[row], args->out + (size_t)row * args->table->columns);
}

void cpu_embed(struct kernels *kernels, const struct matrix *table, const int32_t *ids, uint32_t rows, float *out)
{
    struct embed_args args = {table, ids, out};
    for (uint32_t row = 0; row < rows; row++)
        CHECK(ids[row] >= 0 && (uint32_t)ids[row] < table->rows);
    for_rows(kernels, embed_row, &args, rows, table->columns);
}

static void norm_row(const struct kernels *kernels, const void *context, uint32_t row, uint32_t worker)
{
    const struct norm_args *args = context;
    uint32_t source = args->selected != NULL ? args->selected[row] : row;
    float *y = cpu_row_buffer(kernels, args->out, row, worker);
    kernels->variant->norm_row(args->x + (size_t)source * args->columns, args->weight, args->epsilon, args->columns, y);
    cpu_store_row(kernels, args->out, row, y);
}

void cpu_norm(struct kernels *kernels, const struct norm_args *args)
{
    CHECK(args->columns == args->out->columns && args->rows <= args->out->rows_max);
    for_rows(kernels, norm_row, args, args->rows, args->columns);
}

static void swiglu_row(const struct kernels *kernels, const void *context, uint32_t row, uint32_t worker)
{
    const struct swiglu_args *args = context;
    size_t at = (size_t)row * args->columns;
    float *y = cpu_row_buffer(kernels, args->out, row, worker);
    kernels->variant->swiglu_row(args->gate + at, args->up + at, args->columns, y);
    cpu_store_row(kernels, args->out, row, y);
}

void cpu_swiglu(struct kernels *kernels, const struct swiglu_args *args)
{
    CHECK(args->columns == args->out->columns && args->rows <= args->out->rows_max);
    for_rows(kernels, swiglu_row, args, args->rows, args->columns);
}

/* The run that a row of the step belongs to; runs cover the rows, in any order. */
static const struct row_run *find_run(const struct rope_append_args *args, uint32_t row)
{
    for (uint32_t i = 0; i < args->run_count; i++)
        if (row - args->runs[i].first_row < args->runs[i].rows)
            return &args->runs[i];
    return NULL;
}

/* K of one token is a column of its page, V a row. */
static void store_k(uint8_t *page_k, const uint16_t *halves, uint32_t head_dim, uint32_t page_tokens, uint32_t slot)
{
    uint16_t *column = (uint16_t *)(void *)page_k + slot;
    for (uint32_t dim = 0; dim < head_dim; dim++)
        column[(size_t)dim * page_tokens] = halves[dim];
}

static void rope_append_row(const struct kernels *kernels, const void *context, uint32_t row, uint32_t worker)
{
    const struct rope_append_args *args = context;
    const struct cpu_variant *variant = kernels->variant;
    const struct kv_layout *layout = &kernels->args.layout;
    uint32_t group_index = layout->layer_group[args->layer], layer = layout->layer_index[args->layer];
    const struct kv_group *group = &layout->groups[group_index];
    uint32_t head_dim = group->head_dim, dims = kernels->args.rope_dims;
    const struct row_run *run = find_run(args, row);
    (void)worker;
    if (run == NULL)
        return;
    uint32_t position = run->first_position + (row - run->first_row);
    const float *table = kernels->rope + (size_t)position * dims;
    uint32_t page = run->pages[group_index][position / group->page_tokens];
    uint32_t slot = position % group->page_tokens;
    uint8_t *base = kernels->kv + page * layout->page_bytes;

    for (uint32_t head = 0; head < args->query_heads; head++)
        variant->rope_head(args->q + ((size_t)row * args->query_heads + head) * head_dim, table, dims);
    for (uint32_t head = 0; head < group->heads; head++) {
        float rotated[KV_HEAD_DIM_MAX];
        uint16_t halves[KV_HEAD_DIM_MAX];
        size_t at = ((size_t)row * group->heads + head) * head_dim;
        memcpy(rotated, args->k + at, head_dim * sizeof(float));
        variant->rope_head(rotated, table, dims);
        variant->to_half(rotated, head_dim, halves);
        store_k(base + kv_offset_k(group, layer, head), halves, head_dim, group->page_tokens, slot);
        uint16_t *v = (uint16_t *)(void *)(base + kv_offset_v(group, layer, head));
        variant->to_half(args->v + at, head_dim, v + (size_t)slot * head_dim);
    }
}

void cpu_rope_append(struct kernels *kernels, const struct rope_append_args *args)
{
    const struct kv_layout *layout = &kernels->args.layout;
    CHECK(args->layer < layout->layers && args->run_count <= kernels->args.runs_max);
    uint32_t group_index = layout->layer_group[args->layer];
    const struct kv_group *group = &layout->groups[group_index];
    uint32_t rows = 0;
    for (uint32_t i = 0; i < args->run_count; i++) {
        const struct row_run *run = &args->runs[i];
        CHECK(run->rows <= kernels->args.context && run->first_position <= kernels->args.context - run->rows);
        for (uint32_t p = run->first_position; p < run->first_position + run->rows; p++)
            CHECK(run->pages[group_index][p / group->page_tokens] < kernels->args.pages);
        rows = run->first_row + run->rows > rows ? run->first_row + run->rows : rows;
    }
    CHECK(rows <= kernels->args.rows_max);
    for_rows(kernels, rope_append_row, args, rows, (size_t)(args->query_heads + 2 * group->heads) * group->head_dim);
}
