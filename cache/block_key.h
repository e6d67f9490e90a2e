/* Names of KV blocks. One builder for memory, tiers and events; the same prompt gives the same key in every process.
 *
 *     root   = XXH3-128 of (identity, namespace, reset epoch), canonical little-endian encoding
 *     key(i) = XXH3-128 of (key(i-1), the block's ids as little-endian int32, the block's extra bytes)
 *
 * A key finds candidates; ids and parent are compared before anything is served. */
#ifndef CACHE_BLOCK_KEY_H
#define CACHE_BLOCK_KEY_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/kernels.h"

struct block_key {
    uint64_t low;
    uint64_t high;
};

/* All that shapes KV: two runs whose identities differ in any field never share a block. Filled by the server from the
 * open model; encoded field by field, so padding never enters a key. */
struct kv_identity {
    uint64_t weights_low; /* model_fingerprint */
    uint64_t weights_high;
    char architecture[32];
    uint32_t layers;
    uint32_t heads;
    uint32_t kv_heads;
    uint32_t head_dim;
    double rope_base;
    uint32_t rope_dims;
    float norm_epsilon;
    uint64_t rope_scaling; /* digest of the scaling in effect; 0: none */
    uint64_t adapter;      /* digest; 0: none */
    enum activation_mode activations;
    uint32_t arithmetic_version;
    struct kv_layout layout; /* block size, groups, windows, formats */
};

/* `namespace_name` separates tenants ("" is the default one); `epoch` rises when the cache is reset. */
struct block_key block_key_root(const struct kv_identity *identity, const char *namespace_name, size_t namespace_size,
                                uint64_t epoch);
struct block_key block_key_next(struct block_key parent, const int32_t *ids, uint32_t count, const void *extra,
                                size_t extra_size);

#endif
