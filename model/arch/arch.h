/* The family of architectures: how a model of one kind is configured, which tensors it has, and how a layer computes.
 *
 * A member is a file and a row in arch_table.c. It reads its configuration from the metadata, lists its tensors, and
 * composes a layer from the shared blocks (blocks.h). What differs from another member by a flag (biases, a tied head)
 * is a flag of model_config or an optional tensor, not a copy. */
#ifndef MODEL_ARCH_ARCH_H
#define MODEL_ARCH_ARCH_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/base/status.h"
#include "model/model.h"

struct forward;

/* What a tensor is for. Slots of a layer exist once a layer. */
enum arch_slot {
    ARCH_EMBEDDING,
    ARCH_FINAL_NORM,
    ARCH_HEAD,
    ARCH_ATTENTION_NORM, /* from here on: of a layer */
    ARCH_QUERY,
    ARCH_KEY,
    ARCH_VALUE,
    ARCH_QUERY_BIAS,
    ARCH_KEY_BIAS,
    ARCH_VALUE_BIAS,
    ARCH_ATTENTION_OUTPUT,
    ARCH_ATTENTION_OUTPUT_BIAS,
    ARCH_FFN_NORM,
    ARCH_GATE,
    ARCH_UP,
    ARCH_DOWN,
    ARCH_GATE_BIAS,
    ARCH_UP_BIAS,
    ARCH_DOWN_BIAS,
    ARCH_SLOTS,
};

#define ARCH_FIRST_LAYER_SLOT ARCH_ATTENTION_NORM

/* A size that shapes are written in: a number of the configuration. */
enum arch_size {
    ARCH_VECTOR, /* as rows: the tensor has one dimension */
    ARCH_WIDTH,
    ARCH_FFN_WIDTH,
    ARCH_QUERY_WIDTH, /* heads * head_dim */
    ARCH_KEY_WIDTH,   /* kv_heads * head_dim */
    ARCH_VOCABULARY,
};

struct arch_tensor {
    enum arch_slot slot;
    const char *name; /* a layer's: without "blk.N." */
    enum arch_size rows;
    enum arch_size columns;
    bool optional;
};

struct arch {
    const char *name; /* general.architecture */
    enum status (*configure)(const struct model_file *file, struct model_config *config, struct error *error);
    const struct arch_tensor *tensors; /* (tensor_count) */
    uint32_t tensor_count;
    void (*layer)(struct forward *forward, uint32_t layer);
};

extern const struct arch arch_llama;

/* Ends with NULL. */
extern const struct arch *const arch_table[];

/* The architecture of a file, or why there is none. */
enum status arch_of_file(const struct model_file *file, const struct arch **out, struct error *error);

uint32_t arch_size(const struct model_config *config, enum arch_size size);

/* Finds the file's tensor for `entry` in `layer` and checks its shape. An optional one that is absent gives NULL. */
struct weights_tensor;
enum status arch_find_tensor(const struct model_file *file, const struct model_config *config,
                             const struct arch_tensor *entry, uint32_t layer, const struct weights_tensor **out,
                             struct error *error);

#endif
