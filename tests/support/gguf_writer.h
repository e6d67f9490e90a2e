/* Writes GGUF files in memory, right ones and, on request, wrong ones. Used by tests and by the makers of goldens.
 *
 *     struct gguf_writer w = {.version = 3, .alignment = 32};
 *     gguf_text(&w, "general.architecture", "llama");
 *     gguf_tensor(&w, &(struct gguf_tensor){.name = "a", .type = TENSOR_F32, .dims = 1, .shape = {4}, .data = d, .bytes = 16});
 *     gguf_finish(&w, &file);     // appends the file, empties the writer
 */
#ifndef TESTS_SUPPORT_GGUF_WRITER_H
#define TESTS_SUPPORT_GGUF_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/base/buffer.h"
#include "kernels/kernels.h"

struct gguf_writer {
    uint32_t version;
    uint32_t alignment; /* of tensor data; written as general.alignment unless 32 */
    uint64_t value_count;
    uint64_t tensor_count;
    struct buffer values;
    struct buffer infos;
    struct buffer data;
};

struct gguf_tensor {
    const char *name;
    enum tensor_type type;
    uint32_t dims;
    uint64_t shape[4]; /* innermost first */
    const void *data;
    size_t bytes;
};

void gguf_text(struct gguf_writer *writer, const char *key, const char *text);
void gguf_u32(struct gguf_writer *writer, const char *key, uint32_t value);
void gguf_f32(struct gguf_writer *writer, const char *key, float value);
void gguf_bool(struct gguf_writer *writer, const char *key, bool value);
void gguf_texts(struct gguf_writer *writer, const char *key, const char *const *texts, size_t count);
/* A value of any type: its bytes as the file holds them. */
void gguf_value(struct gguf_writer *writer, const char *key, uint32_t type, const void *bytes, size_t size);
void gguf_tensor(struct gguf_writer *writer, const struct gguf_tensor *tensor);
void gguf_finish(struct gguf_writer *writer, struct buffer *out);

/* Writes a whole file; ends the program when that fails. */
void gguf_save(const struct buffer *file, const char *path);

#endif
