/* GGUF in memory. See gguf_writer.h. */
#include "tests/support/gguf_writer.h"

#include <stdio.h>
#include <string.h>

#include "kernels/base/check.h"
#include "kernels/base/size.h"

enum { GGUF_U32 = 4, GGUF_F32 = 6, GGUF_BOOL = 7, GGUF_TEXT = 8, GGUF_ARRAY = 9 };

static void put_u32(struct buffer *out, uint32_t value)
{
    buffer_append(out, &value, sizeof(value));
}

static void put_u64(struct buffer *out, uint64_t value)
{
    buffer_append(out, &value, sizeof(value));
}

static void put_text(struct buffer *out, const char *text)
{
    put_u64(out, strlen(text));
    buffer_text(out, text);
}

static void put_zeros(struct buffer *out, uint32_t alignment)
{
    while (out->size % alignment != 0)
        buffer_byte(out, '\0');
}

void gguf_value(struct gguf_writer *writer, const char *key, uint32_t type, const void *bytes, size_t size)
{
    put_text(&writer->values, key);
    put_u32(&writer->values, type);
    buffer_append(&writer->values, bytes, size);
    writer->value_count++;
}

void gguf_text(struct gguf_writer *writer, const char *key, const char *text)
{
    put_text(&writer->values, key);
    put_u32(&writer->values, GGUF_TEXT);
    put_text(&writer->values, text);
    writer->value_count++;
}

void gguf_u32(struct gguf_writer *writer, const char *key, uint32_t value)
{
    gguf_value(writer, key, GGUF_U32, &value, sizeof(value));
}

void gguf_f32(struct gguf_writer *writer, const char *key, float value)
{
    gguf_value(writer, key, GGUF_F32, &value, sizeof(value));
}

void gguf_bool(struct gguf_writer *writer, const char *key, bool value)
{
    uint8_t byte = value;
    gguf_value(writer, key, GGUF_BOOL, &byte, sizeof(byte));
}

void gguf_texts(struct gguf_writer *writer, const char *key, const char *const *texts, size_t count)
{
    put_text(&writer->values, key);
    put_u32(&writer->values, GGUF_ARRAY);
    put_u32(&writer->values, GGUF_TEXT);
    put_u64(&writer->values, count);
    for (size_t i = 0; i < count; i++)
        put_text(&writer->values, texts[i]);
    writer->value_count++;
}

void gguf_tensor(struct gguf_writer *writer, const struct gguf_tensor *tensor)
{
    put_zeros(&writer->data, writer->alignment);
    put_text(&writer->infos, tensor->name);
    put_u32(&writer->infos, tensor->dims);
    for (uint32_t d = 0; d < tensor->dims; d++)
        put_u64(&writer->infos, tensor->shape[d]);
    put_u32(&writer->infos, (uint32_t)tensor->type);
    put_u64(&writer->infos, writer->data.size);
    buffer_append(&writer->data, tensor->data, tensor->bytes);
    writer->tensor_count++;
}

void gguf_finish(struct gguf_writer *writer, struct buffer *out)
{
    if (writer->alignment != 32)
        gguf_u32(writer, "general.alignment", writer->alignment);
    buffer_text(out, "GGUF");
    put_u32(out, writer->version);
    put_u64(out, writer->tensor_count);
    put_u64(out, writer->value_count);
    buffer_append(out, writer->values.data, writer->values.size);
    buffer_append(out, writer->infos.data, writer->infos.size);
    put_zeros(out, writer->alignment);
    buffer_append(out, writer->data.data, writer->data.size);
    CHECK(!out->failed && !writer->values.failed && !writer->infos.failed && !writer->data.failed);
    buffer_free(&writer->values);
    buffer_free(&writer->infos);
    buffer_free(&writer->data);
    *writer = (struct gguf_writer){.version = writer->version, .alignment = writer->alignment};
}

void gguf_save(const struct buffer *file, const char *path)
{
    FILE *stream = fopen(path, "wb");
    CHECK(stream != NULL);
    CHECK(fwrite(file->data, 1, file->size, stream) == file->size);
    CHECK(fclose(stream) == 0);
}
