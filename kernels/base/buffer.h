/* A growing run of bytes, always followed by a NUL that `size` does not count (once anything was appended).
 *
 * Starts as `struct buffer b = {0}` and is released with buffer_free. A failed allocation sets `failed` and turns every
 * later append into a no-op, so a writer checks once, at the end. `limit` (0: none) makes growing past it fail the same
 * way. Owned by whoever holds it; not for sharing between threads. */
#ifndef KERNELS_BASE_BUFFER_H
#define KERNELS_BASE_BUFFER_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

struct buffer {
    char *data;
    size_t size;
    size_t capacity;
    size_t limit;
    bool failed;
};

void buffer_append(struct buffer *buffer, const void *bytes, size_t size);
void buffer_text(struct buffer *buffer, const char *text); /* appends a C string */
void buffer_byte(struct buffer *buffer, char byte);
void buffer_printf(struct buffer *buffer, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool buffer_reserve(struct buffer *buffer, size_t more); /* room for `more` further bytes */
void buffer_clear(struct buffer *buffer);                /* size 0, keeps the memory, clears `failed` */
void buffer_free(struct buffer *buffer);                 /* leaves {0}; the limit is kept */

#endif
