/* Opening a model on a backend: what it needs is checked and planned first, then taken; a step takes nothing. */
#include "model/model.h"

#include <inttypes.h>
#include <stdlib.h>

#include "kernels/base/check.h"
#include "kernels/base/size.h"
#include "model/batch.h"
#include "model/model_file.h"
#include "model/model_state.h"

#define MIB (1024.0 * 1024.0)

static enum status plan_context(struct model *model, const struct model_args *args, struct error *error)
{
    uint32_t trained = model->config.context_trained;
    model->context = args->context == 0 ? trained : args->context;
    if (model->context > trained)
        return error_field(error, STATUS_INVALID, "context",
                           "--context is %" PRIu32 "; the model was trained for at most %" PRIu32 " tokens",
                           args->context, trained);
    return STATUS_OK;
}

static enum status plan_layout(struct model *model, const struct model_args *args, struct error *error)
{
    struct kv_layer_shape shapes[KV_LAYERS_MAX];
    const struct model_config *config = &model->config;
    for (uint32_t layer = 0; layer < config->layers; layer++)
        shapes[layer] =
            (struct kv_layer_shape){.kind = KV_FULL, .heads = config->kv_heads, .head_dim = config->head_dim};
    return kv_layout_plan(shapes, config->layers, args->block_tokens, KV_F16, KV_F16, &model->layout, error);
}

static enum status plan_pool(struct model *model, const struct model_args *args, struct error *error)
{
    uint64_t needed = 0; /* pages of one sequence; at most 16 * 2^31 */
    for (uint32_t g = 0; g < model->layout.group_count; g++) {
        uint32_t page_tokens = model->layout.groups[g].page_tokens;
        needed += ((uint64_t)model->context + page_tokens - 1) / page_tokens;
    }
    uint64_t pages = args->kv_bytes / model->layout.page_bytes;
    if (pages < needed) {
        double bytes = (double)needed * (double)model->layout.page_bytes;
        return error_field(error, STATUS_INVALID, "kv-memory",
                           "--kv-memory is %.1f MiB, but one sequence of %" PRIu32
                           " tokens needs %.1f MiB (%.0f bytes): give it more, or lower --context",
                           (double)args->kv_bytes / MIB, model->context, bytes / MIB, bytes);
    }
    model->kv_pages = pages < UINT32_MAX ? (uint32_t)pages : UINT32_MAX - 1;
    return STATUS_OK;
}

static enum status open_backend(struct model *model, const struct model_args *args, struct error *error)
{
    const struct model_config *config = &model->config;
    return args->ops->open(
        &(struct kernels_args){
            .cpu = args->cpu == NULL ? "auto" : args->cpu,
            .threads = args->threads,
            .activations = args->activations,
            .rows_max = args->rows_max,
            .runs_max = args->sequences_max,
            .context = model->context,
            .query_heads_max = config->heads,
            .vocabulary = config->vocabulary,
            .sample_rows_max = args->logits_rows_max,
            .rope_base = config->rope_base,
            .rope_dims = config->rope_dims,
            .layout = model->layout,
            .pages = model->kv_pages,
        },
        &model->forward.kernels, error);
}

/* ---- memory of a step ---- */

static float *take_floats(struct model *model, uint32_t rows, size_t columns)
{
    size_t count;
    if (!size_multiply(rows, columns, &count))
        return NULL;
    return model->forward.ops->floats_take(model->forward.kernels, count);
}

/* The input of the matrices in `slots` of all layers. */
static struct activations *take_activations(struct model *model, uint32_t columns, const enum arch_slot *slots,
                                            uint32_t slot_count)
{
    const struct matrix *consumers[KV_LAYERS_MAX * ARCH_SLOTS];
    struct forward *f = &model->forward;
    uint32_t count = 0;
    for (uint32_t layer = 0; layer < model->config.layers; layer++)
        for (uint32_t i = 0; i < slot_count; i++)
            consumers[count++] = f->layers[layer][slots[i]].matrix;
    return f->ops->activations_take(f->kernels, model->rows_max, columns, consumers, count);
}

static bool take_device_memory(struct model *model)
{
    static const enum arch_slot normed[] = {ARCH_QUERY, ARCH_KEY, ARCH_VALUE, ARCH_GATE, ARCH_UP};
    static const enum arch_slot attended[] = {ARCH_ATTENTION_OUTPUT};
    static const enum arch_slot hidden[] = {ARCH_DOWN};
    const struct model_config *config = &model->config;
    struct forward *f = &model->forward;
    const struct matrix *head = f->weights[ARCH_HEAD].matrix;
    uint32_t query_width = config->heads * config->head_dim, key_width = config->kv_heads * config->head_dim;

    f->residual = take_floats(model, model->rows_max, config->width);
    f->query = take_floats(model, model->rows_max, query_width);
    f->key = take_floats(model, model->rows_max, key_width);
    f->value = take_floats(model, model->rows_max, key_width);
    f->gate = take_floats(model, model->rows_max, config->ffn_width);
    f->up = take_floats(model, model->rows_max, config->ffn_width);
    f->normed = take_activations(model, config->width, normed, sizeof(normed) / sizeof(normed[0]));
    f->attended = take_activations(model, query_width, attended, 1);
    f->hidden = take_activations(model, config->ffn_width, hidden, 1);
    model->last = f->ops->activations_take(f->kernels, model->draws_max, config->width, &head, 1);
    model->logits = take_floats(model, model->draws_max, config->vocabulary);
    return f->residual != NULL && f->query != NULL && f->key != NULL && f->value != NULL && f->gate != NULL &&
           f->up != NULL && f->normed != NULL && f->attended != NULL && f->hidden != NULL && model->last != NULL &&
           model->logits != NULL;
}

static bool take_host_memory(struct model *model)
{
    model->forward.runs = calloc(model->sequences_max, sizeof(*model->forward.runs));
    model->ids = calloc(model->rows_max, sizeof(*model->ids));
    model->selected = calloc(model->draws_max, sizeof(*model->selected));
    model->draws = calloc(model->draws_max, sizeof(*model->draws));
    model->drawn = calloc(model->draws_max, sizeof(*model->drawn));
    return model->forward.runs != NULL && model->ids != NULL && model->selected != NULL && model->draws != NULL &&
           model->drawn != NULL;
}

static void give_floats(struct model *model, float *floats)
{
    if (floats != NULL)
        model->forward.ops->floats_give(model->forward.kernels, floats);
}

static void give_activations(struct model *model, struct activations *activations)
{
    if (activations != NULL)
        model->forward.ops->activations_give(model->forward.kernels, activations);
}

static void give_device_memory(struct model *model)
{
    struct forward *f = &model->forward;
    give_floats(model, f->residual);
    give_floats(model, f->query);
    give_floats(model, f->key);
    give_floats(model, f->value);
    give_floats(model, f->gate);
    give_floats(model, f->up);
    give_activations(model, f->normed);
    give_activations(model, f->attended);
    give_activations(model, f->hidden);
    give_activations(model, model->last);
    give_floats(model, model->logits);
}

/* ---- open and close ---- */

static enum status plan(struct model *model, const struct model_file *file, const struct model_args *args,
                        struct error *error)
{
    enum status status = arch_of_file(file, &model->arch, error);
    if (status == STATUS_OK)
        status = model_file_config(file, &model->config, error);
    if (status == STATUS_OK)
        status = model_load_check(file, model->arch, &model->config, error);
    if (status == STATUS_OK)
        status = plan_context(model, args, error);
    if (status == STATUS_OK)
        status = plan_layout(model, args, error);
    return status == STATUS_OK ? plan_pool(model, args, error) : status;
}

static enum status take(struct model *model, const struct model_file *file, const struct model_args *args,
                        struct error *error)
{
    enum status status = open_backend(model, args, error);
    if (status == STATUS_OK)
        status = model_load(model, file, args, error);
    if (status != STATUS_OK)
        return status;
    if (!take_device_memory(model) || !take_host_memory(model))
        return error_no_memory(error, "the model's working memory");
    return STATUS_OK;
}

enum status model_open(const struct model_file *file, const struct model_args *args, struct model **out,
                       struct error *error)
{
    CHECK(args->sequences_max > 0 && args->rows_max >= args->sequences_max &&
          args->logits_rows_max >= args->sequences_max);
    struct model *model = calloc(1, sizeof(*model));
    *out = NULL;
    if (model == NULL)
        return error_no_memory(error, "a model");
    model->rows_max = args->rows_max;
    model->sequences_max = args->sequences_max;
    model->draws_max = args->logits_rows_max;
    model->forward.ops = args->ops;
    model->forward.config = &model->config;
    enum status status = plan(model, file, args, error);
    if (status == STATUS_OK)
        status = take(model, file, args, error);
    if (status == STATUS_OK)
        *out = model;
    else
        model_close(model);
    return status;
}

void model_close(struct model *model)
{
    if (model == NULL)
        return;
    if (model->forward.kernels != NULL) {
        give_device_memory(model);
        model_unload(model);
        model->forward.ops->close(model->forward.kernels);
    }
    free(model->forward.runs);
    free(model->ids);
    free(model->selected);
    free(model->draws);
    free(model->drawn);
    free(model->kept);
    free(model);
}

/* ---- what it is ---- */

const struct model_config *model_config(const struct model *model)
{
    return &model->config;
}

const struct kv_layout *model_kv_layout(const struct model *model)
{
    return &model->layout;
}

uint32_t model_context(const struct model *model)
{
    return model->context;
}

uint32_t model_kv_pages(const struct model *model)
{
    return model->kv_pages;
}

struct kernels_memory model_memory(const struct model *model)
{
    return model->forward.ops->memory(model->forward.kernels);
}

const char *model_variant(const struct model *model)
{
    return model->forward.ops->variant(model->forward.kernels);
}

struct model_fingerprint model_fingerprint(const struct model *model)
{
    return model->fingerprint;
}

void model_kv_copy(struct model *model, uint32_t group, uint32_t from_page, uint32_t to_page, uint32_t tokens)
{
    model->forward.ops->kv_copy_rows(
        model->forward.kernels,
        &(struct kv_copy_args){.group = group, .from_page = from_page, .to_page = to_page, .tokens = tokens});
}

void model_kv_poison(struct model *model, uint32_t page)
{
    model->forward.ops->kv_poison(model->forward.kernels, page);
}
