/* Attributes, items and slices: environment.getattr, environment.getitem and Python's slicing. */
#include <string.h>

#include "model/text/jinja/run.h"

/* A bound method, or the undefined value that stands for one a template may not have. *out MISSING: no such method. */
static bool find_method(struct jinja_run *run, struct jinja_value object, struct jinja_string *name,
                        struct jinja_value *out)
{
    const char *canonical = NULL, *text = jinja_string_bytes(run, name);
    out->kind = JINJA_MISSING;
    if (text == NULL)
        return false;
    bool dunder = name->size > 4 && memcmp(text, "__", 2) == 0 && memcmp(text + name->size - 2, "__", 2) == 0;
    int found = dunder ? -1 : jinja_method_find(object, text, name->size, &canonical);
    if (found < 0) {
        *out = jinja_undefined(JINJA_REASON_UNSAFE, arena_copy(run->arena, text, name->size), object.kind);
        return out->text != NULL || jinja_take(run, 1) != NULL;
    }
    if (found == 0)
        return true;
    struct jinja_method *method = jinja_take(run, sizeof(*method));
    if (method == NULL)
        return false;
    method->object = object;
    method->name = canonical;
    *out = (struct jinja_value){.kind = JINJA_METHOD, .method = method};
    return true;
}

static bool undefined_attribute(struct jinja_run *run, struct jinja_value object, struct jinja_string *name,
                                struct jinja_value *out)
{
    const char *text = name->own.origin.trusted && name->store == NULL ? name->bytes : NULL;
    if (text == NULL || text[name->size] != '\0') {
        const char *bytes = jinja_string_bytes(run, name);
        char *copy = jinja_take(run, name->size + 1);
        if (bytes == NULL || copy == NULL)
            return false;
        memcpy(copy, bytes, name->size);
        text = copy;
    }
    *out = jinja_undefined(JINJA_REASON_ATTRIBUTE, text, object.kind);
    return true;
}

static bool macro_attribute(struct jinja_run *run, const struct jinja_macro *macro, struct jinja_string *name,
                            struct jinja_value *out)
{
    const struct jinja_function *function = macro->function;
    out->kind = JINJA_MISSING;
    if (jinja_string_is(run, name, "name"))
        *out = function->name == NULL ? jinja_none() : jinja_from_string(function->name_string);
    else if (jinja_string_is(run, name, "catch_kwargs"))
        *out = jinja_bool(function->uses_kwargs);
    else if (jinja_string_is(run, name, "catch_varargs"))
        *out = jinja_bool(function->uses_varargs);
    else if (jinja_string_is(run, name, "caller"))
        *out = jinja_bool(function->uses_caller);
    else if (jinja_string_is(run, name, "arguments") || jinja_string_is(run, name, "explicit_caller"))
        return jinja_fail_status(run, STATUS_UNSUPPORTED, "line %u: a macro's '%s' is not supported", run->line,
                                 name->bytes);
    return true;
}

/* Python's getattr: *out MISSING when there is none. */
static bool own_attribute(struct jinja_run *run, struct jinja_value object, struct jinja_string *name,
                          struct jinja_value *out)
{
    if (object.kind == JINJA_LOOP) {
        if (!jinja_loop_attribute(run, object.loop, name, out))
            return false;
        return out->kind != JINJA_MISSING || find_method(run, object, name, out);
    }
    if (object.kind == JINJA_MACRO)
        return macro_attribute(run, object.macro, name, out);
    if (object.kind == JINJA_NAMESPACE) {
        object.kind = JINJA_DICT;
        int found = jinja_dict_find(run, object, jinja_from_string(name), out);
        if (found == 0)
            out->kind = JINJA_MISSING;
        return found >= 0;
    }
    if (object.kind == JINJA_RANGE && jinja_string_is(run, name, "start"))
        *out = jinja_integer(object.range->start);
    else if (object.kind == JINJA_RANGE && jinja_string_is(run, name, "stop"))
        *out = jinja_integer(object.range->stop);
    else if (object.kind == JINJA_RANGE && jinja_string_is(run, name, "step"))
        *out = jinja_integer(object.range->step);
    else
        return find_method(run, object, name, out);
    return true;
}

bool jinja_get_attribute(struct jinja_run *run, struct jinja_value object, struct jinja_string *name,
                         struct jinja_value *out)
{
    if (object.kind == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, object);
    if (!own_attribute(run, object, name, out))
        return false;
    if (out->kind != JINJA_MISSING)
        return true;
    if (jinja_is_dict(object)) {
        int found = jinja_dict_find(run, object, jinja_from_string(name), out);
        if (found != 0)
            return found > 0;
    }
    return undefined_attribute(run, object, name, out);
}

static bool undefined_element(struct jinja_run *run, struct jinja_value object, struct jinja_value key,
                              struct jinja_value *out)
{
    if (key.kind == JINJA_STRING)
        return undefined_attribute(run, object, key.string, out);
    *out = jinja_undefined(JINJA_REASON_ELEMENT, NULL, object.kind);
    return true;
}

/* obj[index] of a sequence: MISSING when out of range. */
static bool indexed(struct jinja_run *run, struct jinja_value object, int64_t index, struct jinja_value *out)
{
    size_t length, from, to;
    out->kind = JINJA_MISSING;
    if (!jinja_length(run, object, &length))
        return false;
    if (index < 0)
        index += (int64_t)length;
    if (index < 0 || (uint64_t)index >= length)
        return true;
    if (jinja_is_list(object))
        return jinja_list_get(run, object.list, (size_t)index, out);
    if (object.kind == JINJA_RANGE) {
        *out = jinja_integer(object.range->start + index * object.range->step);
        return true;
    }
    if (!jinja_string_offset(run, object.string, (size_t)index, &from) ||
        !jinja_string_offset(run, object.string, (size_t)index + 1, &to))
        return false;
    *out = jinja_from_string(jinja_string_cut(run, object.string, from, to));
    return out->string != NULL;
}

/* Only tuples nest what can be hashed; a loop may have made very deep ones. False: failed. */
static bool look_hashable(struct jinja_run *run, struct jinja_value key, bool *out)
{
    *out = key.kind != JINJA_LIST && !jinja_is_dict(key);
    if (key.kind != JINJA_TUPLE)
        return true;
    if (!jinja_enter(run) || !jinja_step(run, key.list->count / 8))
        return false;
    bool done = true;
    *out = key.list->items != NULL || key.list->count == 0;
    for (size_t i = 0; done && *out && i < key.list->count; i++)
        done = look_hashable(run, key.list->items[(ptrdiff_t)i * key.list->stride], out);
    jinja_leave(run);
    return done;
}

bool jinja_get_item(struct jinja_run *run, struct jinja_value object, struct jinja_value key, struct jinja_value *out)
{
    if (object.kind == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, object);
    out->kind = JINJA_MISSING;
    if (jinja_is_dict(object)) {
        bool hashable;
        if (!look_hashable(run, key, &hashable))
            return false;
        int found = hashable ? jinja_dict_find(run, object, key, out) : 0;
        if (found < 0)
            return false;
        if (found == 0)
            out->kind = JINJA_MISSING;
    } else if ((jinja_is_list(object) || object.kind == JINJA_STRING || object.kind == JINJA_RANGE) &&
               (key.kind == JINJA_INTEGER || key.kind == JINJA_BOOL)) {
        if (!indexed(run, object, key.integer, out))
            return false;
    }
    if (out->kind == JINJA_MISSING && key.kind == JINJA_STRING && !own_attribute(run, object, key.string, out))
        return false;
    return out->kind != JINJA_MISSING || undefined_element(run, object, key, out);
}

/* ---- slices ---- */

static bool bound(struct jinja_run *run, struct jinja_value value, int64_t *out)
{
    if (value.kind == JINJA_UNDEFINED)
        return jinja_fail(run, "slice indices must be integers or None or have an __index__ method");
    if (value.kind != JINJA_INTEGER && value.kind != JINJA_BOOL)
        return jinja_fail(run, "slice indices must be integers or None or have an __index__ method");
    *out = value.integer;
    return true;
}

/* PySlice_AdjustIndices: *count items from *start, *step apart. */
static bool adjust(struct jinja_run *run, const struct jinja_value bounds[3], int64_t length, int64_t *start,
                   int64_t *step, int64_t *count)
{
    int64_t stop;
    *step = 1;
    if (bounds[2].kind != JINJA_NONE && !bound(run, bounds[2], step))
        return false;
    if (*step == 0)
        return jinja_fail(run, "slice step cannot be zero");
    if (*step == INT64_MIN)
        *step = -INT64_MAX;
    *start = *step < 0 ? INT64_MAX : 0;
    stop = *step < 0 ? INT64_MIN : INT64_MAX;
    if (bounds[0].kind != JINJA_NONE && !bound(run, bounds[0], start))
        return false;
    if (bounds[1].kind != JINJA_NONE && !bound(run, bounds[1], &stop))
        return false;
    int64_t low = *step < 0 ? -1 : 0, high = *step < 0 ? length - 1 : length;
    if (*start < 0)
        *start = *start < -length ? low : *start + length;
    if (*start > high)
        *start = high;
    if (*start < low)
        *start = low;
    /* A stop left out of a negative step means "before the first", which no number says. */
    if (bounds[1].kind == JINJA_NONE)
        stop = *step < 0 ? -1 : length;
    else if (stop < 0)
        stop = stop < -length ? low : stop + length;
    if (stop > high)
        stop = high;
    if (stop < low)
        stop = low;
    *count = 0;
    if (*step < 0 && stop < *start)
        *count = (*start - stop - 1) / -*step + 1;
    else if (*step > 0 && *start < stop)
        *count = (stop - *start - 1) / *step + 1;
    return true;
}

static bool slice_string(struct jinja_run *run, struct jinja_string *string, int64_t start, int64_t step, int64_t count,
                         struct jinja_value *out)
{
    size_t from, to;
    if (count == 0) {
        *out = jinja_from_string(jinja_string_cut(run, string, 0, 0));
        return out->string != NULL;
    }
    if (step == 1) {
        if (!jinja_string_offset(run, string, (size_t)start, &from) ||
            !jinja_string_offset(run, string, (size_t)(start + count), &to))
            return false;
        *out = jinja_from_string(jinja_string_cut(run, string, from, to));
        return out->string != NULL;
    }
    const char *bytes = jinja_string_bytes(run, string);
    struct jinja_writer writer = {.run = run};
    size_t *offsets = jinja_take_array(run, string->characters + 1, sizeof(*offsets));
    if (bytes == NULL || offsets == NULL || !jinja_step(run, string->size / 8))
        return false;
    size_t seen = 0;
    for (size_t at = 0; at < string->size; at++)
        if (((unsigned char)bytes[at] & 0xC0) != 0x80)
            offsets[seen++] = at;
    offsets[seen] = string->size;
    for (int64_t i = 0; i < count; i++) {
        int64_t at = start + i * step;
        jinja_write(&writer, bytes + offsets[at], offsets[at + 1] - offsets[at]);
    }
    jinja_mix_string(&writer.mix, string);
    *out = jinja_from_string(jinja_string_marked(run, jinja_writer_string(&writer), string->markup));
    return out->string != NULL;
}

static bool slice_list(struct jinja_run *run, struct jinja_value object, int64_t start, int64_t step, int64_t count,
                       struct jinja_value *out)
{
    const struct jinja_list *list = object.list;
    struct jinja_list *window = jinja_take(run, sizeof(*window));
    if (window == NULL)
        return false;
    ptrdiff_t first = count == 0 ? 0 : (ptrdiff_t)start * list->stride;
    window->items = list->items == NULL ? NULL : list->items + first;
    window->chat_items = list->items == NULL ? list->chat_items + first : NULL;
    window->count = (size_t)count;
    window->stride = count <= 1 ? 1 : list->stride * (ptrdiff_t)step;
    *out = object;
    out->list = window;
    return true;
}

bool jinja_get_slice(struct jinja_run *run, struct jinja_value object, const struct jinja_value bounds[3],
                     struct jinja_value *out)
{
    int64_t start = 0, step = 1, count = 0;
    size_t length;
    if (object.kind == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, object);
    if (jinja_is_dict(object))
        return jinja_fail(run, "unhashable type: 'slice'");
    if (!jinja_is_list(object) && object.kind != JINJA_STRING && object.kind != JINJA_RANGE)
        return jinja_fail(run, "'%s' object is not subscriptable", jinja_type_name(object));
    if (!jinja_length(run, object, &length) || !adjust(run, bounds, (int64_t)length, &start, &step, &count))
        return false;
    if (object.kind == JINJA_STRING)
        return slice_string(run, object.string, start, step, count, out);
    if (jinja_is_list(object))
        return slice_list(run, object, start, step, count, out);
    return jinja_fail_status(run, STATUS_UNSUPPORTED, "line %u: a slice of a range is not supported", run->line);
}

/* ---- paths ---- */

bool jinja_get_path(struct jinja_run *run, struct jinja_value object, struct jinja_value path, struct jinja_value *out)
{
    *out = object;
    if (path.kind == JINJA_NONE)
        return true;
    if (path.kind != JINJA_STRING)
        return jinja_get_item(run, object, path, out);
    const char *bytes = jinja_string_bytes(run, path.string);
    if (bytes == NULL)
        return false;
    for (size_t at = 0; at <= path.string->size;) {
        const char *dot = memchr(bytes + at, '.', path.string->size - at);
        size_t end = dot == NULL ? path.string->size : (size_t)(dot - bytes);
        struct jinja_value key, item = *out;
        bool digits = end > at && end - at < 19;
        for (size_t i = at; i < end; i++)
            digits = digits && bytes[i] >= '0' && bytes[i] <= '9';
        if (digits) {
            int64_t index = 0;
            for (size_t i = at; i < end; i++)
                index = index * 10 + (bytes[i] - '0');
            key = jinja_integer(index);
        } else {
            key = jinja_from_string(jinja_string_cut(run, path.string, at, end));
            if (key.string == NULL)
                return false;
        }
        if (!jinja_get_item(run, item, key, out))
            return false;
        at = end + 1;
    }
    return true;
}
