/* Table 3-7 of the Unicode standard: for each lead byte the length and the range its second byte must lie in. */
#include "kernels/base/utf8.h"

#include <stdbool.h>

struct lead {
    uint8_t length; /* 0: not a lead byte of a multi-byte form */
    uint8_t second_min;
    uint8_t second_max;
};

static struct lead lead_of(uint8_t byte)
{
    if (byte >= 0xC2 && byte <= 0xDF)
        return (struct lead){2, 0x80, 0xBF};
    if (byte >= 0xE0 && byte <= 0xEF)
        return (struct lead){3, byte == 0xE0 ? 0xA0 : 0x80, byte == 0xED ? 0x9F : 0xBF};
    if (byte >= 0xF0 && byte <= 0xF4)
        return (struct lead){4, byte == 0xF0 ? 0x90 : 0x80, byte == 0xF4 ? 0x8F : 0xBF};
    return (struct lead){0, 0, 0};
}

/* Whether bytes 1..size-1 may follow the lead byte; size is at most the lead's length. */
static bool follows(struct lead lead, const uint8_t *bytes, size_t size)
{
    if (size > 1 && (bytes[1] < lead.second_min || bytes[1] > lead.second_max))
        return false;
    for (size_t i = 2; i < size; i++) {
        if ((bytes[i] & 0xC0) != 0x80)
            return false;
    }
    return true;
}

size_t utf8_decode(const char *bytes, size_t size, uint32_t *code_point)
{
    const uint8_t *b = (const uint8_t *)bytes;
    if (size == 0)
        return 0;
    if (b[0] < 0x80) {
        *code_point = b[0];
        return 1;
    }
    struct lead lead = lead_of(b[0]);
    if (lead.length == 0 || size < lead.length || !follows(lead, b, lead.length))
        return 0;
    uint32_t code = b[0] & (0x7Fu >> lead.length);
    for (size_t i = 1; i < lead.length; i++)
        code = code << 6 | (b[i] & 0x3Fu);
    *code_point = code;
    return lead.length;
}

size_t utf8_encode(uint32_t code_point, char bytes[4])
{
    if (code_point < 0x80) {
        bytes[0] = (char)code_point;
        return 1;
    }
    if (code_point < 0x800) {
        bytes[0] = (char)(0xC0 | code_point >> 6);
        bytes[1] = (char)(0x80 | (code_point & 0x3F));
        return 2;
    }
    if (code_point < 0x10000) {
        bytes[0] = (char)(0xE0 | code_point >> 12);
        bytes[1] = (char)(0x80 | (code_point >> 6 & 0x3F));
        bytes[2] = (char)(0x80 | (code_point & 0x3F));
        return 3;
    }
    bytes[0] = (char)(0xF0 | code_point >> 18);
    bytes[1] = (char)(0x80 | (code_point >> 12 & 0x3F));
    bytes[2] = (char)(0x80 | (code_point >> 6 & 0x3F));
    bytes[3] = (char)(0x80 | (code_point & 0x3F));
    return 4;
}

size_t utf8_invalid_at(const char *bytes, size_t size)
{
    size_t at = 0;
    while (at < size) {
        uint32_t code_point;
        size_t length = utf8_decode(bytes + at, size - at, &code_point);
        if (length == 0)
            return at;
        at += length;
    }
    return size;
}

size_t utf8_incomplete_tail(const char *bytes, size_t size)
{
    const uint8_t *b = (const uint8_t *)bytes;
    for (size_t tail = 1; tail <= 3 && tail <= size; tail++) {
        const uint8_t *start = b + size - tail;
        if ((*start & 0xC0) == 0x80)
            continue;
        struct lead lead = lead_of(*start);
        return lead.length > tail && follows(lead, start, tail) ? tail : 0;
    }
    return 0;
}

/* How many bytes at `bytes`, where the text is invalid, are the beginning of a sequence; at least 1. */
static size_t invalid_part(const char *bytes, size_t size)
{
    size_t part = 1;
    while (part < 3 && part < size && utf8_incomplete_tail(bytes, part + 1) == part + 1)
        part++;
    return part;
}

void utf8_append_valid(struct buffer *out, const char *bytes, size_t size)
{
    for (size_t at = 0; at < size;) {
        size_t valid = utf8_invalid_at(bytes + at, size - at);
        buffer_append(out, bytes + at, valid);
        at += valid;
        if (at == size)
            return;
        buffer_text(out, "\xEF\xBF\xBD");
        at += invalid_part(bytes + at, size - at);
    }
}
