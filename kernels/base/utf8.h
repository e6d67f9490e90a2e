/* UTF-8 as Unicode chapter 3 defines it (no surrogates, no overlong forms, at most U+10FFFF). */
#ifndef KERNELS_BASE_UTF8_H
#define KERNELS_BASE_UTF8_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/base/buffer.h"

/* Decodes one code point at `bytes`; returns its length 1..4, or 0 when the bytes are not valid there. */
size_t utf8_decode(const char *bytes, size_t size, uint32_t *code_point);
/* Writes 1..4 bytes and returns how many. The code point must be valid. */
size_t utf8_encode(uint32_t code_point, char bytes[4]);
/* The offset of the first invalid byte, or `size` when all is valid. */
size_t utf8_invalid_at(const char *bytes, size_t size);
/* How many bytes at the end form a sequence that is valid so far but not complete: 0..3. */
size_t utf8_incomplete_tail(const char *bytes, size_t size);
/* Appends the bytes with one U+FFFD for each maximal invalid part, as Python's errors="replace" has it. */
void utf8_append_valid(struct buffer *out, const char *bytes, size_t size);

#endif
