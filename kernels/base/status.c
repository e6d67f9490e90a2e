/* Filling struct error. The text is formatted aside first, so that an error's own text may be among the arguments. */
#include "kernels/base/status.h"

#include <stdio.h>
#include <string.h>

#include "kernels/base/utf8.h"

/* Cuts a truncated text at a character, so that what is kept stays valid UTF-8. */
static void copy_text(char *to, size_t room, const char *from)
{
    size_t size = strnlen(from, room);
    if (size == room) {
        size = room - 1;
        size -= utf8_incomplete_tail(from, size);
    }
    memcpy(to, from, size);
    to[size] = '\0';
}

static void fill(struct error *error, enum status status, const char *field, const char *format, va_list arguments)
{
    char text[sizeof(error->text) + 1];
    char name[sizeof(error->field)];
    if (vsnprintf(text, sizeof(text), format, arguments) < 0)
        text[0] = '\0';
    copy_text(name, sizeof(name), field);
    error->status = status;
    error->code[0] = '\0';
    memcpy(error->field, name, sizeof(name));
    copy_text(error->text, sizeof(error->text), text);
}

enum status error_set(struct error *error, enum status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fill(error, status, "", format, arguments);
    va_end(arguments);
    return status;
}

enum status error_field(struct error *error, enum status status, const char *field, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fill(error, status, field, format, arguments);
    va_end(arguments);
    return status;
}

enum status error_no_memory(struct error *error, const char *what)
{
    return error_set(error, STATUS_NO_MEMORY, "not enough memory for %s", what);
}

enum status error_code(struct error *error, const char *code)
{
    copy_text(error->code, sizeof(error->code), code);
    return error->status;
}

const char *status_name(enum status status)
{
    switch (status) {
    case STATUS_OK:
        return "ok";
    case STATUS_INVALID:
        return "invalid";
    case STATUS_UNSUPPORTED:
        return "unsupported";
    case STATUS_NOT_FOUND:
        return "not found";
    case STATUS_TOO_LARGE:
        return "too large";
    case STATUS_NO_MEMORY:
        return "no memory";
    case STATUS_BUSY:
        return "busy";
    case STATUS_IO:
        return "input/output error";
    case STATUS_CANCELLED:
        return "cancelled";
    case STATUS_INTERNAL:
        return "internal error";
    }
    return "unknown";
}
