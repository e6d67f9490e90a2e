/* Numbers to text, and padding. */
#include "model/text/jinja/format.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- numbers to text ---- */

/* Digits of |value|, in groups if asked for. */
static void write_digits(struct jinja_writer *writer, const char *digits, char grouping)
{
    size_t n = strcspn(digits, ".e");
    for (size_t i = 0; i < n; i++) {
        jinja_write_byte(writer, digits[i]);
        if (grouping && (n - i - 1) % 3 == 0 && i + 1 < n)
            jinja_write_byte(writer, grouping);
    }
    jinja_write_text(writer, digits + n);
}

bool jinja_format_integer(struct jinja_run *run, const struct jinja_spec *spec, int64_t value, struct jinja_digits *out)
{
    uint64_t magnitude = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    const char *prefix = "";
    switch (spec->type) {
    case 'x':
    case 'X':
    case 'o':
        prefix = !spec->alternate ? "" : spec->type == 'x' ? "0x" : spec->type == 'X' ? "0X" : "0o";
        snprintf(out->text, sizeof(out->text),
                 spec->type == 'x'   ? "%s%llx"
                 : spec->type == 'X' ? "%s%llX"
                                     : "%s%llo",
                 prefix, (unsigned long long)magnitude);
        return true;
    case 'b': {
        size_t n = 0, bits = 64;
        while (bits > 1 && !(magnitude >> (bits - 1) & 1))
            bits--;
        if (spec->alternate) {
            out->text[n++] = '0';
            out->text[n++] = 'b';
        }
        while (bits > 0)
            out->text[n++] = (char)('0' + (magnitude >> --bits & 1));
        out->text[n] = '\0';
        return true;
    }
    case 0:
    case 'd':
    case 'i':
    case 'u':
    case 'n':
        snprintf(out->text, sizeof(out->text), "%llu", (unsigned long long)magnitude);
        return true;
    default:
        return jinja_fail(run, "Unknown format code '%c' for object of type 'int'", spec->type);
    }
}

bool jinja_format_float(struct jinja_run *run, const struct jinja_spec *spec, double value, struct jinja_digits *out)
{
    double magnitude = fabs(value);
    int precision = spec->precision < 0 ? 6 : (int)spec->precision;
    char format[16], type = spec->type;
    if (precision > JINJA_PRECISION_MAX)
        return jinja_fail_status(run, STATUS_UNSUPPORTED, "line %u: a precision over %d is not supported", run->line,
                                 JINJA_PRECISION_MAX);
    if (isnan(value) || isinf(value)) {
        bool upper = type == 'F' || type == 'E' || type == 'G';
        snprintf(out->text, sizeof(out->text), "%s", isnan(value) ? (upper ? "NAN" : "nan") : (upper ? "INF" : "inf"));
        return true;
    }
    if (type == 0) {
        if (spec->precision >= 0)
            return jinja_fail_status(run, STATUS_UNSUPPORTED, "line %u: a precision without a type is not supported",
                                     run->line);
        struct jinja_writer writer = {.run = run};
        jinja_write_float(&writer, magnitude);
        snprintf(out->text, sizeof(out->text), "%.*s", (int)writer.size, writer.bytes);
        return !writer.failed;
    }
    if (strchr("eEfFgG%", type) == NULL)
        return jinja_fail(run, "Unknown format code '%c' for object of type 'float'", type);
    snprintf(format, sizeof(format), "%%%s.*%c", spec->alternate ? "#" : "", type == '%' ? 'f' : type);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    int n = snprintf(out->text, sizeof(out->text) - 1, format, precision, type == '%' ? magnitude * 100 : magnitude);
#pragma GCC diagnostic pop
    if (n < 0 || (size_t)n >= sizeof(out->text) - 1)
        return jinja_fail_status(run, STATUS_INTERNAL, "line %u: a number could not be formatted", run->line);
    if (type == '%') {
        out->text[n] = '%';
        out->text[n + 1] = '\0';
    }
    return true;
}

/* ---- padding ---- */

static bool put(struct jinja_run *run, struct jinja_pieces *pieces, struct jinja_string *text, int64_t left,
                int64_t right, const struct jinja_spec *spec)
{
    struct jinja_string *fill = jinja_string_copy(run, spec->fill_size > 0 ? spec->fill : " ",
                                                  spec->fill_size > 0 ? spec->fill_size : 1, JINJA_TEMPLATE_ORIGIN);
    if (fill == NULL || text == NULL)
        return false;
    struct jinja_string *before = jinja_string_repeat(run, fill, left), *after = jinja_string_repeat(run, fill, right);
    return before != NULL && after != NULL && jinja_pieces_string(run, pieces, before) &&
           jinja_pieces_string(run, pieces, text) && jinja_pieces_string(run, pieces, after);
}

bool jinja_format_padded(struct jinja_run *run, struct jinja_pieces *pieces, struct jinja_string *text,
                         const struct jinja_spec *spec, char align)
{
    size_t length;
    if (text == NULL || !jinja_string_length(run, text, &length))
        return false;
    int64_t margin = spec->width - (int64_t)length;
    if (margin <= 0)
        return jinja_pieces_string(run, pieces, text);
    int64_t left = align == '<' ? 0 : align == '^' ? margin / 2 : margin;
    return put(run, pieces, text, left, margin - left, spec);
}

bool jinja_format_number(struct jinja_run *run, struct jinja_pieces *pieces, const struct jinja_spec *spec,
                         bool negative, const char *digits, bool tainted)
{
    struct jinja_writer writer = {.run = run};
    struct jinja_origin origin = JINJA_TEMPLATE_ORIGIN;
    char sign = negative ? '-' : spec->sign;
    origin.trusted = !tainted;
    jinja_mix_add(&writer.mix, origin);
    if (sign)
        jinja_write_byte(&writer, sign);
    bool inner = spec->align == '=' || (spec->align == 0 && spec->zero);
    if (inner && spec->grouping)
        return jinja_fail_status(run, STATUS_UNSUPPORTED, "line %u: zeros with grouping are not supported", run->line);
    if (inner) {
        size_t prefix = spec->alternate && digits[0] == '0' && digits[1] > '9' ? 2 : 0;
        jinja_write(&writer, digits, prefix);
        digits += prefix;
        int64_t missing = spec->width - (int64_t)writer.size - (int64_t)strlen(digits);
        if (missing > 100000)
            return jinja_fail_status(run, STATUS_TOO_LARGE, "line %u: a width is too large", run->line);
        for (int64_t i = 0; i < missing; i++)
            jinja_write(&writer, spec->fill_size > 0 && !spec->zero ? spec->fill : "0",
                        spec->fill_size > 0 && !spec->zero ? spec->fill_size : 1);
    }
    write_digits(&writer, digits, spec->grouping);
    struct jinja_string *text = jinja_writer_string(&writer);
    return jinja_format_padded(run, pieces, text, spec, spec->align ? spec->align : '>');
}

struct jinja_string *jinja_format_cut(struct jinja_run *run, struct jinja_string *text, int64_t precision)
{
    size_t length, end;
    if (text == NULL || !jinja_string_length(run, text, &length))
        return NULL;
    if (precision < 0 || (uint64_t)precision >= length)
        return text;
    return jinja_string_offset(run, text, (size_t)precision, &end) ? jinja_string_cut(run, text, 0, end) : NULL;
}

bool jinja_format_character(struct jinja_run *run, struct jinja_pieces *pieces, const struct jinja_spec *spec,
                            int64_t code, bool tainted)
{
    struct jinja_writer writer = {.run = run};
    struct jinja_origin origin = JINJA_TEMPLATE_ORIGIN;
    if (code < 0 || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000))
        return jinja_fail(run, "%%c arg not in range(0x110000)");
    origin.trusted = !tainted;
    jinja_mix_add(&writer.mix, origin);
    jinja_write_character(&writer, (uint32_t)code);
    return jinja_format_padded(run, pieces, jinja_writer_string(&writer), spec, spec->align ? spec->align : '<');
}
