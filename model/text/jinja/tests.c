/* The tests of jinja2/tests.py. */
#include <string.h>

#include "model/text/jinja/run.h"

static bool none_given(struct jinja_run *run, const struct jinja_args *args)
{
    struct jinja_value unused[1];
    return jinja_bind(run, args, "a test", "", 0, unused);
}

static bool remainder_is(struct jinja_run *run, struct jinja_value value, int64_t by, int64_t rest, bool *out)
{
    struct jinja_value left;
    if (!jinja_arithmetic(run, JINJA_MODULO, value, jinja_integer(by), &left))
        return false;
    return jinja_equal(run, left, jinja_integer(rest), out);
}

static bool test_odd(struct jinja_run *run, struct jinja_value value, const struct jinja_args *args, bool *out)
{
    return none_given(run, args) && remainder_is(run, value, 2, 1, out);
}

static bool test_even(struct jinja_run *run, struct jinja_value value, const struct jinja_args *args, bool *out)
{
    return none_given(run, args) && remainder_is(run, value, 2, 0, out);
}

static bool test_divisibleby(struct jinja_run *run, struct jinja_value value, const struct jinja_args *args, bool *out)
{
    struct jinja_value given[1], left;
    return jinja_bind(run, args, "divisibleby", "num", 1, given) &&
           jinja_arithmetic(run, JINJA_MODULO, value, given[0], &left) && jinja_equal(run, left, jinja_integer(0), out);
}

#define SIMPLE_TEST(name, condition)                                                                                   \
    static bool test_##name(struct jinja_run *run, struct jinja_value value, const struct jinja_args *args, bool *out) \
    {                                                                                                                  \
        *out = (condition);                                                                                            \
        return none_given(run, args);                                                                                  \
    }

SIMPLE_TEST(defined, value.kind != JINJA_UNDEFINED)
SIMPLE_TEST(undefined, value.kind == JINJA_UNDEFINED)
SIMPLE_TEST(none, value.kind == JINJA_NONE)
SIMPLE_TEST(boolean, value.kind == JINJA_BOOL)
SIMPLE_TEST(false, value.kind == JINJA_BOOL && !value.integer)
SIMPLE_TEST(true, value.kind == JINJA_BOOL && value.integer)
SIMPLE_TEST(integer, value.kind == JINJA_INTEGER || value.kind == JINJA_BIG)
SIMPLE_TEST(float, value.kind == JINJA_FLOAT)
SIMPLE_TEST(string, value.kind == JINJA_STRING)
SIMPLE_TEST(mapping, jinja_is_dict(value))
SIMPLE_TEST(number, jinja_is_number(value))
SIMPLE_TEST(iterable, jinja_is_iterable(value))
SIMPLE_TEST(escaped, value.kind == JINJA_STRING && value.string->markup)

/* len(value) and value.__getitem__ both work; an undefined value's attribute access by a dunder name does not raise. */
SIMPLE_TEST(sequence, value.kind == JINJA_STRING || jinja_is_list(value) || jinja_is_dict(value) ||
                          value.kind == JINJA_RANGE || value.kind == JINJA_UNDEFINED)
SIMPLE_TEST(callable, value.kind == JINJA_MACRO || value.kind == JINJA_METHOD || value.kind == JINJA_FUNCTION ||
                          value.kind == JINJA_UNDEFINED || value.kind == JINJA_LOOP)

static bool test_case(struct jinja_run *run, struct jinja_value value, const struct jinja_args *args, const char *name,
                      bool *out)
{
    struct jinja_args nothing = {0};
    struct jinja_value answer;
    struct jinja_string *text = jinja_str(run, value);
    if (!none_given(run, args) || text == NULL || !jinja_string_method(run, text, name, &nothing, &answer))
        return false;
    *out = answer.integer != 0;
    return true;
}

static bool test_lower(struct jinja_run *run, struct jinja_value value, const struct jinja_args *args, bool *out)
{
    return test_case(run, value, args, "islower", out);
}

static bool test_upper(struct jinja_run *run, struct jinja_value value, const struct jinja_args *args, bool *out)
{
    return test_case(run, value, args, "isupper", out);
}

static bool test_name(struct jinja_run *run, struct jinja_value value, const struct jinja_args *args, bool filter,
                      bool *out)
{
    uint64_t hash;
    *out = false;
    if (!none_given(run, args) || !jinja_hash(run, value, &hash))
        return false;
    if (value.kind != JINJA_STRING)
        return true;
    const char *name = jinja_string_bytes(run, value.string);
    if (name == NULL)
        return false;
    *out = filter ? jinja_filter_find(name, value.string->size) != NULL ||
                        jinja_filter_is_foreign(name, value.string->size)
                  : jinja_test_find(name, value.string->size) != NULL;
    return true;
}

static bool test_filter(struct jinja_run *run, struct jinja_value value, const struct jinja_args *args, bool *out)
{
    return test_name(run, value, args, true, out);
}

static bool test_test(struct jinja_run *run, struct jinja_value value, const struct jinja_args *args, bool *out)
{
    return test_name(run, value, args, false, out);
}

static bool test_sameas(struct jinja_run *run, struct jinja_value value, const struct jinja_args *args, bool *out)
{
    struct jinja_value given[1];
    if (!jinja_bind(run, args, "sameas", "other", 1, given))
        return false;
    if (jinja_is_number(value) && value.kind != JINJA_BOOL && jinja_is_number(given[0]))
        return jinja_fail_status(run, STATUS_UNSUPPORTED, "line %u: sameas of numbers is not supported", run->line);
    *out = jinja_same(value, given[0]);
    return true;
}

static bool test_in(struct jinja_run *run, struct jinja_value value, const struct jinja_args *args, bool *out)
{
    struct jinja_value given[1];
    return jinja_bind(run, args, "in", "seq", 1, given) && jinja_contains(run, given[0], value, out);
}

static bool equality(struct jinja_run *run, struct jinja_value value, const struct jinja_args *args, bool wanted,
                     bool *out)
{
    struct jinja_value given[1];
    bool equal;
    if (!jinja_bind(run, args, "a comparison", "b", 1, given) || !jinja_equal(run, value, given[0], &equal))
        return false;
    *out = equal == wanted;
    return true;
}

static bool test_eq(struct jinja_run *run, struct jinja_value value, const struct jinja_args *args, bool *out)
{
    return equality(run, value, args, true, out);
}

static bool test_ne(struct jinja_run *run, struct jinja_value value, const struct jinja_args *args, bool *out)
{
    return equality(run, value, args, false, out);
}

static bool order(struct jinja_run *run, struct jinja_value value, const struct jinja_args *args, const char *operation,
                  bool *out)
{
    struct jinja_value given[1];
    int found;
    if (!jinja_bind(run, args, "a comparison", "b", 1, given) || !jinja_order(run, value, given[0], operation, &found))
        return false;
    *out = found != 2 && (operation[0] == '<' ? found < 0 : found > 0);
    *out |= found == 0 && operation[1] == '=';
    return true;
}

static bool test_gt(struct jinja_run *run, struct jinja_value value, const struct jinja_args *args, bool *out)
{
    return order(run, value, args, ">", out);
}

static bool test_ge(struct jinja_run *run, struct jinja_value value, const struct jinja_args *args, bool *out)
{
    return order(run, value, args, ">=", out);
}

static bool test_lt(struct jinja_run *run, struct jinja_value value, const struct jinja_args *args, bool *out)
{
    return order(run, value, args, "<", out);
}

static bool test_le(struct jinja_run *run, struct jinja_value value, const struct jinja_args *args, bool *out)
{
    return order(run, value, args, "<=", out);
}

static const struct jinja_test tests[] = {
    {"odd", test_odd},
    {"even", test_even},
    {"divisibleby", test_divisibleby},
    {"defined", test_defined},
    {"undefined", test_undefined},
    {"filter", test_filter},
    {"test", test_test},
    {"none", test_none},
    {"boolean", test_boolean},
    {"false", test_false},
    {"true", test_true},
    {"integer", test_integer},
    {"float", test_float},
    {"lower", test_lower},
    {"upper", test_upper},
    {"string", test_string},
    {"mapping", test_mapping},
    {"number", test_number},
    {"sequence", test_sequence},
    {"iterable", test_iterable},
    {"callable", test_callable},
    {"sameas", test_sameas},
    {"escaped", test_escaped},
    {"in", test_in},
    {"==", test_eq},
    {"eq", test_eq},
    {"equalto", test_eq},
    {"!=", test_ne},
    {"ne", test_ne},
    {">", test_gt},
    {"gt", test_gt},
    {"greaterthan", test_gt},
    {"ge", test_ge},
    {">=", test_ge},
    {"<", test_lt},
    {"lt", test_lt},
    {"lessthan", test_lt},
    {"<=", test_le},
    {"le", test_le},
};

const struct jinja_test *jinja_test_find(const char *name, size_t size)
{
    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
        if (strlen(tests[i].name) == size && memcmp(tests[i].name, name, size) == 0)
            return &tests[i];
    return NULL;
}

bool jinja_call_test(struct jinja_run *run, struct jinja_value name, struct jinja_value value,
                     const struct jinja_args *args, bool *out)
{
    const char *text = name.kind == JINJA_STRING ? jinja_string_bytes(run, name.string) : "";
    const struct jinja_test *test =
        text == NULL || name.kind != JINJA_STRING ? NULL : jinja_test_find(text, name.string->size);
    if (test == NULL)
        return jinja_fail(run, "No test named '%.64s'.", text == NULL ? "" : text);
    return test->apply(run, value, args, out);
}
