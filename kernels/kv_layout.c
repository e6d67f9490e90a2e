/* Planning how layers share pages.
 *
 * Layers of equal shape form a class. A class is cut into groups of equally many layers, and a group's page may hold a
 * multiple of block_tokens, so that classes of different size still fill pages of one size. Every page size that some
 * cut fills exactly is tried; the one where a token takes the fewest bytes, padding included, wins. */
#include "kernels/kv_layout.h"

#include <string.h>

#include "kernels/base/check.h"
#include "kernels/base/size.h"

#define HALF_BYTES 2
#define PAGE_ALIGN 64

struct layer_class {
    struct kv_layer_shape shape;
    uint32_t layers;
    size_t block_bytes; /* one layer, one block: K and V */
};

/* How one class is cut for a page size. */
struct class_cut {
    uint32_t layers; /* in a group */
    uint32_t blocks; /* in a page */
};

struct plan {
    size_t page_bytes;
    size_t segment_bytes; /* 256 tokens in all groups, padding included: what is minimized */
    uint32_t groups;
    uint32_t blocks; /* summed over classes */
    struct class_cut cuts[KV_GROUPS_MAX];
};

static enum status check_shape(const struct kv_layer_shape *shape, uint32_t layer, struct error *error)
{
    if (shape->kind == KV_STATE)
        return error_set(error, STATUS_UNSUPPORTED,
                         "layer %u keeps a recurrent state; only attention layers are served", layer);
    if (shape->heads == 0 || shape->heads > 4096)
        return error_set(error, STATUS_UNSUPPORTED, "layer %u has %u KV heads; it must be between 1 and 4096", layer,
                         shape->heads);
    if (shape->head_dim == 0 || shape->head_dim > KV_HEAD_DIM_MAX || shape->head_dim % 16 != 0)
        return error_set(error, STATUS_UNSUPPORTED,
                         "layer %u has head dimension %u; it must be a multiple of 16 and at most %d", layer,
                         shape->head_dim, KV_HEAD_DIM_MAX);
    if ((shape->kind == KV_WINDOW) != (shape->window > 0))
        return error_set(error, STATUS_INVALID, "layer %u has a window of %u tokens, which does not fit its kind",
                         layer, shape->window);
    return STATUS_OK;
}

static bool shapes_equal(const struct kv_layer_shape *a, const struct kv_layer_shape *b)
{
    return a->kind == b->kind && a->window == b->window && a->heads == b->heads && a->head_dim == b->head_dim;
}

/* Sorts layers into classes; writes each layer's class. */
static enum status find_classes(const struct kv_layer_shape *shapes, uint32_t layers, uint32_t block_tokens,
                                struct layer_class *classes, uint32_t *class_count, uint8_t *layer_class,
                                struct error *error)
{
    *class_count = 0;
    for (uint32_t layer = 0; layer < layers; layer++) {
        enum status status = check_shape(&shapes[layer], layer, error);
        if (status != STATUS_OK)
            return status;
        uint32_t c = 0;
        while (c < *class_count && !shapes_equal(&classes[c].shape, &shapes[layer]))
            c++;
        if (c == KV_GROUPS_MAX)
            return error_set(error, STATUS_UNSUPPORTED, "the model has more than %d kinds of layers", KV_GROUPS_MAX);
        if (c == *class_count) {
            size_t elements = (size_t)shapes[layer].heads * shapes[layer].head_dim * block_tokens;
            classes[c] = (struct layer_class){.shape = shapes[layer], .block_bytes = elements * 2 * HALF_BYTES};
            (*class_count)++;
        }
        classes[c].layers++;
        layer_class[layer] = (uint8_t)c;
    }
    return STATUS_OK;
}

/* The cut of one class that wastes least in pages of this size; false when not even one layer fits. */
static bool cut_class(const struct layer_class *class, size_t page_bytes, uint32_t blocks_max, struct class_cut *best)
{
    size_t best_bytes = 0;
    for (uint32_t layers = class->layers; layers > 0; layers--) {
        if (class->layers % layers != 0)
            continue;
        for (uint32_t blocks = 1; blocks <= blocks_max; blocks *= 2) {
            size_t used = class->block_bytes * layers * blocks;
            if (used <= page_bytes && used > best_bytes) {
                best_bytes = used;
                *best = (struct class_cut){layers, blocks};
            }
        }
    }
    return best_bytes > 0;
}

static bool plan_for_page(const struct layer_class *classes, uint32_t class_count, size_t page_bytes,
                          uint32_t blocks_max, struct plan *plan)
{
    *plan = (struct plan){.page_bytes = page_bytes};
    for (uint32_t c = 0; c < class_count; c++) {
        if (!cut_class(&classes[c], page_bytes, blocks_max, &plan->cuts[c]))
            return false;
        uint32_t groups = classes[c].layers / plan->cuts[c].layers;
        plan->groups += groups;
        plan->blocks += plan->cuts[c].blocks;
        plan->segment_bytes += groups * page_bytes * (blocks_max / plan->cuts[c].blocks);
    }
    return plan->groups <= KV_GROUPS_MAX;
}

static bool plan_is_better(const struct plan *a, const struct plan *b)
{
    if (a->segment_bytes != b->segment_bytes)
        return a->segment_bytes < b->segment_bytes;
    if (a->groups != b->groups)
        return a->groups < b->groups;
    return a->blocks < b->blocks;
}

static bool find_plan(const struct layer_class *classes, uint32_t class_count, uint32_t blocks_max, struct plan *best)
{
    bool found = false;
    for (uint32_t c = 0; c < class_count; c++) {
        for (uint32_t layers = 1; layers <= classes[c].layers; layers++) {
            if (classes[c].layers % layers != 0)
                continue;
            for (uint32_t blocks = 1; blocks <= blocks_max; blocks *= 2) {
                struct plan plan;
                size_t page_bytes = classes[c].block_bytes * layers * blocks;
                if (!plan_for_page(classes, class_count, page_bytes, blocks_max, &plan))
                    continue;
                if (!found || plan_is_better(&plan, best))
                    *best = plan;
                found = true;
            }
        }
    }
    return found;
}

static void fill_groups(const struct layer_class *classes, uint32_t class_count, const struct plan *plan,
                        uint32_t *first_group /* (class_count) */, struct kv_layout *layout)
{
    for (uint32_t c = 0; c < class_count; c++) {
        const struct layer_class *class = &classes[c];
        first_group[c] = layout->group_count;
        for (uint32_t done = 0; done < class->layers; done += plan->cuts[c].layers) {
            layout->groups[layout->group_count++] = (struct kv_group){
                .kind = class->shape.kind,
                .k_format = KV_F16,
                .v_format = KV_F16,
                .window = class->shape.window,
                .layers = plan->cuts[c].layers,
                .heads = class->shape.heads,
                .head_dim = class->shape.head_dim,
                .page_tokens = plan->cuts[c].blocks * layout->block_tokens,
                .layer_bytes = class->block_bytes * plan->cuts[c].blocks,
                .used_bytes = class->block_bytes * plan->cuts[c].blocks * plan->cuts[c].layers,
            };
        }
    }
}

enum status kv_layout_plan(const struct kv_layer_shape *shapes, uint32_t layers, uint32_t block_tokens,
                           enum kv_format k_format, enum kv_format v_format, struct kv_layout *layout,
                           struct error *error)
{
    struct layer_class classes[KV_GROUPS_MAX];
    uint8_t layer_class[KV_LAYERS_MAX];
    uint32_t class_count, first_group[KV_GROUPS_MAX], seen[KV_GROUPS_MAX] = {0};
    struct plan plan = {0};

    *layout = (struct kv_layout){0};
    if (block_tokens < 16 || block_tokens > KV_BLOCK_TOKENS_MAX || (block_tokens & (block_tokens - 1)) != 0)
        return error_field(error, STATUS_INVALID, "block-tokens",
                           "block-tokens is %u; it must be a power of two between 16 and %d", block_tokens,
                           KV_BLOCK_TOKENS_MAX);
    if (layers == 0 || layers > KV_LAYERS_MAX)
        return error_set(error, STATUS_UNSUPPORTED, "the model has %u layers; it must be between 1 and %d", layers,
                         KV_LAYERS_MAX);
    if (k_format != KV_F16 || v_format != KV_F16)
        return error_set(error, STATUS_UNSUPPORTED, "only f16 KV is supported");
    enum status status = find_classes(shapes, layers, block_tokens, classes, &class_count, layer_class, error);
    if (status != STATUS_OK)
        return status;
    if (!find_plan(classes, class_count, KV_BLOCK_TOKENS_MAX / block_tokens, &plan))
        return error_set(error, STATUS_UNSUPPORTED, "the model's layers cannot share pages in %d groups",
                         KV_GROUPS_MAX);

    layout->block_tokens = block_tokens;
    layout->layers = layers;
    layout->page_bytes = size_round_up(plan.page_bytes, PAGE_ALIGN);
    fill_groups(classes, class_count, &plan, first_group, layout);
    for (uint32_t layer = 0; layer < layers; layer++) {
        uint32_t c = layer_class[layer];
        layout->layer_group[layer] = (uint8_t)(first_group[c] + seen[c] / plan.cuts[c].layers);
        layout->layer_index[layer] = (uint8_t)(seen[c] % plan.cuts[c].layers);
        seen[c]++;
    }
    return STATUS_OK;
}

size_t kv_offset_k(const struct kv_group *group, uint32_t layer_index, uint32_t head)
{
    size_t head_bytes = (size_t)group->head_dim * group->page_tokens * 2 * HALF_BYTES;
    return layer_index * group->layer_bytes + head * head_bytes;
}

size_t kv_offset_v(const struct kv_group *group, uint32_t layer_index, uint32_t head)
{
    return kv_offset_k(group, layer_index, head) + (size_t)group->head_dim * group->page_tokens * HALF_BYTES;
}

size_t kv_layout_token_bytes(const struct kv_layout *layout)
{
    size_t bytes = 0;
    for (uint32_t g = 0; g < layout->group_count; g++)
        bytes += layout->groups[g].used_bytes / layout->groups[g].page_tokens;
    return bytes;
}
