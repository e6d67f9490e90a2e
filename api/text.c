/* Lossy text goes through a buffer of its own, since the writer takes whole strings. */
#include "api/text.h"

#include "kernels/base/utf8.h"

void text_write_lossy(struct json_writer *writer, const char *bytes, size_t size)
{
    if (utf8_invalid_at(bytes, size) == size) {
        json_bytes(writer, bytes, size);
        return;
    }
    struct buffer text = {0};
    utf8_append_valid(&text, bytes, size);
    json_bytes(writer, text.failed ? "" : text.data, text.failed ? 0 : text.size); /* a value must follow its key */
    writer->out->failed = writer->out->failed || text.failed;
    buffer_free(&text);
}

void text_write_bytes(struct json_writer *writer, const char *bytes, size_t size)
{
    json_array_begin(writer);
    for (size_t i = 0; i < size; i++)
        json_integer(writer, (unsigned char)bytes[i]);
    json_array_end(writer);
}

size_t text_characters(const char *bytes, size_t size)
{
    size_t count = 0;
    for (size_t i = 0; i < size; i++)
        count += ((unsigned char)bytes[i] & 0xC0) != 0x80;
    return count;
}
