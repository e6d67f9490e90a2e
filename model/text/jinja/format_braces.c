/* str.format. */
#include <math.h>
#include <string.h>

#include "model/text/jinja/format.h"

struct braces {
    struct jinja_run *run;
    struct jinja_string *format;
    const char *bytes;
    const struct jinja_args *args;
    size_t automatic; /* the next {} */
    bool numbered;    /* {0} was used */
};

static bool brace_first(struct braces *braces, size_t from, size_t to, struct jinja_value *out)
{
    struct jinja_run *run = braces->run;
    bool digits = true;
    size_t index = 0;
    for (size_t i = from; i < to; i++) {
        digits = digits && braces->bytes[i] >= '0' && braces->bytes[i] <= '9';
        index = digits && index < 100000 ? index * 10 + (size_t)(braces->bytes[i] - '0') : index;
    }
    if (digits) {
        if (from < to ? braces->automatic > 0 : braces->numbered)
            return jinja_fail(run, "cannot switch between manual field specification and automatic field numbering");
        braces->numbered |= from < to;
        if (from == to)
            index = braces->automatic++;
        if (index >= braces->args->count)
            return jinja_fail(run, "Replacement index %zu out of range for positional args tuple", index);
        *out = braces->args->values[index];
        return true;
    }
    for (size_t i = 0; i < braces->args->named; i++) {
        struct jinja_string *name = braces->args->names[i].string;
        const char *text = jinja_string_bytes(run, name);
        if (text == NULL)
            return false;
        if (name->size == to - from && memcmp(text, braces->bytes + from, to - from) == 0) {
            *out = braces->args->named_values[i];
            return true;
        }
    }
    return jinja_fail(run, "the format names '%.*s', which was not given", (int)(to - from < 64 ? to - from : 64),
                      braces->bytes + from);
}

/* name.attribute[item] in bytes[from, to) */
static bool brace_field(struct braces *braces, size_t from, size_t to, struct jinja_value *out)
{
    size_t at = from;
    while (at < to && braces->bytes[at] != '.' && braces->bytes[at] != '[')
        at++;
    if (!brace_first(braces, from, at, out))
        return false;
    while (at < to) {
        bool attribute = braces->bytes[at] == '.';
        size_t start = ++at;
        while (at < to && (attribute ? braces->bytes[at] != '.' && braces->bytes[at] != '[' : braces->bytes[at] != ']'))
            at++;
        if (at == start || (!attribute && at == to))
            return jinja_fail(braces->run, "Empty attribute in format string");
        struct jinja_string *name = jinja_string_cut(braces->run, braces->format, start, at);
        struct jinja_value object = *out, key;
        if (name == NULL)
            return false;
        key = jinja_from_string(name);
        bool digits = !attribute && at - start < 18;
        int64_t index = 0;
        for (size_t i = start; digits && i < at; i++) {
            digits = braces->bytes[i] >= '0' && braces->bytes[i] <= '9';
            index = index * 10 + (braces->bytes[i] - '0');
        }
        if (digits)
            key = jinja_integer(index);
        bool done = attribute ? jinja_get_attribute(braces->run, object, name, out)
                              : jinja_get_item(braces->run, object, key, out);
        if (!done)
            return false;
        at += !attribute;
        if (!attribute && at < to && braces->bytes[at] != '.' && braces->bytes[at] != '[')
            return jinja_fail(braces->run, "Only '.' or '[' may follow ']' in format field specifier");
    }
    return true;
}

static bool brace_spec(struct braces *braces, const char *bytes, size_t size, struct jinja_spec *spec)
{
    size_t at = 0;
    uint32_t c;
    size_t n = size > 0 ? jinja_character(bytes, size, &c) : 0;
    if (n > 0 && n < size && strchr("<>=^", bytes[n]) != NULL && bytes[n]) {
        memcpy(spec->fill, bytes, n);
        spec->fill_size = n;
        spec->align = bytes[n];
        at = n + 1;
    } else if (size > 0 && strchr("<>=^", bytes[0]) != NULL && bytes[0]) {
        spec->align = bytes[at++];
    }
    if (at < size && (bytes[at] == '+' || bytes[at] == '-' || bytes[at] == ' '))
        spec->sign = bytes[at++];
    if (spec->sign == '-')
        spec->sign = 0;
    if (at < size && bytes[at] == '#') {
        spec->alternate = true;
        at++;
    }
    if (at < size && bytes[at] == '0') {
        spec->zero = true;
        at++;
    }
    for (int part = 0; part < 2; part++) {
        int64_t *number = part == 0 ? &spec->width : &spec->precision;
        if (part == 1) {
            if (at < size && (bytes[at] == ',' || bytes[at] == '_'))
                spec->grouping = bytes[at++];
            if (at >= size || bytes[at] != '.')
                break;
            at++;
            *number = 0;
        }
        for (; at < size && bytes[at] >= '0' && bytes[at] <= '9'; at++) {
            if (*number > JINJA_WIDTH_MAX)
                return jinja_fail(braces->run, "Too many decimal digits in format string");
            *number = *number * 10 + (bytes[at] - '0');
        }
    }
    if (at < size)
        spec->type = bytes[at++];
    return at == size || jinja_fail(braces->run, "Invalid format specifier");
}

static bool brace_value(struct braces *braces, struct jinja_pieces *pieces, const struct jinja_spec *spec, bool plain,
                        struct jinja_value value)
{
    struct jinja_run *run = braces->run;
    struct jinja_digits digits;
    bool number = jinja_is_number(value) && value.kind != JINJA_BOOL;
    if (value.kind == JINJA_BOOL && spec->type != 0 && spec->type != 's')
        number = true;
    if (plain || (!number && (spec->type == 0 || spec->type == 's'))) {
        if (!plain && value.kind != JINJA_STRING && value.kind != JINJA_BOOL)
            return jinja_fail(run, "unsupported format string passed to %s.__format__", jinja_type_name(value));
        if (!plain && (spec->sign || spec->alternate || spec->grouping || spec->align == '='))
            return jinja_fail(run, "a number's format was given for a str");
        struct jinja_string *text = jinja_format_cut(run, jinja_str(run, value), spec->precision);
        return jinja_format_padded(run, pieces, text, spec, spec->align ? spec->align : '<');
    }
    if (!number)
        return jinja_fail(run, "Unknown format code '%c' for object of type '%s'", spec->type, jinja_type_name(value));
    if (value.kind == JINJA_BIG)
        return jinja_fail_status(run, STATUS_UNSUPPORTED,
                                 "line %u: formatting an integer beyond 64 bits is not "
                                 "supported",
                                 run->line);
    if (spec->type == 'c')
        return jinja_format_character(run, pieces, spec, value.kind == JINJA_FLOAT ? -1 : value.integer, value.tainted);
    if (value.kind == JINJA_FLOAT || (spec->type != 0 && strchr("eEfFgG%", spec->type) != NULL)) {
        double real = value.kind == JINJA_FLOAT ? value.number : (double)value.integer;
        return jinja_format_float(run, spec, real, &digits) &&
               jinja_format_number(run, pieces, spec, signbit(real) && !isnan(real), digits.text, value.tainted);
    }
    if (spec->precision >= 0)
        return jinja_fail(run, "Precision not allowed in integer format specifier");
    return jinja_format_integer(run, spec, value.integer, &digits) &&
           jinja_format_number(run, pieces, spec, value.integer < 0, digits.text, value.tainted);
}

/* One replacement field in bytes[from, to), without its braces. */
static bool brace_replace(struct braces *braces, struct jinja_pieces *pieces, size_t from, size_t to)
{
    struct jinja_run *run = braces->run;
    size_t end = from, depth = 0;
    struct jinja_spec spec = {.precision = -1};
    struct jinja_value value;
    while (end < to && (depth > 0 || (braces->bytes[end] != '!' && braces->bytes[end] != ':'))) {
        depth += braces->bytes[end] == '[' ? 1u : braces->bytes[end] == ']' && depth > 0 ? (size_t)-1 : 0;
        end++;
    }
    if (!brace_field(braces, from, end, &value))
        return false;
    bool plain = end == to;
    if (end < to && braces->bytes[end] == '!') {
        char how = end + 1 < to ? braces->bytes[end + 1] : 0;
        struct jinja_writer writer = {.run = run};
        if (how != 'r' && how != 's')
            return jinja_fail_status(run, STATUS_UNSUPPORTED, "line %u: a conversion of str.format is not supported",
                                     run->line);
        struct jinja_string *text = how == 's'                         ? jinja_str(run, value)
                                    : jinja_write_repr(&writer, value) ? jinja_writer_string(&writer)
                                                                       : NULL;
        if (text == NULL)
            return false;
        value = jinja_from_string(text);
        end += 2;
        plain = end == to;
        if (end < to && braces->bytes[end] != ':')
            return jinja_fail(run, "expected ':' after conversion specifier");
    }
    if (end < to) {
        end++;
        if (memchr(braces->bytes + end, '{', to - end) != NULL)
            return jinja_fail_status(run, STATUS_UNSUPPORTED, "line %u: nested fields of str.format are not supported",
                                     run->line);
        plain = end == to;
        if (!brace_spec(braces, braces->bytes + end, to - end, &spec))
            return false;
    }
    return brace_value(braces, pieces, &spec, plain, value);
}

struct jinja_string *jinja_format_braces(struct jinja_run *run, struct jinja_string *format,
                                         const struct jinja_args *args)
{
    struct braces braces = {.run = run, .format = format, .bytes = jinja_string_bytes(run, format), .args = args};
    struct jinja_pieces *pieces = jinja_take(run, sizeof(*pieces));
    if (braces.bytes == NULL || pieces == NULL)
        return NULL;
    if (format->markup) {
        jinja_fail_status(run, STATUS_UNSUPPORTED, "line %u: format of a safe string is not supported", run->line);
        return NULL;
    }
    for (size_t at = 0; at < format->size;) {
        size_t end = at;
        while (end < format->size && braces.bytes[end] != '{' && braces.bytes[end] != '}')
            end++;
        bool escape = end + 1 < format->size && braces.bytes[end + 1] == braces.bytes[end];
        struct jinja_string *literal = jinja_string_cut(run, format, at, end + escape);
        if (literal == NULL || !jinja_pieces_string(run, pieces, literal) || !jinja_step(run, 1))
            return NULL;
        at = end + (escape ? 2 : 1);
        if (escape || end == format->size)
            continue;
        if (braces.bytes[end] == '}') {
            jinja_fail(run, "Single '}' encountered in format string");
            return NULL;
        }
        size_t close = at, depth = 1;
        for (; close < format->size; close++) {
            depth += braces.bytes[close] == '{' ? 1u : braces.bytes[close] == '}' ? (size_t)-1 : 0;
            if (depth == 0)
                break;
        }
        if (depth > 0) {
            jinja_fail(run, "expected '}' before end of string");
            return NULL;
        }
        if (!brace_replace(&braces, pieces, at, close))
            return NULL;
        at = close + 1;
    }
    return jinja_string_view(run, pieces);
}
