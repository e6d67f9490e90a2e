/* A copy, field by field. Rope scalings and adapters do not exist in this build: their digests are 0. */
#include "server/engine/identity.h"

#include <stdio.h>

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
