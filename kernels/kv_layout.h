/* Where a token's K and V live: the one place that knows the inside of a page.
 *
 * KV memory is a pool of pages of equal size, named by a 32-bit index. A page of a group holds `page_tokens`
 * consecutive tokens of one sequence, starting at a multiple of page_tokens, for all layers of that group. The cache
 * counts and shares page indices and never looks inside; only kernel operations do.
 *
 *     layout -> groups[g]: layers that are cached alike (all full attention; or all with one window)
 *            -> layer_group[l], layer_index[l]: the group of model layer l and its place in the group
 *
 * Inside a page of the CPU backend, for layer i of the group and KV head h (f16):
 *
 *     K at kv_offset_k(group, i, h): (head_dim, page_tokens)   tokens are contiguous: a load is one dim of 16 tokens
 *     V at kv_offset_v(group, i, h): (page_tokens, head_dim)   dims are contiguous
 *
 * The layout is part of the KV identity: any change of it is another key. Filled once by kv_layout_plan, then
 * constant. */
#ifndef KERNELS_KV_LAYOUT_H
#define KERNELS_KV_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/base/status.h"

#define KV_GROUPS_MAX 16
#define KV_LAYERS_MAX 256
#define KV_HEAD_DIM_MAX 256
#define KV_BLOCK_TOKENS_MAX 256 /* attention's segment: a page never crosses one */

enum kv_kind {
    KV_FULL,   /* every earlier token is attended to */
    KV_WINDOW, /* the last `window` tokens only */
    KV_STATE,  /* recurrent state, not addressed by token; reserved, refused by kv_layout_plan */
};

enum kv_format { KV_F16 };

struct kv_group {
    enum kv_kind kind;
    enum kv_format k_format;
    enum kv_format v_format;
    uint32_t window;      /* tokens, own position included; 0 for KV_FULL */
    uint32_t layers;      /* layers in this group */
    uint32_t heads;       /* KV heads a layer */
    uint32_t head_dim;    /* elements a head, a multiple of 16, at most KV_HEAD_DIM_MAX */
    uint32_t page_tokens; /* a multiple of block_tokens; divides 256 */
    size_t layer_bytes;   /* K and V of one layer in one page */
    size_t used_bytes;    /* layers * layer_bytes */
};

struct kv_layout {
    uint32_t block_tokens; /* tokens a cache block: a power of two, 16..256 */
    uint32_t layers;
    uint32_t group_count;
    size_t page_bytes; /* every page of the pool; a multiple of 64; at least each group's used_bytes */
    struct kv_group groups[KV_GROUPS_MAX];
    uint8_t layer_group[KV_LAYERS_MAX];
    uint8_t layer_index[KV_LAYERS_MAX];
};

/* What a model layer needs; layers with equal needs share a group. */
struct kv_layer_shape {
    enum kv_kind kind;
    uint32_t window;
    uint32_t heads;
    uint32_t head_dim;
};

enum status kv_layout_plan(const struct kv_layer_shape *shapes /* (layers) */, uint32_t layers, uint32_t block_tokens,
                           enum kv_format k_format, enum kv_format v_format, struct kv_layout *layout,
                           struct error *error);

size_t kv_offset_k(const struct kv_group *group, uint32_t layer_index, uint32_t head);
size_t kv_offset_v(const struct kv_group *group, uint32_t layer_index, uint32_t head);

/* Bytes of KV one token takes, all groups together. */
size_t kv_layout_token_bytes(const struct kv_layout *layout);

#endif
