/* The matmul operation: which worker does which panels for which rows.
 *
 * An item is one panel (16 outputs) times one slab of rows; a slab is as many rows as leave the activations in the
 * second-level cache while all panels pass by. Few rows: a worker takes consecutive panels, so that it reads one stream
 * of weights. Many rows: items are handed out by a counter, so that a disturbed worker does not hold up the others.
 * Nothing is ever split over k. */
#include <stdatomic.h>

#include "kernels/base/check.h"
#include "kernels/base/size.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/expanded.h"

#define SLAB_BYTES (384u << 10)
#define SLAB_ROWS_STEP 24u    /* a multiple of every variant's row tile */
#define STATIC_ROWS_MAX 8u    /* up to here the weights are what takes time */
#define ALONE_PRODUCTS 65536u /* smaller work is not worth waking the others */

struct matmul_job {
    const struct kernels *kernels;
    const struct matmul_args *args;
    uint32_t panels; /* of all matrices */
    uint32_t slab_rows;
    uint32_t items;
    uint32_t chunk; /* items handed out at once */
    atomic_uint next;
};

static bool is_int8(const struct kernels *kernels, const struct matrix *matrix)
{
    return kernels->args.activations == ACTIVATIONS_INT8 && matrix->quant->kind != QUANT_NONE;
}

size_t cpu_matmul_scratch(const struct kernels *kernels, const struct matrix *matrix)
{
    size_t expanded = matrix->blocks * sizeof(struct expanded_block);
    if (is_int8(kernels, matrix))
        return expanded;
    return size_round_up(matrix->columns, 16) * PANEL_ROWS * sizeof(float) + expanded;
}

static void do_item(const struct matmul_job *job, uint32_t item, uint32_t worker)
{
    const struct matmul_args *args = job->args;
    uint32_t panel = item % job->panels, first_row = item / job->panels * job->slab_rows;
    uint32_t i = 0;
    while (panel >= args->matrix[i]->panels)
        panel -= args->matrix[i++]->panels;
    struct matmul_item work = {
        .matrix = args->matrix[i],
        .input = args->input,
        .panel = panel,
        .first_row = first_row,
        .rows = args->rows - first_row < job->slab_rows ? args->rows - first_row : job->slab_rows,
        .bias = args->bias[i],
        .out = args->out[i],
        .accumulate = args->accumulate[i],
        .scratch = worker_scratch(job->kernels, worker),
    };
    if (is_int8(job->kernels, work.matrix))
        job->kernels->variant->matmul_int8(&work);
    else
        job->kernels->variant->matmul_float(&work);
}

static void do_share(void *context, uint32_t worker)
{
    const struct matmul_job *job = context;
    uint32_t workers = job->kernels->workers;
    uint32_t end = pool_share(job->items, worker + 1, workers);
    for (uint32_t item = pool_share(job->items, worker, workers); item < end; item++)
        do_item(job, item, worker);
}

static void do_chunks(void *context, uint32_t worker)
{
    struct matmul_job *job = context;
    for (;;) {
        uint32_t item = atomic_fetch_add_explicit(&job->next, job->chunk, memory_order_relaxed);
        if (item >= job->items)
            return;
        uint32_t end = job->items - item < job->chunk ? job->items : item + job->chunk;
        for (; item < end; item++)
            do_item(job, item, worker);
    }
}

static void check_args(const struct kernels *kernels, const struct matmul_args *args)
{
    CHECK(args->count >= 1 && args->count <= MATMUL_OUTPUTS_MAX);
    CHECK(args->rows <= args->input->rows_max);
    for (uint32_t i = 0; i < args->count; i++) {
        CHECK(args->matrix[i]->columns == args->input->columns);
        if (is_int8(kernels, args->matrix[i]))
            CHECK(args->input->quantized != NULL);
        else
            CHECK(args->input->floats != NULL);
    }
}

/* Rows of a slab: by cache size, and few enough that all workers have something to do. */
static uint32_t slab_rows(const struct kernels *kernels, const struct matmul_args *args, uint32_t panels)
{
    size_t row_bytes = args->input->quantized != NULL
                           ? args->input->blocks * sizeof(struct activation_block) / ACTIVATION_GROUP
                           : args->input->columns * sizeof(float);
    uint32_t rows = (uint32_t)(SLAB_BYTES / row_bytes);
    uint32_t wanted_slabs = (kernels->workers * 4 - 1) / panels + 1;
    uint32_t share = (args->rows - 1) / wanted_slabs + 1;
    rows = rows < share ? rows : share;
    return (uint32_t)size_round_up(rows > 0 ? rows : 1, SLAB_ROWS_STEP);
}

void cpu_matmul(struct kernels *kernels, const struct matmul_args *args)
{
    struct matmul_job job = {.kernels = kernels, .args = args};
    uint64_t products = 0;

    check_args(kernels, args);
    if (args->rows == 0)
        return;
    for (uint32_t i = 0; i < args->count; i++) {
        job.panels += args->matrix[i]->panels;
        products += (uint64_t)args->matrix[i]->rows * args->matrix[i]->columns * args->rows;
    }
    job.slab_rows = slab_rows(kernels, args, job.panels);
    job.items = job.panels * ((args->rows - 1) / job.slab_rows + 1);
    atomic_init(&job.next, 0);
    if (products < ALONE_PRODUCTS || kernels->workers == 1) {
        for (uint32_t item = 0; item < job.items; item++)
            do_item(&job, item, 0);
        return;
    }
    job.chunk = job.items / (kernels->workers * 8) + 1;
    pool_run(kernels->pool, args->rows <= STATIC_ROWS_MAX ? do_share : do_chunks, &job);
}
