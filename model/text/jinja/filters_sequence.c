/* Filters on sequences and mappings that answer at once. */
#include <string.h>

#include "model/text/jinja/filters.h"

JINJA_FILTER(jinja_filter_default)
{
    struct jinja_value given[2];
    if (!jinja_bind(run, args, filter->name, "default_value boolean", 0, given))
        return false;
    *out = value;
    if (value.kind != JINJA_UNDEFINED && !(jinja_flag(given[1], false) && !jinja_truth(value)))
        return true;
    *out = given[0];
    if (given[0].kind == JINJA_MISSING)
        *out = jinja_from_string(jinja_string_of(run, "", 0, JINJA_TEMPLATE_ORIGIN));
    return given[0].kind != JINJA_MISSING || out->string != NULL;
}

JINJA_FILTER(jinja_filter_length)
{
    struct jinja_value none[1];
    size_t length;
    if (!jinja_bind(run, args, filter->name, "", 0, none) || !jinja_length(run, value, &length))
        return false;
    *out = jinja_integer((int64_t)length);
    out->tainted = value.tainted;
    for (size_t i = 0; value.kind == JINJA_STRING && i < jinja_string_piece_count(value.string); i++)
        out->tainted |= !jinja_string_piece(value.string, i)->origin.trusted;
    return true;
}

static bool check_iterable(struct jinja_run *run, struct jinja_value value)
{
    return jinja_is_iterable(value) || jinja_fail(run, "'%s' object is not iterable", jinja_type_name(value));
}

JINJA_FILTER(jinja_filter_first)
{
    struct jinja_value none[1];
    struct jinja_iterator *iterator;
    if (!jinja_bind(run, args, filter->name, "", 0, none) || !check_iterable(run, value) ||
        !jinja_iterate(run, value, &iterator))
        return false;
    int more = jinja_next(run, iterator, out);
    if (more == 0)
        *out = jinja_undefined(JINJA_REASON_HINT, "No first item, sequence was empty.", 0);
    return more >= 0;
}

JINJA_FILTER(jinja_filter_last)
{
    struct jinja_value none[1];
    struct jinja_iterator *iterator;
    if (!jinja_bind(run, args, filter->name, "", 0, none) || !jinja_reversed(run, value, &iterator))
        return false;
    int more = jinja_next(run, iterator, out);
    if (more == 0)
        *out = jinja_undefined(JINJA_REASON_HINT, "No last item, sequence was empty.", 0);
    return more >= 0;
}

JINJA_FILTER(jinja_filter_list)
{
    struct jinja_value none[1], *items;
    size_t count;
    return jinja_bind(run, args, filter->name, "", 0, none) && check_iterable(run, value) &&
           jinja_collect(run, value, &items, &count) && jinja_list_make(run, JINJA_LIST, items, count, out);
}

JINJA_FILTER(jinja_filter_reverse)
{
    struct jinja_value none[1], *items;
    struct jinja_iterator *iterator;
    size_t count;
    if (!jinja_bind(run, args, filter->name, "", 0, none))
        return false;
    if (value.kind == JINJA_STRING) {
        struct jinja_value bounds[3] = {jinja_none(), jinja_none(), jinja_integer(-1)};
        return jinja_get_slice(run, value, bounds, out);
    }
    if (!jinja_is_iterable(value))
        return jinja_fail(run, "argument must be iterable");
    if (value.kind == JINJA_ITERATOR) { /* no __reversed__: a list then */
        if (!jinja_collect(run, value, &items, &count))
            return false;
        for (size_t i = 0; i < count / 2; i++) {
            struct jinja_value swap = items[i];
            items[i] = items[count - 1 - i];
            items[count - 1 - i] = swap;
        }
        return jinja_list_make(run, JINJA_LIST, items, count, out);
    }
    if (!jinja_reversed(run, value, &iterator))
        return false;
    *out = (struct jinja_value){.kind = JINJA_ITERATOR, .iterator = iterator};
    return true;
}

JINJA_FILTER(jinja_filter_join)
{
    struct jinja_value given[2], *items, item;
    size_t count;
    if (!jinja_bind(run, args, filter->name, "d attribute", 0, given) || !check_iterable(run, value) ||
        !jinja_collect(run, value, &items, &count))
        return false;
    struct jinja_string *separator =
        given[0].kind == JINJA_MISSING ? jinja_string_of(run, "", 0, JINJA_TEMPLATE_ORIGIN) : jinja_str(run, given[0]);
    if (separator == NULL)
        return false;
    for (size_t i = 0; i < count; i++) {
        item = items[i];
        if (given[1].kind != JINJA_MISSING && given[1].kind != JINJA_NONE &&
            !jinja_get_path(run, items[i], given[1], &item))
            return false;
        items[i] = jinja_from_string(jinja_str(run, item));
        if (items[i].string == NULL)
            return false;
    }
    *out = jinja_from_string(jinja_join(run, separator, items, count));
    return out->string != NULL;
}

/* ---- order ---- */

/* A stable merge sort of `order`, which indexes keys. */
static bool merge_sort(struct jinja_run *run, const struct jinja_value *keys, size_t *order, size_t *spare,
                       size_t count, bool reverse)
{
    for (size_t width = 1; width < count; width *= 2) {
        for (size_t from = 0; from < count; from += 2 * width) {
            size_t middle = from + width < count ? from + width : count;
            size_t end = from + 2 * width < count ? from + 2 * width : count;
            size_t a = from, b = middle;
            for (size_t at = from; at < end; at++) {
                int before = 0;
                if (a < middle && b < end &&
                    (!jinja_step(run, 1) || !jinja_order(run, keys[order[b]], keys[order[a]], "<", &before)))
                    return false;
                bool take_b = b < end && (a == middle || (reverse ? before == 1 : before == -1));
                spare[at] = order[take_b ? b++ : a++];
            }
        }
        memcpy(order, spare, count * sizeof(*order));
    }
    return true;
}

bool jinja_sort(struct jinja_run *run, struct jinja_value *items, struct jinja_value *keys, size_t count, bool reverse)
{
    size_t *order = jinja_take_array(run, count, sizeof(*order));
    size_t *spare = jinja_take_array(run, count, sizeof(*spare));
    struct jinja_value *moved = jinja_take_array(run, count, sizeof(*moved));
    if (order == NULL || spare == NULL || moved == NULL)
        return false;
    for (size_t i = 0; i < count; i++) {
        order[i] = i;
        moved[i] = items[i];
    }
    if (!merge_sort(run, keys, order, spare, count, reverse))
        return false;
    for (size_t i = 0; i < count; i++)
        items[i] = moved[order[i]];
    return true;
}

/* The key of an item: a list of what the comma-separated attributes name, as make_multi_attrgetter has it. */
static bool sort_key(struct jinja_run *run, struct jinja_value item, struct jinja_value attribute, bool case_sensitive,
                     struct jinja_value *out)
{
    struct jinja_value parts[16], value;
    size_t count = 0;
    if (attribute.kind != JINJA_STRING) {
        if (!jinja_get_path(run, item, attribute, &value) ||
            !jinja_ignore_case(run, case_sensitive, value, &parts[count++]))
            return false;
    } else {
        const char *bytes = jinja_string_bytes(run, attribute.string);
        size_t size = attribute.string->size;
        if (bytes == NULL)
            return false;
        for (size_t at = 0; at <= size;) {
            const char *comma = memchr(bytes + at, ',', size - at);
            size_t end = comma == NULL ? size : (size_t)(comma - bytes);
            struct jinja_string *path = jinja_string_cut(run, attribute.string, at, end);
            if (count == sizeof(parts) / sizeof(parts[0]))
                return jinja_fail_status(run, STATUS_UNSUPPORTED,
                                         "line %u: sort by more than 16 attributes is not "
                                         "supported",
                                         run->line);
            if (path == NULL || !jinja_get_path(run, item, jinja_from_string(path), &value) ||
                !jinja_ignore_case(run, case_sensitive, value, &parts[count++]))
                return false;
            at = end + 1;
        }
    }
    struct jinja_value *kept = jinja_take_array(run, count, sizeof(*kept));
    if (kept == NULL)
        return false;
    memcpy(kept, parts, count * sizeof(*kept));
    return jinja_list_make(run, JINJA_LIST, kept, count, out);
}

JINJA_FILTER(jinja_filter_sort)
{
    struct jinja_value given[3], *items, *keys;
    size_t count;
    if (!jinja_bind(run, args, filter->name, "reverse case_sensitive attribute", 0, given) ||
        !check_iterable(run, value) || !jinja_collect(run, value, &items, &count))
        return false;
    keys = jinja_take_array(run, count, sizeof(*keys));
    if (keys == NULL)
        return false;
    if (given[2].kind == JINJA_MISSING)
        given[2] = jinja_none();
    for (size_t i = 0; i < count; i++)
        if (!sort_key(run, items[i], given[2], jinja_flag(given[1], false), &keys[i]))
            return false;
    return jinja_sort(run, items, keys, count, jinja_flag(given[0], false)) &&
           jinja_list_make(run, JINJA_LIST, items, count, out);
}

JINJA_FILTER(jinja_filter_dictsort)
{
    struct jinja_value given[3], key, member;
    if (!jinja_bind(run, args, filter->name, "case_sensitive by reverse", 0, given))
        return false;
    bool by_value = given[1].kind == JINJA_STRING && jinja_string_is(run, given[1].string, "value");
    if (given[1].kind != JINJA_MISSING && !by_value &&
        !(given[1].kind == JINJA_STRING && jinja_string_is(run, given[1].string, "key")))
        return jinja_fail(run, "You can only sort by either \"key\" or \"value\"");
    if (value.kind == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, value);
    if (!jinja_is_dict(value))
        return jinja_fail(run, "'%s' object has no attribute 'items'", jinja_type_name(value));
    size_t count = jinja_dict_count(value);
    struct jinja_value *items = jinja_take_array(run, count, sizeof(*items));
    struct jinja_value *keys = jinja_take_array(run, count, sizeof(*keys));
    if (items == NULL || keys == NULL)
        return false;
    for (size_t i = 0; i < count; i++)
        if (!jinja_dict_key(run, value, i, &key) || !jinja_dict_value(run, value, i, &member) ||
            !jinja_pair(run, key, member, &items[i]) ||
            !jinja_ignore_case(run, jinja_flag(given[0], false), by_value ? member : key, &keys[i]))
            return false;
    return jinja_sort(run, items, keys, count, jinja_flag(given[2], false)) &&
           jinja_list_make(run, JINJA_LIST, items, count, out);
}

JINJA_FILTER(jinja_filter_extreme)
{
    struct jinja_value given[2], item, key, best_key = {.kind = JINJA_MISSING}, path;
    struct jinja_iterator *iterator;
    int more, order;
    if (!jinja_bind(run, args, filter->name, "case_sensitive attribute", 0, given) || !check_iterable(run, value) ||
        !jinja_iterate(run, value, &iterator))
        return false;
    path = given[1].kind == JINJA_MISSING ? jinja_none() : given[1];
    *out = jinja_undefined(JINJA_REASON_HINT, "No aggregated item, sequence was empty.", 0);
    while ((more = jinja_next(run, iterator, &item)) == 1) {
        struct jinja_value named;
        if (!jinja_get_path(run, item, path, &named) ||
            !jinja_ignore_case(run, jinja_flag(given[0], false), named, &key))
            return false;
        if (best_key.kind != JINJA_MISSING) {
            if (!jinja_order(run, key, best_key, filter->detail ? ">" : "<", &order))
                return false;
            if (order != (filter->detail ? 1 : -1))
                continue;
        }
        best_key = key;
        *out = item;
    }
    return more == 0;
}

JINJA_FILTER(jinja_filter_sum)
{
    struct jinja_value given[2], item, total;
    struct jinja_iterator *iterator;
    int more;
    if (!jinja_bind(run, args, filter->name, "attribute start", 0, given) || !check_iterable(run, value) ||
        !jinja_iterate(run, value, &iterator))
        return false;
    total = given[1].kind == JINJA_MISSING ? jinja_integer(0) : given[1];
    if (total.kind == JINJA_STRING)
        return jinja_fail(run, "sum() can't sum strings [use ''.join(seq) instead]");
    while ((more = jinja_next(run, iterator, &item)) == 1) {
        struct jinja_value named = item, sum;
        if (given[0].kind != JINJA_MISSING && given[0].kind != JINJA_NONE &&
            !jinja_get_path(run, item, given[0], &named))
            return false;
        if (!jinja_arithmetic(run, JINJA_ADD, total, named, &sum))
            return false;
        total = sum;
    }
    *out = total;
    return more == 0;
}
