/* Encodes what a key covers, byte by byte and little-endian, and hashes it: no struct is ever hashed as it lies in
 * memory, so neither padding nor the byte order of the machine can enter a key. */
#include "cache/block_key.h"

#include <string.h>

/* The whole hash is compiled in: short inputs are what it is called with, and no state is allocated. */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "kernels/base/check.h"

#define ROOT_TAG "incipit kv root 1" /* raised whenever the encoding below changes */
#define ENCODED_MAX 2048             /* more than an identity with every group and layer in use */

struct encoder {
    unsigned char bytes[ENCODED_MAX];
    size_t size;
};

static unsigned char *grow(struct encoder *encoder, size_t bytes)
{
    CHECK(bytes <= ENCODED_MAX - encoder->size);
    unsigned char *at = encoder->bytes + encoder->size;
    encoder->size += bytes;
    return at;
}

/* Written out: compilers turn it into one store. */
static void store_u32(unsigned char *to, uint32_t value)
{
    to[0] = (unsigned char)value;
    to[1] = (unsigned char)(value >> 8);
    to[2] = (unsigned char)(value >> 16);
    to[3] = (unsigned char)(value >> 24);
}

static void put_byte(struct encoder *encoder, uint8_t value)
{
    *grow(encoder, 1) = value;
}

static void put_u32(struct encoder *encoder, uint32_t value)
{
    store_u32(grow(encoder, 4), value);
}

static void put_u64(struct encoder *encoder, uint64_t value)
{
    put_u32(encoder, (uint32_t)value);
    put_u32(encoder, (uint32_t)(value >> 32));
}

static void put_float(struct encoder *encoder, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    put_u32(encoder, bits);
}

static void put_double(struct encoder *encoder, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof(bits));
    put_u64(encoder, bits);
}

/* Length first, so that no two texts run into each other. */
static void put_text(struct encoder *encoder, const char *text, size_t size)
{
    put_u32(encoder, (uint32_t)size);
    memcpy(grow(encoder, size), text, size);
}

static void put_group(struct encoder *encoder, const struct kv_group *group)
{
    put_u32(encoder, (uint32_t)group->kind);
    put_u32(encoder, (uint32_t)group->k_format);
    put_u32(encoder, (uint32_t)group->v_format);
    put_u32(encoder, group->window);
    put_u32(encoder, group->layers);
    put_u32(encoder, group->heads);
    put_u32(encoder, group->head_dim);
    put_u32(encoder, group->page_tokens);
    put_u64(encoder, group->layer_bytes);
    put_u64(encoder, group->used_bytes);
}

static void put_layout(struct encoder *encoder, const struct kv_layout *layout)
{
    CHECK(layout->group_count <= KV_GROUPS_MAX && layout->layers <= KV_LAYERS_MAX);
    put_u32(encoder, layout->block_tokens);
    put_u32(encoder, layout->layers);
    put_u32(encoder, layout->group_count);
    put_u64(encoder, layout->page_bytes);
    for (uint32_t i = 0; i < layout->group_count; i++)
        put_group(encoder, &layout->groups[i]);
    for (uint32_t i = 0; i < layout->layers; i++) {
        put_byte(encoder, layout->layer_group[i]);
        put_byte(encoder, layout->layer_index[i]);
    }
}

static void put_identity(struct encoder *encoder, const struct kv_identity *identity)
{
    put_u64(encoder, identity->weights_low);
    put_u64(encoder, identity->weights_high);
    put_text(encoder, identity->architecture, strnlen(identity->architecture, sizeof(identity->architecture)));
    put_u32(encoder, identity->layers);
    put_u32(encoder, identity->heads);
    put_u32(encoder, identity->kv_heads);
    put_u32(encoder, identity->head_dim);
    put_double(encoder, identity->rope_base);
    put_u32(encoder, identity->rope_dims);
    put_float(encoder, identity->norm_epsilon);
    put_u64(encoder, identity->rope_scaling);
    put_u64(encoder, identity->adapter);
    put_u32(encoder, (uint32_t)identity->activations);
    put_u32(encoder, identity->arithmetic_version);
    put_layout(encoder, &identity->layout);
}

struct block_key block_key_root(const struct kv_identity *identity, const char *namespace_name, size_t namespace_size,
                                uint64_t epoch)
{
    struct encoder encoder = {.size = 0};
    put_text(&encoder, ROOT_TAG, strlen(ROOT_TAG));
    put_identity(&encoder, identity);
    put_u64(&encoder, epoch);
    put_u64(&encoder, namespace_size);

    XXH3_state_t state;
    XXH3_128bits_reset(&state);
    XXH3_128bits_update(&state, encoder.bytes, encoder.size);
    XXH3_128bits_update(&state, namespace_name, namespace_size);
    XXH128_hash_t hash = XXH3_128bits_digest(&state);
    return (struct block_key){.low = hash.low64, .high = hash.high64};
}

struct block_key block_key_next(struct block_key parent, const int32_t *ids, uint32_t count, const void *extra,
                                size_t extra_size)
{
    CHECK(count <= KV_BLOCK_TOKENS_MAX);
    struct encoder encoder;
    encoder.size = 0; /* the rest is written before it is read: clearing it would cost as much as the hash */
    put_u64(&encoder, parent.low);
    put_u64(&encoder, parent.high);
    unsigned char *at = grow(&encoder, count * sizeof(*ids));
    for (uint32_t i = 0; i < count; i++)
        store_u32(at + 4 * (size_t)i, (uint32_t)ids[i]);

    XXH128_hash_t hash;
    if (extra_size == 0) {
        hash = XXH3_128bits(encoder.bytes, encoder.size);
    } else {
        XXH3_state_t state;
        XXH3_128bits_reset(&state);
        XXH3_128bits_update(&state, encoder.bytes, encoder.size);
        XXH3_128bits_update(&state, extra, extra_size);
        hash = XXH3_128bits_digest(&state);
    }
    return (struct block_key){.low = hash.low64, .high = hash.high64};
}
