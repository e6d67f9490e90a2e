/* Filters that are generators in jinja2: each call makes the next item, and nothing is looked at before the first. */
#include <string.h>

#include "model/text/jinja/filters.h"

/* Opens the source on the first call. False: failed; *empty: there is nothing to read. */
static bool start(struct jinja_run *run, struct jinja_iterator *iterator, bool falsy_is_empty, bool *empty)
{
    *empty = false;
    if (iterator->started)
        return true;
    iterator->started = true;
    if (falsy_is_empty && !jinja_truth(iterator->source)) {
        *empty = true;
        return true;
    }
    if (!jinja_is_iterable(iterator->source))
        return jinja_fail(run, "'%s' object is not iterable", jinja_type_name(iterator->source));
    return jinja_iterate(run, iterator->source, &iterator->inner);
}

JINJA_GENERATOR(jinja_next_items)
{
    struct jinja_value key, value;
    if (iterator->source.kind == JINJA_UNDEFINED)
        return 0;
    if (!jinja_is_dict(iterator->source))
        return jinja_fail(run, "Can only get item pairs from a mapping.") - 1;
    if (iterator->position >= jinja_dict_count(iterator->source))
        return 0;
    size_t at = iterator->position++;
    bool done = jinja_dict_key(run, iterator->source, at, &key) &&
                jinja_dict_value(run, iterator->source, at, &value) && jinja_pair(run, key, value, out);
    return done ? 1 : -1;
}

/* ---- map ---- */

struct map_plan {
    bool by_attribute;
    struct jinja_value path, otherwise; /* otherwise MISSING: none */
    struct jinja_value name;
    struct jinja_args args;
};

static struct map_plan *plan_map(struct jinja_run *run, const struct jinja_args *args)
{
    struct map_plan *plan = jinja_take(run, sizeof(*plan));
    if (plan == NULL)
        return NULL;
    if (args->count > 0) {
        plan->name = args->values[0];
        plan->args = *args;
        plan->args.values++;
        plan->args.count--;
        return plan;
    }
    for (size_t i = 0; i < args->named; i++)
        if (jinja_string_is(run, args->names[i].string, "attribute")) {
            plan->by_attribute = true;
            plan->path = args->named_values[i];
        }
    if (!plan->by_attribute) {
        jinja_fail(run, "map requires a filter argument");
        return NULL;
    }
    for (size_t i = 0; i < args->named; i++) {
        if (jinja_string_is(run, args->names[i].string, "default")) {
            plan->otherwise = args->named_values[i];
        } else if (!jinja_string_is(run, args->names[i].string, "attribute")) {
            jinja_fail(run, "Unexpected keyword argument of map");
            return NULL;
        }
    }
    if (plan->otherwise.kind == JINJA_NONE)
        plan->otherwise.kind = JINJA_MISSING;
    return plan;
}

/* The default takes the place of each part of the path that is undefined. */
static bool map_attribute(struct jinja_run *run, const struct map_plan *plan, struct jinja_value item,
                          struct jinja_value *out)
{
    if (plan->otherwise.kind == JINJA_MISSING)
        return jinja_get_path(run, item, plan->path, out);
    if (plan->path.kind == JINJA_STRING && jinja_string_bytes(run, plan->path.string) != NULL &&
        memchr(plan->path.string->bytes, '.', plan->path.string->size) != NULL)
        return jinja_fail_status(run, STATUS_UNSUPPORTED,
                                 "line %u: map with a dotted attribute and a default is not "
                                 "supported",
                                 run->line);
    if (!jinja_get_path(run, item, plan->path, out))
        return false;
    if (out->kind == JINJA_UNDEFINED)
        *out = plan->otherwise;
    return true;
}

JINJA_GENERATOR(jinja_next_map)
{
    bool empty;
    struct jinja_value item;
    if (!start(run, iterator, true, &empty))
        return -1;
    if (empty)
        return 0;
    if (iterator->state == NULL) {
        iterator->state = plan_map(run, &iterator->args);
        if (iterator->state == NULL)
            return -1;
    }
    const struct map_plan *plan = iterator->state;
    int more = jinja_next(run, iterator->inner, &item);
    if (more != 1)
        return more;
    bool done = plan->by_attribute ? map_attribute(run, plan, item, out)
                                   : jinja_call_filter(run, plan->name, item, &plan->args, out);
    return done ? 1 : -1;
}

/* ---- select, reject, selectattr, rejectattr ---- */

static bool passes(struct jinja_run *run, const struct jinja_iterator *iterator, struct jinja_value item, bool *out)
{
    bool by_attribute = (iterator->filter->detail & 2) != 0;
    const struct jinja_args *args = &iterator->args;
    struct jinja_value tested = item;
    size_t used = 0;
    if (by_attribute) {
        if (args->count == 0)
            return jinja_fail(run, "Missing parameter for attribute name");
        if (!jinja_get_path(run, item, args->values[used++], &tested))
            return false;
    }
    if (args->count > used) {
        struct jinja_args rest = *args;
        rest.values += used + 1;
        rest.count -= used + 1;
        if (!jinja_call_test(run, args->values[used], tested, &rest, out))
            return false;
    } else {
        *out = jinja_truth(tested);
    }
    if (iterator->filter->detail & 1)
        *out = !*out;
    return true;
}

JINJA_GENERATOR(jinja_next_select)
{
    bool empty, kept;
    int more;
    if (!start(run, iterator, true, &empty))
        return -1;
    if (empty)
        return 0;
    if ((iterator->filter->detail & 2) && iterator->args.count == 0)
        return jinja_fail(run, "Missing parameter for attribute name") - 1;
    while ((more = jinja_next(run, iterator->inner, out)) == 1) {
        if (!passes(run, iterator, *out, &kept))
            return -1;
        if (kept)
            return 1;
    }
    return more;
}

/* ---- unique, batch, slice ---- */

struct unique_state {
    struct jinja_value given[2];
    struct jinja_dict *seen;
};

JINJA_GENERATOR(jinja_next_unique)
{
    struct unique_state *state = iterator->state;
    struct jinja_value named, key, found;
    bool empty;
    int more;
    if (!start(run, iterator, false, &empty))
        return -1;
    if (state == NULL) {
        iterator->state = state = jinja_take(run, sizeof(*state));
        if (state == NULL || !jinja_bind(run, &iterator->args, "unique", "case_sensitive attribute", 0, state->given))
            return -1;
        state->seen = jinja_dict_make(run, 0);
        if (state->seen == NULL)
            return -1;
        if (state->given[1].kind == JINJA_MISSING)
            state->given[1] = jinja_none();
    }
    while ((more = jinja_next(run, iterator->inner, out)) == 1) {
        struct jinja_value set = {.kind = JINJA_DICT, .dict = state->seen};
        if (!jinja_get_path(run, *out, state->given[1], &named) ||
            !jinja_ignore_case(run, jinja_flag(state->given[0], false), named, &key))
            return -1;
        int seen = jinja_dict_find(run, set, key, &found);
        if (seen < 0)
            return -1;
        if (seen == 0)
            return jinja_dict_put(run, state->seen, key, jinja_none()) ? 1 : -1;
    }
    return more;
}

JINJA_GENERATOR(jinja_next_batch)
{
    struct jinja_value given[2], item, *items;
    bool empty;
    int64_t width;
    size_t count = 0;
    int more = 1;
    if (!start(run, iterator, false, &empty) ||
        !jinja_bind(run, &iterator->args, "batch", "linecount fill_with", 1, given))
        return -1;
    if (given[0].kind != JINJA_INTEGER || given[0].integer < 1)
        return jinja_fail_status(run, STATUS_UNSUPPORTED, "line %u: batch with such a line count is not supported",
                                 run->line) -
               1;
    width = given[0].integer;
    items = jinja_take_array(run, (size_t)width, sizeof(*items));
    if (items == NULL)
        return -1;
    while (count < (size_t)width && (more = jinja_next(run, iterator->inner, &item)) == 1)
        items[count++] = item;
    if (more < 0 || count == 0)
        return more;
    if (given[1].kind != JINJA_MISSING && given[1].kind != JINJA_NONE)
        while (count < (size_t)width)
            items[count++] = given[1];
    return jinja_list_make(run, JINJA_LIST, items, count, out) ? 1 : -1;
}

struct slice_state {
    struct jinja_value given[2];
    struct jinja_value *items;
    size_t count;
};

JINJA_GENERATOR(jinja_next_slice)
{
    struct slice_state *state = iterator->state;
    if (state == NULL) {
        iterator->state = state = jinja_take(run, sizeof(*state));
        if (state == NULL || !jinja_bind(run, &iterator->args, "slice", "slices fill_with", 1, state->given))
            return -1;
        if (!jinja_is_iterable(iterator->source))
            return jinja_fail(run, "'%s' object is not iterable", jinja_type_name(iterator->source)) - 1;
        if (state->given[0].kind != JINJA_INTEGER)
            return jinja_fail(run, "slice wants a number of slices") - 1;
        if (state->given[0].integer == 0)
            return jinja_fail(run, "integer division or modulo by zero") - 1;
        if (!jinja_collect(run, iterator->source, &state->items, &state->count))
            return -1;
    }
    if (state->given[0].integer < 0 || iterator->position >= (size_t)state->given[0].integer)
        return 0;
    size_t slices = (size_t)state->given[0].integer, number = iterator->position++;
    size_t each = state->count / slices, extra = state->count % slices;
    size_t from = number * each + (number < extra ? number : extra);
    size_t count = each + (number < extra);
    bool filled = number >= extra && state->given[1].kind != JINJA_MISSING && state->given[1].kind != JINJA_NONE;
    struct jinja_value *items = jinja_take_array(run, count + 1, sizeof(*items));
    if (items == NULL)
        return -1;
    if (count > 0)
        memcpy(items, state->items + from, count * sizeof(*items));
    if (filled)
        items[count++] = state->given[1];
    return jinja_list_make(run, JINJA_LIST, items, count, out) ? 1 : -1;
}
