/* The scanner is a loop over the grammar's few states with a bit of memory a level: no recursion. */
#include "api/json_scan.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "kernels/base/utf8.h"

enum want {
    WANT_VALUE,
    WANT_VALUE_OR_END, /* just after '[' */
    WANT_KEY,
    WANT_KEY_OR_END, /* just after '{' */
    WANT_COMMA,      /* or the end of the container */
};

struct scan {
    char *text;
    size_t at;
    size_t size;
    uint32_t depth;
    uint32_t values;
    bool in_object[JSON_DEPTH_MAX];
    struct error *error;
};

__attribute__((format(printf, 3, 4))) static bool fail(struct scan *scan, size_t at, const char *format, ...)
{
    char what[160];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof(what), format, arguments);
    va_end(arguments);
    error_set(scan->error, STATUS_INVALID, "the body is not valid JSON: %s at byte %zu", what, at);
    error_code(scan->error, "invalid_json");
    return false;
}

static bool fail_unexpected(struct scan *scan, const char *wanted)
{
    unsigned char byte = scan->at < scan->size ? (unsigned char)scan->text[scan->at] : 0;
    if (scan->at >= scan->size)
        return fail(scan, scan->at, "%s is missing, the text ends", wanted);
    if (byte >= 0x21 && byte <= 0x7E)
        return fail(scan, scan->at, "'%c' where %s is expected", byte, wanted);
    return fail(scan, scan->at, "0x%02X where %s is expected", byte, wanted);
}

static void skip_space(struct scan *scan)
{
    while (scan->at < scan->size) {
        char byte = scan->text[scan->at];
        if (byte != ' ' && byte != '\n' && byte != '\r' && byte != '\t')
            return;
        scan->at++;
    }
}

/* ---- strings ---- */

/* The four digits after "\u" at `at`; -1: they are not there. */
static int32_t hex4(const struct scan *scan, size_t at)
{
    static const char digits[] = "0123456789abcdefABCDEF";
    int32_t value = 0;
    if (scan->size - at < 6)
        return -1;
    for (size_t i = at + 2; i < at + 6; i++) {
        char c = scan->text[i];
        const char *digit = c == '\0' ? NULL : strchr(digits, c);
        if (digit == NULL)
            return -1;
        value = value * 16 + (int32_t)(digit - digits) - (digit - digits > 15 ? 6 : 0);
    }
    return value;
}

static bool is_low_surrogate(const struct scan *scan, size_t at)
{
    if (scan->size - at < 6 || scan->text[at] != '\\' || scan->text[at + 1] != 'u')
        return false;
    int32_t unit = hex4(scan, at);
    return unit >= 0xDC00 && unit <= 0xDFFF;
}

static bool scan_unicode_escape(struct scan *scan)
{
    int32_t unit = hex4(scan, scan->at);
    if (unit < 0)
        return fail(scan, scan->at, "\\u without four hexadecimal digits");
    if (unit == 0)
        return fail(scan, scan->at, "\\u0000 (the character NUL is not accepted)");
    if (unit >= 0xD800 && unit <= 0xDBFF && is_low_surrogate(scan, scan->at + 6))
        scan->at += 6;
    else if (unit >= 0xD800 && unit <= 0xDFFF)
        memcpy(scan->text + scan->at, "\\ufffd", 6);
    scan->at += 6;
    return true;
}

static bool scan_escape(struct scan *scan)
{
    char letter = scan->size - scan->at < 2 ? '\0' : scan->text[scan->at + 1];
    if (letter == 'u')
        return scan_unicode_escape(scan);
    if (letter == '\0' || strchr("\"\\/bfnrt", letter) == NULL)
        return fail(scan, scan->at, "an unknown escape");
    scan->at += 2;
    return true;
}

static bool scan_string(struct scan *scan)
{
    size_t start = scan->at++;
    while (scan->at < scan->size) {
        unsigned char byte = (unsigned char)scan->text[scan->at];
        if (byte == '"') {
            scan->at++;
            return true;
        }
        if (byte < 0x20)
            return fail(scan, scan->at, "the control character 0x%02X in a string (write it as an escape)", byte);
        if (byte != '\\')
            scan->at++;
        else if (!scan_escape(scan))
            return false;
    }
    return fail(scan, start, "a string without its end");
}

/* ---- numbers and words ---- */

static bool is_digit(const struct scan *scan)
{
    return scan->at < scan->size && scan->text[scan->at] >= '0' && scan->text[scan->at] <= '9';
}

static bool is_byte(const struct scan *scan, char byte)
{
    return scan->at < scan->size && scan->text[scan->at] == byte;
}

static bool scan_digits(struct scan *scan)
{
    if (!is_digit(scan))
        return fail_unexpected(scan, "a digit");
    while (is_digit(scan))
        scan->at++;
    return true;
}

static bool scan_number(struct scan *scan)
{
    size_t start = scan->at;
    if (is_byte(scan, '-'))
        scan->at++;
    size_t whole = scan->at;
    if (!scan_digits(scan))
        return false;
    if (scan->text[whole] == '0' && scan->at - whole > 1)
        return fail(scan, start, "a number with a leading zero");
    if (is_byte(scan, '.')) {
        scan->at++;
        if (!scan_digits(scan))
            return false;
    }
    if (is_byte(scan, 'e') || is_byte(scan, 'E')) {
        scan->at++;
        if (is_byte(scan, '+') || is_byte(scan, '-'))
            scan->at++;
        if (!scan_digits(scan))
            return false;
    }
    if (scan->at - start > JSON_NUMBER_MAX)
        return fail(scan, start, "a number of more than %d characters", JSON_NUMBER_MAX);
    return true;
}

static bool scan_word(struct scan *scan)
{
    static const char *const words[] = {"true", "false", "null"};
    for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
        size_t length = strlen(words[i]);
        if (scan->size - scan->at >= length && memcmp(scan->text + scan->at, words[i], length) == 0) {
            scan->at += length;
            return true;
        }
    }
    return fail_unexpected(scan, "a value");
}

/* ---- structure ---- */

static bool open_container(struct scan *scan, bool object)
{
    if (scan->depth == JSON_DEPTH_MAX)
        return fail(scan, scan->at, "nesting deeper than %d", JSON_DEPTH_MAX);
    scan->in_object[scan->depth++] = object;
    scan->at++;
    return true;
}

static bool close_container(struct scan *scan, enum want *want)
{
    scan->depth--;
    scan->at++;
    *want = WANT_COMMA;
    return true;
}

static bool scan_value(struct scan *scan, enum want *want)
{
    char byte = scan->at < scan->size ? scan->text[scan->at] : '\0';
    if (++scan->values > JSON_VALUES_MAX)
        return fail(scan, scan->at, "more than %d values", JSON_VALUES_MAX);
    if (byte == '{' || byte == '[') {
        *want = byte == '{' ? WANT_KEY_OR_END : WANT_VALUE_OR_END;
        return open_container(scan, byte == '{');
    }
    *want = WANT_COMMA;
    if (byte == '"')
        return scan_string(scan);
    if (byte == '-' || (byte >= '0' && byte <= '9'))
        return scan_number(scan);
    return scan_word(scan);
}

static bool scan_key(struct scan *scan, enum want *want)
{
    if (!is_byte(scan, '"'))
        return fail_unexpected(scan, "a key");
    if (!scan_string(scan))
        return false;
    skip_space(scan);
    if (!is_byte(scan, ':'))
        return fail_unexpected(scan, "':'");
    scan->at++;
    *want = WANT_VALUE;
    return true;
}

static bool scan_comma(struct scan *scan, enum want *want)
{
    bool object = scan->in_object[scan->depth - 1];
    if (is_byte(scan, object ? '}' : ']'))
        return close_container(scan, want);
    if (!is_byte(scan, ','))
        return fail_unexpected(scan, object ? "',' or '}'" : "',' or ']'");
    scan->at++;
    *want = object ? WANT_KEY : WANT_VALUE;
    return true;
}

static bool scan_step(struct scan *scan, enum want *want)
{
    switch (*want) {
    case WANT_VALUE_OR_END:
        return is_byte(scan, ']') ? close_container(scan, want) : scan_value(scan, want);
    case WANT_VALUE:
        return scan_value(scan, want);
    case WANT_KEY_OR_END:
        return is_byte(scan, '}') ? close_container(scan, want) : scan_key(scan, want);
    case WANT_KEY:
        return scan_key(scan, want);
    case WANT_COMMA:
        return scan_comma(scan, want);
    }
    return false;
}

enum status json_scan(char *text, size_t size, struct error *error)
{
    struct scan scan = {.text = text, .size = size, .error = error};
    enum want want = WANT_VALUE;
    size_t invalid = utf8_invalid_at(text, size);
    if (invalid < size)
        fail(&scan, invalid, "invalid UTF-8 (0x%02X)", (unsigned char)text[invalid]);
    else if (size >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0)
        fail(&scan, 0, "a byte order mark");
    else {
        do {
            skip_space(&scan);
            if (!scan_step(&scan, &want))
                return error->status;
        } while (scan.depth > 0 || want != WANT_COMMA);
        skip_space(&scan);
        if (scan.at == size)
            return STATUS_OK;
        fail_unexpected(&scan, "the end of the text");
    }
    return error->status;
}

static bool starts_number(char byte)
{
    return byte == '-' || (byte >= '0' && byte <= '9');
}

const char *json_scan_number(const char *at, const char *end)
{
    while (at < end && !starts_number(*at)) {
        if (*at++ != '"')
            continue;
        while (*at != '"')
            at += *at == '\\' ? 2 : 1;
        at++;
    }
    return at < end ? at : NULL;
}

size_t json_scan_number_size(const char *at, const char *end)
{
    const char *start = at;
    while (at < end && (starts_number(*at) || *at == '+' || *at == '.' || *at == 'e' || *at == 'E'))
        at++;
    return (size_t)(at - start);
}
