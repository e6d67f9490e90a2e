/* Filters that make numbers. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "model/text/jinja/filters.h"
#include "model/text/jinja/unicode.h"

JINJA_FILTER(jinja_filter_abs)
{
    struct jinja_value none[1];
    if (!jinja_bind(run, args, filter->name, "", 0, none))
        return false;
    if (value.kind == JINJA_UNDEFINED)
        return jinja_fail(run, "bad operand type for abs(): 'Undefined'");
    if (!jinja_is_number(value))
        return jinja_fail(run, "bad operand type for abs(): '%s'", jinja_type_name(value));
    bool negative = value.kind == JINJA_FLOAT ? signbit(value.number) : value.kind != JINJA_BIG && value.integer < 0;
    if (value.kind == JINJA_BIG && value.text[0] == '-') {
        *out = value;
        out->text++;
        return true;
    }
    if (value.kind == JINJA_BIG) {
        *out = value;
        return true;
    }
    return jinja_negate(run, value, negative, out);
}

/* The text of a number without what int() and float() allow around and inside it: spaces, underscores between digits.
 * False: not ASCII, or an underscore in a wrong place. */
static bool plain_number(struct jinja_run *run, struct jinja_string *text, char *out, size_t room)
{
    struct jinja_string *trimmed = jinja_string_strip(run, text, NULL, JINJA_STRIP_LEFT | JINJA_STRIP_RIGHT);
    const char *bytes = trimmed == NULL ? NULL : jinja_string_bytes(run, trimmed);
    size_t n = 0;
    if (bytes == NULL || trimmed->size == 0 || trimmed->size >= room)
        return false;
    for (size_t i = 0; i < trimmed->size; i++) {
        bool before = i > 0 && bytes[i - 1] >= '0' && bytes[i - 1] <= '9';
        bool after = i + 1 < trimmed->size && bytes[i + 1] >= '0' && bytes[i + 1] <= '9';
        if (bytes[i] == '_' && before && after)
            continue;
        if (bytes[i] == '_' || (unsigned char)bytes[i] >= 0x80 || bytes[i] <= ' ')
            return false;
        out[n++] = bytes[i];
    }
    out[n] = '\0';
    return true;
}

static bool float_of_text(struct jinja_run *run, struct jinja_string *text, double *out)
{
    char plain[400], *end;
    if (!plain_number(run, text, plain, sizeof(plain)) || strpbrk(plain, "xXpP(") != NULL)
        return false;
    *out = strtod(plain, &end);
    return *end == '\0' && end != plain;
}

/* 1: *out is the integer, 0: not one, -1: failed */
static int integer_of_text(struct jinja_run *run, struct jinja_string *text, int64_t base, struct jinja_value *out)
{
    char plain[400], *end;
    if (base != 10)
        return jinja_fail_status(run, STATUS_UNSUPPORTED, "line %u: int with a base is not supported", run->line) - 1;
    if (!plain_number(run, text, plain, sizeof(plain)))
        return run->status == STATUS_OK ? 0 : -1;
    errno = 0;
    int64_t value = strtoll(plain, &end, 10);
    if (*end != '\0' || end == plain)
        return 0;
    *out = jinja_integer(value);
    if (errno == ERANGE) {
        const char *digits = plain + (*plain == '+' || *plain == '-');
        while (*digits == '0' && digits[1] != '\0')
            digits++;
        char *copy = jinja_take(run, strlen(digits) + 2);
        if (copy == NULL)
            return -1;
        copy[0] = '-';
        memcpy(copy + 1, digits, strlen(digits));
        *out = (struct jinja_value){.kind = JINJA_BIG, .text = *plain == '-' ? copy : copy + 1};
    }
    return 1;
}

static bool truncate_float(struct jinja_run *run, double number, struct jinja_value *out)
{
    if (fabs(number) < 9.2e18) {
        *out = jinja_integer((int64_t)number);
        return true;
    }
    char *text = jinja_take(run, 400);
    if (text == NULL)
        return false;
    snprintf(text, 400, "%.0f", number);
    *out = (struct jinja_value){.kind = JINJA_BIG, .text = text};
    return true;
}

JINJA_FILTER(jinja_filter_int)
{
    struct jinja_value given[2];
    int64_t base = 10;
    double number = 0;
    if (!jinja_bind(run, args, filter->name, "default base", 0, given) ||
        (given[1].kind != JINJA_MISSING && !jinja_as_index(run, given[1], &base)))
        return false;
    if (value.kind == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, value);
    bool tainted = value.tainted || value.kind == JINJA_STRING;
    if (value.kind == JINJA_STRING) {
        int found = integer_of_text(run, value.string, base, out);
        if (found == 0 && float_of_text(run, value.string, &number) && isfinite(number))
            found = truncate_float(run, number, out) ? 1 : -1;
        if (found < 0)
            return false;
        out->tainted = tainted;
        if (found == 1)
            return true;
    } else if (value.kind == JINJA_FLOAT) {
        if (isinf(value.number))
            return jinja_fail(run, "cannot convert float infinity to integer");
        if (isfinite(value.number) && !truncate_float(run, value.number, out))
            return false;
        out->tainted = tainted;
        if (isfinite(value.number))
            return true;
    } else if (jinja_is_number(value)) {
        *out = value;
        if (value.kind == JINJA_BOOL)
            out->kind = JINJA_INTEGER;
        return true;
    }
    *out = given[0].kind == JINJA_MISSING ? jinja_integer(0) : given[0];
    return run->status == STATUS_OK;
}

JINJA_FILTER(jinja_filter_float)
{
    struct jinja_value given[1];
    double number = 0;
    if (!jinja_bind(run, args, filter->name, "default", 0, given))
        return false;
    if (value.kind == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, value);
    bool found = true;
    if (value.kind == JINJA_STRING)
        found = float_of_text(run, value.string, &number);
    else if (value.kind == JINJA_BIG)
        number = strtod(value.text, NULL);
    else if (jinja_is_number(value))
        number = value.kind == JINJA_FLOAT ? value.number : (double)value.integer;
    else
        found = false;
    if (value.kind == JINJA_BIG && isinf(number))
        return jinja_fail(run, "int too large to convert to float");
    *out = found ? jinja_float(number) : given[0].kind == JINJA_MISSING ? jinja_float(0.0) : given[0];
    if (found)
        out->tainted = value.tainted || value.kind == JINJA_STRING;
    return run->status == STATUS_OK;
}

/* Python's round(): correctly rounded to `digits` decimals, halves to even. */
static double round_decimal(double number, int64_t digits)
{
    char text[400];
    if (!isfinite(number) || digits > 300)
        return number;
    if (digits < 0) {
        if (digits < -300)
            return copysign(0.0, number);
        /* Exact halves need the decimal digits: print whole, then cut. */
        double scale = pow(10.0, (double)-digits);
        return copysign(nearbyint(fabs(number) / scale) * scale, number);
    }
    snprintf(text, sizeof(text), "%.*f", (int)digits, number);
    return strtod(text, NULL);
}

JINJA_FILTER(jinja_filter_round)
{
    struct jinja_value given[2];
    int64_t digits = 0;
    double number, scale;
    if (!jinja_bind(run, args, filter->name, "precision method", 0, given) ||
        (given[0].kind != JINJA_MISSING && !jinja_as_index(run, given[0], &digits)))
        return false;
    bool common = given[1].kind == JINJA_MISSING, ceiling = false;
    if (given[1].kind == JINJA_STRING) {
        common = jinja_string_is(run, given[1].string, "common");
        ceiling = jinja_string_is(run, given[1].string, "ceil");
        if (!common && !ceiling && !jinja_string_is(run, given[1].string, "floor"))
            return jinja_fail(run, "method must be common, ceil or floor");
    } else if (!common) {
        return jinja_fail(run, "method must be common, ceil or floor");
    }
    if (value.kind == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, value);
    if (!jinja_is_number(value))
        return jinja_fail(run, "type %s doesn't define __round__ method", jinja_type_name(value));
    if (value.kind == JINJA_BIG || (value.kind != JINJA_FLOAT && common && digits < 0) || digits < -300 || digits > 300)
        return jinja_fail_status(run, STATUS_UNSUPPORTED, "line %u: rounding like this is not supported", run->line);
    if (value.kind != JINJA_FLOAT && common) {
        *out = jinja_integer(value.integer);
    } else {
        number = value.kind == JINJA_FLOAT ? value.number : (double)value.integer;
        scale = pow(10.0, (double)digits);
        if (!common && !isfinite(number * scale))
            return jinja_fail(run, "cannot convert float to integer");
        *out = jinja_float(common    ? round_decimal(number, digits)
                           : ceiling ? ceil(number * scale) / scale
                                     : floor(number * scale) / scale);
    }
    out->tainted = value.tainted;
    return true;
}
