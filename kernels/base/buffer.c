/* Growing byte buffers: doubling, one byte kept back for the NUL, all-or-nothing appends. */
#include "kernels/base/buffer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/size.h"

#define CAPACITY_MIN 64

static bool fail(struct buffer *buffer)
{
    buffer->failed = true;
    return false;
}

bool buffer_reserve(struct buffer *buffer, size_t more)
{
    if (buffer->failed)
        return false;
    size_t size, capacity;
    if (!size_add(buffer->size, more, &size) || !size_add(size, 1, &capacity))
        return fail(buffer);
    if (buffer->limit != 0 && size > buffer->limit)
        return fail(buffer);
    if (capacity <= buffer->capacity)
        return true;

    size_t doubled;
    if (!size_multiply(buffer->capacity, 2, &doubled))
        doubled = capacity;
    if (buffer->limit != 0)
        doubled = size_min(doubled, buffer->limit + 1);
    capacity = size_max(size_max(capacity, doubled), CAPACITY_MIN);

    char *data = realloc(buffer->data, capacity);
    if (data == NULL)
        return fail(buffer);
    data[buffer->size] = '\0';
    buffer->data = data;
    buffer->capacity = capacity;
    return true;
}

void buffer_append(struct buffer *buffer, const void *bytes, size_t size)
{
    if (!buffer_reserve(buffer, size))
        return;
    if (size > 0)
        memcpy(buffer->data + buffer->size, bytes, size);
    buffer->size += size;
    buffer->data[buffer->size] = '\0';
}

void buffer_text(struct buffer *buffer, const char *text)
{
    buffer_append(buffer, text, strlen(text));
}

void buffer_byte(struct buffer *buffer, char byte)
{
    buffer_append(buffer, &byte, 1);
}

void buffer_printf(struct buffer *buffer, const char *format, ...)
{
    if (!buffer_reserve(buffer, 0))
        return;
    size_t room = buffer->capacity - buffer->size;
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(buffer->data + buffer->size, room, format, arguments);
    va_end(arguments);
    buffer->data[buffer->size] = '\0'; /* until the whole text is known to fit, it is not there */
    if (length < 0) {
        buffer->failed = true;
        return;
    }
    if (!buffer_reserve(buffer, (size_t)length))
        return;
    va_start(arguments, format);
    vsnprintf(buffer->data + buffer->size, (size_t)length + 1, format, arguments);
    va_end(arguments);
    buffer->size += (size_t)length;
}

void buffer_clear(struct buffer *buffer)
{
    buffer->size = 0;
    buffer->failed = false;
    if (buffer->data != NULL)
        buffer->data[0] = '\0';
}

void buffer_free(struct buffer *buffer)
{
    free(buffer->data);
    *buffer = (struct buffer){.limit = buffer->limit};
}
