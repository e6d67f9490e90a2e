/* Bytes that may not be text, written as JSON. */
#ifndef API_TEXT_H
#define API_TEXT_H

#include <stddef.h>

#include "kernels/base/json_writer.h"

/* A string with U+FFFD in the place of each part that is not valid UTF-8. */
void text_write_lossy(struct json_writer *writer, const char *bytes, size_t size);
/* An array of the byte values. */
void text_write_bytes(struct json_writer *writer, const char *bytes, size_t size);
/* Code points, an unfinished one counted where it starts: counts of parts add up to that of the whole. */
size_t text_characters(const char *bytes, size_t size);

#endif
