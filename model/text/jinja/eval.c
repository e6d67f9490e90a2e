/* Expressions. */
#include <string.h>

#include "model/text/jinja/run.h"

struct jinja_value *jinja_slot(struct jinja_run *run, const struct jinja_node *name)
{
    struct jinja_activation *activation = run->activation;
    for (uint32_t i = 0; i < name->variable.hops; i++)
        activation = activation->closure;
    return &activation->slots[name->variable.slot];
}

bool jinja_resolve(struct jinja_run *run, uint32_t name, struct jinja_value *out)
{
    struct jinja_value *known = &run->resolved[name];
    if (known->kind == JINJA_MISSING) {
        const char *text = run->program->names[name];
        size_t size = strlen(text);
        struct jinja_value variables = {.kind = JINJA_DICT, .dict = run->variables};
        int found = jinja_dict_find_text(run, variables, text, size, known);
        if (found < 0)
            return false;
        enum jinja_function_id id = found == 1 ? JINJA_FUNCTION_NONE : jinja_function_find(text, size);
        if (id != JINJA_FUNCTION_NONE)
            *known = (struct jinja_value){.kind = JINJA_FUNCTION, .detail = (uint8_t)id};
    }
    *out = *known;
    return true;
}

static bool eval_name(struct jinja_run *run, const struct jinja_node *node, struct jinja_value *out)
{
    *out = *jinja_slot(run, node);
    if (out->kind == JINJA_MISSING)
        *out = jinja_undefined(JINJA_REASON_VARIABLE, run->program->names[node->variable.name], 0);
    return true;
}

static bool eval_sequence(struct jinja_run *run, const struct jinja_node *node, struct jinja_value *out)
{
    size_t count = node->sequence.count;
    struct jinja_value *items = jinja_take_array(run, count, sizeof(*items));
    if (items == NULL)
        return false;
    for (size_t i = 0; i < count; i++)
        if (!jinja_eval(run, node->sequence.items[i], &items[i]))
            return false;
    return jinja_list_make(run, node->kind == JINJA_TUPLE_OF ? JINJA_TUPLE : JINJA_LIST, items, count, out);
}

static bool eval_dict(struct jinja_run *run, const struct jinja_node *node, struct jinja_value *out)
{
    struct jinja_dict *dict = jinja_dict_make(run, node->sequence.count / 2);
    if (dict == NULL)
        return false;
    for (size_t i = 0; i < node->sequence.count; i += 2) {
        struct jinja_value key, value;
        if (!jinja_eval(run, node->sequence.items[i], &key) || !jinja_eval(run, node->sequence.items[i + 1], &value) ||
            !jinja_dict_put(run, dict, key, value))
            return false;
    }
    *out = (struct jinja_value){.kind = JINJA_DICT, .dict = dict};
    return true;
}

static bool eval_slice(struct jinja_run *run, const struct jinja_node *node, struct jinja_value *out)
{
    struct jinja_value object, bounds[3] = {jinja_none(), jinja_none(), jinja_none()};
    if (!jinja_eval(run, node->subscript.object, &object))
        return false;
    for (int i = 0; i < 3; i++)
        if (node->subscript.bounds[i] != NULL && !jinja_eval(run, node->subscript.bounds[i], &bounds[i]))
            return false;
    return jinja_get_slice(run, object, bounds, out);
}

static bool compare(struct jinja_run *run, enum jinja_comparison comparison, struct jinja_value a, struct jinja_value b,
                    bool *out)
{
    static const char *const names[] = {"==", "!=", "<", "<=", ">", ">="};
    int order;
    switch (comparison) {
    case JINJA_EQ:
        return jinja_equal(run, a, b, out);
    case JINJA_NE:
        if (!jinja_equal(run, a, b, out))
            return false;
        *out = !*out;
        return true;
    case JINJA_IN:
        return jinja_contains(run, b, a, out);
    case JINJA_NOT_IN:
        if (!jinja_contains(run, b, a, out))
            return false;
        *out = !*out;
        return true;
    default:
        break;
    }
    if (!jinja_order(run, a, b, names[comparison], &order))
        return false;
    *out = order != 2 && (comparison == JINJA_LT   ? order < 0
                          : comparison == JINJA_LE ? order <= 0
                          : comparison == JINJA_GT ? order > 0
                                                   : order >= 0);
    return true;
}

static bool eval_compare(struct jinja_run *run, const struct jinja_node *node, struct jinja_value *out)
{
    struct jinja_value left, right;
    bool holds = true;
    if (!jinja_eval(run, node->compare.first, &left))
        return false;
    for (size_t i = 0; holds && i < node->compare.count; i++) {
        if (!jinja_eval(run, node->compare.operands[i], &right) ||
            !compare(run, (enum jinja_comparison)node->compare.operators[i], left, right, &holds))
            return false;
        left = right;
    }
    *out = jinja_bool(holds);
    return true;
}

static bool eval_concat(struct jinja_run *run, const struct jinja_node *node, struct jinja_value *out)
{
    struct jinja_pieces *pieces = jinja_take(run, sizeof(*pieces));
    if (pieces == NULL)
        return false;
    size_t count = node->sequence.count;
    struct jinja_value *values = jinja_take_array(run, count, sizeof(*values));
    if (values == NULL)
        return false;
    for (size_t i = 0; i < count; i++)
        if (!jinja_eval(run, node->sequence.items[i], &values[i]))
            return false;
    for (size_t i = 0; i < count; i++)
        if (!jinja_pieces_value(run, pieces, values[i]))
            return false;
    *out = jinja_from_string(jinja_string_view(run, pieces));
    return out->string != NULL;
}

static bool eval_call(struct jinja_run *run, const struct jinja_node *node, struct jinja_value *out)
{
    struct jinja_value callee;
    struct jinja_args args;
    return jinja_eval(run, node->call.object, &callee) && jinja_eval_args(run, node->call.arguments, &args) &&
           (run->line = node->line, jinja_call(run, callee, &args, out));
}

static bool eval_filter(struct jinja_run *run, const struct jinja_node *node, struct jinja_value *out)
{
    const struct jinja_filter *filter = node->call.target;
    struct jinja_value value;
    struct jinja_args args;
    if (filter == NULL)
        return jinja_fail(run, "No filter named '%s' found.", node->call.name->bytes);
    if (node->call.object == NULL) /* the innermost filter of a block */
        value = run->block_text;
    else if (!jinja_eval(run, node->call.object, &value))
        return false;
    if (!jinja_eval_args(run, node->call.arguments, &args))
        return false;
    run->line = node->line;
    return filter->apply(run, filter, value, &args, out);
}

static bool eval_test(struct jinja_run *run, const struct jinja_node *node, struct jinja_value *out)
{
    const struct jinja_test *test = node->call.target;
    struct jinja_value value;
    struct jinja_args args;
    bool holds;
    if (test == NULL)
        return jinja_fail(run, "No test named '%s' found.", node->call.name->bytes);
    if (!jinja_eval(run, node->call.object, &value) || !jinja_eval_args(run, node->call.arguments, &args))
        return false;
    run->line = node->line;
    if (!test->apply(run, value, &args, &holds))
        return false;
    *out = jinja_bool(holds);
    return true;
}

static bool eval_binary(struct jinja_run *run, const struct jinja_node *node, struct jinja_value *out)
{
    struct jinja_value a, b;
    if (!jinja_eval(run, node->pair.a, &a) || !jinja_eval(run, node->pair.b, &b))
        return false;
    run->line = node->line;
    return jinja_arithmetic(run, (enum jinja_operator)node->how, a, b, out);
}

static bool eval_node(struct jinja_run *run, const struct jinja_node *node, struct jinja_value *out)
{
    struct jinja_value value, key;
    switch ((enum jinja_node_kind)node->kind) {
    case JINJA_CONST:
        *out = node->constant;
        return true;
    case JINJA_NAME:
        return eval_name(run, node, out);
    case JINJA_TUPLE_OF:
    case JINJA_LIST_OF:
        return eval_sequence(run, node, out);
    case JINJA_DICT_OF:
        return eval_dict(run, node, out);
    case JINJA_GETATTR:
        if (!jinja_eval(run, node->attribute.object, &value))
            return false;
        run->line = node->line;
        return jinja_get_attribute(run, value, node->attribute.name, out);
    case JINJA_GETITEM:
        if (!jinja_eval(run, node->subscript.object, &value) || !jinja_eval(run, node->subscript.bounds[0], &key))
            return false;
        run->line = node->line;
        return jinja_get_item(run, value, key, out);
    case JINJA_GETSLICE:
        return eval_slice(run, node, out);
    case JINJA_CALL:
        return eval_call(run, node, out);
    case JINJA_FILTER:
        return eval_filter(run, node, out);
    case JINJA_TEST:
        return eval_test(run, node, out);
    case JINJA_NOT:
        if (!jinja_eval(run, node->pair.a, &value))
            return false;
        *out = jinja_bool(!jinja_truth(value));
        return true;
    case JINJA_NEGATE:
    case JINJA_POSITIVE:
        return jinja_eval(run, node->pair.a, &value) && jinja_negate(run, value, node->kind == JINJA_NEGATE, out);
    case JINJA_BINARY:
        return eval_binary(run, node, out);
    case JINJA_AND:
        return jinja_eval(run, node->pair.a, out) && (!jinja_truth(*out) || jinja_eval(run, node->pair.b, out));
    case JINJA_OR:
        return jinja_eval(run, node->pair.a, out) && (jinja_truth(*out) || jinja_eval(run, node->pair.b, out));
    case JINJA_COMPARE:
        return eval_compare(run, node, out);
    case JINJA_CONCAT:
        return eval_concat(run, node, out);
    case JINJA_COND:
        if (!jinja_eval(run, node->cond.test, &value))
            return false;
        if (jinja_truth(value))
            return jinja_eval(run, node->cond.yes, out);
        if (node->cond.no != NULL)
            return jinja_eval(run, node->cond.no, out);
        *out = jinja_undefined(JINJA_REASON_HINT,
                               "the inline if-expression evaluated to false and no else section was defined.", 0);
        return true;
    default:
        return jinja_fail_status(run, STATUS_INTERNAL, "a chat template's statement was read as an expression");
    }
}

bool jinja_eval(struct jinja_run *run, const struct jinja_node *node, struct jinja_value *out)
{
    if (node->kind == JINJA_CONST) {
        *out = node->constant;
        return true;
    }
    if (!jinja_step(run, 1) || !jinja_enter(run))
        return false;
    run->line = node->line;
    bool done = eval_node(run, node, out);
    jinja_leave(run);
    return done;
}

/* ---- arguments ---- */

static bool add_rest(struct jinja_run *run, struct jinja_value rest, struct jinja_args *args)
{
    struct jinja_value *items, *all;
    size_t count;
    if (!jinja_is_iterable(rest))
        return jinja_fail(run, "argument after * must be an iterable, not %s", jinja_type_name(rest));
    if (!jinja_collect(run, rest, &items, &count))
        return false;
    all = jinja_take_array(run, args->count + count, sizeof(*all));
    if (all == NULL)
        return false;
    if (args->count > 0)
        memcpy(all, args->values, args->count * sizeof(*all));
    if (count > 0)
        memcpy(all + args->count, items, count * sizeof(*all));
    args->values = all;
    args->count += count;
    return true;
}

static bool add_rest_named(struct jinja_run *run, struct jinja_value rest, struct jinja_args *args)
{
    if (!jinja_is_dict(rest))
        return jinja_fail(run, "argument after ** must be a mapping, not %s", jinja_type_name(rest));
    size_t count = jinja_dict_count(rest);
    struct jinja_value *names = jinja_take_array(run, args->named + count, sizeof(*names));
    struct jinja_value *values = jinja_take_array(run, args->named + count, sizeof(*values));
    if (names == NULL || values == NULL)
        return false;
    if (args->named > 0) {
        memcpy(names, args->names, args->named * sizeof(*names));
        memcpy(values, args->named_values, args->named * sizeof(*values));
    }
    for (size_t i = 0; i < count; i++) {
        size_t at = args->named + i;
        if (!jinja_dict_key(run, rest, i, &names[at]) || !jinja_dict_value(run, rest, i, &values[at]))
            return false;
        if (names[at].kind != JINJA_STRING)
            return jinja_fail(run, "keywords must be strings");
        for (size_t k = 0; k < args->named; k++) {
            bool equal;
            if (!jinja_equal(run, names[k], names[at], &equal))
                return false;
            if (equal)
                return jinja_fail(run, "got multiple values for a keyword argument");
        }
    }
    args->names = names;
    args->named_values = values;
    args->named += count;
    return true;
}

bool jinja_eval_args(struct jinja_run *run, const struct jinja_arguments *arguments, struct jinja_args *out)
{
    struct jinja_value rest;
    memset(out, 0, sizeof(*out));
    if (arguments->count + arguments->named > 0) {
        struct jinja_value *values = jinja_take_array(run, arguments->count + arguments->named, sizeof(*values));
        if (values == NULL)
            return false;
        for (size_t i = 0; i < arguments->count; i++)
            if (!jinja_eval(run, arguments->positional[i], &values[i]))
                return false;
        for (size_t i = 0; i < arguments->named; i++)
            if (!jinja_eval(run, arguments->named_nodes[i], &values[arguments->count + i]))
                return false;
        out->values = values;
        out->count = arguments->count;
        out->names = arguments->names;
        out->named_values = values + arguments->count;
        out->named = arguments->named;
    }
    if (arguments->rest != NULL && (!jinja_eval(run, arguments->rest, &rest) || !add_rest(run, rest, out)))
        return false;
    return arguments->rest_named == NULL ||
           (jinja_eval(run, arguments->rest_named, &rest) && add_rest_named(run, rest, out));
}
