/* The table of filters, and how a filter is found and called. */
#include "model/text/jinja/filters.h"

#include <string.h>

static const struct jinja_filter filters[] = {
    {"abs", jinja_filter_abs, NULL, 0},
    {"batch", jinja_generator_make, jinja_next_batch, 0},
    {"capitalize", jinja_filter_case, NULL, JINJA_CASE_CAPITALIZE},
    {"center", jinja_filter_center, NULL, 0},
    {"count", jinja_filter_length, NULL, 0},
    {"d", jinja_filter_default, NULL, 0},
    {"default", jinja_filter_default, NULL, 0},
    {"dictsort", jinja_filter_dictsort, NULL, 0},
    {"e", jinja_filter_escape, NULL, 0},
    {"escape", jinja_filter_escape, NULL, 0},
    {"first", jinja_filter_first, NULL, 0},
    {"float", jinja_filter_float, NULL, 0},
    {"forceescape", jinja_filter_escape, NULL, 1},
    {"format", jinja_filter_format, NULL, 0},
    {"indent", jinja_filter_indent, NULL, 0},
    {"int", jinja_filter_int, NULL, 0},
    {"items", jinja_generator_make, jinja_next_items, 0},
    {"join", jinja_filter_join, NULL, 0},
    {"last", jinja_filter_last, NULL, 0},
    {"length", jinja_filter_length, NULL, 0},
    {"list", jinja_filter_list, NULL, 0},
    {"lower", jinja_filter_case, NULL, JINJA_CASE_LOWER},
    {"map", jinja_generator_make, jinja_next_map, 0},
    {"max", jinja_filter_extreme, NULL, 1},
    {"min", jinja_filter_extreme, NULL, 0},
    {"reject", jinja_generator_make, jinja_next_select, 1},
    {"rejectattr", jinja_generator_make, jinja_next_select, 3},
    {"replace", jinja_filter_replace, NULL, 0},
    {"reverse", jinja_filter_reverse, NULL, 0},
    {"round", jinja_filter_round, NULL, 0},
    {"safe", jinja_filter_safe, NULL, 0},
    {"select", jinja_generator_make, jinja_next_select, 0},
    {"selectattr", jinja_generator_make, jinja_next_select, 2},
    {"slice", jinja_generator_make, jinja_next_slice, 0},
    {"sort", jinja_filter_sort, NULL, 0},
    {"string", jinja_filter_string, NULL, 0},
    {"sum", jinja_filter_sum, NULL, 0},
    {"title", jinja_filter_case, NULL, JINJA_CASE_TITLE_FILTER},
    {"tojson", jinja_filter_tojson, NULL, 0},
    {"trim", jinja_filter_trim, NULL, 0},
    {"truncate", jinja_filter_truncate, NULL, 0},
    {"unique", jinja_generator_make, jinja_next_unique, 0},
    {"upper", jinja_filter_case, NULL, JINJA_CASE_UPPER},
    {"wordcount", jinja_filter_wordcount, NULL, 0},
};

static const char *const foreign[] = {"attr",      "filesizeformat", "groupby", "pprint",   "random",
                                      "striptags", "urlencode",      "urlize",  "wordwrap", "xmlattr"};

const struct jinja_filter *jinja_filter_find(const char *name, size_t size)
{
    for (size_t i = 0; i < sizeof(filters) / sizeof(filters[0]); i++)
        if (strlen(filters[i].name) == size && memcmp(filters[i].name, name, size) == 0)
            return &filters[i];
    return NULL;
}

bool jinja_filter_is_foreign(const char *name, size_t size)
{
    for (size_t i = 0; i < sizeof(foreign) / sizeof(foreign[0]); i++)
        if (strlen(foreign[i]) == size && memcmp(foreign[i], name, size) == 0)
            return true;
    return false;
}

bool jinja_call_filter(struct jinja_run *run, struct jinja_value name, struct jinja_value value,
                       const struct jinja_args *args, struct jinja_value *out)
{
    const char *text = name.kind == JINJA_STRING ? jinja_string_bytes(run, name.string) : NULL;
    if (text == NULL)
        return jinja_fail(run, "No filter named '%s'.", jinja_type_name(name));
    const struct jinja_filter *filter = jinja_filter_find(text, name.string->size);
    if (filter == NULL && jinja_filter_is_foreign(text, name.string->size))
        return jinja_fail_status(run, STATUS_UNSUPPORTED, "line %u: the filter '%.64s' is not supported", run->line,
                                 text);
    if (filter == NULL)
        return jinja_fail(run, "No filter named '%.64s'.", text);
    return filter->apply(run, filter, value, args, out);
}

/* The arguments of jinja2's generators are checked when they are called; their work is done when they are read. */
static bool check_lazy(struct jinja_run *run, const struct jinja_filter *filter, const struct jinja_args *args)
{
    static const struct {
        const char *name, *parameters;
        size_t required;
    } rules[] = {{"batch", "linecount fill_with", 1},
                 {"items", "", 0},
                 {"slice", "slices fill_with", 1},
                 {"unique", "case_sensitive attribute", 0}};
    struct jinja_value given[2];
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
        if (strcmp(rules[i].name, filter->name) == 0)
            return jinja_bind(run, args, filter->name, rules[i].parameters, rules[i].required, given);
    return true;
}

bool jinja_generator_make(struct jinja_run *run, const struct jinja_filter *filter, struct jinja_value value,
                          const struct jinja_args *args, struct jinja_value *out)
{
    if (!check_lazy(run, filter, args))
        return false;
    struct jinja_iterator *iterator = jinja_take(run, sizeof(*iterator));
    if (iterator == NULL)
        return false;
    iterator->kind = JINJA_OVER_FILTER;
    iterator->generator = true;
    iterator->source = value;
    iterator->filter = filter;
    iterator->args = *args;
    iterator->next = filter->next;
    *out = (struct jinja_value){.kind = JINJA_ITERATOR, .iterator = iterator};
    return true;
}

bool jinja_ignore_case(struct jinja_run *run, bool case_sensitive, struct jinja_value value, struct jinja_value *out)
{
    *out = value;
    if (case_sensitive || value.kind != JINJA_STRING)
        return true;
    *out = jinja_from_string(jinja_string_case(run, value.string, JINJA_CASE_LOWER));
    return out->string != NULL;
}

bool jinja_flag(struct jinja_value given, bool otherwise)
{
    return given.kind == JINJA_MISSING ? otherwise : jinja_truth(given);
}
