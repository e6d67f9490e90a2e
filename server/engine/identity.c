/* A copy, field by field. Rope scalings and adapters do not exist in this build: their digests are 0. */
#include "server/engine/identity.h"

#include <stdio.h>
#include <string.h>

#include "kernels/base/buffer.h"

struct kv_identity identity_of(const struct model *model, enum activation_mode activations)
{
    const struct model_config *config = model_config(model);
    struct model_fingerprint fingerprint = model_fingerprint(model);
    struct kv_identity identity = {
        .weights_low = fingerprint.low,
        .weights_high = fingerprint.high,
        .layers = config->layers,
        .heads = config->heads,
        .kv_heads = config->kv_heads,
        .head_dim = config->head_dim,
        .rope_base = config->rope_base,
        .rope_dims = config->rope_dims,
        .norm_epsilon = config->norm_epsilon,
        .activations = activations,
        .arithmetic_version = KERNELS_ARITHMETIC_VERSION,
        .layout = *model_kv_layout(model),
    };
    snprintf(identity.architecture, sizeof(identity.architecture), "%s", config->architecture);
    return identity;
}

/* The name's length goes first, so that no name and salt read as another name and salt. */
enum status identity_root(const struct kv_identity *identity, const char *space, const char *salt, size_t salt_size,
                          struct block_key *out, struct error *error)
{
    struct buffer name = {0};
    uint64_t length = strlen(space);
    for (uint32_t i = 0; i < 8 && (length > 0 || salt != NULL); i++)
        buffer_byte(&name, (char)(length >> 8 * i & 0xFF));
    buffer_append(&name, space, length);
    if (salt != NULL)
        buffer_append(&name, salt, salt_size);
    if (name.failed) {
        buffer_free(&name);
        return error_no_memory(error, "a request's cache key");
    }
    *out = block_key_root(identity, name.data == NULL ? "" : name.data, name.size, 0);
    buffer_free(&name);
    return STATUS_OK;
}
