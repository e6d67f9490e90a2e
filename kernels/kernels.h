/* The numeric backends: coarse operations over device memory, one table a backend.
 *
 * Life cycle: kernels_open plans all workspace from the limits in kernels_args; after that no operation allocates.
 * matrix_pack copies weights once into the layout that the backend's kernels want. Operations are asynchronous on the
 * backend's stream and run in the order they were called; `wait` returns when all of them are done (the CPU backend
 * runs them at once, on its thread pool with the calling thread as worker 0). One thread, the engine's, calls
 * everything. Operations cannot fail: their arguments are checked by CHECK against the limits given at open.
 *
 * The arithmetic contract. One version of the arithmetic is one set of bits; every variant (scalar, AVX2, AVX-512), row
 * count, batch mix and thread count gives the same ones. All float arithmetic is IEEE binary32, round to nearest even,
 * denormals kept, fma written out and never contracted; "a*b" below is one rounded multiplication.
 *
 *  quantize  A row x of activations is cut into blocks of 32. amax = max |x|; scale = amax / 127; inverse = amax >=
 *            2^-119 ? 127 / amax : 0 (smaller blocks are zeros: 127 / amax could be infinite); q = nearest-even integer
 *            of x*inverse, in [-127, 127]. scale is kept as binary32, and is NaN when the block holds a NaN.
 *            block_sum = scale * (float)(sum of q).
 *  int8 dot  For output row r and activation row t, acc = 0; for each 32-block b of k in ascending order:
 *              isum = exact int32 sum of (code - offset) * q over the block;
 *              one-scale types (Q4_0 Q5_0 Q8_0):       acc = fma((float)isum, w_scale * x_scale, acc)
 *              scale-and-min types (Q4_1 Q5_1 Q4_K Q5_K): acc = fma((float)isum, w_scale * x_scale, acc), then
 *                                                         acc = fma(w_min, block_sum, acc)
 *              Q6_K (two 16-element scales a block):   isum = s0 * isum0 + s1 * isum1 in int32, w_scale = d
 *            where w_scale and w_min are the binary32 values that the GGUF block decodes to (Q4_K: d*sc and -(dmin*m)).
 *            One chain of fma per output; never split over k.
 *  float dot Float weights, or any weights in ACTIVATIONS_F32 mode after dequantization to binary32: 16 virtual lanes,
 *            lane l = fma chain over k = l, l+16, l+32, ... ascending from 0; then the tree: lane l += lane l+8 for
 *            l < 8, then +4, +2, +1. Elements past the end of k are not added.
 *  rms_norm  Sum of squares in 16 virtual lanes as above; mean = sum / n; y = (x * (1 / sqrt(mean + eps))) * weight.
 *  exp       exp_f32 of kernels/cpu/exp.h: range reduction by round-to-even and a fixed polynomial, all in fma.
 *  silu      x / (1 + exp(-x)); swiglu = silu(gate) * up.
 *  rope      cos and sin of position * base^(-2i/d) computed in double, rounded once to binary32, from a table made at
 *            open; pairs (2i, 2i+1): (a*c - b*s, a*s + b*c) as fma(a, c, -(b*s)) and fma(a, s, b*c).
 *  attention K and V are rounded to f16 (nearest even) when appended; q stays binary32 and is multiplied by
 *            1/sqrt(head_dim) first. Keys are cut into segments at absolute positions 0, 256, 512, ... In a segment:
 *            s_j = fma chain over dims ascending from 0; m = max of the s_j that exist; p_j = exp(s_j - m);
 *            l = sum of p_j in 16 virtual lanes by j - segment start, then the tree; o = fma chain over j ascending of
 *            p_j * v_j from 0. Segments are merged in ascending order into a running (m, l, o), from the first one on:
 *            m' = max(m, m_s); a = exp(m - m'); b = exp(m_s - m'); l = fma(l, a, l_s * b); o = fma(o, a, o_s * b).
 *            The result is o / l. Keys that do not exist (beyond the query, before the window, not yet written) take no
 *            part: they are skipped, not multiplied by zero.
 *
 * Shapes are written (outermost, ..., innermost); all float tensors are binary32 and contiguous unless said
 * otherwise. */
#ifndef KERNELS_KERNELS_H
#define KERNELS_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/base/status.h"
#include "kernels/kv_layout.h"

/* Part of the KV identity: raised whenever any bit above may change. */
#define KERNELS_ARITHMETIC_VERSION 1

/* ---- weights ---- */

/* As GGUF numbers them. */
enum tensor_type {
    TENSOR_F32 = 0,
    TENSOR_F16 = 1,
    TENSOR_Q4_0 = 2,
    TENSOR_Q4_1 = 3,
    TENSOR_Q5_0 = 6,
    TENSOR_Q5_1 = 7,
    TENSOR_Q8_0 = 8,
    TENSOR_Q4_K = 12,
    TENSOR_Q5_K = 13,
    TENSOR_Q6_K = 14,
    TENSOR_BF16 = 30,
};

/* Facts of a type: kernels/tensor_type.c. NULL name: unknown type. */
struct tensor_type_facts {
    const char *name;        /* "Q4_1" */
    uint32_t block_elements; /* 1 for float types, 32, or 256 */
    uint32_t block_bytes;
};

const struct tensor_type_facts *tensor_type_facts(uint32_t type);

/* Decodes whole blocks, exactly as the `gguf` package does. `count` is a multiple of block_elements. */
void tensor_dequantize(enum tensor_type type, const void *source, size_t count, float *out /* (count) */);

/* Weights as they lie in a model file: row-major (rows, columns), rows contiguous, columns a multiple of the block. */
struct tensor_view {
    const void *data;
    enum tensor_type type;
    uint32_t rows;
    uint32_t columns;
};

struct kernels; /* an opened backend; opaque above this floor */
struct matrix;  /* weights packed for it: (rows, columns) */

/* ---- activations: the input of matmul, as its weights want it ---- */

enum activation_mode {
    ACTIVATIONS_INT8, /* quantized per row and 32-block, for quantized weights */
    ACTIVATIONS_F32,  /* float over dequantized weights: slower, what oracles are compared in */
};

struct activations; /* (rows_max, columns), int8 or float or both; taken at open */

/* ---- rows of a step ---- */

/* `rows` consecutive tokens of one sequence: rows first_row .. first_row + rows - 1 of the step's tensors, at positions
 * first_position, first_position + 1, ... Their KV lies in pages[position / page_tokens]. */
struct row_run {
    uint32_t first_row;
    uint32_t rows;
    uint32_t first_position;
    const uint32_t *pages[KV_GROUPS_MAX]; /* per group: (pages of the sequence) */
};

struct norm_args {
    const float *x;           /* (rows of x, columns) */
    const uint32_t *selected; /* (rows), which rows of x to take; NULL: rows 0 .. rows-1 */
    const float *weight;      /* (columns) */
    float epsilon;
    uint32_t rows;
    uint32_t columns;
    struct activations *out;
};

#define MATMUL_OUTPUTS_MAX 4

/* out[i] = input x matrix[i]^T (+ bias) (+ what out[i] held), for matrices that share one input. */
struct matmul_args {
    const struct activations *input; /* (rows, columns) */
    uint32_t rows;
    uint32_t count;
    const struct matrix *matrix[MATMUL_OUTPUTS_MAX]; /* (outputs[i], columns) */
    const float *bias[MATMUL_OUTPUTS_MAX];           /* (outputs[i]) or NULL; added after the dot */
    float *out[MATMUL_OUTPUTS_MAX];                  /* (rows, outputs[i]) */
    bool accumulate[MATMUL_OUTPUTS_MAX];             /* out += result: the residual, added last */
};

struct rope_append_args {
    float *q;       /* (rows, query_heads, head_dim), rotated in place */
    const float *k; /* (rows, heads, head_dim): rotated, rounded, stored */
    const float *v; /* (rows, heads, head_dim): rounded, stored */
    uint32_t query_heads;
    uint32_t layer;             /* model layer */
    const struct row_run *runs; /* (run_count) */
    uint32_t run_count;
};

struct attention_args {
    const float *q; /* (rows, query_heads, head_dim) */
    uint32_t query_heads;
    uint32_t layer;
    const struct row_run *runs;
    uint32_t run_count;
    struct activations *out; /* (rows, query_heads * head_dim) */
};

struct swiglu_args {
    const float *gate; /* (rows, columns) */
    const float *up;   /* (rows, columns) */
    uint32_t rows;
    uint32_t columns;
    struct activations *out;
};

struct kv_copy_args {
    uint32_t group;
    uint32_t from_page;
    uint32_t to_page;
    uint32_t tokens; /* the first `tokens` of the page, all layers */
};

/* ---- sampling ---- */

#define SAMPLE_LOGPROBS_MAX 21

struct sample_bias {
    int32_t id;
    float value;
};

struct sample_count {
    int32_t id;
    uint32_t generated; /* times the id was generated: presence and frequency penalties */
    bool in_prompt;     /* repetition penalty looks at prompt and output */
};

/* How one row's token is drawn. Order: bias; repetition, presence, frequency penalties; banned ids; then greedy, or
 * temperature, top_k, top_p, min_p, draw. Log-probabilities are of the raw logits, before all of that. */
struct sample_row {
    float temperature;        /* 0: greedy, ties to the lowest id */
    uint32_t top_k;           /* 0: off */
    float top_p;              /* 1: off */
    float min_p;              /* 0: off; relative to the most probable token */
    float repetition_penalty; /* 1: off; >0 logits are divided, others multiplied */
    float presence_penalty;
    float frequency_penalty;
    const struct sample_bias *bias; /* (bias_count) */
    uint32_t bias_count;
    const struct sample_count *counts; /* (count_count), ids distinct */
    uint32_t count_count;
    const int32_t *banned; /* (banned_count): never drawn */
    uint32_t banned_count;
    uint64_t seed; /* with choice and position: the only source of randomness */
    uint32_t choice;
    uint32_t position;
    uint32_t logprobs; /* 0: none; n: the drawn token and the n-1 most probable ones */
    /* Nothing is drawn: the token is `scored`, and all but `logprobs` is not looked at. */
    bool scores;
    int32_t scored; /* below the vocabulary */
};

struct sample_logprob {
    int32_t id;
    float logprob;
};

struct sample_result {
    int32_t id;
    float logprob;                                  /* of id; only if logprobs > 0 */
    uint32_t top_count;                             /* min(logprobs - 1, vocabulary) */
    struct sample_logprob top[SAMPLE_LOGPROBS_MAX]; /* most probable first, ties to the lower id */
};

struct sample_args {
    float *logits; /* (rows, vocabulary); may be changed */
    uint32_t rows;
    uint32_t vocabulary;
    const struct sample_row *row; /* (rows) */
    struct sample_result *result; /* (rows), host memory, valid after wait */
};

/* ---- the backend ---- */

struct kernels_args {
    const char *cpu;  /* "auto", "scalar", "avx2", "avx512": the best of the names this processor has */
    uint32_t threads; /* 0: one a processor */
    enum activation_mode activations;
    uint32_t rows_max; /* rows in a step */
    uint32_t runs_max; /* runs (sequences) in a step */
    uint32_t context;  /* tokens a sequence, the rope table's length */
    uint32_t query_heads_max;
    uint32_t vocabulary;
    uint32_t sample_rows_max;
    double rope_base;
    uint32_t rope_dims; /* the first rope_dims of a head are rotated; the rest is copied */
    struct kv_layout layout;
    uint32_t pages; /* the KV pool */
};

struct kernels_memory {
    size_t weights_bytes;   /* packed matrices and vectors taken so far */
    size_t kv_bytes;        /* the pool */
    size_t workspace_bytes; /* activations, partials, tables, float tensors taken */
};

struct kernel_ops {
    const char *name; /* "cpu" */

    enum status (*open)(const struct kernels_args *args, struct kernels **out, struct error *error);
    void (*close)(struct kernels *kernels);                /* everything taken from it must have been given back */
    const char *(*variant)(const struct kernels *kernels); /* "avx512" */
    struct kernels_memory (*memory)(const struct kernels *kernels);

    enum status (*matrix_pack)(struct kernels *kernels, const struct tensor_view *view, struct matrix **out,
                               struct error *error);
    void (*matrix_free)(struct kernels *kernels, struct matrix *matrix);

    /* Device floats, zeroed: weight vectors and step tensors. NULL: no memory. */
    float *(*floats_take)(struct kernels *kernels, size_t count);
    void (*floats_give)(struct kernels *kernels, float *floats);
    /* Device floats from host floats, and back. */
    void (*upload)(struct kernels *kernels, float *to, const float *from, size_t count);
    void (*download)(struct kernels *kernels, float *to, const float *from, size_t count);

    /* Input of matmul for `consumers`: int8 and/or float storage, as those matrices need in this mode. */
    struct activations *(*activations_take)(struct kernels *kernels, uint32_t rows_max, uint32_t columns,
                                            const struct matrix *const *consumers, uint32_t consumer_count);
    void (*activations_give)(struct kernels *kernels, struct activations *activations);

    void (*embed)(struct kernels *kernels, const struct matrix *table, const int32_t *ids, uint32_t rows,
                  float *out /* (rows, columns) */);
    void (*norm)(struct kernels *kernels, const struct norm_args *args);
    void (*matmul)(struct kernels *kernels, const struct matmul_args *args);
    void (*rope_append)(struct kernels *kernels, const struct rope_append_args *args);
    void (*attention)(struct kernels *kernels, const struct attention_args *args);
    void (*swiglu)(struct kernels *kernels, const struct swiglu_args *args);
    void (*sample)(struct kernels *kernels, const struct sample_args *args);

    void (*kv_copy_rows)(struct kernels *kernels, const struct kv_copy_args *args);
    void (*kv_poison)(struct kernels *kernels, uint32_t page); /* fills with NaN: checked builds, on release */

    void (*wait)(struct kernels *kernels);
};

extern const struct kernel_ops kernels_cpu;

/* The table of backends; NULL when the name is not in it. "auto" is the best one built in. */
const struct kernel_ops *kernels_find(const char *name);

#endif
