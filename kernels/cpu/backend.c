/* Opening and closing the CPU backend, its memory, and its table of operations. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "kernels/base/check.h"
#include "kernels/base/size.h"
#include "kernels/base/thread.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/sample.h"

#define MAPPED_BYTES_MIN (1u << 20) /* larger memory comes from mmap: zero pages, taken as they are touched */
#define FLOATS_HEADER 64            /* before floats handed out: their size */
#define HALF_NAN 0x7fff

/* ---- memory ---- */

void *cpu_take(size_t bytes, size_t *counter)
{
    void *memory;
    if (bytes == 0)
        bytes = 1;
    if (bytes >= MAPPED_BYTES_MIN) {
        memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED)
            return NULL;
        madvise(memory, bytes, MADV_HUGEPAGE); /* only a wish */
    } else {
        size_t rounded = size_round_up(bytes, 64);
        memory = aligned_alloc(64, rounded);
        if (memory == NULL)
            return NULL;
        memset(memory, 0, rounded);
    }
    *counter += bytes;
    return memory;
}

void cpu_give(void *memory, size_t bytes, size_t *counter)
{
    if (memory == NULL)
        return;
    if (bytes == 0)
        bytes = 1;
    *counter -= bytes;
    if (bytes >= MAPPED_BYTES_MIN)
        munmap(memory, bytes);
    else
        free(memory);
}

enum status cpu_scratch_reserve(struct kernels *kernels, size_t bytes, struct error *error)
{
    size_t *counter = &kernels->memory.workspace_bytes, before = kernels->scratch_bytes, total;
    bytes = size_round_up(bytes, 64);
    if (bytes <= before)
        return STATUS_OK;
    uint8_t *larger = size_multiply(bytes, kernels->workers, &total) ? cpu_take(total, counter) : NULL;
    if (larger == NULL)
        return error_no_memory(error, "the workers' scratch");
    cpu_give(kernels->scratch, before * kernels->workers, counter);
    kernels->scratch = larger;
    kernels->scratch_bytes = bytes;
    return STATUS_OK;
}

/* ---- open and close ---- */

static void check_open_args(const struct kernels_args *args)
{
    CHECK(args->rows_max > 0 && args->runs_max > 0 && args->context > 0 && args->query_heads_max > 0);
    CHECK(args->pages > 0 && args->layout.group_count > 0 && args->rope_dims % 2 == 0);
    for (uint32_t g = 0; g < args->layout.group_count; g++) {
        const struct kv_group *group = &args->layout.groups[g];
        CHECK(args->rope_dims <= group->head_dim && group->head_dim <= KV_HEAD_DIM_MAX);
        CHECK(group->used_bytes <= args->layout.page_bytes && SEGMENT_TOKENS % group->page_tokens == 0);
    }
}

static size_t rope_floats(const struct kernels_args *args)
{
    return (size_t)args->context * args->rope_dims;
}

struct rope_job {
    struct kernels *kernels;
    double frequency[KV_HEAD_DIM_MAX / 2];
};

static void fill_rope_share(void *context, uint32_t worker)
{
    const struct rope_job *job = context;
    const struct kernels_args *args = &job->kernels->args;
    uint32_t end = pool_share(args->context, worker + 1, job->kernels->workers);
    for (uint32_t p = pool_share(args->context, worker, job->kernels->workers); p < end; p++) {
        float *table = job->kernels->rope + (size_t)p * args->rope_dims;
        for (uint32_t i = 0; i < args->rope_dims / 2; i++) {
            double angle = p * job->frequency[i];
            table[2 * i] = (float)cos(angle);
            table[2 * i + 1] = (float)sin(angle);
        }
    }
}

static void fill_rope(struct kernels *kernels)
{
    const struct kernels_args *args = &kernels->args;
    struct rope_job job = {.kernels = kernels};
    for (uint32_t i = 0; i < args->rope_dims / 2; i++)
        job.frequency[i] = pow(args->rope_base, -2.0 * i / args->rope_dims);
    pool_run(kernels->pool, fill_rope_share, &job);
}

static size_t sampling_bytes(const struct kernels *kernels)
{
    return kernels->workers * sample_scratch_bytes(kernels->args.vocabulary);
}

static void cpu_close(struct kernels *kernels)
{
    if (kernels == NULL)
        return;
    CHECK(kernels->taken == 0);
    size_t *counter = &kernels->memory.workspace_bytes;
    cpu_attention_close(kernels);
    cpu_give(kernels->sampling, sampling_bytes(kernels), counter);
    cpu_give(kernels->scratch, kernels->scratch_bytes * kernels->workers, counter);
    cpu_give(kernels->rope, rope_floats(&kernels->args) * sizeof(float), counter);
    cpu_give(kernels->kv, kernels->memory.kv_bytes, &kernels->memory.kv_bytes);
    pool_close(kernels->pool);
    free(kernels);
}

static enum status take_memory(struct kernels *kernels, struct error *error)
{
    const struct kernels_args *args = &kernels->args;
    size_t kv_bytes;
    if (size_multiply(args->pages, args->layout.page_bytes, &kv_bytes))
        kernels->kv = cpu_take(kv_bytes, &kernels->memory.kv_bytes);
    if (kernels->kv == NULL)
        return error_set(error, STATUS_NO_MEMORY, "no memory for %u KV pages of %zu bytes", args->pages,
                         args->layout.page_bytes);
    kernels->rope = cpu_take(rope_floats(args) * sizeof(float), &kernels->memory.workspace_bytes);
    kernels->sampling = cpu_take(sampling_bytes(kernels), &kernels->memory.workspace_bytes);
    if (kernels->rope == NULL || kernels->sampling == NULL)
        return error_no_memory(error, "the workspace");
    return cpu_attention_open(kernels, error);
}

static enum status cpu_open(const struct kernels_args *args, struct kernels **out, struct error *error)
{
    *out = NULL;
    check_open_args(args);
    const struct cpu_variant *variant = cpu_variant_find(args->cpu, error);
    if (variant == NULL)
        return error->status;
    uint32_t workers = args->threads > 0 ? args->threads : thread_processors();
    if (args->threads > POOL_WORKERS_MAX)
        return error_field(error, STATUS_INVALID, "threads", "threads is %u; it must be at most %d", args->threads,
                           POOL_WORKERS_MAX);
    struct kernels *kernels = calloc(1, sizeof(*kernels));
    if (kernels == NULL)
        return error_no_memory(error, "the backend");
    kernels->args = *args;
    kernels->args.cpu = variant->name;
    kernels->variant = variant;
    kernels->workers = workers < POOL_WORKERS_MAX ? workers : POOL_WORKERS_MAX;
    enum status status = pool_open(kernels->workers, &kernels->pool, error);
    if (status == STATUS_OK)
        status = take_memory(kernels, error);
    if (status != STATUS_OK) {
        cpu_close(kernels);
        return status;
    }
    fill_rope(kernels);
    *out = kernels;
    return STATUS_OK;
}

static const char *cpu_variant_name(const struct kernels *kernels)
{
    return kernels->variant->name;
}

static struct kernels_memory cpu_memory(const struct kernels *kernels)
{
    return kernels->memory;
}

/* ---- floats and activations ---- */

static float *cpu_floats_take(struct kernels *kernels, size_t count)
{
    size_t bytes;
    if (!size_multiply(count, sizeof(float), &bytes) || !size_add(bytes, FLOATS_HEADER, &bytes))
        return NULL;
    uint8_t *memory = cpu_take(bytes, &kernels->memory.workspace_bytes);
    if (memory == NULL)
        return NULL;
    memcpy(memory, &bytes, sizeof(bytes));
    kernels->taken++;
    return (float *)(void *)(memory + FLOATS_HEADER);
}

static void cpu_floats_give(struct kernels *kernels, float *floats)
{
    size_t bytes;
    if (floats == NULL)
        return;
    uint8_t *memory = (uint8_t *)floats - FLOATS_HEADER;
    memcpy(&bytes, memory, sizeof(bytes));
    cpu_give(memory, bytes, &kernels->memory.workspace_bytes);
    kernels->taken--;
}

static void cpu_copy(struct kernels *kernels, float *to, const float *from, size_t count)
{
    (void)kernels;
    memcpy(to, from, count * sizeof(float));
}

static void cpu_activations_give(struct kernels *kernels, struct activations *activations)
{
    size_t *counter = &kernels->memory.workspace_bytes;
    if (activations == NULL)
        return;
    cpu_give(activations->quantized, activations->quantized_bytes, counter);
    cpu_give(activations->floats, activations->floats_bytes, counter);
    free(activations);
    kernels->taken--;
}

static struct activations *cpu_activations_take(struct kernels *kernels, uint32_t rows_max, uint32_t columns,
                                                const struct matrix *const *consumers, uint32_t consumer_count)
{
    bool int8 = false, floats = false;
    struct error error;
    for (uint32_t i = 0; i < consumer_count; i++) {
        CHECK(consumers[i]->columns == columns);
        bool quantized = consumers[i]->quant->kind != QUANT_NONE;
        int8 = int8 || (quantized && kernels->args.activations == ACTIVATIONS_INT8);
        floats = floats || !quantized || kernels->args.activations == ACTIVATIONS_F32;
    }
    struct activations *taken = calloc(1, sizeof(*taken));
    if (taken == NULL)
        return NULL;
    kernels->taken++;
    size_t groups = (size_t)(rows_max + ACTIVATION_GROUP - 1) / ACTIVATION_GROUP;
    *taken = (struct activations){.rows_max = rows_max, .columns = columns, .blocks = columns / QUANT_BLOCK};
    bool ok = cpu_scratch_reserve(kernels, size_round_up(columns, 16) * sizeof(float), &error) == STATUS_OK;
    if (ok && int8) {
        taken->quantized_bytes = groups * taken->blocks * sizeof(struct activation_block);
        taken->quantized = cpu_take(taken->quantized_bytes, &kernels->memory.workspace_bytes);
        ok = taken->quantized != NULL;
    }
    if (ok && floats) {
        taken->floats_bytes = (size_t)rows_max * columns * sizeof(float);
        taken->floats = cpu_take(taken->floats_bytes, &kernels->memory.workspace_bytes);
        ok = taken->floats != NULL;
    }
    if (!ok) {
        cpu_activations_give(kernels, taken);
        return NULL;
    }
    return taken;
}

/* ---- pages ---- */

/* K of the first tokens is a part of each of its head's dims, V one run. */
static void copy_head(const struct kv_group *group, const uint8_t *from, uint8_t *to, uint32_t layer, uint32_t head,
                      uint32_t tokens)
{
    size_t k = kv_offset_k(group, layer, head), v = kv_offset_v(group, layer, head);
    size_t stride = group->page_tokens * sizeof(uint16_t);
    for (uint32_t dim = 0; dim < group->head_dim; dim++)
        memcpy(to + k + dim * stride, from + k + dim * stride, tokens * sizeof(uint16_t));
    memcpy(to + v, from + v, (size_t)tokens * group->head_dim * sizeof(uint16_t));
}

static void cpu_kv_copy_rows(struct kernels *kernels, const struct kv_copy_args *args)
{
    const struct kv_layout *layout = &kernels->args.layout;
    CHECK(args->group < layout->group_count && args->from_page != args->to_page);
    const struct kv_group *group = &layout->groups[args->group];
    CHECK(args->from_page < kernels->args.pages && args->to_page < kernels->args.pages);
    CHECK(args->tokens <= group->page_tokens);
    const uint8_t *from = kernels->kv + args->from_page * layout->page_bytes;
    uint8_t *to = kernels->kv + args->to_page * layout->page_bytes;
    for (uint32_t layer = 0; layer < group->layers; layer++)
        for (uint32_t head = 0; head < group->heads; head++)
            copy_head(group, from, to, layer, head, args->tokens);
}

static void cpu_kv_poison(struct kernels *kernels, uint32_t page)
{
    size_t bytes = kernels->args.layout.page_bytes;
    CHECK(page < kernels->args.pages);
    uint8_t *base = kernels->kv + page * bytes;
    for (size_t at = 0; at < bytes; at += sizeof(uint16_t))
        memcpy(base + at, &(uint16_t){HALF_NAN}, sizeof(uint16_t));
}

/* Operations run at once. */
static void cpu_wait(struct kernels *kernels)
{
    (void)kernels;
}

const struct kernel_ops kernels_cpu = {
    .name = "cpu",
    .open = cpu_open,
    .close = cpu_close,
    .variant = cpu_variant_name,
    .memory = cpu_memory,
    .matrix_pack = cpu_matrix_pack,
    .matrix_free = cpu_matrix_free,
    .floats_take = cpu_floats_take,
    .floats_give = cpu_floats_give,
    .upload = cpu_copy,
    .download = cpu_copy,
    .activations_take = cpu_activations_take,
    .activations_give = cpu_activations_give,
    .embed = cpu_embed,
    .norm = cpu_norm,
    .matmul = cpu_matmul,
    .rope_append = cpu_rope_append,
    .attention = cpu_attention,
    .swiglu = cpu_swiglu,
    .sample = cpu_sample,
    .kv_copy_rows = cpu_kv_copy_rows,
    .kv_poison = cpu_kv_poison,
    .wait = cpu_wait,
};
