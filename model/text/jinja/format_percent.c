/* printf-style `%`. */
#include <math.h>
#include <string.h>

#include "model/text/jinja/format.h"

struct percent {
    struct jinja_run *run;
    struct jinja_value argument;
    bool mapping, single; /* single: the one value, not a tuple */
    size_t used;
    bool markup;
};

static bool next_argument(struct percent *percent, struct jinja_value *out)
{
    if (percent->single) {
        if (percent->used++ > 0)
            return jinja_fail(percent->run, "not enough arguments for format string");
        *out = percent->argument;
        return true;
    }
    if (percent->used >= percent->argument.list->count)
        return jinja_fail(percent->run, "not enough arguments for format string");
    return jinja_list_get(percent->run, percent->argument.list, percent->used++, out);
}

static bool percent_star(struct percent *percent, int64_t *out)
{
    struct jinja_value value;
    if (!next_argument(percent, &value))
        return false;
    if (value.kind != JINJA_INTEGER && value.kind != JINJA_BOOL)
        return jinja_fail(percent->run, "* wants int");
    if (value.integer < -JINJA_WIDTH_MAX || value.integer > JINJA_WIDTH_MAX)
        return jinja_fail(percent->run, "width or precision too big");
    *out = value.integer;
    return true;
}

static bool percent_text(struct percent *percent, struct jinja_pieces *pieces, const struct jinja_spec *spec,
                         struct jinja_value value)
{
    struct jinja_string *text;
    if (spec->type == 's') {
        text = jinja_str(percent->run, value);
        if (percent->markup && text != NULL && !(value.kind == JINJA_STRING && value.string->markup))
            text = jinja_string_escape(percent->run, text);
    } else {
        struct jinja_writer writer = {.run = percent->run};
        text = jinja_write_repr(&writer, value) ? jinja_writer_string(&writer) : NULL;
        if (percent->markup && text != NULL)
            text = jinja_string_escape(percent->run, text);
    }
    text = jinja_format_cut(percent->run, text, spec->precision);
    return jinja_format_padded(percent->run, pieces, text, spec, spec->align ? spec->align : '>');
}

static bool percent_number(struct percent *percent, struct jinja_pieces *pieces, struct jinja_spec *spec,
                           struct jinja_value value)
{
    struct jinja_run *run = percent->run;
    struct jinja_digits digits;
    if (value.kind == JINJA_BIG)
        return jinja_fail_status(run, STATUS_UNSUPPORTED,
                                 "line %u: formatting an integer beyond 64 bits is not "
                                 "supported",
                                 run->line);
    if (strchr("diuxXo", spec->type) != NULL) {
        int64_t integer = value.integer;
        if (value.kind == JINJA_FLOAT && strchr("diu", spec->type) != NULL) {
            if (!(fabs(value.number) < 9e18))
                return jinja_fail_status(run, STATUS_UNSUPPORTED,
                                         "line %u: formatting an integer beyond 64 bits is "
                                         "not supported",
                                         run->line);
            integer = (int64_t)value.number;
        } else if (value.kind != JINJA_INTEGER && value.kind != JINJA_BOOL) {
            return jinja_fail(run, "%%%c format: a real number is required, not %s", spec->type,
                              jinja_type_name(value));
        }
        if (spec->precision > 0)
            return jinja_fail_status(run, STATUS_UNSUPPORTED, "line %u: a precision of an integer is not supported",
                                     run->line);
        return jinja_format_integer(run, spec, integer, &digits) &&
               jinja_format_number(run, pieces, spec, integer < 0, digits.text, value.tainted);
    }
    if (!jinja_is_number(value))
        return jinja_fail(run, "must be real number, not %s", jinja_type_name(value));
    double number = value.kind == JINJA_FLOAT ? value.number : (double)value.integer;
    return jinja_format_float(run, spec, number, &digits) &&
           jinja_format_number(run, pieces, spec, signbit(number) && !isnan(number), digits.text, value.tainted);
}

static bool percent_convert(struct percent *percent, struct jinja_pieces *pieces, struct jinja_spec *spec,
                            struct jinja_value value)
{
    struct jinja_run *run = percent->run;
    if (spec->type == 's' || spec->type == 'r')
        return percent_text(percent, pieces, spec, value);
    if (spec->type == 'c') {
        size_t length = 0;
        if (value.kind == JINJA_STRING && jinja_string_length(run, value.string, &length) && length == 1)
            return jinja_format_padded(run, pieces, value.string, spec, spec->align ? spec->align : '>');
        if (value.kind != JINJA_INTEGER)
            return jinja_fail(run, "%%c requires int or char");
        spec->align = spec->align ? spec->align : '>';
        return jinja_format_character(run, pieces, spec, value.integer, value.tainted);
    }
    if (spec->type == 0 || strchr("diuxXoeEfFgG", spec->type) == NULL) {
        if (spec->type == 'a')
            return jinja_fail_status(run, STATUS_UNSUPPORTED, "line %u: %%a is not supported", run->line);
        return jinja_fail(run, "unsupported format character '%c'", spec->type);
    }
    return percent_number(percent, pieces, spec, value);
}

/* Flags, width, precision and type at bytes[*at]. */
static bool percent_spec(struct percent *percent, const char *bytes, size_t size, size_t *at, struct jinja_spec *spec)
{
    for (; *at < size && strchr("-+ #0", bytes[*at]) != NULL && bytes[*at]; (*at)++) {
        char c = bytes[*at];
        if (c == '-')
            spec->align = '<';
        else if (c == '+' || (c == ' ' && spec->sign == 0))
            spec->sign = c;
        else if (c == '#')
            spec->alternate = true;
        else if (c == '0')
            spec->zero = true;
    }
    for (int part = 0; part < 2; part++) {
        int64_t *number = part == 0 ? &spec->width : &spec->precision;
        if (part == 1) {
            if (*at >= size || bytes[*at] != '.')
                break;
            (*at)++;
            *number = 0;
        }
        if (*at < size && bytes[*at] == '*') {
            (*at)++;
            if (!percent_star(percent, number))
                return false;
            if (part == 0 && *number < 0) {
                spec->align = '<';
                *number = -*number;
            }
            if (*number < 0) /* a precision */
                *number = 0;
        }
        for (; *at < size && bytes[*at] >= '0' && bytes[*at] <= '9'; (*at)++)
            if (__builtin_mul_overflow(*number, 10, number) || *number > JINJA_WIDTH_MAX)
                return jinja_fail(percent->run, "width or precision too big");
            else
                *number += bytes[*at] - '0';
    }
    while (*at < size && strchr("hlL", bytes[*at]) != NULL && bytes[*at])
        (*at)++;
    if (*at >= size)
        return jinja_fail(percent->run, "incomplete format");
    spec->type = bytes[(*at)++];
    if (spec->align == '<')
        spec->zero = false;
    return true;
}

/* The value named by "(key)" at bytes[*at]. */
static bool percent_key(struct percent *percent, struct jinja_string *format, const char *bytes, size_t *at,
                        struct jinja_value *out)
{
    size_t from = ++*at, depth = 1;
    if (!percent->mapping)
        return jinja_fail(percent->run, "format requires a mapping");
    for (; *at < format->size && depth > 0; (*at)++)
        depth += bytes[*at] == '(' ? 1u : bytes[*at] == ')' ? (size_t)-1 : 0;
    if (depth > 0)
        return jinja_fail(percent->run, "incomplete format key");
    if (percent->argument.kind == JINJA_UNDEFINED)
        return jinja_fail_undefined(percent->run, percent->argument);
    struct jinja_string *key = jinja_string_cut(percent->run, format, from, *at - 1);
    if (key == NULL || !jinja_is_dict(percent->argument))
        return jinja_fail(percent->run, "format requires a mapping");
    int found = jinja_dict_find(percent->run, percent->argument, jinja_from_string(key), out);
    if (found == 0)
        return jinja_fail(percent->run, "the format names a key that is not there");
    percent->used = 1;
    return found > 0;
}

struct jinja_string *jinja_format_percent(struct jinja_run *run, struct jinja_string *format,
                                          struct jinja_value argument)
{
    const char *bytes = jinja_string_bytes(run, format);
    struct jinja_pieces *pieces = jinja_take(run, sizeof(*pieces));
    struct percent percent = {.run = run,
                              .argument = argument,
                              .mapping = jinja_is_dict(argument) || argument.kind == JINJA_UNDEFINED ||
                                         argument.kind == JINJA_LIST,
                              .single = argument.kind != JINJA_TUPLE,
                              .markup = format->markup};
    size_t at = 0;
    if (bytes == NULL || pieces == NULL)
        return NULL;
    while (at < format->size) {
        const char *sign = memchr(bytes + at, '%', format->size - at);
        size_t end = sign == NULL ? format->size : (size_t)(sign - bytes);
        struct jinja_string *literal = jinja_string_cut(run, format, at, end);
        if (literal == NULL || !jinja_pieces_string(run, pieces, literal) || !jinja_step(run, 1))
            return NULL;
        if (sign == NULL)
            break;
        at = end + 1;
        struct jinja_spec spec = {.precision = -1};
        struct jinja_value value = {.kind = JINJA_MISSING};
        if (at < format->size && bytes[at] == '(' && !percent_key(&percent, format, bytes, &at, &value))
            return NULL;
        if (!percent_spec(&percent, bytes, format->size, &at, &spec))
            return NULL;
        if (spec.type == '%') {
            if (!jinja_pieces_add(run, pieces, "%", 1, JINJA_TEMPLATE_ORIGIN))
                return NULL;
            continue;
        }
        if ((value.kind == JINJA_MISSING && !next_argument(&percent, &value)) ||
            !percent_convert(&percent, pieces, &spec, value))
            return NULL;
    }
    bool left = percent.single ? percent.used == 0 && !percent.mapping : percent.used < argument.list->count;
    if (left) {
        jinja_fail(run, "not all arguments converted during string formatting");
        return NULL;
    }
    return jinja_string_marked(run, jinja_string_view(run, pieces), format->markup);
}
