/* Log lines. Each is put together in memory and leaves in one write, so that lines of several threads do not mix.
 * What comes from outside is made harmless: control characters are escaped, invalid UTF-8 becomes U+FFFD. */
#include "kernels/base/log.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "kernels/base/buffer.h"
#include "kernels/base/json_writer.h"
#include "kernels/base/thread.h"
#include "kernels/base/utf8.h"

static enum log_level level_max = LOG_INFO;
static enum log_format line_format = LOG_FORMAT_TEXT;

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

static void emit(struct buffer *line)
{
    buffer_byte(line, '\n');
    if (!line->failed)
        fwrite(line->data, 1, line->size, stderr);
    buffer_free(line);
}

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
    if (line_format == LOG_FORMAT_JSON) {
        struct json_writer writer = json_start(&line, level);
        json_key(&writer, "message");
        append_json_text(&writer, message);
        json_object_end(&writer);
    } else {
        struct buffer valid = {0};
        utf8_append_valid(&valid, message, strlen(message));
        text_start(&line, level);
        append_escaped(&line, valid.data == NULL ? "" : valid.data, false);
        buffer_free(&valid);
    }
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
    emit(&line);
}
