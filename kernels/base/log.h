/* The log: one line an event on stderr, as text or JSON. The level and the format are set once at start, before threads
 * exist. Lines from several threads do not mix.
 *
 * Whoever logs does not wait for whoever reads: what stderr does not take at once (a pipe that nobody empties, a full
 * disk) is lost and counted, and a line says so when it takes more again.
 *
 *     log_line(LOG_INFO, "listening on %s:%u", host, port);
 *     log_event(LOG_INFO, "request", (struct log_field[]){log_text("id", id), log_integer("prompt", n)}, 2);
 *
 * text: `2026-01-02T03:04:05.678Z info request id=... prompt=12`; values with spaces are quoted.
 * json: `{"time":"...","level":"info","event":"request","id":"...","prompt":12}`; log_line gives {"message":...}. */
#ifndef KERNELS_BASE_LOG_H
#define KERNELS_BASE_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };
enum log_format { LOG_FORMAT_TEXT, LOG_FORMAT_JSON };

struct log_field {
    const char *name;
    enum { LOG_FIELD_TEXT, LOG_FIELD_INTEGER, LOG_FIELD_NUMBER } kind;
    const char *text;
    int64_t integer;
    double number; /* printed with 3 decimals */
};

void log_setup(enum log_level level, enum log_format format);
bool log_enabled(enum log_level level);
bool log_is_json(void);
uint64_t log_lines_lost(void);
void log_line(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));
void log_event(enum log_level level, const char *event, const struct log_field *fields, size_t count);

static inline struct log_field log_text(const char *name, const char *text)
{
    return (struct log_field){.name = name, .kind = LOG_FIELD_TEXT, .text = text};
}

static inline struct log_field log_integer(const char *name, int64_t value)
{
    return (struct log_field){.name = name, .kind = LOG_FIELD_INTEGER, .integer = value};
}

static inline struct log_field log_number(const char *name, double value)
{
    return (struct log_field){.name = name, .kind = LOG_FIELD_NUMBER, .number = value};
}

#endif
