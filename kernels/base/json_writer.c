/* JSON text. `has_items` has a bit for each open container, the innermost at depth - 1. */
#include "kernels/base/json_writer.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/check.h"
#include "kernels/base/utf8.h"

#define DEPTH_MAX 64

struct json_writer json_writer_start(struct buffer *out)
{
    return (struct json_writer){.out = out};
}

/* The comma before an item, where one belongs. */
static void separate(struct json_writer *writer)
{
    if (writer->after_key) {
        writer->after_key = false;
        return;
    }
    if (writer->depth == 0)
        return;
    uint64_t bit = UINT64_C(1) << (writer->depth - 1);
    if (writer->has_items & bit)
        buffer_byte(writer->out, ',');
    writer->has_items |= bit;
}

static void begin(struct json_writer *writer, char bracket)
{
    separate(writer);
    CHECK(writer->depth < DEPTH_MAX);
    buffer_byte(writer->out, bracket);
    writer->depth++;
    writer->has_items &= ~(UINT64_C(1) << (writer->depth - 1));
}

static void end(struct json_writer *writer, char bracket)
{
    CHECK(writer->depth > 0 && !writer->after_key);
    writer->depth--;
    buffer_byte(writer->out, bracket);
}

void json_object_begin(struct json_writer *writer)
{
    begin(writer, '{');
}

void json_object_end(struct json_writer *writer)
{
    end(writer, '}');
}

void json_array_begin(struct json_writer *writer)
{
    begin(writer, '[');
}

void json_array_end(struct json_writer *writer)
{
    end(writer, ']');
}

/* How many bytes at `at` need an escape together: 1, 3 for U+2028 and U+2029, 0 for none. */
static size_t escape_length(const char *text, size_t at, size_t size)
{
    unsigned char byte = (unsigned char)text[at];
    if (byte < 0x20 || byte == '"' || byte == '\\')
        return 1;
    if (byte != 0xE2 || size - at < 3 || (unsigned char)text[at + 1] != 0x80)
        return 0;
    return ((unsigned char)text[at + 2] & 0xFE) == 0xA8 ? 3 : 0;
}

static void escape(struct buffer *out, const char *text, size_t length)
{
    static const char plain[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";
    const char *short_form = *text == '\0' ? NULL : strchr(plain, *text);
    if (length == 3) {
        buffer_printf(out, "\\u202%d", (unsigned char)text[2] - 0xA0);
    } else if (short_form != NULL) {
        char pair[2] = {'\\', letters[short_form - plain]};
        buffer_append(out, pair, 2);
    } else {
        buffer_printf(out, "\\u%04x", (unsigned)(unsigned char)*text);
    }
}

static void quote(struct buffer *out, const char *text, size_t size)
{
    CHECK_SLOW(utf8_invalid_at(text, size) == size);
    size_t clean = 0; /* everything before it was written */
    buffer_byte(out, '"');
    for (size_t at = 0; at < size;) {
        size_t length = escape_length(text, at, size);
        if (length == 0) {
            at++;
            continue;
        }
        buffer_append(out, text + clean, at - clean);
        escape(out, text + at, length);
        at += length;
        clean = at;
    }
    buffer_append(out, text + clean, size - clean);
    buffer_byte(out, '"');
}

void json_key(struct json_writer *writer, const char *key)
{
    CHECK(writer->depth > 0 && !writer->after_key);
    separate(writer);
    quote(writer->out, key, strlen(key));
    buffer_byte(writer->out, ':');
    writer->after_key = true;
}

void json_bytes(struct json_writer *writer, const char *text, size_t size)
{
    separate(writer);
    quote(writer->out, text, size);
}

void json_string(struct json_writer *writer, const char *text)
{
    json_bytes(writer, text, strlen(text));
}

void json_integer(struct json_writer *writer, int64_t value)
{
    char digits[24];
    int length = snprintf(digits, sizeof(digits), "%" PRId64, value);
    json_raw(writer, digits, (size_t)length);
}

void json_number(struct json_writer *writer, double value)
{
    char digits[40];
    if (!isfinite(value)) {
        json_null(writer);
        return;
    }
    /* %g drops trailing zeros and 15 digits always survive a double, so 15 gives the shortest form where any up to
     * 15 exists. Subnormal numbers have fewer digits and need the search. */
    int length = 0;
    for (int precision = fpclassify(value) == FP_SUBNORMAL ? 1 : 15; precision <= 17; precision++) {
        length = snprintf(digits, sizeof(digits), "%.*g", precision, value);
        if (strtod(digits, NULL) == value)
            break;
    }
    json_raw(writer, digits, (size_t)length);
}

void json_bool(struct json_writer *writer, bool value)
{
    if (value)
        json_raw(writer, "true", 4);
    else
        json_raw(writer, "false", 5);
}

void json_null(struct json_writer *writer)
{
    json_raw(writer, "null", 4);
}

void json_raw(struct json_writer *writer, const char *json, size_t size)
{
    separate(writer);
    buffer_append(writer->out, json, size);
}
