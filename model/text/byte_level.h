/* The byte alphabet of byte-level BPE vocabularies (from GPT-2): every byte is written as one printable character, so
 * that merges and tokens can be kept as text. Bytes that are printable in Latin-1 stand for themselves, the other 68
 * are written as U+0100 and on, in ascending order. */
#ifndef MODEL_TEXT_BYTE_LEVEL_H
#define MODEL_TEXT_BYTE_LEVEL_H

#include <stdbool.h>
#include <stddef.h>

/* Turns a token's text into the bytes it stands for; `bytes` has room for `size`. False: the text has a character
 * outside the alphabet (or is not UTF-8), and `bytes` is undefined. */
bool byte_level_decode(const char *text, size_t size, char *bytes, size_t *bytes_size);

#endif
