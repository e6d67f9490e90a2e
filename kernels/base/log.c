/* Log lines. Each is put together in memory and leaves under one lock, so that lines of several threads do not mix.
 * What comes from outside is made harmless: control characters are escaped, invalid UTF-8 becomes U+FFFD. */
#include "kernels/base/log.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "kernels/base/buffer.h"
#include "kernels/base/json_writer.h"
#include "kernels/base/thread.h"
#include "kernels/base/utf8.h"

static enum log_level level_max = LOG_INFO;
static enum log_format line_format = LOG_FORMAT_TEXT;

/* The way out, under its lock. */
static struct {
    pthread_mutex_t lock;
    uint64_t lost;   /* lines that stderr did not take ... */
    uint64_t untold; /* ... of which no line has told yet */
    bool cut;        /* the last one went out in part */
} output = {.lock = PTHREAD_MUTEX_INITIALIZER};

static const char *const level_names[] = {"error", "warn", "info", "debug"};

void log_setup(enum log_level level, enum log_format format)
{
    level_max = level;
    line_format = format;
}

bool log_enabled(enum log_level level)
{
    return level <= level_max;
}

bool log_is_json(void)
{
    return line_format == LOG_FORMAT_JSON;
}

uint64_t log_lines_lost(void)
{
    pthread_mutex_lock(&output.lock);
    uint64_t lost = output.lost;
    pthread_mutex_unlock(&output.lock);
    return lost;
}

static void append_time(struct buffer *line)
{
    uint64_t now_ms = clock_unix_ms();
    time_t seconds = (time_t)(now_ms / 1000);
    struct tm utc;
    char text[32];
    gmtime_r(&seconds, &utc);
    strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &utc);
    buffer_printf(line, "%s.%03uZ", text, (unsigned)(now_ms % 1000));
}

/* A line of text must stay one line, and must not steer a terminal. */
static void append_escaped(struct buffer *line, const char *text, bool quoted)
{
    for (; *text != '\0'; text++) {
        unsigned char byte = (unsigned char)*text;
        if (byte == '\n')
            buffer_text(line, "\\n");
        else if (byte < 0x20 || byte == 0x7F)
            buffer_printf(line, "\\x%02x", (unsigned)byte);
        else if (byte == 0xC2 && (unsigned char)text[1] < 0xA0) /* U+0080 to U+009F are control characters too */
            buffer_printf(line, "\\x%02x", (unsigned)(unsigned char)*++text);
        else if (quoted && (byte == '"' || byte == '\\'))
            buffer_printf(line, "\\%c", byte);
        else
            buffer_byte(line, (char)byte);
    }
}

static bool needs_quotes(const char *text)
{
    if (*text == '\0')
        return true;
    for (; *text != '\0'; text++) {
        unsigned char byte = (unsigned char)*text;
        if (byte <= 0x20 || byte == 0x7F || byte == '"' || byte == '=' || byte == '\\')
            return true;
    }
    return false;
}

static void append_value(struct buffer *line, const char *text)
{
    struct buffer valid = {0};
    utf8_append_valid(&valid, text, strlen(text));
    const char *value = valid.data == NULL ? "" : valid.data;
    bool quoted = needs_quotes(value);
    if (quoted)
        buffer_byte(line, '"');
    append_escaped(line, value, quoted);
    if (quoted)
        buffer_byte(line, '"');
    buffer_free(&valid);
}

static void append_text_field(struct buffer *line, const struct log_field *field)
{
    buffer_printf(line, " %s=", field->name);
    if (field->kind == LOG_FIELD_INTEGER) {
        buffer_printf(line, "%" PRId64, field->integer);
    } else if (field->kind == LOG_FIELD_NUMBER) {
        buffer_printf(line, "%.3f", field->number);
    } else if (field->text == NULL) {
        buffer_byte(line, '-');
    } else {
        append_value(line, field->text);
    }
}

static void append_json_text(struct json_writer *writer, const char *text)
{
    struct buffer valid = {0};
    utf8_append_valid(&valid, text, strlen(text));
    json_bytes(writer, valid.data == NULL ? "" : valid.data, valid.size);
    buffer_free(&valid);
}

static void append_json_field(struct json_writer *writer, const struct log_field *field)
{
    char digits[64];
    json_key(writer, field->name);
    if (field->kind == LOG_FIELD_INTEGER) {
        json_integer(writer, field->integer);
    } else if (field->kind == LOG_FIELD_NUMBER && isfinite(field->number)) {
        double number = fabs(field->number) < 1e30 ? field->number : copysign(1e30, field->number);
        int length = snprintf(digits, sizeof(digits), "%.3f", number);
        json_raw(writer, digits, (size_t)length);
    } else if (field->kind == LOG_FIELD_TEXT && field->text != NULL) {
        append_json_text(writer, field->text);
    } else {
        json_null(writer);
    }
}

/* `{"time":...,"level":...`, left open. */
static struct json_writer json_start(struct buffer *line, enum log_level level)
{
    struct buffer stamp = {0};
    struct json_writer writer = json_writer_start(line);
    append_time(&stamp);
    json_object_begin(&writer);
    json_key(&writer, "time");
    json_bytes(&writer, stamp.data == NULL ? "" : stamp.data, stamp.size);
    json_key(&writer, "level");
    json_string(&writer, level_names[level]);
    buffer_free(&stamp);
    return writer;
}

static void text_start(struct buffer *line, enum log_level level)
{
    append_time(line);
    buffer_printf(line, " %s ", level_names[level]);
}

static void compose_message(struct buffer *line, enum log_level level, const char *message)
{
    if (line_format == LOG_FORMAT_JSON) {
        struct json_writer writer = json_start(line, level);
        json_key(&writer, "message");
        append_json_text(&writer, message);
        json_object_end(&writer);
    } else {
        struct buffer valid = {0};
        utf8_append_valid(&valid, message, strlen(message));
        text_start(line, level);
        append_escaped(line, valid.data == NULL ? "" : valid.data, false);
        buffer_free(&valid);
    }
    buffer_byte(line, '\n');
}

/* ---- the way out ---- */

/* For a reader that is only late; one that has lost a line already is not waited for. */
#define PATIENCE_MS 20

/* A pipe that has room at all takes so many bytes without blocking. */
static bool write_piece(const char *bytes, size_t size, size_t *written)
{
    struct pollfd out = {.fd = STDERR_FILENO, .events = POLLOUT};
    if (poll(&out, 1, output.untold == 0 ? PATIENCE_MS : 0) <= 0 || (out.revents & POLLOUT) == 0)
        return false;
    ssize_t taken = write(STDERR_FILENO, bytes, size < PIPE_BUF ? size : PIPE_BUF);
    *written = taken > 0 ? (size_t)taken : 0;
    return taken > 0 || (taken < 0 && errno == EINTR);
}

static bool write_line(const struct buffer *line)
{
    size_t at = 0, written;
    if (output.cut && !write_piece("\n", 1, &written))
        return false;
    output.cut = false;
    while (at < line->size && write_piece(line->data + at, line->size - at, &written))
        at += written;
    output.cut = at > 0 && at < line->size;
    return at == line->size;
}

static bool tell_lost(void)
{
    struct buffer line = {0};
    char message[96];
    snprintf(message, sizeof(message), "%" PRIu64 " lines of the log were lost: stderr did not take them",
             output.untold);
    compose_message(&line, LOG_WARN, message);
    bool told = !line.failed && write_line(&line);
    buffer_free(&line);
    output.untold = told ? 0 : output.untold;
    return told;
}

/* Frees the line. */
static void emit(struct buffer *line)
{
    pthread_mutex_lock(&output.lock);
    bool clear = output.untold == 0 || tell_lost();
    if (!clear || line->failed || !write_line(line)) {
        output.lost++;
        output.untold++;
    }
    pthread_mutex_unlock(&output.lock);
    buffer_free(line);
}

/* ---- lines ---- */

void log_line(enum log_level level, const char *format, ...)
{
    if (!log_enabled(level))
        return;
    char message[2048];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(message, sizeof(message), format, arguments);
    va_end(arguments);
    if (length < 0)
        return;
    struct buffer line = {0};
    compose_message(&line, level, message);
    emit(&line);
}

void log_event(enum log_level level, const char *event, const struct log_field *fields, size_t count)
{
    if (!log_enabled(level))
        return;
    struct buffer line = {0};
    if (line_format == LOG_FORMAT_JSON) {
        struct json_writer writer = json_start(&line, level);
        json_key(&writer, "event");
        json_string(&writer, event);
        for (size_t i = 0; i < count; i++)
            append_json_field(&writer, &fields[i]);
        json_object_end(&writer);
    } else {
        text_start(&line, level);
        buffer_text(&line, event);
        for (size_t i = 0; i < count; i++)
            append_text_field(&line, &fields[i]);
    }
    buffer_byte(&line, '\n');
    emit(&line);
}
