/* From the tensors of a file to weights packed on the backend, in one pass: check, hash, pack, let go of the
 * mapping. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "kernels/base/check.h"
#include "kernels/base/size.h"
#include "model/model_file.h"
#include "model/model_state.h"

struct loader {
    struct model *model;
    const struct model_file *file;
    const struct model_args *args;
    struct error *error;
    XXH3_state_t *hash;
    float *vector; /* (vector_capacity), for weights that are float vectors */
    size_t vector_capacity;
    size_t bytes_done;
    size_t bytes_total;
};

/* What is done with each tensor that the architecture names, in its order; `tensor` is NULL for an absent optional. */
typedef enum status visit_tensor(void *context, const struct arch_tensor *entry, uint32_t layer,
                                 const struct weights_tensor *tensor);

struct visit {
    const struct model_file *file;
    const struct arch *arch;
    const struct model_config *config;
    visit_tensor *visit;
    void *context;
    struct error *error;
};

static enum status visit_layer(const struct visit *v, bool of_layer, uint32_t layer)
{
    enum status status = STATUS_OK;
    for (uint32_t i = 0; i < v->arch->tensor_count && status == STATUS_OK; i++) {
        const struct arch_tensor *entry = &v->arch->tensors[i];
        const struct weights_tensor *tensor;
        if ((entry->slot >= ARCH_FIRST_LAYER_SLOT) != of_layer)
            continue;
        status = arch_find_tensor(v->file, v->config, entry, layer, &tensor, v->error);
        if (status == STATUS_OK)
            status = v->visit(v->context, entry, layer, tensor);
    }
    return status;
}

static enum status visit_tensors(const struct visit *v)
{
    enum status status = visit_layer(v, false, 0);
    for (uint32_t layer = 0; layer < v->config->layers && status == STATUS_OK; layer++)
        status = visit_layer(v, true, layer);
    return status;
}

/* ---- checking ---- */

struct used_tensors {
    const struct weights *weights;
    bool *used; /* (tensor_count) */
};

static enum status mark_used(void *context, const struct arch_tensor *entry, uint32_t layer,
                             const struct weights_tensor *tensor)
{
    struct used_tensors *marks = context;
    (void)entry;
    (void)layer;
    if (tensor != NULL)
        marks->used[tensor - marks->weights->tensors] = true;
    return STATUS_OK;
}

/* A tensor that is not used means that the model computes something which this program does not. */
static enum status refuse_unused(const struct used_tensors *marks, const struct arch *arch, struct error *error)
{
    for (size_t i = 0; i < marks->weights->tensor_count; i++) {
        const struct model_text name = marks->weights->tensors[i].name;
        if (!marks->used[i])
            return error_set(error, STATUS_UNSUPPORTED,
                             "%.160s: the tensor '%.*s' has no place in a model of architecture '%s'",
                             weights_file_name(marks->weights), (int)size_min(name.size, 128), name.data, arch->name);
    }
    return STATUS_OK;
}

enum status model_load_check(const struct model_file *file, const struct arch *arch, const struct model_config *config,
                             struct error *error)
{
    struct used_tensors marks = {&file->weights, calloc(file->weights.tensor_count + 1, sizeof(bool))};
    if (marks.used == NULL)
        return error_no_memory(error, "the tensors of a model file");
    enum status status = visit_tensors(&(struct visit){file, arch, config, mark_used, &marks, error});
    if (status == STATUS_OK)
        status = refuse_unused(&marks, arch, error);
    free(marks.used);
    return status;
}

/* ---- packing ---- */

static void hash_tensor(XXH3_state_t *hash, const struct weights_tensor *tensor)
{
    uint64_t head[3 + WEIGHTS_DIMS_MAX] = {tensor->name.size, (uint64_t)tensor->type, tensor->dims};
    memcpy(head + 3, tensor->shape, sizeof(tensor->shape));
    XXH3_128bits_update(hash, head, sizeof(head));
    XXH3_128bits_update(hash, tensor->name.data, tensor->name.size);
    XXH3_128bits_update(hash, tensor->data, tensor->bytes);
}

static enum status load_vector(struct loader *loader, const struct weights_tensor *tensor, struct arch_weight *out)
{
    const struct kernel_ops *ops = loader->model->forward.ops;
    size_t count = (size_t)tensor->elements;
    if (count > loader->vector_capacity) {
        float *grown = realloc(loader->vector, count * sizeof(float));
        if (grown == NULL)
            return error_no_memory(loader->error, "the model's weights");
        loader->vector = grown;
        loader->vector_capacity = count;
    }
    tensor_dequantize(tensor->type, tensor->data, count, loader->vector);
    out->vector = ops->floats_take(loader->model->forward.kernels, count);
    if (out->vector == NULL)
        return error_no_memory(loader->error, "the model's weights");
    ops->upload(loader->model->forward.kernels, out->vector, loader->vector, count);
    /* The next vector is decoded into the same host memory. */
    ops->wait(loader->model->forward.kernels);
    return STATUS_OK;
}

static enum status load_tensor(void *context, const struct arch_tensor *entry, uint32_t layer,
                               const struct weights_tensor *tensor)
{
    struct loader *loader = context;
    struct forward *forward = &loader->model->forward;
    if (tensor == NULL)
        return STATUS_OK;
    struct arch_weight *out =
        entry->slot < ARCH_FIRST_LAYER_SLOT ? &forward->weights[entry->slot] : &forward->layers[layer][entry->slot];
    hash_tensor(loader->hash, tensor);
    enum status status;
    if (entry->rows == ARCH_VECTOR) {
        status = load_vector(loader, tensor, out);
    } else {
        struct tensor_view view = {tensor->data, tensor->type, (uint32_t)tensor->shape[1], (uint32_t)tensor->shape[0]};
        status = forward->ops->matrix_pack(forward->kernels, &view, &out->matrix, loader->error);
    }
    const struct file_map *map = &loader->file->weights.map;
    file_map_drop(map, (size_t)(tensor->data - map->data), tensor->bytes);
    loader->bytes_done += tensor->bytes;
    if (loader->args->progress != NULL)
        loader->args->progress(loader->args->progress_context,
                               (double)loader->bytes_done / (double)loader->bytes_total);
    return status;
}

/* Once more, the whole: reading a tensor brings a few pages of its neighbours back. */
static void drop_tensors(const struct weights *weights)
{
    size_t first = weights->map.size;
    for (size_t i = 0; i < weights->tensor_count; i++)
        first = size_min(first, (size_t)(weights->tensors[i].data - weights->map.data));
    file_map_drop(&weights->map, first, weights->map.size - first);
}

enum status model_load(struct model *model, const struct model_file *file, const struct model_args *args,
                       struct error *error)
{
    struct loader loader = {.model = model, .file = file, .args = args, .error = error};
    model->forward.layers = calloc(model->config.layers, sizeof(*model->forward.layers));
    loader.hash = XXH3_createState();
    if (model->forward.layers == NULL || loader.hash == NULL) {
        XXH3_freeState(loader.hash);
        return error_no_memory(error, "the model's weights");
    }
    for (size_t i = 0; i < file->weights.tensor_count; i++)
        loader.bytes_total += file->weights.tensors[i].bytes;
    XXH3_128bits_reset(loader.hash);
    enum status status = visit_tensors(&(struct visit){file, model->arch, &model->config, load_tensor, &loader, error});
    drop_tensors(&file->weights);
    XXH128_hash_t digest = XXH3_128bits_digest(loader.hash);
    model->fingerprint = (struct model_fingerprint){digest.low64, digest.high64};
    XXH3_freeState(loader.hash);
    free(loader.vector);
    if (status == STATUS_OK && model->config.tied_head)
        model->forward.weights[ARCH_HEAD].matrix = model->forward.weights[ARCH_EMBEDDING].matrix;
    return status;
}

static void unload_weight(struct forward *forward, const struct arch_weight *weight)
{
    if (weight->matrix != NULL)
        forward->ops->matrix_free(forward->kernels, weight->matrix);
    if (weight->vector != NULL)
        forward->ops->floats_give(forward->kernels, weight->vector);
}

void model_unload(struct model *model)
{
    struct forward *forward = &model->forward;
    if (model->config.tied_head)
        forward->weights[ARCH_HEAD] = (struct arch_weight){0};
    for (uint32_t slot = 0; slot < ARCH_FIRST_LAYER_SLOT; slot++)
        unload_weight(forward, &forward->weights[slot]);
    for (uint32_t layer = 0; forward->layers != NULL && layer < model->config.layers; layer++)
        for (uint32_t slot = 0; slot < ARCH_SLOTS; slot++)
            unload_weight(forward, &forward->layers[layer][slot]);
    free(forward->layers);
    forward->layers = NULL;
}
