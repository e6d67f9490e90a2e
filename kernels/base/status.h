/* How functions fail: a status back, and a sentence for a person in `struct error`.
 *
 * A function that can fail returns `enum status` and takes `struct error *error` last. On failure it has filled *error
 * and left nothing half-owned. `error` is never NULL. The text is one sentence without a final newline, naming the
 * value and the limit; `field` names the request field, option or file that is wrong, empty where there is none.
 *
 *     return error_field(error, STATUS_INVALID, "temperature", "temperature is %g; it must be between 0 and 2", t);
 */
#ifndef KERNELS_BASE_STATUS_H
#define KERNELS_BASE_STATUS_H

#include <stdarg.h>

enum status {
    STATUS_OK = 0,
    STATUS_INVALID,     /* what a client, file or network sent is wrong: HTTP 400, exit 1 */
    STATUS_UNSUPPORTED, /* understood, but not something this build does: HTTP 400 */
    STATUS_NOT_FOUND,   /* HTTP 404 */
    STATUS_TOO_LARGE,   /* over a fixed limit: HTTP 413, or 400 for a context overflow */
    STATUS_NO_MEMORY,   /* an allocation failed */
    STATUS_BUSY,        /* a queue is full or the server drains: HTTP 429 or 503 */
    STATUS_IO,          /* the operating system said no */
    STATUS_CANCELLED,   /* the work was abandoned on request */
    STATUS_INTERNAL,    /* a bug that did not have to end the process */
};

struct error {
    enum status status;
    char field[64];
    char code[48]; /* a machine-readable reason such as "context_length_exceeded"; empty where there is none */
    char text[448];
};

/* Each fills *error and returns `status`, so that a caller can `return error_set(...)`. */
enum status error_set(struct error *error, enum status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
enum status error_field(struct error *error, enum status status, const char *field, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
enum status error_no_memory(struct error *error, const char *what);
/* Gives an error that was set a code besides. */
enum status error_code(struct error *error, const char *code);

/* "invalid", "not found", ...: for logs. */
const char *status_name(enum status status);

#endif
