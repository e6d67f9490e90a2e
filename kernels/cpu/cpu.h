/* The inside of the CPU backend: what its files share. Nothing here is seen above kernels/.
 *
 * An operation (matmul.c, attention.c, elementwise.c) checks its arguments, cuts the work into items and hands them to
 * the pool; the arithmetic of an item is a function of `struct cpu_variant`, written once plainly (*_scalar.c) and once
 * for each instruction set. All variants read the same packed matrices, so a process may switch between them. */
#ifndef KERNELS_CPU_CPU_H
#define KERNELS_CPU_CPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/cpu/pool.h"
#include "kernels/kernels.h"
#include "kernels/quant_block.h"

/* ---- packed weights: pack.c ---- */

#define PANEL_ROWS 16

/* Quantized weights are cut into panels of 16 rows (the last one padded with zeros). A panel is the codes of its blocks
 * in ascending k, then the scales of its blocks, each part contiguous and 64-byte aligned.
 *
 * Codes of one block (32 k x 16 rows). An "operand" g = 0..7 is 64 bytes: byte 4 * row + j is the code at k = 4g + j,
 * what one VPDPBUSD multiplies with four activation bytes in every lane.
 *     8 bits: the eight operands.
 *     4 bits: 4 x 64 bytes; vector v holds operand 2v in its low nibbles and 2v + 1 in its high ones.
 *     5 bits: as 4, then 64 bytes whose bit g is bit 4 of operand g.
 *     6 bits: as 4, then 2 x 64 bytes; bits 2(g % 4) .. +1 of vector g / 4 are bits 4..5 of operand g.
 * Scales:
 *     QUANT_SCALE            a block: f16 d (16)
 *     QUANT_SCALE_MIN        a block: f16 d (16), f16 m (16)
 *     QUANT_SUPER_SCALE_MIN  8 blocks: f16 d (16), f16 dmin (16), then for each block u8 sub_scale (16), sub_min (16)
 *     QUANT_SUPER_SCALE      8 blocks: f16 d (16), then for each block i8 half_scale[0] (16), half_scale[1] (16)
 * Float weights stay row-major as they came, with 64 bytes of slack at the end. */
struct matrix {
    enum tensor_type type;
    const struct quant_facts *quant;
    uint32_t rows;
    uint32_t columns;
    uint32_t panels;
    uint32_t blocks;      /* columns / 32; 0 for float types */
    uint32_t code_bytes;  /* a block's codes; 0 for float types */
    size_t scales_offset; /* in a panel */
    size_t panel_bytes;   /* float types: 16 rows */
    size_t bytes;
    uint8_t *data;
};

/* Block `block` of a row, out of the packed form: the exact inverse of packing. */
void matrix_block_read(const struct matrix *matrix, uint32_t row, uint32_t block, struct quant_block *out);
/* One row, decoded exactly as tensor_dequantize does. */
void matrix_row_read(const struct matrix *matrix, uint32_t row, float *out /* (columns) */);

static inline const uint8_t *matrix_codes(const struct matrix *matrix, uint32_t panel, uint32_t block)
{
    return matrix->data + panel * matrix->panel_bytes + (size_t)block * matrix->code_bytes;
}

/* The scales of a block; of its group of 8 for the SUPER kinds. */
static inline const uint8_t *matrix_scales(const struct matrix *matrix, uint32_t panel, uint32_t block)
{
    const uint8_t *scales = matrix->data + panel * matrix->panel_bytes + matrix->scales_offset;
    switch (matrix->quant->kind) {
    case QUANT_SCALE:
        return scales + (size_t)block * 32;
    case QUANT_SCALE_MIN:
        return scales + (size_t)block * 64;
    case QUANT_SUPER_SCALE_MIN:
        return scales + (size_t)(block / QUANT_SUPER) * (64 + QUANT_SUPER * 32);
    default:
        return scales + (size_t)(block / QUANT_SUPER) * (32 + QUANT_SUPER * 32);
    }
}

enum status cpu_matrix_pack(struct kernels *kernels, const struct tensor_view *view, struct matrix **out,
                            struct error *error);
void cpu_matrix_free(struct kernels *kernels, struct matrix *matrix);

/* ---- activations ---- */

#define ACTIVATION_GROUP 4 /* rows stored together, so that a tile of rows has constant offsets */

struct activation_meta {
    float scale;
    float block_sum;         /* scale * sum of q */
    int32_t minus_sum;       /* -(sum of q): times a format's offset it is what the offset adds to a dot */
    int32_t minus_sum_first; /* the same over the first 16 elements */
};

/* One 32-block of four rows. */
struct activation_block {
    int8_t q[ACTIVATION_GROUP][QUANT_BLOCK];
    struct activation_meta meta[ACTIVATION_GROUP];
};

struct activations {
    uint32_t rows_max;
    uint32_t columns;
    uint32_t blocks;
    size_t quantized_bytes;
    size_t floats_bytes;
    struct activation_block *quantized; /* (ceil(rows_max / 4), blocks), or NULL */
    float *floats;                      /* (rows_max, columns), or NULL */
};

static inline struct activation_block *activations_group(const struct activations *activations, uint32_t row)
{
    return activations->quantized + (size_t)(row / ACTIVATION_GROUP) * activations->blocks;
}

/* ---- variants ---- */

/* One panel of a matrix times some rows. */
struct matmul_item {
    const struct matrix *matrix;
    const struct activations *input;
    uint32_t panel;
    uint32_t first_row; /* a multiple of ACTIVATION_GROUP */
    uint32_t rows;
    const float *bias; /* (outputs) or NULL */
    float *out;        /* (rows of the step, outputs) */
    bool accumulate;
    void *scratch; /* the worker's */
};

/* One output of one row: bias first, then what `out` held. */
static inline void matmul_store(const struct matmul_item *item, uint32_t row, uint32_t output, float value)
{
    float *out = item->out + (size_t)row * item->matrix->rows + output;
    if (item->bias != NULL)
        value += item->bias[output];
    *out = item->accumulate ? *out + value : value;
}

#define SEGMENT_TOKENS 256 /* attention's fixed cut of the keys */
#define SEGMENT_CHUNK 64   /* keys whose K lies together in a converted segment */

/* Some query rows of one KV head against one segment of keys. */
struct attention_item {
    uint32_t rows;
    uint32_t head_dim;
    const float *q;        /* (rows, head_dim), scaled */
    const uint32_t *begin; /* (rows): keys begin .. end - 1 of the segment exist for the row; may be none */
    const uint32_t *end;   /* (rows) */
    const float *k;        /* (256 / 64, head_dim, 64) */
    const float *v;        /* (256, head_dim) */
    float *weights;        /* scratch: (rows, 256) */
    float *max;            /* (rows): out */
    float *sum;            /* (rows): out */
    float *out;            /* (rows, head_dim): out, not divided by sum */
};

/* Running results of a row and the next segment's. */
struct attention_merge {
    uint32_t head_dim;
    float *max;
    float *sum;
    float *out; /* (head_dim) */
    float next_max;
    float next_sum;
    const float *next_out; /* (head_dim) */
};

struct cpu_variant {
    const char *name;
    void (*matmul_int8)(const struct matmul_item *item);
    void (*matmul_float)(const struct matmul_item *item);
    void (*attention_segment)(const struct attention_item *item);
    void (*attention_merge)(const struct attention_merge *merge);
    void (*norm_row)(const float *x, const float *weight, float epsilon, uint32_t columns, float *out);
    void (*swiglu_row)(const float *gate, const float *up, uint32_t columns, float *out);
    /* Into row `lane` of a group of four. */
    void (*quantize_row)(const float *x, uint32_t blocks, struct activation_block *group, uint32_t lane);
    /* In place; table: (dims / 2) pairs of cos, sin. */
    void (*rope_head)(float *x, const float *table, uint32_t dims);
    void (*to_half)(const float *x, uint32_t count, uint16_t *out);
    void (*to_float)(const uint16_t *x, uint32_t count, float *out);
};

extern const struct cpu_variant cpu_variant_scalar;
extern const struct cpu_variant cpu_variant_avx2;
extern const struct cpu_variant cpu_variant_avx512;

/* NULL: not a name, or this processor lacks it; the error says which. */
const struct cpu_variant *cpu_variant_find(const char *name, struct error *error);

/* ---- the backend ---- */

/* Owned by the engine thread; workers read it during pool_run. */
struct kernels {
    struct kernels_args args;
    const struct cpu_variant *variant;
    struct pool *pool;
    uint32_t workers;
    struct kernels_memory memory;
    size_t taken; /* matrices, activations and floats not yet given back */

    uint8_t *kv; /* (pages, page_bytes) */
    float *rope; /* (context, rope_dims / 2, 2): cos, sin */

    uint8_t *scratch; /* (workers, scratch_bytes), 64-byte aligned */
    size_t scratch_bytes;

    float *attention_out;         /* (rows_max, query_heads_max, head_dim_max) */
    float *partials;              /* attention's partial results: attention.c */
    size_t partials_count;        /* floats */
    struct attention_tile *tiles; /* attention.c */
    uint32_t tiles_max;

    uint8_t *sampling; /* (workers, sample_scratch_bytes(vocabulary)) */
};

/* Zeroed, 64-byte aligned memory, counted in *counter; NULL: none left. */
void *cpu_take(size_t bytes, size_t *counter);
void cpu_give(void *memory, size_t bytes, size_t *counter);

/* Makes every worker's scratch at least this large. Called at open, pack and take, never in a step. */
enum status cpu_scratch_reserve(struct kernels *kernels, size_t bytes, struct error *error);
static inline void *worker_scratch(const struct kernels *kernels, uint32_t worker)
{
    return kernels->scratch + worker * kernels->scratch_bytes;
}

/* What matmul needs for a matrix. */
size_t cpu_matmul_scratch(const struct kernels *kernels, const struct matrix *matrix);

/* Writes a finished float row where the consumers want it: floats, int8 or both. */
void cpu_store_row(const struct kernels *kernels, struct activations *out, uint32_t row, const float *x);
/* Where to build that row: its place in `floats`, or the worker's scratch. */
float *cpu_row_buffer(const struct kernels *kernels, struct activations *out, uint32_t row, uint32_t worker);

enum status cpu_attention_open(struct kernels *kernels, struct error *error);
void cpu_attention_close(struct kernels *kernels);

void cpu_embed(struct kernels *kernels, const struct matrix *table, const int32_t *ids, uint32_t rows, float *out);
void cpu_norm(struct kernels *kernels, const struct norm_args *args);
void cpu_matmul(struct kernels *kernels, const struct matmul_args *args);
void cpu_rope_append(struct kernels *kernels, const struct rope_append_args *args);
void cpu_attention(struct kernels *kernels, const struct attention_args *args);
void cpu_swiglu(struct kernels *kernels, const struct swiglu_args *args);
void cpu_sample(struct kernels *kernels, const struct sample_args *args);

#endif
