/* Values: making and reading them, and the operators of Python that compare. */
#include "model/text/jinja/value.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/text/jinja/run.h"

/* ---- making ---- */

struct jinja_value jinja_undefined(enum jinja_reason reason, const char *text, uint8_t object_kind)
{
    return (struct jinja_value){.kind = JINJA_UNDEFINED, .detail = (uint8_t)reason, .extra = object_kind, .text = text};
}

struct jinja_value jinja_none(void)
{
    return (struct jinja_value){.kind = JINJA_NONE};
}

struct jinja_value jinja_bool(bool value)
{
    return (struct jinja_value){.kind = JINJA_BOOL, .integer = value};
}

struct jinja_value jinja_integer(int64_t value)
{
    return (struct jinja_value){.kind = JINJA_INTEGER, .integer = value};
}

struct jinja_value jinja_float(double value)
{
    return (struct jinja_value){.kind = JINJA_FLOAT, .number = value};
}

struct jinja_value jinja_from_string(struct jinja_string *string)
{
    return (struct jinja_value){.kind = JINJA_STRING, .string = string};
}

/* Whether the text of a CHAT_INTEGER is more than its `integer` holds. */
static bool is_big(const struct chat_value *chat)
{
    size_t digits = chat->text_size - (chat->text_size > 0 && chat->text[0] == '-');
    if (chat->text == NULL || digits < 19)
        return false;
    char plain[24];
    int n = snprintf(plain, sizeof(plain), "%lld", (long long)chat->integer);
    return (size_t)n != chat->text_size || memcmp(plain, chat->text, chat->text_size) != 0;
}

static bool from_chat_list(struct jinja_run *run, const struct chat_value *chat, struct jinja_value *out)
{
    struct jinja_list *list = jinja_take(run, sizeof(*list));
    if (list == NULL)
        return false;
    list->chat_items = chat->items;
    list->count = chat->count;
    list->stride = 1;
    list->source = chat;
    *out = (struct jinja_value){.kind = JINJA_LIST, .tainted = true, .list = list};
    return true;
}

static struct jinja_origin chat_origin(const struct chat_value *chat)
{
    size_t offset = chat->message < 0 && chat->field == NULL ? JINJA_UNKNOWN : 0;
    return (struct jinja_origin){
        .field = chat->field, .offset = offset, .message = chat->message, .trusted = chat->trusted};
}

static struct jinja_string *from_chat_text(struct jinja_run *run, const struct chat_value *chat)
{
    if (chat->count == 0 || chat->text_size == 0)
        return jinja_string_of(run, chat->text, chat->text_size, chat_origin(chat));
    struct jinja_pieces *pieces = jinja_take(run, sizeof(*pieces));
    for (size_t i = 0; pieces != NULL && i < chat->count; i++) {
        const struct chat_value *part = chat->items[i];
        if (!jinja_pieces_add(run, pieces, part->text, part->text_size, chat_origin(part)))
            return NULL;
    }
    return pieces == NULL ? NULL : jinja_string_view(run, pieces);
}

bool jinja_from_chat(struct jinja_run *run, const struct chat_value *chat, struct jinja_value *out)
{
    switch (chat->kind) {
    case CHAT_NULL:
        *out = (struct jinja_value){.kind = JINJA_NONE, .tainted = true};
        return true;
    case CHAT_BOOL:
        *out = (struct jinja_value){.kind = JINJA_BOOL, .tainted = true, .integer = chat->boolean};
        return true;
    case CHAT_INTEGER:
        if (is_big(chat))
            *out = (struct jinja_value){.kind = JINJA_BIG, .tainted = true, .text = chat->text};
        else
            *out = (struct jinja_value){.kind = JINJA_INTEGER, .tainted = true, .integer = chat->integer};
        return true;
    case CHAT_FLOAT:
        *out = (struct jinja_value){.kind = JINJA_FLOAT, .tainted = true, .number = chat->number};
        return true;
    case CHAT_TEXT:
        *out = jinja_from_string(from_chat_text(run, chat));
        return out->string != NULL;
    case CHAT_LIST:
        return from_chat_list(run, chat, out);
    case CHAT_OBJECT:
        *out = (struct jinja_value){.kind = JINJA_OBJECT, .tainted = true, .object = chat};
        return true;
    }
    return jinja_fail_status(run, STATUS_INTERNAL, "a chat value has an unknown kind");
}

bool jinja_list_make(struct jinja_run *run, enum jinja_kind kind, const struct jinja_value *items, size_t count,
                     struct jinja_value *out)
{
    struct jinja_list *list = jinja_take(run, sizeof(*list));
    if (list == NULL)
        return false;
    list->items = items;
    list->count = count;
    list->stride = 1;
    *out = (struct jinja_value){.kind = (uint8_t)kind, .list = list};
    return true;
}

bool jinja_pair(struct jinja_run *run, struct jinja_value a, struct jinja_value b, struct jinja_value *out)
{
    struct jinja_value *items = jinja_take_array(run, 2, sizeof(*items));
    if (items == NULL)
        return false;
    items[0] = a;
    items[1] = b;
    return jinja_list_make(run, JINJA_TUPLE, items, 2, out);
}

/* ---- reading ---- */

bool jinja_list_get(struct jinja_run *run, const struct jinja_list *list, size_t index, struct jinja_value *out)
{
    ptrdiff_t at = (ptrdiff_t)index * list->stride;
    if (list->items == NULL)
        return jinja_from_chat(run, list->chat_items[at], out);
    *out = list->items[at];
    return true;
}

bool jinja_is_list(struct jinja_value value)
{
    return value.kind == JINJA_LIST || value.kind == JINJA_TUPLE;
}

bool jinja_is_dict(struct jinja_value value)
{
    return value.kind == JINJA_DICT || value.kind == JINJA_OBJECT;
}

bool jinja_is_number(struct jinja_value value)
{
    return value.kind >= JINJA_BOOL && value.kind <= JINJA_FLOAT;
}

const char *jinja_kind_name(uint8_t kind)
{
    static const char *const names[] = {
        [JINJA_MISSING] = "missing",     [JINJA_UNDEFINED] = "Undefined", [JINJA_NONE] = "NoneType",
        [JINJA_BOOL] = "bool",           [JINJA_INTEGER] = "int",         [JINJA_BIG] = "int",
        [JINJA_FLOAT] = "float",         [JINJA_STRING] = "str",          [JINJA_LIST] = "list",
        [JINJA_TUPLE] = "tuple",         [JINJA_DICT] = "dict",           [JINJA_OBJECT] = "dict",
        [JINJA_RANGE] = "range",         [JINJA_VIEW] = "dict view",      [JINJA_ITERATOR] = "generator",
        [JINJA_NAMESPACE] = "Namespace", [JINJA_LOOP] = "LoopContext",    [JINJA_MACRO] = "Macro",
        [JINJA_METHOD] = "method",       [JINJA_FUNCTION] = "function",
    };
    return names[kind];
}

const char *jinja_type_name(struct jinja_value value)
{
    return jinja_kind_name(value.kind);
}

/* ---- truth, equality, order ---- */

bool jinja_truth(struct jinja_value value)
{
    switch ((enum jinja_kind)value.kind) {
    case JINJA_MISSING:
    case JINJA_UNDEFINED:
    case JINJA_NONE:
        return false;
    case JINJA_BOOL:
    case JINJA_INTEGER:
        return value.integer != 0;
    case JINJA_FLOAT:
        return value.number != 0.0;
    case JINJA_STRING:
        return value.string->size != 0;
    case JINJA_LIST:
    case JINJA_TUPLE:
        return value.list->count != 0;
    case JINJA_DICT:
    case JINJA_OBJECT:
        return jinja_dict_count(value) != 0;
    case JINJA_RANGE:
        return value.range->count != 0;
    case JINJA_VIEW:
        return jinja_dict_count(value.view->dict) != 0;
    default:
        return true;
    }
}

bool jinja_same(struct jinja_value a, struct jinja_value b)
{
    if (a.kind != b.kind)
        return false;
    if (a.kind == JINJA_NONE)
        return true;
    if (a.kind == JINJA_UNDEFINED)
        return false;
    if (jinja_is_list(a) && a.list != b.list)
        return a.list->source != NULL && a.list->source == b.list->source;
    return a.integer == b.integer && a.detail == b.detail;
}

/* Orders numbers of any two kinds; 2 when one is NaN. */
static int order_numbers(struct jinja_value a, struct jinja_value b)
{
    if (a.kind == JINJA_BIG || b.kind == JINJA_BIG) {
        if (a.kind == JINJA_BIG && b.kind == JINJA_BIG) {
            bool a_negative = a.text[0] == '-', b_negative = b.text[0] == '-';
            if (a_negative != b_negative)
                return a_negative ? -1 : 1;
            size_t a_size = strlen(a.text), b_size = strlen(b.text);
            int order = a_size != b_size ? (a_size < b_size ? -1 : 1) : strcmp(a.text, b.text);
            order = order < 0 ? -1 : order > 0;
            return a_negative ? -order : order;
        }
        double x = a.kind == JINJA_BIG ? strtod(a.text, NULL) : a.kind == JINJA_FLOAT ? a.number : (double)a.integer;
        double y = b.kind == JINJA_BIG ? strtod(b.text, NULL) : b.kind == JINJA_FLOAT ? b.number : (double)b.integer;
        return isnan(x) || isnan(y) ? 2 : x < y ? -1 : x > y;
    }
    if (a.kind != JINJA_FLOAT && b.kind != JINJA_FLOAT)
        return a.integer < b.integer ? -1 : a.integer > b.integer;
    if (a.kind == JINJA_FLOAT && b.kind == JINJA_FLOAT)
        return isnan(a.number) || isnan(b.number) ? 2 : a.number < b.number ? -1 : a.number > b.number;
    bool swapped = a.kind != JINJA_FLOAT;
    double number = swapped ? b.number : a.number;
    int64_t integer = swapped ? a.integer : b.integer;
    int order; /* of the float against the integer, exactly */
    if (isnan(number))
        return 2;
    if (number >= 9223372036854775808.0 || number < -9223372036854775808.0) {
        order = number > 0 ? 1 : -1;
    } else {
        int64_t whole = (int64_t)number;
        double rest = number - (double)whole;
        order = whole != integer ? (whole < integer ? -1 : 1) : rest < 0 ? -1 : rest > 0;
    }
    return swapped ? -order : order;
}

static bool equal_lists(struct jinja_run *run, const struct jinja_list *a, const struct jinja_list *b, bool *out)
{
    *out = a->count == b->count;
    for (size_t i = 0; *out && i < a->count; i++) {
        struct jinja_value x, y;
        if (!jinja_step(run, 1) || !jinja_list_get(run, a, i, &x) || !jinja_list_get(run, b, i, &y) ||
            !jinja_equal(run, x, y, out))
            return false;
    }
    return true;
}

static bool equal_dicts(struct jinja_run *run, struct jinja_value a, struct jinja_value b, bool *out)
{
    size_t count = jinja_dict_count(a);
    *out = count == jinja_dict_count(b);
    for (size_t i = 0; *out && i < count; i++) {
        struct jinja_value key, x, y;
        if (!jinja_step(run, 1) || !jinja_dict_key(run, a, i, &key) || !jinja_dict_value(run, a, i, &x))
            return false;
        int found = jinja_dict_find(run, b, key, &y);
        *out = found == 1;
        if (found < 0 || (found == 1 && !jinja_equal(run, x, y, out)))
            return false;
    }
    return true;
}

static bool equal_compound(struct jinja_run *run, struct jinja_value a, struct jinja_value b, bool *out)
{
    if (!jinja_enter(run))
        return false;
    bool done = jinja_is_list(a) ? equal_lists(run, a.list, b.list, out) : equal_dicts(run, a, b, out);
    jinja_leave(run);
    return done;
}

bool jinja_equal(struct jinja_run *run, struct jinja_value a, struct jinja_value b, bool *out)
{
    if (a.kind == JINJA_STRING && b.kind == JINJA_STRING)
        return jinja_string_equal(run, a.string, b.string, out);
    if (jinja_is_number(a) && jinja_is_number(b)) {
        *out = order_numbers(a, b) == 0;
        return true;
    }
    if ((jinja_is_list(a) && a.kind == b.kind) || (jinja_is_dict(a) && jinja_is_dict(b)))
        return equal_compound(run, a, b, out);
    if (a.kind == JINJA_RANGE && b.kind == JINJA_RANGE) {
        const struct jinja_range *x = a.range, *y = b.range;
        *out =
            x->count == y->count && (x->count == 0 || (x->start == y->start && (x->count == 1 || x->step == y->step)));
        return true;
    }
    if (a.kind == JINJA_UNDEFINED && b.kind == JINJA_UNDEFINED) {
        *out = true;
        return true;
    }
    if (a.kind == JINJA_VIEW && b.kind == JINJA_VIEW)
        return jinja_fail_status(run, STATUS_UNSUPPORTED, "line %u: comparing dict views is not supported", run->line);
    if (a.kind == JINJA_METHOD && b.kind == JINJA_METHOD) {
        *out = a.method->name == b.method->name && jinja_same(a.method->object, b.method->object);
        return true;
    }
    *out = a.kind != JINJA_METHOD && jinja_same(a, b);
    return true;
}

static bool order_lists(struct jinja_run *run, const struct jinja_list *a, const struct jinja_list *b,
                        const char *operation, int *out)
{
    for (size_t i = 0; i < a->count && i < b->count; i++) {
        struct jinja_value x, y;
        bool equal;
        if (!jinja_step(run, 1) || !jinja_list_get(run, a, i, &x) || !jinja_list_get(run, b, i, &y) ||
            !jinja_equal(run, x, y, &equal))
            return false;
        if (!equal)
            return jinja_order(run, x, y, operation, out);
    }
    *out = a->count < b->count ? -1 : a->count > b->count;
    return true;
}

bool jinja_order(struct jinja_run *run, struct jinja_value a, struct jinja_value b, const char *operation, int *out)
{
    if (a.kind == JINJA_UNDEFINED || b.kind == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, a.kind == JINJA_UNDEFINED ? a : b);
    if (a.kind == JINJA_STRING && b.kind == JINJA_STRING) {
        const char *x = jinja_string_bytes(run, a.string), *y = jinja_string_bytes(run, b.string);
        if (x == NULL || y == NULL)
            return false;
        size_t size = a.string->size < b.string->size ? a.string->size : b.string->size;
        int order = memcmp(x, y, size);
        *out = order != 0                         ? (order < 0 ? -1 : 1)
               : a.string->size == b.string->size ? 0
               : a.string->size < b.string->size  ? -1
                                                  : 1;
        return jinja_step(run, size / 64);
    }
    if (jinja_is_number(a) && jinja_is_number(b)) {
        *out = order_numbers(a, b);
        return true;
    }
    if (jinja_is_list(a) && a.kind == b.kind) {
        if (!jinja_enter(run))
            return false;
        bool done = order_lists(run, a.list, b.list, operation, out);
        jinja_leave(run);
        return done;
    }
    return jinja_fail(run, "'%s' not supported between instances of '%s' and '%s'", operation, jinja_type_name(a),
                      jinja_type_name(b));
}

/* ---- containment and length ---- */

static bool contains_text(struct jinja_run *run, struct jinja_string *text, struct jinja_value item, bool *out)
{
    if (item.kind == JINJA_UNDEFINED)
        return jinja_fail(run, "'in <string>' requires string as left operand, not Undefined");
    if (item.kind != JINJA_STRING)
        return jinja_fail(run, "'in <string>' requires string as left operand, not %s", jinja_type_name(item));
    const char *haystack = jinja_string_bytes(run, text), *needle = jinja_string_bytes(run, item.string);
    if (haystack == NULL || needle == NULL || !jinja_step(run, text->size / 64))
        return false;
    *out = jinja_find_bytes(haystack, text->size, needle, item.string->size, 0) != JINJA_UNKNOWN;
    return true;
}

bool jinja_contains(struct jinja_run *run, struct jinja_value container, struct jinja_value item, bool *out)
{
    *out = false;
    if (container.kind == JINJA_STRING)
        return contains_text(run, container.string, item, out);
    if (jinja_is_dict(container) || (container.kind == JINJA_VIEW && container.detail == JINJA_VIEW_KEYS)) {
        struct jinja_value ignored;
        int found = jinja_dict_find(run, jinja_is_dict(container) ? container : container.view->dict, item, &ignored);
        *out = found == 1;
        return found >= 0;
    }
    if (!jinja_is_iterable(container))
        return jinja_fail(run, "argument of type '%s' is not iterable", jinja_type_name(container));
    struct jinja_iterator *iterator;
    struct jinja_value one;
    int more;
    if (!jinja_iterate(run, container, &iterator))
        return false;
    while ((more = jinja_next(run, iterator, &one)) == 1) {
        *out = jinja_same(one, item);
        if (*out)
            return true;
        if (!jinja_equal(run, one, item, out))
            return false;
        if (*out)
            return true;
    }
    return more == 0;
}

bool jinja_has_length(struct jinja_value value)
{
    return value.kind == JINJA_STRING || jinja_is_list(value) || jinja_is_dict(value) || value.kind == JINJA_RANGE ||
           value.kind == JINJA_VIEW || value.kind == JINJA_UNDEFINED || value.kind == JINJA_LOOP;
}

bool jinja_length(struct jinja_run *run, struct jinja_value value, size_t *out)
{
    switch ((enum jinja_kind)value.kind) {
    case JINJA_STRING:
        return jinja_string_length(run, value.string, out);
    case JINJA_LIST:
    case JINJA_TUPLE:
        *out = value.list->count;
        return true;
    case JINJA_DICT:
    case JINJA_OBJECT:
        *out = jinja_dict_count(value);
        return true;
    case JINJA_RANGE:
        *out = (size_t)value.range->count;
        return true;
    case JINJA_VIEW:
        *out = jinja_dict_count(value.view->dict);
        return true;
    case JINJA_UNDEFINED:
        *out = 0;
        return true;
    case JINJA_LOOP:
        return jinja_loop_length(run, value.loop, out);
    default:
        return jinja_fail(run, "object of type '%s' has no len()", jinja_type_name(value));
    }
}
