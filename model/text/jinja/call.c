/* Calls: binding of arguments, the global functions, and the methods of dicts, lists and ranges. */
#include <string.h>
#include <time.h>

#include "kernels/base/size.h"
#include "kernels/base/utf8.h"
#include "model/text/jinja/run.h"

/* ---- arguments ---- */

/* The index of `name` among the space-separated parameters, or -1. */
static int parameter_index(const char *parameters, const char *name, size_t size)
{
    int index = 0;
    for (const char *at = parameters; *at != '\0'; index++) {
        size_t n = strcspn(at, " ");
        if (n == size && memcmp(at, name, n) == 0)
            return index;
        at += n + (at[n] == ' ');
    }
    return -1;
}

bool jinja_bind(struct jinja_run *run, const struct jinja_args *args, const char *what, const char *parameters,
                size_t required, struct jinja_value *out)
{
    size_t total = *parameters != '\0';
    for (const char *c = parameters; *c != '\0'; c++)
        total += *c == ' ';
    for (size_t i = 0; i < total; i++)
        out[i].kind = JINJA_MISSING;
    if (args->count > total)
        return jinja_fail(run, "%s takes %zu arguments but %zu were given", what, total, args->count);
    for (size_t i = 0; i < args->count; i++)
        out[i] = args->values[i];
    for (size_t i = 0; i < args->named; i++) {
        const char *name = jinja_string_bytes(run, args->names[i].string);
        int index = name == NULL ? -1 : parameter_index(parameters, name, args->names[i].string->size);
        if (name == NULL)
            return false;
        if (index < 0)
            return jinja_fail(run, "%s got an unexpected keyword argument '%.*s'", what,
                              (int)size_min(args->names[i].string->size, 64), name);
        if (out[index].kind != JINJA_MISSING)
            return jinja_fail(run, "%s got multiple values for argument '%.*s'", what,
                              (int)size_min(args->names[i].string->size, 64), name);
        out[index] = args->named_values[i];
    }
    for (size_t i = 0; i < required; i++)
        if (out[i].kind == JINJA_MISSING)
            return jinja_fail(run, "%s misses %zu of its arguments", what, required - i);
    return true;
}

bool jinja_call(struct jinja_run *run, struct jinja_value callee, const struct jinja_args *args,
                struct jinja_value *out)
{
    switch ((enum jinja_kind)callee.kind) {
    case JINJA_UNDEFINED:
        return jinja_fail_undefined(run, callee);
    case JINJA_MACRO:
        return jinja_call_macro(run, callee.macro, args, out);
    case JINJA_METHOD:
        return jinja_method_call(run, callee.method, args, out);
    case JINJA_FUNCTION:
        return jinja_function_call(run, (enum jinja_function_id)callee.detail, args, out);
    default:
        return jinja_fail(run, "'%s' object is not callable", jinja_type_name(callee));
    }
}

/* ---- global functions ---- */

struct function_name {
    const char *name;
    enum jinja_function_id id;
};

static const struct function_name functions[] = {
    {"namespace", JINJA_FUNCTION_NAMESPACE},   {"dict", JINJA_FUNCTION_DICT},
    {"range", JINJA_FUNCTION_RANGE},           {"raise_exception", JINJA_FUNCTION_RAISE},
    {"strftime_now", JINJA_FUNCTION_STRFTIME},
};

enum jinja_function_id jinja_function_find(const char *name, size_t size)
{
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++)
        if (strlen(functions[i].name) == size && memcmp(functions[i].name, name, size) == 0)
            return functions[i].id;
    return JINJA_FUNCTION_NONE;
}

bool jinja_function_is_foreign(const char *name, size_t size)
{
    return (size == 6 && memcmp(name, "lipsum", 6) == 0) || (size == 6 && memcmp(name, "cycler", 6) == 0) ||
           (size == 6 && memcmp(name, "joiner", 6) == 0);
}

static bool add_pair(struct jinja_run *run, struct jinja_dict *dict, struct jinja_value pair, size_t index)
{
    struct jinja_value *items;
    size_t count;
    if (!jinja_is_iterable(pair))
        return jinja_fail(run, "cannot convert dictionary update sequence element #%zu to a sequence", index);
    if (!jinja_collect(run, pair, &items, &count))
        return false;
    if (count != 2)
        return jinja_fail(run, "dictionary update sequence element #%zu has length %zu; 2 is required", index, count);
    return jinja_dict_put(run, dict, items[0], items[1]);
}

static bool copy_dict(struct jinja_run *run, struct jinja_dict *dict, struct jinja_value from)
{
    size_t count = jinja_dict_count(from);
    for (size_t i = 0; i < count; i++) {
        struct jinja_value key, value;
        if (!jinja_step(run, 1) || !jinja_dict_key(run, from, i, &key) || !jinja_dict_value(run, from, i, &value) ||
            !jinja_dict_put(run, dict, key, value))
            return false;
    }
    return true;
}

/* dict(*args, **kwargs) */
static struct jinja_dict *make_dict(struct jinja_run *run, const struct jinja_args *args)
{
    struct jinja_dict *dict = jinja_dict_make(run, args->named);
    if (dict == NULL)
        return NULL;
    if (args->count > 1) {
        jinja_fail(run, "dict expected at most 1 argument, got %zu", args->count);
        return NULL;
    }
    if (args->count == 1 && (jinja_is_dict(args->values[0]) || args->values[0].kind == JINJA_UNDEFINED)) {
        /* An undefined value has no keys(): dict() iterates over it, and it is empty. */
        if (jinja_is_dict(args->values[0]) && !copy_dict(run, dict, args->values[0]))
            return NULL;
    } else if (args->count == 1) {
        struct jinja_value *items;
        size_t count;
        if (!jinja_collect(run, args->values[0], &items, &count))
            return NULL;
        for (size_t i = 0; i < count; i++)
            if (!add_pair(run, dict, items[i], i))
                return NULL;
    }
    for (size_t i = 0; i < args->named; i++)
        if (!jinja_dict_put(run, dict, args->names[i], args->named_values[i]))
            return NULL;
    return dict;
}

static bool make_namespace(struct jinja_run *run, const struct jinja_args *args, struct jinja_value *out)
{
    struct jinja_dict *dict = make_dict(run, args);
    if (dict == NULL)
        return false;
    for (uint32_t i = 0; i < dict->count; i++) {
        if (dict->keys[i].kind != JINJA_STRING)
            continue;
        const char *name = jinja_string_bytes(run, dict->keys[i].string);
        if (name == NULL)
            return false;
        if (dict->keys[i].string->size > 0 && name[0] == '_')
            return jinja_fail(run, "Chat templates cannot store underscore-prefixed attributes on a namespace");
    }
    *out = (struct jinja_value){.kind = JINJA_NAMESPACE, .dict = dict};
    return true;
}

static bool make_range(struct jinja_run *run, const struct jinja_args *args, struct jinja_value *out)
{
    int64_t bounds[3] = {0, 0, 1};
    if (args->named > 0)
        return jinja_fail(run, "range() takes no keyword arguments");
    if (args->count < 1 || args->count > 3)
        return jinja_fail(run, "range expected 1 to 3 arguments, got %zu", args->count);
    for (size_t i = 0; i < args->count; i++)
        if (!jinja_as_index(run, args->values[i], &bounds[args->count == 1 ? 1 : i]))
            return false;
    if (bounds[2] == 0)
        return jinja_fail(run, "range() arg 3 must not be zero");
    struct jinja_range *range = jinja_take(run, sizeof(*range));
    if (range == NULL)
        return false;
    range->start = bounds[0];
    range->stop = bounds[1];
    range->step = bounds[2];
    uint64_t apart = 0, step = bounds[2] > 0 ? (uint64_t)bounds[2] : 0 - (uint64_t)bounds[2];
    if (bounds[2] > 0 && bounds[0] < bounds[1])
        apart = (uint64_t)bounds[1] - (uint64_t)bounds[0];
    else if (bounds[2] < 0 && bounds[0] > bounds[1])
        apart = (uint64_t)bounds[0] - (uint64_t)bounds[1];
    uint64_t count = apart == 0 ? 0 : (apart - 1) / step + 1;
    if (count > JINJA_RANGE_MAX)
        return jinja_fail(run, "Range too big. The sandbox blocks ranges larger than MAX_RANGE (%d).", JINJA_RANGE_MAX);
    range->count = (int64_t)count;
    *out = (struct jinja_value){.kind = JINJA_RANGE, .range = range};
    return true;
}

/* The template's own words, nothing added; cut at a character's end if they are longer than an error holds. */
static bool raise(struct jinja_run *run, const struct jinja_args *args)
{
    struct jinja_value message;
    if (!jinja_bind(run, args, "raise_exception()", "message", 1, &message))
        return false;
    struct jinja_string *text = jinja_str(run, message);
    const char *bytes = text == NULL ? NULL : jinja_string_bytes(run, text);
    if (bytes == NULL)
        return false;
    size_t size = size_min(text->size, 380);
    while (size > 0 && size < text->size && ((unsigned char)bytes[size] & 0xC0) == 0x80)
        size--;
    return jinja_fail_status(run, STATUS_INVALID, "%.*s", (int)size, bytes);
}

static bool format_time(struct jinja_run *run, const struct jinja_args *args, struct jinja_value *out)
{
    struct jinja_value format;
    struct tm now;
    time_t seconds = (time_t)run->now_unix_s;
    if (!jinja_bind(run, args, "strftime_now()", "format", 1, &format))
        return false;
    if (format.kind != JINJA_STRING)
        return jinja_fail(run, "strftime() argument 1 must be str, not %s", jinja_type_name(format));
    const char *bytes = jinja_string_bytes(run, format.string);
    if (bytes == NULL || localtime_r(&seconds, &now) == NULL)
        return jinja_fail_status(run, STATUS_INTERNAL, "the local time is not known");
    struct jinja_writer writer = {.run = run};
    for (size_t at = 0; at < format.string->size; at++) {
        char one[8] = {'%'}, text[128];
        size_t n = 1;
        if (bytes[at] != '%' || at + 1 == format.string->size) {
            jinja_write_byte(&writer, bytes[at]);
            continue;
        }
        while (at + 1 < format.string->size && n < 3 && strchr("-_0^#EO", bytes[at + 1]) != NULL && bytes[at + 1])
            one[n++] = bytes[++at];
        if (at + 1 < format.string->size)
            one[n++] = bytes[++at];
        /* datetime.now() has no zone and whole seconds here. */
        if (one[1] == 'f')
            jinja_write_text(&writer, "000000");
        else if (one[1] != 'z' && one[1] != 'Z')
            jinja_write(&writer, text, strftime(text, sizeof(text), one, &now));
    }
    *out = jinja_from_string(jinja_writer_string(&writer));
    return out->string != NULL;
}

bool jinja_function_call(struct jinja_run *run, enum jinja_function_id id, const struct jinja_args *args,
                         struct jinja_value *out)
{
    struct jinja_dict *dict;
    switch (id) {
    case JINJA_FUNCTION_NAMESPACE:
        return make_namespace(run, args, out);
    case JINJA_FUNCTION_DICT:
        dict = make_dict(run, args);
        *out = (struct jinja_value){.kind = JINJA_DICT, .dict = dict};
        return dict != NULL;
    case JINJA_FUNCTION_RANGE:
        return make_range(run, args, out);
    case JINJA_FUNCTION_RAISE:
        return raise(run, args);
    case JINJA_FUNCTION_STRFTIME:
        return format_time(run, args, out);
    case JINJA_FUNCTION_NONE:
        break;
    }
    return jinja_fail_status(run, STATUS_INTERNAL, "a chat template called an unknown function");
}

/* ---- methods ---- */

struct type_methods {
    const char *names;   /* space-separated */
    const char *refused; /* they would change the object, or are not built */
};

static const struct type_methods string_methods = {
    "capitalize center count endswith find format index isalnum isalpha isascii isdecimal isdigit islower isnumeric "
    "isprintable isspace istitle isupper join ljust lower lstrip partition removeprefix removesuffix replace rfind "
    "rindex rjust rpartition rsplit rstrip split splitlines startswith strip swapcase title upper zfill",
    ""};
static const struct type_methods list_methods = {"copy count index",
                                                 "append clear extend insert pop remove reverse sort"};
static const struct type_methods tuple_methods = {"count index", ""};
static const struct type_methods dict_methods = {"copy get items keys values", "clear pop popitem setdefault update"};
static const struct type_methods loop_methods = {"changed cycle", ""};
/* Python has them; here they are an error when reached, so that nothing is silently different. */
static const char string_unbuilt[] = "casefold encode expandtabs format_map isidentifier maketrans translate";
static const char number_unbuilt[] = "as_integer_ratio bit_count bit_length conjugate denominator fromhex hex imag "
                                     "is_integer numerator real to_bytes from_bytes";

static const char *find_name(const char *names, const char *name, size_t size)
{
    for (const char *at = names; *at != '\0';) {
        size_t n = strcspn(at, " ");
        if (n == size && memcmp(at, name, n) == 0)
            return at;
        at += n + (at[n] == ' ');
    }
    return NULL;
}

int jinja_method_find(struct jinja_value object, const char *name, size_t size, const char **canonical)
{
    const struct type_methods *methods = NULL;
    if (object.kind == JINJA_STRING)
        methods = &string_methods;
    else if (object.kind == JINJA_LIST)
        methods = &list_methods;
    else if (object.kind == JINJA_TUPLE)
        methods = &tuple_methods;
    else if (jinja_is_dict(object))
        methods = &dict_methods;
    else if (object.kind == JINJA_LOOP)
        methods = &loop_methods;
    *canonical = NULL;
    if (methods != NULL) {
        *canonical = find_name(methods->names, name, size);
        if (*canonical != NULL)
            return 1;
        if (find_name(methods->refused, name, size) != NULL)
            return -1;
    }
    if (object.kind == JINJA_STRING)
        *canonical = find_name(string_unbuilt, name, size);
    else if (jinja_is_number(object))
        *canonical = find_name(number_unbuilt, name, size);
    else if (jinja_is_dict(object))
        *canonical = find_name("fromkeys", name, size);
    return *canonical != NULL;
}

static bool is_method(const char *canonical, const char *name)
{
    size_t n = strlen(name);
    return strncmp(canonical, name, n) == 0 && (canonical[n] == ' ' || canonical[n] == '\0');
}

static bool dict_method(struct jinja_run *run, struct jinja_value dict, const char *name, const struct jinja_args *args,
                        struct jinja_value *out)
{
    struct jinja_value given[2];
    if (is_method(name, "get")) {
        if (args->named > 0)
            return jinja_fail(run, "dict.get() takes no keyword arguments");
        if (!jinja_bind(run, args, "get()", "key default", 1, given))
            return false;
        int found = jinja_dict_find(run, dict, given[0], out);
        if (found == 0)
            *out = given[1].kind == JINJA_MISSING ? jinja_none() : given[1];
        return found >= 0;
    }
    if (args->count + args->named > 0)
        return jinja_fail(run, "a method of dict takes no arguments (%zu given)", args->count + args->named);
    if (is_method(name, "copy")) {
        *out = dict;
        return true;
    }
    if (!is_method(name, "items") && !is_method(name, "keys") && !is_method(name, "values"))
        return jinja_fail_status(run, STATUS_UNSUPPORTED, "line %u: dict.fromkeys is not supported", run->line);
    struct jinja_view *view = jinja_take(run, sizeof(*view));
    if (view == NULL)
        return false;
    view->dict = dict;
    *out = (struct jinja_value){.kind = JINJA_VIEW,
                                .detail = is_method(name, "items")  ? JINJA_VIEW_ITEMS
                                          : is_method(name, "keys") ? JINJA_VIEW_KEYS
                                                                    : JINJA_VIEW_VALUES,
                                .view = view};
    return true;
}

static bool list_method(struct jinja_run *run, struct jinja_value list, const char *name, const struct jinja_args *args,
                        struct jinja_value *out)
{
    struct jinja_value item;
    int64_t found = 0;
    if (args->named > 0)
        return jinja_fail(run, "a method of list takes no keyword arguments");
    if (is_method(name, "copy")) {
        if (args->count > 0)
            return jinja_fail(run, "list.copy() takes no arguments (%zu given)", args->count);
        *out = list;
        return true;
    }
    bool count = is_method(name, "count");
    if (args->count != 1) {
        if (!count && args->count > 1 && args->count <= 3)
            return jinja_fail_status(run, STATUS_UNSUPPORTED, "line %u: list.index with bounds is not supported",
                                     run->line);
        return jinja_fail(run, "a method of list takes exactly one argument (%zu given)", args->count);
    }
    for (size_t i = 0; i < list.list->count; i++) {
        bool equal;
        if (!jinja_step(run, 1) || !jinja_list_get(run, list.list, i, &item) ||
            !jinja_equal(run, item, args->values[0], &equal))
            return false;
        if (equal && !count) {
            *out = jinja_integer((int64_t)i);
            return true;
        }
        found += equal;
    }
    if (!count)
        return jinja_fail(run, "the value is not in the list");
    *out = jinja_integer(found);
    return true;
}

bool jinja_method_call(struct jinja_run *run, const struct jinja_method *method, const struct jinja_args *args,
                       struct jinja_value *out)
{
    struct jinja_value object = method->object;
    if (object.kind == JINJA_STRING)
        return jinja_string_method(run, object.string, method->name, args, out);
    if (jinja_is_list(object))
        return list_method(run, object, method->name, args, out);
    if (jinja_is_dict(object))
        return dict_method(run, object, method->name, args, out);
    if (object.kind == JINJA_LOOP)
        return jinja_loop_method(run, object.loop, is_method(method->name, "cycle") ? "cycle" : "changed", args, out);
    return jinja_fail_status(run, STATUS_UNSUPPORTED, "line %u: '%.20s' of a number is not supported", run->line,
                             method->name);
}
