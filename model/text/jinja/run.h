/* One render: its arena, its limits and how it fails. Every function of this folder that can fail returns false, NULL
 * or -1 after jinja_fail, which keeps the first failure. Owned by the thread that renders. */
#ifndef MODEL_TEXT_JINJA_RUN_H
#define MODEL_TEXT_JINJA_RUN_H

#include "kernels/base/arena.h"
#include "kernels/base/status.h"
#include "model/text/jinja/ast.h"
#include "model/text/jinja/string.h"
#include "model/text/jinja/value.h"

/* Levels of C recursion, whatever depth_max says: keeps the stack of a small thread safe. */
#define JINJA_RECURSION_MAX 1200
#define JINJA_RANGE_MAX 100000 /* jinja2.sandbox.MAX_RANGE */

/* The variables of one call of a function (or of the template itself). */
struct jinja_activation {
    struct jinja_activation *closure; /* of the function around it, or NULL */
    struct jinja_value *slots;
};

struct jinja_run {
    const struct jinja_program *program;
    struct arena *arena;
    struct error *error;
    enum status status; /* of the first failure */
    uint64_t steps_left;
    uint32_t recursion_left;
    uint32_t calls_left;
    uint32_t line; /* of what is being evaluated */
    size_t output_max;
    int64_t now_unix_s;
    struct jinja_pieces *out; /* where output statements write */
    struct jinja_activation *activation;
    struct jinja_value block_text; /* what the filter of a block is about to be applied to */
    struct jinja_dict *variables;  /* what the caller gave */
    struct jinja_value *resolved;  /* (program->name_count) of variables and globals; MISSING: not looked up yet */
};

bool jinja_fail(struct jinja_run *run, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool jinja_fail_status(struct jinja_run *run, enum status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
bool jinja_fail_undefined(struct jinja_run *run, struct jinja_value value); /* UndefinedError with its message */
void *jinja_take(struct jinja_run *run, size_t bytes);                      /* NULL: failed */
void *jinja_take_array(struct jinja_run *run, size_t count, size_t bytes);
bool jinja_step(struct jinja_run *run, uint64_t steps);
bool jinja_enter(struct jinja_run *run); /* a level of recursion; false: too deep */
void jinja_leave(struct jinja_run *run);

/* Evaluation. */
bool jinja_eval(struct jinja_run *run, const struct jinja_node *node, struct jinja_value *out);
enum jinja_flow { JINJA_NEXT, JINJA_BREAK, JINJA_CONTINUE, JINJA_FAILED };
enum jinja_flow jinja_execute(struct jinja_run *run, const struct jinja_block *block);
bool jinja_scope_enter(struct jinja_run *run, const struct jinja_scope *scope);
bool jinja_assign(struct jinja_run *run, const struct jinja_node *target, struct jinja_value value);
struct jinja_value *jinja_slot(struct jinja_run *run, const struct jinja_node *name);
bool jinja_resolve(struct jinja_run *run, uint32_t name, struct jinja_value *out); /* MISSING: nowhere */

/* Arguments of a call. */
struct jinja_args {
    const struct jinja_value *values; /* (count) */
    size_t count;
    const struct jinja_value *names; /* (named) strings */
    const struct jinja_value *named_values;
    size_t named;
};
bool jinja_eval_args(struct jinja_run *run, const struct jinja_arguments *arguments, struct jinja_args *out);
/* Binds to parameters "a b c" (space-separated); those not given are MISSING. `what` names the function in errors. */
bool jinja_bind(struct jinja_run *run, const struct jinja_args *args, const char *what, const char *parameters,
                size_t required, struct jinja_value *out);
bool jinja_call(struct jinja_run *run, struct jinja_value callee, const struct jinja_args *args,
                struct jinja_value *out);
bool jinja_call_macro(struct jinja_run *run, const struct jinja_macro *macro, const struct jinja_args *args,
                      struct jinja_value *out);

struct jinja_macro {
    const struct jinja_function *function;
    struct jinja_activation *closure;
};

/* Attributes, items, slices. */
bool jinja_get_attribute(struct jinja_run *run, struct jinja_value object, struct jinja_string *name,
                         struct jinja_value *out);
bool jinja_get_item(struct jinja_run *run, struct jinja_value object, struct jinja_value key, struct jinja_value *out);
bool jinja_get_slice(struct jinja_run *run, struct jinja_value object, const struct jinja_value bounds[3],
                     struct jinja_value *out); /* NONE: left out */
/* What a dotted path such as "function.name" or an index names, as filters take it. */
bool jinja_get_path(struct jinja_run *run, struct jinja_value object, struct jinja_value path, struct jinja_value *out);

/* Arithmetic; `operation` is Python's spelling. */
bool jinja_arithmetic(struct jinja_run *run, enum jinja_operator operation, struct jinja_value a, struct jinja_value b,
                      struct jinja_value *out);
bool jinja_negate(struct jinja_run *run, struct jinja_value value, bool negative, struct jinja_value *out);
/* An index or count: integer or bool, else a TypeError. */
bool jinja_as_index(struct jinja_run *run, struct jinja_value value, int64_t *out);

/* Iteration: Python's iter() and next(). */
bool jinja_iterate(struct jinja_run *run, struct jinja_value value, struct jinja_iterator **out);
bool jinja_is_iterable(struct jinja_value value);
int jinja_next(struct jinja_run *run, struct jinja_iterator *iterator, struct jinja_value *out); /* 1, 0 end, -1 */
bool jinja_collect(struct jinja_run *run, struct jinja_value value, struct jinja_value **items, size_t *count);
bool jinja_reversed(struct jinja_run *run, struct jinja_value value, struct jinja_iterator **out);

enum jinja_iterator_kind {
    JINJA_OVER_EMPTY,
    JINJA_OVER_LIST,
    JINJA_OVER_STRING,
    JINJA_OVER_RANGE,
    JINJA_OVER_KEYS,
    JINJA_OVER_VALUES,
    JINJA_OVER_ITEMS,
    JINJA_OVER_REVERSED, /* of list, dict, view or range */
    JINJA_OVER_LOOP,     /* a for statement's own iteration, with its `if` */
    JINJA_OVER_FILTER,   /* a generator of a filter: `filter` makes the items */
};

struct jinja_iterator {
    enum jinja_iterator_kind kind;
    bool started, done;
    bool generator; /* a Python generator; false: another iterator type */
    struct jinja_value source;
    size_t position, count;
    struct jinja_iterator *inner;
    const struct jinja_filter *filter;
    struct jinja_args args;
    void *state; /* the filter's */
    int (*next)(struct jinja_run *run, struct jinja_iterator *iterator, struct jinja_value *out);
};

struct jinja_loop {
    const struct jinja_node *node;
    struct jinja_iterator *iterator;
    struct jinja_value iterable;
    struct jinja_value before, current, after;
    struct jinja_value changed; /* the tuple last given to changed() */
    int64_t index0;
    size_t length; /* JINJA_UNKNOWN: not known yet */
    size_t drained, drained_count;
    struct jinja_value *drained_items; /* what is left, after `length` had to read it all */
    uint32_t depth0;
};
bool jinja_loop_attribute(struct jinja_run *run, struct jinja_loop *loop, struct jinja_string *name,
                          struct jinja_value *out);
bool jinja_loop_method(struct jinja_run *run, struct jinja_loop *loop, const char *name, const struct jinja_args *args,
                       struct jinja_value *out);
bool jinja_loop_length(struct jinja_run *run, struct jinja_loop *loop, size_t *out);
bool jinja_execute_for(struct jinja_run *run, const struct jinja_node *node, enum jinja_flow *flow);

/* Filters, tests, methods, functions: found by name when compiled. */
struct jinja_filter {
    const char *name;
    bool (*apply)(struct jinja_run *run, const struct jinja_filter *filter, struct jinja_value value,
                  const struct jinja_args *args, struct jinja_value *out);
    int (*next)(struct jinja_run *run, struct jinja_iterator *iterator, struct jinja_value *out); /* generators */
    int detail;
};
struct jinja_test {
    const char *name;
    bool (*apply)(struct jinja_run *run, struct jinja_value value, const struct jinja_args *args, bool *out);
};
const struct jinja_filter *jinja_filter_find(const char *name, size_t size);
const struct jinja_test *jinja_test_find(const char *name, size_t size);
bool jinja_filter_is_foreign(const char *name, size_t size); /* jinja2 has it, this engine does not */
bool jinja_generator_make(struct jinja_run *run, const struct jinja_filter *filter, struct jinja_value value,
                          const struct jinja_args *args, struct jinja_value *out); /* apply of lazy filters */
bool jinja_call_filter(struct jinja_run *run, struct jinja_value name, struct jinja_value value,
                       const struct jinja_args *args, struct jinja_value *out);
bool jinja_call_test(struct jinja_run *run, struct jinja_value name, struct jinja_value value,
                     const struct jinja_args *args, bool *out);

/* Methods. 1: the type has it, 0: it has not, -1: it has, and it is not for templates (or not built). */
int jinja_method_find(struct jinja_value object, const char *name, size_t size, const char **canonical);
bool jinja_method_call(struct jinja_run *run, const struct jinja_method *method, const struct jinja_args *args,
                       struct jinja_value *out);
bool jinja_string_method(struct jinja_run *run, struct jinja_string *string, const char *name,
                         const struct jinja_args *args, struct jinja_value *out);

enum jinja_function_id {
    JINJA_FUNCTION_NONE,
    JINJA_FUNCTION_NAMESPACE,
    JINJA_FUNCTION_DICT,
    JINJA_FUNCTION_RANGE,
    JINJA_FUNCTION_RAISE,
    JINJA_FUNCTION_STRFTIME,
};
enum jinja_function_id jinja_function_find(const char *name, size_t size);
bool jinja_function_is_foreign(const char *name, size_t size);
bool jinja_function_call(struct jinja_run *run, enum jinja_function_id id, const struct jinja_args *args,
                         struct jinja_value *out);

/* Text work shared by filters and methods. */
enum jinja_case {
    JINJA_CASE_UPPER,
    JINJA_CASE_LOWER,
    JINJA_CASE_TITLE,
    JINJA_CASE_CAPITALIZE,
    JINJA_CASE_SWAP,
    JINJA_CASE_TITLE_FILTER
};
struct jinja_string *jinja_string_case(struct jinja_run *run, struct jinja_string *string, enum jinja_case how);
enum { JINJA_STRIP_LEFT = 1, JINJA_STRIP_RIGHT = 2 };
struct jinja_string *jinja_string_strip(struct jinja_run *run, struct jinja_string *string,
                                        struct jinja_string *characters, int sides); /* NULL characters: white space */
struct jinja_string *jinja_string_replace(struct jinja_run *run, struct jinja_string *string, struct jinja_string *old,
                                          struct jinja_string *fresh, int64_t times);
struct jinja_string *jinja_string_escape(struct jinja_run *run, struct jinja_string *string); /* HTML; a Markup */
bool jinja_string_lines(struct jinja_run *run, struct jinja_string *string, bool keep_ends,
                        struct jinja_string ***lines, size_t *count);
/* Parts of a string, as values: how split and the like gather what they return. */
struct jinja_parts {
    struct jinja_run *run;
    struct jinja_string *string;
    struct jinja_value *items; /* (count) */
    size_t count, capacity;
};
bool jinja_parts_add(struct jinja_parts *parts, size_t from, size_t to); /* bytes from .. to - 1 of the string */
/* The first place of `needle` at or after `from`; JINJA_UNKNOWN: none. */
size_t jinja_find_bytes(const char *text, size_t size, const char *needle, size_t needle_size, size_t from);
struct jinja_string *jinja_join(struct jinja_run *run, struct jinja_string *separator, struct jinja_value *items,
                                size_t count);
struct jinja_string *jinja_format_percent(struct jinja_run *run, struct jinja_string *format,
                                          struct jinja_value argument);
struct jinja_string *jinja_format_braces(struct jinja_run *run, struct jinja_string *format,
                                         const struct jinja_args *args);
/* sorted(items, key=...): stable; `keys` (count) are compared, `items` are moved along. */
bool jinja_sort(struct jinja_run *run, struct jinja_value *items, struct jinja_value *keys, size_t count, bool reverse);

#endif
