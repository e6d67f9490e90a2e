/* A model: a file of weights and metadata, opened for reading (model_file) and opened on a backend (model).
 *
 *     model_file_open -> tokenizer_open, chat_template_open, model_file_describe   (metadata: no weights are touched)
 *                     -> model_open (packs the weights on the backend; the file may be closed afterwards)
 *     model_step_submit / model_step_collect, again and again                      (model/batch.h)
 *     model_close
 *
 * One thread, the engine's, uses an open model. model_file and model_config are constant after open, any thread may
 * read. */
#ifndef MODEL_MODEL_H
#define MODEL_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/base/buffer.h"
#include "kernels/base/status.h"
#include "kernels/kernels.h"

struct model_file;
struct model;
struct batch;

/* ---- the file ---- */

/* Opens a GGUF file, checking every count, offset, length, type and alignment against the file's size. Failure is one
 * sentence naming the file and what is wrong at which offset. */
enum status model_file_open(const char *path, struct model_file **out, struct error *error);
void model_file_close(struct model_file *file);

const char *model_file_path(const struct model_file *file);
size_t model_file_bytes(const struct model_file *file);

/* Writes what is in the file: format, architecture, configuration, tokenizer, template, tensors by type; as text for a
 * person (every tensor a line with `tensors`), or as one JSON object. */
enum status model_file_describe(const struct model_file *file, bool json, bool tensors, struct buffer *out,
                                struct error *error);

/* Metadata by its GGUF key. Text is borrowed from the file, not NUL-terminated; `false`: no such key of that type. */
struct model_text {
    const char *data;
    size_t size;
};
bool model_file_text(const struct model_file *file, const char *key, struct model_text *out);
bool model_file_integer(const struct model_file *file, const char *key, int64_t *out);
bool model_file_bool(const struct model_file *file, const char *key, bool *out);
/* Arrays: their length, and one element. A string element is found in O(1). */
bool model_file_array(const struct model_file *file, const char *key, size_t *count);
bool model_file_array_text(const struct model_file *file, const char *key, size_t index, struct model_text *out);
bool model_file_array_integer(const struct model_file *file, const char *key, size_t index, int64_t *out);

/* ---- the configuration: what the architecture file read from the metadata ---- */

struct model_config {
    const char *architecture; /* "llama" */
    char name[96];            /* general.name, or the file's name without directory and suffix */
    uint32_t layers;
    uint32_t width; /* elements of the residual stream */
    uint32_t ffn_width;
    uint32_t heads; /* query heads */
    uint32_t kv_heads;
    uint32_t head_dim;
    uint32_t vocabulary;
    uint32_t context_trained; /* tokens */
    uint32_t rope_dims;
    double rope_base;
    float norm_epsilon;
    bool tied_head; /* the output head is the embedding table */
    uint64_t parameters;
};

enum status model_file_config(const struct model_file *file, struct model_config *out, struct error *error);

/* ---- the open model ---- */

struct model_args {
    const struct kernel_ops *ops;
    const char *cpu;  /* kernels_args.cpu */
    uint32_t threads; /* 0: one a processor */
    enum activation_mode activations;
    uint32_t context; /* tokens a sequence at most; 0: what the model was trained for */
    uint32_t block_tokens;
    uint64_t kv_bytes;        /* the KV pool; rounded down to whole pages, at least one sequence of `context` */
    uint32_t rows_max;        /* rows a step: prefill chunk + decoding sequences */
    uint32_t sequences_max;   /* runs a step */
    uint32_t logits_rows_max; /* rows of a step that need logits, at least sequences_max */
    /* Called now and then while loading with the part done, 0..1; NULL: not called. */
    void (*progress)(void *context, double part);
    void *progress_context;
};

enum status model_open(const struct model_file *file, const struct model_args *args, struct model **out,
                       struct error *error);
void model_close(struct model *model);

const struct model_config *model_config(const struct model *model);
const struct kv_layout *model_kv_layout(const struct model *model);
uint32_t model_context(const struct model *model); /* tokens */
uint32_t model_kv_pages(const struct model *model);
struct kernels_memory model_memory(const struct model *model);
const char *model_variant(const struct model *model); /* "avx512" */

/* XXH3-128 over every tensor's name, type, shape and bytes, computed in the packing pass: equal only for equal weights.
 * With everything else that shapes KV it makes the cache's identity (cache/block_key.h). */
struct model_fingerprint {
    uint64_t low;
    uint64_t high;
};
struct model_fingerprint model_fingerprint(const struct model *model);

/* Copies the first `tokens` rows of a page; ordered after the steps before and before the steps after. */
void model_kv_copy(struct model *model, uint32_t group, uint32_t from_page, uint32_t to_page, uint32_t tokens);
/* Fills a page with NaN, so that a read of freed memory shows. For checked builds. */
void model_kv_poison(struct model *model, uint32_t page);

#endif
