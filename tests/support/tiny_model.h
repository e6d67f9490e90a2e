/* Small Llama models of random weights, the same bytes on every machine: built from integers only, so that a golden
 * computed elsewhere from the file stands for the file that a test writes. */
#ifndef TESTS_SUPPORT_TINY_MODEL_H
#define TESTS_SUPPORT_TINY_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/base/buffer.h"
#include "kernels/kernels.h"

struct gguf_writer;

struct tiny_model {
    const char *name;
    uint64_t seed;
    uint32_t layers;
    uint32_t width; /* a multiple of the matrix type's block, as is ffn_width */
    uint32_t ffn_width;
    uint32_t heads;
    uint32_t kv_heads;
    uint32_t head_dim;
    uint32_t vocabulary;
    uint32_t context;
    enum tensor_type matrix_type;
    enum tensor_type embedding_type;
    bool own_head;
    bool biases;                             /* on query, key, value and attention output */
    void (*add)(struct gguf_writer *writer); /* what a test wants besides; NULL: nothing */
};

/* The models that goldens exist for; the last has no name. */
extern const struct tiny_model tiny_models[];
const struct tiny_model *tiny_model_named(const char *name);

/* Appends the GGUF file. */
void tiny_model_write(const struct tiny_model *model, struct buffer *out);

/* Writes it into a new file of the temporary folder; the caller removes it. */
#define TINY_PATH_BYTES 128
void tiny_model_save(const struct tiny_model *model, char path[TINY_PATH_BYTES]);

/* The i-th id of the sequence that goldens are computed for. */
int32_t tiny_model_id(const struct tiny_model *model, uint32_t i);

#endif
