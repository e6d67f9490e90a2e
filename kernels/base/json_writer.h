/* Writes JSON into a buffer, with commas where they belong. Text must be valid UTF-8; '"', '\', control characters and
 * U+2028/2029 are escaped, everything else goes out as it is. Numbers print as the shortest text that reads back
 * equal; NaN and infinities become null. Nesting is limited to 64.
 *
 *     struct json_writer w = json_writer_start(&out);
 *     json_object_begin(&w);
 *     json_key(&w, "id"); json_string(&w, id);
 *     json_key(&w, "usage"); json_object_begin(&w); ... json_object_end(&w);
 *     json_object_end(&w);
 */
#ifndef KERNELS_BASE_JSON_WRITER_H
#define KERNELS_BASE_JSON_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/base/buffer.h"

struct json_writer {
    struct buffer *out;
    uint64_t has_items; /* a bit a level: an item was written there */
    uint32_t depth;
    bool after_key;
};

struct json_writer json_writer_start(struct buffer *out);
void json_object_begin(struct json_writer *writer);
void json_object_end(struct json_writer *writer);
void json_array_begin(struct json_writer *writer);
void json_array_end(struct json_writer *writer);
void json_key(struct json_writer *writer, const char *key);
void json_string(struct json_writer *writer, const char *text);
void json_bytes(struct json_writer *writer, const char *text, size_t size); /* a string of `size` bytes */
void json_integer(struct json_writer *writer, int64_t value);
void json_number(struct json_writer *writer, double value);
void json_bool(struct json_writer *writer, bool value);
void json_null(struct json_writer *writer);
void json_raw(struct json_writer *writer, const char *json, size_t size); /* an already written value */

#endif
