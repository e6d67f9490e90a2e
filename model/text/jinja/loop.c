/* Iteration: Python's iterators, and the for statement with jinja2.runtime.LoopContext. */
#include <string.h>

#include "model/text/jinja/run.h"

/* ---- iterators ---- */

bool jinja_is_iterable(struct jinja_value value)
{
    switch ((enum jinja_kind)value.kind) {
    case JINJA_UNDEFINED:
    case JINJA_STRING:
    case JINJA_LIST:
    case JINJA_TUPLE:
    case JINJA_DICT:
    case JINJA_OBJECT:
    case JINJA_RANGE:
    case JINJA_VIEW:
    case JINJA_ITERATOR:
    case JINJA_LOOP:
        return true;
    default:
        return false;
    }
}

bool jinja_iterate(struct jinja_run *run, struct jinja_value value, struct jinja_iterator **out)
{
    static const enum jinja_iterator_kind views[] = {JINJA_OVER_KEYS, JINJA_OVER_VALUES, JINJA_OVER_ITEMS};
    if (value.kind == JINJA_ITERATOR) {
        *out = value.iterator;
        return true;
    }
    struct jinja_iterator *iterator = jinja_take(run, sizeof(*iterator));
    if (iterator == NULL)
        return false;
    *out = iterator;
    iterator->source = value;
    switch ((enum jinja_kind)value.kind) {
    case JINJA_UNDEFINED:
        iterator->kind = JINJA_OVER_EMPTY;
        return true;
    case JINJA_STRING:
        iterator->kind = JINJA_OVER_STRING;
        return jinja_string_bytes(run, value.string) != NULL;
    case JINJA_LIST:
    case JINJA_TUPLE:
        iterator->kind = JINJA_OVER_LIST;
        iterator->count = value.list->count;
        return true;
    case JINJA_DICT:
    case JINJA_OBJECT:
        iterator->kind = JINJA_OVER_KEYS;
        iterator->count = jinja_dict_count(value);
        return true;
    case JINJA_VIEW:
        iterator->kind = views[value.detail];
        iterator->source = value.view->dict;
        iterator->count = jinja_dict_count(value.view->dict);
        return true;
    case JINJA_RANGE:
        iterator->kind = JINJA_OVER_RANGE;
        iterator->count = (size_t)value.range->count;
        return true;
    case JINJA_LOOP:
        return jinja_fail_status(run, STATUS_UNSUPPORTED, "line %u: iterating over `loop` is not supported", run->line);
    default:
        return jinja_fail(run, "'%s' object is not iterable", jinja_type_name(value));
    }
}

bool jinja_reversed(struct jinja_run *run, struct jinja_value value, struct jinja_iterator **out)
{
    if (value.kind == JINJA_ITERATOR || value.kind == JINJA_LOOP || !jinja_is_iterable(value))
        return jinja_fail(run, "'%s' object is not reversible", jinja_type_name(value));
    struct jinja_iterator *inner, *iterator = jinja_take(run, sizeof(*iterator));
    if (iterator == NULL || !jinja_iterate(run, value, &inner))
        return false;
    iterator->kind = JINJA_OVER_REVERSED;
    iterator->inner = inner;
    if (inner->kind == JINJA_OVER_STRING)
        iterator->count = value.string->size;
    else
        iterator->count = inner->count;
    *out = iterator;
    return true;
}

static int next_of_string(struct jinja_run *run, struct jinja_iterator *iterator, struct jinja_value *out)
{
    struct jinja_string *string = iterator->source.string;
    uint32_t c;
    if (iterator->position >= string->size)
        return 0;
    size_t n = jinja_character(string->bytes + iterator->position, string->size - iterator->position, &c);
    /* Iterating over Markup gives plain str. */
    struct jinja_string *one = jinja_string_cut(run, string, iterator->position, iterator->position + n);
    *out = jinja_from_string(jinja_string_marked(run, one, false));
    iterator->position += n;
    return out->string == NULL ? -1 : 1;
}

static bool item_at(struct jinja_run *run, const struct jinja_iterator *iterator, size_t index, struct jinja_value *out)
{
    struct jinja_value source = iterator->source, key, value;
    switch (iterator->kind) {
    case JINJA_OVER_LIST:
        return jinja_list_get(run, source.list, index, out);
    case JINJA_OVER_RANGE:
        *out = jinja_integer(source.range->start + (int64_t)index * source.range->step);
        return true;
    case JINJA_OVER_KEYS:
        return jinja_dict_key(run, source, index, out);
    case JINJA_OVER_VALUES:
        return jinja_dict_value(run, source, index, out);
    case JINJA_OVER_ITEMS:
        return jinja_dict_key(run, source, index, &key) && jinja_dict_value(run, source, index, &value) &&
               jinja_pair(run, key, value, out);
    default:
        return jinja_fail_status(run, STATUS_INTERNAL, "an iterator of a chat template has no items");
    }
}

static int next_reversed(struct jinja_run *run, struct jinja_iterator *iterator, struct jinja_value *out)
{
    struct jinja_iterator *inner = iterator->inner;
    if (iterator->position >= iterator->count)
        return 0;
    if (inner->kind != JINJA_OVER_STRING)
        return item_at(run, inner, iterator->count - 1 - iterator->position++, out) ? 1 : -1;
    struct jinja_string *string = inner->source.string;
    size_t end = iterator->count - iterator->position, from = end - 1;
    while (from > 0 && ((unsigned char)string->bytes[from] & 0xC0) == 0x80)
        from--;
    iterator->position += end - from;
    *out = jinja_from_string(jinja_string_cut(run, string, from, end));
    return out->string == NULL ? -1 : 1;
}

int jinja_next(struct jinja_run *run, struct jinja_iterator *iterator, struct jinja_value *out)
{
    if (!jinja_step(run, 1))
        return -1;
    switch (iterator->kind) {
    case JINJA_OVER_EMPTY:
        return 0;
    case JINJA_OVER_STRING:
        return next_of_string(run, iterator, out);
    case JINJA_OVER_REVERSED:
        return next_reversed(run, iterator, out);
    case JINJA_OVER_FILTER:
        if (iterator->done)
            return 0;
        if (!jinja_enter(run))
            return -1;
        int more = iterator->next(run, iterator, out);
        jinja_leave(run);
        iterator->done = more != 1;
        return more;
    default:
        if (iterator->position >= iterator->count)
            return 0;
        return item_at(run, iterator, iterator->position++, out) ? 1 : -1;
    }
}

bool jinja_collect(struct jinja_run *run, struct jinja_value value, struct jinja_value **items, size_t *count)
{
    struct jinja_iterator *iterator;
    struct jinja_value item;
    size_t capacity = 0;
    int more;
    *items = NULL;
    *count = 0;
    if (!jinja_iterate(run, value, &iterator))
        return false;
    while ((more = jinja_next(run, iterator, &item)) == 1) {
        if (*count == capacity) {
            capacity = capacity == 0 ? (iterator->count > 8 ? iterator->count : 8) : capacity * 2;
            struct jinja_value *larger = jinja_take_array(run, capacity, sizeof(*larger));
            if (larger == NULL)
                return false;
            if (*count > 0)
                memcpy(larger, *items, *count * sizeof(*larger));
            *items = larger;
        }
        (*items)[(*count)++] = item;
    }
    return more == 0;
}

/* ---- the for statement ---- */

/* What a loop's `if` yields: the target's values again, as the tuple they were. */
static bool target_value(struct jinja_run *run, const struct jinja_node *target, struct jinja_value *out)
{
    if (target->kind == JINJA_NAME) {
        *out = *jinja_slot(run, target);
        return true;
    }
    size_t count = target->sequence.count;
    struct jinja_value *items = jinja_take_array(run, count, sizeof(*items));
    if (items == NULL)
        return false;
    for (size_t i = 0; i < count; i++)
        if (!target_value(run, target->sequence.items[i], &items[i]))
            return false;
    return jinja_list_make(run, JINJA_TUPLE, items, count, out);
}

static int pull(struct jinja_run *run, struct jinja_loop *loop, struct jinja_value *out)
{
    const struct jinja_for *node = loop->node->loop;
    if (loop->drained_items != NULL) {
        if (loop->drained >= loop->drained_count)
            return 0;
        *out = loop->drained_items[loop->drained++];
        return 1;
    }
    for (;;) {
        struct jinja_value test;
        int more = jinja_next(run, loop->iterator, out);
        if (more != 1 || node->test == NULL)
            return more;
        if (!jinja_assign(run, node->test_target, *out) || !jinja_eval(run, node->test, &test))
            return -1;
        if (jinja_truth(test))
            return target_value(run, node->test_target, out) ? 1 : -1;
    }
}

/* Looks one item ahead: 1 there is one, in loop->after; 0; -1. */
static int peek(struct jinja_run *run, struct jinja_loop *loop)
{
    if (loop->after.kind != JINJA_MISSING)
        return 1;
    int more = pull(run, loop, &loop->after);
    if (more != 1)
        loop->after.kind = JINJA_MISSING;
    return more;
}

static int advance(struct jinja_run *run, struct jinja_loop *loop, struct jinja_value *out)
{
    if (loop->after.kind != JINJA_MISSING) {
        *out = loop->after;
        loop->after.kind = JINJA_MISSING;
    } else {
        int more = pull(run, loop, out);
        if (more != 1)
            return more;
    }
    loop->index0++;
    loop->before = loop->current;
    loop->current = *out;
    return 1;
}

bool jinja_loop_length(struct jinja_run *run, struct jinja_loop *loop, size_t *out)
{
    if (loop->length == JINJA_UNKNOWN) {
        if (loop->node->loop->test == NULL && jinja_has_length(loop->iterable)) {
            if (!jinja_length(run, loop->iterable, &loop->length))
                return false;
        } else {
            struct jinja_value *items = NULL, item;
            size_t count = 0, capacity = 0;
            int more;
            while ((more = pull(run, loop, &item)) == 1) {
                if (count == capacity) {
                    capacity = capacity == 0 ? 16 : capacity * 2;
                    struct jinja_value *larger = jinja_take_array(run, capacity, sizeof(*larger));
                    if (larger == NULL)
                        return false;
                    if (count > 0)
                        memcpy(larger, items, count * sizeof(*larger));
                    items = larger;
                }
                items[count++] = item;
            }
            if (more < 0)
                return false;
            loop->drained_items = items != NULL ? items : jinja_take(run, sizeof(*items));
            loop->drained_count = count;
            if (loop->drained_items == NULL)
                return false;
            loop->length = count + (size_t)(loop->index0 + 1) + (loop->after.kind != JINJA_MISSING);
        }
    }
    *out = loop->length;
    return true;
}

static bool neighbour(struct jinja_run *run, struct jinja_loop *loop, bool next, struct jinja_value *out)
{
    if (!next) {
        *out = loop->index0 == 0 ? jinja_undefined(JINJA_REASON_HINT, "there is no previous item", 0) : loop->before;
        return true;
    }
    int more = peek(run, loop);
    *out = more == 1 ? loop->after : jinja_undefined(JINJA_REASON_HINT, "there is no next item", 0);
    return more >= 0;
}

bool jinja_loop_attribute(struct jinja_run *run, struct jinja_loop *loop, struct jinja_string *name,
                          struct jinja_value *out)
{
    const char *text = jinja_string_bytes(run, name);
    size_t length = 0;
    if (text == NULL)
        return false;
    if (jinja_string_is(run, name, "index0"))
        *out = jinja_integer(loop->index0);
    else if (jinja_string_is(run, name, "index"))
        *out = jinja_integer(loop->index0 + 1);
    else if (jinja_string_is(run, name, "first"))
        *out = jinja_bool(loop->index0 == 0);
    else if (jinja_string_is(run, name, "depth0"))
        *out = jinja_integer(loop->depth0);
    else if (jinja_string_is(run, name, "depth"))
        *out = jinja_integer(loop->depth0 + 1);
    else if (jinja_string_is(run, name, "previtem") || jinja_string_is(run, name, "nextitem"))
        return neighbour(run, loop, text[0] == 'n', out);
    else if (jinja_string_is(run, name, "last")) {
        int more = peek(run, loop);
        *out = jinja_bool(more == 0);
        return more >= 0;
    } else if (jinja_string_is(run, name, "length") || jinja_string_is(run, name, "revindex") ||
               jinja_string_is(run, name, "revindex0")) {
        if (!jinja_loop_length(run, loop, &length))
            return false;
        int64_t minus = text[0] == 'l' ? 0 : name->size == 8 ? loop->index0 : loop->index0 + 1;
        *out = jinja_integer((int64_t)length - minus);
    } else {
        out->kind = JINJA_MISSING;
    }
    return true;
}

bool jinja_loop_method(struct jinja_run *run, struct jinja_loop *loop, const char *name, const struct jinja_args *args,
                       struct jinja_value *out)
{
    if (args->named > 0)
        return jinja_fail(run, "loop.%s() takes no keyword arguments", name);
    if (strcmp(name, "cycle") == 0) {
        if (args->count == 0)
            return jinja_fail(run, "no items for cycling given");
        *out = args->values[(size_t)loop->index0 % args->count];
        return true;
    }
    struct jinja_value now;
    bool equal = false;
    if (!jinja_list_make(run, JINJA_TUPLE, args->values, args->count, &now) ||
        (loop->changed.kind != JINJA_MISSING && !jinja_equal(run, loop->changed, now, &equal)))
        return false;
    loop->changed = now;
    *out = jinja_bool(!equal);
    return true;
}

/* One pass of the body. *completed: it ran to its end, which is what keeps the else branch from running. */
static enum jinja_flow run_body(struct jinja_run *run, const struct jinja_for *node, struct jinja_loop *loop,
                                struct jinja_value item, bool *completed)
{
    if (!jinja_assign(run, node->target, item))
        return JINJA_FAILED;
    if (node->uses_loop)
        run->activation->slots[node->loop_slot] = (struct jinja_value){.kind = JINJA_LOOP, .loop = loop};
    if (!jinja_scope_enter(run, &node->body_scope))
        return JINJA_FAILED;
    enum jinja_flow flow = jinja_execute(run, &node->body);
    *completed |= flow == JINJA_NEXT;
    return flow;
}

bool jinja_execute_for(struct jinja_run *run, const struct jinja_node *node, enum jinja_flow *flow)
{
    const struct jinja_for *loop_node = node->loop;
    struct jinja_loop *loop = jinja_take(run, sizeof(*loop));
    struct jinja_value item;
    bool completed = false;
    int more;
    *flow = JINJA_NEXT;
    if (loop == NULL)
        return false;
    loop->node = node;
    loop->index0 = -1;
    loop->length = JINJA_UNKNOWN;
    if (!jinja_eval(run, loop_node->iterable, &loop->iterable) ||
        !jinja_iterate(run, loop->iterable, &loop->iterator) ||
        (loop_node->test != NULL && !jinja_scope_enter(run, &loop_node->test_scope)))
        return false;
    while ((more = advance(run, loop, &item)) == 1) {
        enum jinja_flow body = run_body(run, loop_node, loop, item, &completed);
        if (body == JINJA_FAILED)
            return false;
        if (body == JINJA_BREAK)
            break;
    }
    if (more < 0)
        return false;
    if (!completed && loop_node->otherwise.count > 0) {
        if (!jinja_scope_enter(run, &loop_node->else_scope))
            return false;
        *flow = jinja_execute(run, &loop_node->otherwise);
    }
    return *flow != JINJA_FAILED;
}
