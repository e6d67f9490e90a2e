/* The blocks that layers are built from, over the operations of a backend, and what they work on.
 *
 * struct forward is filled at model_open; a step sets its last part and runs the layers. One thread, the engine's. */
#ifndef MODEL_ARCH_BLOCKS_H
#define MODEL_ARCH_BLOCKS_H

#include <stdint.h>

#include "kernels/kernels.h"
#include "model/arch/arch.h"
#include "model/model.h"

/* One of the two, or neither for an optional tensor that is absent. */
struct arch_weight {
    struct matrix *matrix;
    float *vector;
};

struct forward {
    const struct kernel_ops *ops;
    struct kernels *kernels;
    const struct model_config *config;

    struct arch_weight weights[ARCH_FIRST_LAYER_SLOT];
    struct arch_weight (*layers)[ARCH_SLOTS]; /* (layers) */

    float *residual;              /* (rows_max, width) */
    float *query;                 /* (rows_max, heads, head_dim) */
    float *key;                   /* (rows_max, kv_heads, head_dim) */
    float *value;                 /* (rows_max, kv_heads, head_dim) */
    float *gate;                  /* (rows_max, ffn_width) */
    float *up;                    /* (rows_max, ffn_width) */
    struct activations *normed;   /* (rows_max, width) */
    struct activations *attended; /* (rows_max, heads * head_dim) */
    struct activations *hidden;   /* (rows_max, ffn_width) */

    /* the step */
    struct row_run *runs; /* (run_count), room for sequences_max */
    uint32_t run_count;
    uint32_t rows;
};

/* residual += output(attention(rope(q), rope(k), v)) of norm(residual); appends K and V. */
void block_attention(struct forward *forward, uint32_t layer);

/* residual += down(silu(gate) * up) of norm(residual). */
void block_gated_ffn(struct forward *forward, uint32_t layer);

#endif
