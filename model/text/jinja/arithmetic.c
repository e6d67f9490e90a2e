/* + - * / // % ** and unary minus, on Python's rules. Integers that leave 64 bits are refused, never wrapped. */
#include <math.h>
#include <string.h>

#include "model/text/jinja/run.h"

static const char *const names[] = {"+", "-", "*", "/", "//", "%", "** or pow()"};

static bool too_big(struct jinja_run *run)
{
    return jinja_fail_status(run, STATUS_UNSUPPORTED,
                             "chat template line %u: arithmetic beyond 64-bit integers is not supported", run->line);
}

static bool wrong_types(struct jinja_run *run, enum jinja_operator operation, struct jinja_value a,
                        struct jinja_value b)
{
    return jinja_fail(run, "unsupported operand type(s) for %s: '%s' and '%s'", names[operation], jinja_type_name(a),
                      jinja_type_name(b));
}

/* ---- numbers ---- */

static bool power(struct jinja_run *run, int64_t base, int64_t exponent, struct jinja_value *out)
{
    int64_t result = 1;
    if (exponent < 0) {
        if (base == 0)
            return jinja_fail(run, "0.0 cannot be raised to a negative power");
        *out = jinja_float(pow((double)base, (double)exponent));
        return true;
    }
    while (exponent > 0) {
        if ((exponent & 1) && __builtin_mul_overflow(result, base, &result))
            return too_big(run);
        exponent >>= 1;
        if (exponent > 0 && __builtin_mul_overflow(base, base, &base))
            return too_big(run);
    }
    *out = jinja_integer(result);
    return true;
}

static bool integers(struct jinja_run *run, enum jinja_operator operation, int64_t a, int64_t b,
                     struct jinja_value *out)
{
    int64_t result = 0;
    bool over = false;
    if (b == 0 && (operation == JINJA_DIVIDE || operation == JINJA_FLOOR_DIVIDE || operation == JINJA_MODULO))
        return jinja_fail(run, operation == JINJA_DIVIDE ? "division by zero" : "integer division or modulo by zero");
    switch (operation) {
    case JINJA_ADD:
        over = __builtin_add_overflow(a, b, &result);
        break;
    case JINJA_SUBTRACT:
        over = __builtin_sub_overflow(a, b, &result);
        break;
    case JINJA_MULTIPLY:
        over = __builtin_mul_overflow(a, b, &result);
        break;
    case JINJA_DIVIDE:
        /* Python rounds the exact quotient once; beyond 2^53 a division of doubles would round three times. */
        if (llabs(a / 2) > (int64_t)1 << 52 || llabs(b / 2) > (int64_t)1 << 52)
            return too_big(run);
        *out = jinja_float((double)a / (double)b);
        return true;
    case JINJA_FLOOR_DIVIDE:
    case JINJA_MODULO:
        over = a == INT64_MIN && b == -1;
        if (over)
            break;
        result = operation == JINJA_MODULO ? a % b : a / b;
        if (a % b != 0 && (a % b < 0) != (b < 0))
            result += operation == JINJA_MODULO ? b : -1;
        break;
    case JINJA_POWER:
        return power(run, a, b, out);
    }
    *out = jinja_integer(result);
    return over ? too_big(run) : true;
}

static bool floats(struct jinja_run *run, enum jinja_operator operation, double a, double b, struct jinja_value *out)
{
    double result = 0, rest;
    if (b == 0.0 && (operation == JINJA_DIVIDE || operation == JINJA_FLOOR_DIVIDE || operation == JINJA_MODULO))
        return jinja_fail(run, "float division by zero");
    switch (operation) {
    case JINJA_ADD:
        result = a + b;
        break;
    case JINJA_SUBTRACT:
        result = a - b;
        break;
    case JINJA_MULTIPLY:
        result = a * b;
        break;
    case JINJA_DIVIDE:
        result = a / b;
        break;
    case JINJA_FLOOR_DIVIDE:
    case JINJA_MODULO:
        /* CPython's float_divmod */
        rest = fmod(a, b);
        result = (a - rest) / b;
        if (rest != 0.0) {
            if ((b < 0) != (rest < 0)) {
                rest += b;
                result -= 1.0;
            }
        } else {
            rest = copysign(0.0, b);
        }
        if (operation == JINJA_MODULO) {
            result = rest;
        } else if (result != 0.0) {
            double whole = floor(result);
            result = result - whole > 0.5 ? whole + 1.0 : whole;
        } else {
            result = copysign(0.0, a / b);
        }
        break;
    case JINJA_POWER:
        if (a == 0.0 && b < 0)
            return jinja_fail(run, "0.0 cannot be raised to a negative power");
        if (a < 0 && isfinite(a) && isfinite(b) && b != floor(b))
            return jinja_fail_status(run, STATUS_UNSUPPORTED, "line %u: complex numbers are not supported", run->line);
        result = pow(a, b);
        if (isinf(result) && isfinite(a) && isfinite(b))
            return jinja_fail(run, "(34, 'Numerical result out of range')");
        break;
    }
    *out = jinja_float(result);
    return true;
}

static bool numbers(struct jinja_run *run, enum jinja_operator operation, struct jinja_value a, struct jinja_value b,
                    struct jinja_value *out)
{
    bool done;
    if (a.kind == JINJA_BIG || b.kind == JINJA_BIG)
        return too_big(run);
    if (a.kind == JINJA_FLOAT || b.kind == JINJA_FLOAT)
        done = floats(run, operation, a.kind == JINJA_FLOAT ? a.number : (double)a.integer,
                      b.kind == JINJA_FLOAT ? b.number : (double)b.integer, out);
    else
        done = integers(run, operation, a.integer, b.integer, out);
    out->tainted = a.tainted || b.tainted;
    return done;
}

/* ---- sequences ---- */

static bool add_strings(struct jinja_run *run, struct jinja_string *a, struct jinja_string *b, struct jinja_value *out)
{
    bool markup = a->markup || b->markup;
    if (markup) { /* markupsafe escapes what is not marked */
        a = a->markup ? a : jinja_string_escape(run, a);
        b = b->markup ? b : jinja_string_escape(run, b);
        if (a == NULL || b == NULL)
            return false;
    }
    struct jinja_string *joined = jinja_string_join(run, a, b);
    *out = jinja_from_string(jinja_string_marked(run, joined, markup));
    return out->string != NULL;
}

static bool fill(struct jinja_run *run, const struct jinja_list *list, struct jinja_value *items)
{
    for (size_t i = 0; i < list->count; i++)
        if (!jinja_list_get(run, list, i, &items[i]))
            return false;
    return jinja_step(run, list->count);
}

static bool add_lists(struct jinja_run *run, struct jinja_value a, struct jinja_value b, struct jinja_value *out)
{
    size_t count = a.list->count + b.list->count;
    struct jinja_value *items = jinja_take_array(run, count, sizeof(*items));
    return items != NULL && fill(run, a.list, items) && fill(run, b.list, items + a.list->count) &&
           jinja_list_make(run, (enum jinja_kind)a.kind, items, count, out);
}

static bool repeat(struct jinja_run *run, struct jinja_value sequence, struct jinja_value times,
                   struct jinja_value *out)
{
    if (times.kind != JINJA_INTEGER && times.kind != JINJA_BOOL)
        return jinja_fail(run, "can't multiply sequence by non-int of type '%s'", jinja_type_name(times));
    if (sequence.kind == JINJA_STRING) {
        struct jinja_string *repeated = jinja_string_repeat(run, sequence.string, times.integer);
        *out = jinja_from_string(jinja_string_marked(run, repeated, sequence.string->markup));
        return out->string != NULL;
    }
    size_t one = sequence.list->count, count;
    if (times.integer <= 0)
        return jinja_list_make(run, (enum jinja_kind)sequence.kind, NULL, 0, out);
    if (__builtin_mul_overflow(one, (size_t)times.integer, &count))
        count = SIZE_MAX;
    struct jinja_value *items = jinja_take_array(run, count, sizeof(*items));
    for (int64_t i = 0; items != NULL && i < times.integer && one > 0; i++)
        if (!fill(run, sequence.list, items + (size_t)i * one))
            return false;
    return items != NULL && jinja_list_make(run, (enum jinja_kind)sequence.kind, items, count, out);
}

static bool is_sequence(struct jinja_value value)
{
    return value.kind == JINJA_STRING || jinja_is_list(value);
}

bool jinja_arithmetic(struct jinja_run *run, enum jinja_operator operation, struct jinja_value a, struct jinja_value b,
                      struct jinja_value *out)
{
    if (operation == JINJA_MODULO && a.kind == JINJA_STRING) {
        *out = jinja_from_string(jinja_format_percent(run, a.string, b));
        return out->string != NULL;
    }
    if (a.kind == JINJA_UNDEFINED || b.kind == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, a.kind == JINJA_UNDEFINED ? a : b);
    if (jinja_is_number(a) && jinja_is_number(b))
        return numbers(run, operation, a, b, out);
    if (operation == JINJA_ADD) {
        if (a.kind == JINJA_STRING && b.kind == JINJA_STRING)
            return add_strings(run, a.string, b.string, out);
        if (jinja_is_list(a) && a.kind == b.kind)
            return add_lists(run, a, b, out);
        if (a.kind == JINJA_STRING)
            return jinja_fail(run, "can only concatenate str (not \"%s\") to str", jinja_type_name(b));
    }
    if (operation == JINJA_MULTIPLY && is_sequence(a))
        return repeat(run, a, b, out);
    if (operation == JINJA_MULTIPLY && is_sequence(b))
        return repeat(run, b, a, out);
    return wrong_types(run, operation, a, b);
}

bool jinja_negate(struct jinja_run *run, struct jinja_value value, bool negative, struct jinja_value *out)
{
    if (value.kind == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, value);
    if (!jinja_is_number(value))
        return jinja_fail(run, "bad operand type for unary %c: '%s'", negative ? '-' : '+', jinja_type_name(value));
    if (value.kind == JINJA_BIG || (negative && value.kind == JINJA_INTEGER && value.integer == INT64_MIN))
        return too_big(run);
    if (value.kind == JINJA_FLOAT)
        *out = jinja_float(negative ? -value.number : value.number);
    else
        *out = jinja_integer(negative ? -value.integer : value.integer);
    out->tainted = value.tainted;
    return true;
}

bool jinja_as_index(struct jinja_run *run, struct jinja_value value, int64_t *out)
{
    if (value.kind == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, value);
    if (value.kind != JINJA_INTEGER && value.kind != JINJA_BOOL)
        return jinja_fail(run, "'%s' object cannot be interpreted as an integer", jinja_type_name(value));
    *out = value.integer;
    return true;
}
