/* See byte_level.h. Bytes 0-32, 127-160 and 173 are not printable: these are the 68 that are moved. */
#include "model/text/byte_level.h"

#include <stdint.h>

#include "kernels/base/utf8.h"

#define MOVED_FIRST 256
#define MOVED_COUNT 68

static bool is_moved(uint32_t byte)
{
    return byte <= 32 || (byte >= 127 && byte <= 160) || byte == 173;
}

static bool byte_of(uint32_t code_point, char *byte)
{
    if (code_point >= MOVED_FIRST + MOVED_COUNT || (code_point < MOVED_FIRST && is_moved(code_point)))
        return false;
    uint32_t moved = code_point - MOVED_FIRST;
    if (code_point < MOVED_FIRST)
        *byte = (char)code_point;
    else if (moved < 33)
        *byte = (char)moved;
    else
        *byte = (char)(moved < 67 ? 127 + moved - 33 : 173);
    return true;
}

bool byte_level_decode(const char *text, size_t size, char *bytes, size_t *bytes_size)
{
    size_t count = 0;
    for (size_t at = 0; at < size;) {
        uint32_t code_point;
        size_t length = utf8_decode(text + at, size - at, &code_point);
        if (length == 0 || !byte_of(code_point, &bytes[count]))
            return false;
        count++;
        at += length;
    }
    *bytes_size = count;
    return true;
}
