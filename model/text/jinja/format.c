/* printf-style `%` and str.format. What is put in keeps its origin when it is put in whole. */
#include <math.h>
#include <string.h>

#include "model/text/jinja/run.h"

/* One conversion: [[fill]align][sign][#][0][width][,][.precision][type] */
struct spec {
    char fill[4];
    size_t fill_size;
    char align; /* '<', '>', '^', '=' or 0 */
    char sign;  /* '+', ' ' or 0 */
    bool alternate, zero;
    char grouping;            /* ',' or '_' or 0 */
    int64_t width, precision; /* precision -1: none */
    char type;
};

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

static bool integer_text(struct jinja_run *run, const struct spec *spec, int64_t value, char *out, size_t room)
{
    uint64_t magnitude = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    const char *prefix = "";
    switch (spec->type) {
    case 'x':
    case 'X':
    case 'o':
        prefix = !spec->alternate ? "" : spec->type == 'x' ? "0x" : spec->type == 'X' ? "0X" : "0o";
        snprintf(out, room,
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
            out[n++] = '0';
            out[n++] = 'b';
        }
        while (bits > 0)
            out[n++] = (char)('0' + (magnitude >> --bits & 1));
        out[n] = '\0';
        return true;
    }
    case 0:
    case 'd':
    case 'i':
    case 'u':
    case 'n':
        snprintf(out, room, "%llu", (unsigned long long)magnitude);
        return true;
    default:
        return jinja_fail(run, "Unknown format code '%c' for object of type 'int'", spec->type);
    }
}

static bool float_text(struct jinja_run *run, const struct spec *spec, double value, char *out, size_t room)
{
    double magnitude = fabs(value);
    int precision = spec->precision < 0 ? 6 : (int)spec->precision;
    char format[16], type = spec->type;
    if (precision > 300)
        return jinja_fail_status(run, STATUS_UNSUPPORTED, "line %u: a precision over 300 is not supported", run->line);
    if (isnan(value) || isinf(value)) {
        bool upper = type == 'F' || type == 'E' || type == 'G';
        snprintf(out, room, "%s", isnan(value) ? (upper ? "NAN" : "nan") : (upper ? "INF" : "inf"));
        return true;
    }
    if (type == 0) {
        if (spec->precision >= 0)
            return jinja_fail_status(run, STATUS_UNSUPPORTED, "line %u: a precision without a type is not supported",
                                     run->line);
        struct jinja_writer writer = {.run = run};
        jinja_write_float(&writer, magnitude);
        snprintf(out, room, "%.*s", (int)writer.size, writer.bytes);
        return !writer.failed;
    }
    if (strchr("eEfFgG%", type) == NULL)
        return jinja_fail(run, "Unknown format code '%c' for object of type 'float'", type);
    snprintf(format, sizeof(format), "%%%s.*%c", spec->alternate ? "#" : "", type == '%' ? 'f' : type);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    int n = snprintf(out, room - 1, format, precision, type == '%' ? magnitude * 100 : magnitude);
#pragma GCC diagnostic pop
    if (type == '%' && n > 0 && (size_t)n < room - 1) {
        out[n] = '%';
        out[n + 1] = '\0';
    }
    return true;
}

/* ---- padding ---- */

static bool put(struct jinja_run *run, struct jinja_pieces *pieces, struct jinja_string *text, int64_t left,
                int64_t right, const struct spec *spec)
{
    struct jinja_string *fill = jinja_string_copy(run, spec->fill_size > 0 ? spec->fill : " ",
                                                  spec->fill_size > 0 ? spec->fill_size : 1, JINJA_TEMPLATE_ORIGIN);
    if (fill == NULL || text == NULL)
        return false;
    struct jinja_string *before = jinja_string_repeat(run, fill, left), *after = jinja_string_repeat(run, fill, right);
    return before != NULL && after != NULL && jinja_pieces_string(run, pieces, before) &&
           jinja_pieces_string(run, pieces, text) && jinja_pieces_string(run, pieces, after);
}

static bool put_padded(struct jinja_run *run, struct jinja_pieces *pieces, struct jinja_string *text,
                       const struct spec *spec, char align)
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

static bool put_number(struct jinja_run *run, struct jinja_pieces *pieces, const struct spec *spec, bool negative,
                       const char *digits, bool tainted)
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
    return put_padded(run, pieces, text, spec, spec->align ? spec->align : '>');
}

static struct jinja_string *cut_characters(struct jinja_run *run, struct jinja_string *text, int64_t precision)
{
    size_t length, end;
    if (text == NULL || !jinja_string_length(run, text, &length))
        return NULL;
    if (precision < 0 || (uint64_t)precision >= length)
        return text;
    return jinja_string_offset(run, text, (size_t)precision, &end) ? jinja_string_cut(run, text, 0, end) : NULL;
}

static bool put_character(struct jinja_run *run, struct jinja_pieces *pieces, const struct spec *spec, int64_t code,
                          bool tainted)
{
    struct jinja_writer writer = {.run = run};
    struct jinja_origin origin = JINJA_TEMPLATE_ORIGIN;
    if (code < 0 || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000))
        return jinja_fail(run, "%%c arg not in range(0x110000)");
    origin.trusted = !tainted;
    jinja_mix_add(&writer.mix, origin);
    jinja_write_character(&writer, (uint32_t)code);
    return put_padded(run, pieces, jinja_writer_string(&writer), spec, spec->align ? spec->align : '<');
}

/* ---- % ---- */

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
    *out = value.integer;
    return true;
}

static bool percent_text(struct percent *percent, struct jinja_pieces *pieces, const struct spec *spec,
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
    text = cut_characters(percent->run, text, spec->precision);
    return put_padded(percent->run, pieces, text, spec, spec->align ? spec->align : '>');
}

static bool percent_number(struct percent *percent, struct jinja_pieces *pieces, struct spec *spec,
                           struct jinja_value value)
{
    struct jinja_run *run = percent->run;
    char digits[400];
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
        return integer_text(run, spec, integer, digits, sizeof(digits)) &&
               put_number(run, pieces, spec, integer < 0, digits, value.tainted);
    }
    if (!jinja_is_number(value))
        return jinja_fail(run, "must be real number, not %s", jinja_type_name(value));
    double number = value.kind == JINJA_FLOAT ? value.number : (double)value.integer;
    return float_text(run, spec, number, digits, sizeof(digits)) &&
           put_number(run, pieces, spec, signbit(number) && !isnan(number), digits, value.tainted);
}

static bool percent_convert(struct percent *percent, struct jinja_pieces *pieces, struct spec *spec,
                            struct jinja_value value)
{
    struct jinja_run *run = percent->run;
    if (spec->type == 's' || spec->type == 'r')
        return percent_text(percent, pieces, spec, value);
    if (spec->type == 'c') {
        size_t length = 0;
        if (value.kind == JINJA_STRING && jinja_string_length(run, value.string, &length) && length == 1)
            return put_padded(run, pieces, value.string, spec, spec->align ? spec->align : '>');
        if (value.kind != JINJA_INTEGER)
            return jinja_fail(run, "%%c requires int or char");
        spec->align = spec->align ? spec->align : '>';
        return put_character(run, pieces, spec, value.integer, value.tainted);
    }
    if (spec->type == 0 || strchr("diuxXoeEfFgG", spec->type) == NULL) {
        if (spec->type == 'a')
            return jinja_fail_status(run, STATUS_UNSUPPORTED, "line %u: %%a is not supported", run->line);
        return jinja_fail(run, "unsupported format character '%c'", spec->type);
    }
    return percent_number(percent, pieces, spec, value);
}

/* Flags, width, precision and type at bytes[*at]. */
static bool percent_spec(struct percent *percent, const char *bytes, size_t size, size_t *at, struct spec *spec)
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
        }
        for (; *at < size && bytes[*at] >= '0' && bytes[*at] <= '9'; (*at)++)
            if (__builtin_mul_overflow(*number, 10, number) || *number > 100000000)
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
        struct spec spec = {.precision = -1};
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

/* ---- str.format ---- */

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

static bool brace_spec(struct braces *braces, const char *bytes, size_t size, struct spec *spec)
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
            if (*number > 10000000)
                return jinja_fail(braces->run, "Too many decimal digits in format string");
            *number = *number * 10 + (bytes[at] - '0');
        }
    }
    if (at < size)
        spec->type = bytes[at++];
    return at == size || jinja_fail(braces->run, "Invalid format specifier");
}

static bool brace_value(struct braces *braces, struct jinja_pieces *pieces, const struct spec *spec, bool plain,
                        struct jinja_value value)
{
    struct jinja_run *run = braces->run;
    char digits[400];
    bool number = jinja_is_number(value) && value.kind != JINJA_BOOL;
    if (value.kind == JINJA_BOOL && spec->type != 0 && spec->type != 's')
        number = true;
    if (plain || (!number && (spec->type == 0 || spec->type == 's'))) {
        if (!plain && value.kind != JINJA_STRING && value.kind != JINJA_BOOL)
            return jinja_fail(run, "unsupported format string passed to %s.__format__", jinja_type_name(value));
        if (!plain && (spec->sign || spec->alternate || spec->grouping || spec->align == '='))
            return jinja_fail(run, "a number's format was given for a str");
        struct jinja_string *text = cut_characters(run, jinja_str(run, value), spec->precision);
        return put_padded(run, pieces, text, spec, spec->align ? spec->align : '<');
    }
    if (!number)
        return jinja_fail(run, "Unknown format code '%c' for object of type '%s'", spec->type, jinja_type_name(value));
    if (value.kind == JINJA_BIG)
        return jinja_fail_status(run, STATUS_UNSUPPORTED,
                                 "line %u: formatting an integer beyond 64 bits is not "
                                 "supported",
                                 run->line);
    if (spec->type == 'c')
        return put_character(run, pieces, spec, value.kind == JINJA_FLOAT ? -1 : value.integer, value.tainted);
    if (value.kind == JINJA_FLOAT || (spec->type != 0 && strchr("eEfFgG%", spec->type) != NULL)) {
        double real = value.kind == JINJA_FLOAT ? value.number : (double)value.integer;
        return float_text(run, spec, real, digits, sizeof(digits)) &&
               put_number(run, pieces, spec, signbit(real) && !isnan(real), digits, value.tainted);
    }
    if (spec->precision >= 0)
        return jinja_fail(run, "Precision not allowed in integer format specifier");
    return integer_text(run, spec, value.integer, digits, sizeof(digits)) &&
           put_number(run, pieces, spec, value.integer < 0, digits, value.tainted);
}

/* One replacement field in bytes[from, to), without its braces. */
static bool brace_replace(struct braces *braces, struct jinja_pieces *pieces, size_t from, size_t to)
{
    struct jinja_run *run = braces->run;
    size_t end = from, depth = 0;
    struct spec spec = {.precision = -1};
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
