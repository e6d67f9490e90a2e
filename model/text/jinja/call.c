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

/* A name with its size, so that most names are told apart without being read. */
struct method_name {
    size_t size;
    const char *text;
};
#define NAME(text)             \
    {                          \
        sizeof(text) - 1, text \
    }

static const struct method_name string_names[] = {
    NAME("capitalize"), NAME("center"),   NAME("count"),     NAME("endswith"),     NAME("find"),
    NAME("format"),     NAME("index"),    NAME("isalnum"),   NAME("isalpha"),      NAME("isascii"),
    NAME("isdecimal"),  NAME("isdigit"),  NAME("islower"),   NAME("isnumeric"),    NAME("isprintable"),
    NAME("isspace"),    NAME("istitle"),  NAME("isupper"),   NAME("join"),         NAME("ljust"),
    NAME("lower"),      NAME("lstrip"),   NAME("partition"), NAME("removeprefix"), NAME("removesuffix"),
    NAME("replace"),    NAME("rfind"),    NAME("rindex"),    NAME("rjust"),        NAME("rpartition"),
    NAME("rsplit"),     NAME("rstrip"),   NAME("split"),     NAME("splitlines"),   NAME("startswith"),
    NAME("strip"),      NAME("swapcase"), NAME("title"),     NAME("upper"),        NAME("zfill"),
    {0, NULL}};
static const struct method_name list_names[] = {NAME("count"), NAME("index"), NAME("copy"), {0, NULL}};
static const struct method_name tuple_names[] = {NAME("count"), NAME("index"), {0, NULL}};
static const struct method_name dict_names[] = {NAME("copy"), NAME("get"),    NAME("items"),
                                                NAME("keys"), NAME("values"), {0, NULL}};
static const struct method_name loop_names[] = {NAME("changed"), NAME("cycle"), {0, NULL}};

/* What would change the object: the sandbox hands these out as undefined. */
static const struct method_name list_refused[] = {NAME("append"),  NAME("clear"), NAME("extend"),
                                                  NAME("insert"),  NAME("pop"),   NAME("remove"),
                                                  NAME("reverse"), NAME("sort"),  {0, NULL}};
static const struct method_name dict_refused[] = {NAME("clear"),      NAME("pop"),    NAME("popitem"),
                                                  NAME("setdefault"), NAME("update"), {0, NULL}};

/* Python has these too; here calling them is an error, so that nothing is silently different. */
static const struct method_name string_unbuilt[] = {
    NAME("casefold"),     NAME("encode"),    NAME("expandtabs"), NAME("format_map"),
    NAME("isidentifier"), NAME("maketrans"), NAME("translate"),  {0, NULL}};
static const struct method_name number_unbuilt[] = {
    NAME("as_integer_ratio"), NAME("bit_count"), NAME("bit_length"), NAME("conjugate"), NAME("denominator"),
    NAME("from_bytes"),       NAME("fromhex"),   NAME("hex"),        NAME("imag"),      NAME("is_integer"),
    NAME("numerator"),        NAME("real"),      NAME("to_bytes"),   {0, NULL}};
static const struct method_name dict_unbuilt[] = {NAME("fromkeys"), {0, NULL}};

struct type_methods {
    const struct method_name *names, *refused, *unbuilt;
};

static const struct method_name no_names[] = {{0, NULL}};
static const struct type_methods string_methods = {string_names, no_names, string_unbuilt};
static const struct type_methods list_methods = {list_names, list_refused, no_names};
static const struct type_methods tuple_methods = {tuple_names, no_names, no_names};
static const struct type_methods dict_methods = {dict_names, dict_refused, dict_unbuilt};
static const struct type_methods loop_methods = {loop_names, no_names, no_names};
static const struct type_methods number_methods = {no_names, no_names, number_unbuilt};

static const char *find_name(const struct method_name *names, const char *name, size_t size)
{
    for (; names->text != NULL; names++)
        if (names->size == size && memcmp(names->text, name, size) == 0)
            return names->text;
    return NULL;
}

int jinja_method_find(struct jinja_value object, const char *name, size_t size, const char **canonical)
{
    const struct type_methods *methods;
    *canonical = NULL;
    if (jinja_is_dict(object))
        methods = &dict_methods;
    else if (object.kind == JINJA_STRING)
        methods = &string_methods;
    else if (object.kind == JINJA_LIST)
        methods = &list_methods;
    else if (object.kind == JINJA_TUPLE || object.kind == JINJA_RANGE)
        methods = &tuple_methods;
    else if (object.kind == JINJA_LOOP)
        methods = &loop_methods;
    else if (jinja_is_number(object))
        methods = &number_methods;
    else
        return 0;
    *canonical = find_name(methods->names, name, size);
    if (*canonical == NULL && find_name(methods->refused, name, size) != NULL)
        return -1;
    if (*canonical == NULL)
        *canonical = find_name(methods->unbuilt, name, size);
    return *canonical != NULL;
}

static bool dict_method(struct jinja_run *run, struct jinja_value dict, const char *name, const struct jinja_args *args,
                        struct jinja_value *out)
{
    struct jinja_value given[2];
    if (strcmp(name, "get") == 0) {
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
    if (strcmp(name, "copy") == 0) {
        *out = dict;
        return true;
    }
    if (strcmp(name, "items") != 0 && strcmp(name, "keys") != 0 && strcmp(name, "values") != 0)
        return jinja_fail_status(run, STATUS_UNSUPPORTED, "line %u: dict.fromkeys is not supported", run->line);
    struct jinja_view *view = jinja_take(run, sizeof(*view));
    if (view == NULL)
        return false;
    view->dict = dict;
    *out = (struct jinja_value){.kind = JINJA_VIEW,
                                .detail = strcmp(name, "items") == 0  ? JINJA_VIEW_ITEMS
                                          : strcmp(name, "keys") == 0 ? JINJA_VIEW_KEYS
                                                                      : JINJA_VIEW_VALUES,
                                .view = view};
    return true;
}

static bool list_method(struct jinja_run *run, struct jinja_value list, const char *name, const struct jinja_args *args,
                        struct jinja_value *out)
{
    struct jinja_value item;
    struct jinja_iterator *iterator;
    int64_t found = 0;
    int more;
    if (args->named > 0)
        return jinja_fail(run, "a method of list takes no keyword arguments");
    if (strcmp(name, "copy") == 0) {
        if (args->count > 0)
            return jinja_fail(run, "list.copy() takes no arguments (%zu given)", args->count);
        *out = list;
        return true;
    }
    bool count = strcmp(name, "count") == 0;
    if (args->count != 1) {
        if (!count && args->count > 1 && args->count <= 3)
            return jinja_fail_status(run, STATUS_UNSUPPORTED, "line %u: list.index with bounds is not supported",
                                     run->line);
        return jinja_fail(run, "a method of list takes exactly one argument (%zu given)", args->count);
    }
    if (!jinja_iterate(run, list, &iterator))
        return false;
    for (size_t i = 0; (more = jinja_next(run, iterator, &item)) == 1; i++) {
        bool equal;
        if (!jinja_equal(run, item, args->values[0], &equal))
            return false;
        if (equal && !count) {
            *out = jinja_integer((int64_t)i);
            return true;
        }
        found += equal;
    }
    if (more < 0)
        return false;
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
    if (jinja_is_list(object) || object.kind == JINJA_RANGE)
        return list_method(run, object, method->name, args, out);
    if (jinja_is_dict(object))
        return dict_method(run, object, method->name, args, out);
    if (object.kind == JINJA_LOOP)
        return jinja_loop_method(run, object.loop, strcmp(method->name, "cycle") == 0 ? "cycle" : "changed", args, out);
    return jinja_fail_status(run, STATUS_UNSUPPORTED, "line %u: '%.20s' of a number is not supported", run->line,
                             method->name);
}
