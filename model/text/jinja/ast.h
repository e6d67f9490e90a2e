/* The compiled form of a template: a tree whose names are resolved to slots. Made by parser.c and scope.c in the
 * program's own arena, constant afterwards. */
#ifndef MODEL_TEXT_JINJA_AST_H
#define MODEL_TEXT_JINJA_AST_H

#include "kernels/base/arena.h"
#include "kernels/base/status.h"
#include "model/text/jinja/value.h"

#define JINJA_SOURCE_MAX ((size_t)4 << 20) /* bytes of a template */
#define JINJA_NEST_MAX 200                 /* levels of the tree; left-leaning chains count too */

enum jinja_node_kind {
    /* expressions */
    JINJA_CONST,
    JINJA_NAME,
    JINJA_NAMESPACE_REF, /* `ns.attribute` as the target of a set */
    JINJA_TUPLE_OF,
    JINJA_LIST_OF,
    JINJA_DICT_OF, /* items alternate: key, value */
    JINJA_GETATTR,
    JINJA_GETITEM,
    JINJA_GETSLICE,
    JINJA_CALL,
    JINJA_FILTER,
    JINJA_TEST,
    JINJA_NOT,
    JINJA_NEGATE,
    JINJA_POSITIVE,
    JINJA_BINARY,
    JINJA_AND,
    JINJA_OR,
    JINJA_COMPARE,
    JINJA_CONCAT,
    JINJA_COND,
    /* statements */
    JINJA_OUTPUT, /* items are expressions */
    JINJA_DATA,
    JINJA_IF,
    JINJA_FOR,
    JINJA_SET,
    JINJA_SET_BLOCK,
    JINJA_MACRO_DEF,
    JINJA_CALL_BLOCK,
    JINJA_FILTER_BLOCK,
    JINJA_GENERATION,
    JINJA_WITH,
    JINJA_BREAK_LOOP,
    JINJA_CONTINUE_LOOP,
};

enum jinja_operator {
    JINJA_ADD,
    JINJA_SUBTRACT,
    JINJA_MULTIPLY,
    JINJA_DIVIDE,
    JINJA_FLOOR_DIVIDE,
    JINJA_MODULO,
    JINJA_POWER
};
enum jinja_comparison { JINJA_EQ, JINJA_NE, JINJA_LT, JINJA_LE, JINJA_GT, JINJA_GE, JINJA_IN, JINJA_NOT_IN };

struct jinja_node;

struct jinja_block {
    struct jinja_node **nodes; /* (count) statements */
    size_t count;
};

struct jinja_arguments {
    struct jinja_node **positional; /* (count) */
    size_t count;
    struct jinja_value *names; /* (named) strings */
    struct jinja_node **named_nodes;
    size_t named;
    struct jinja_node *rest;       /* *expression, or NULL */
    struct jinja_node *rest_named; /* **expression, or NULL */
};

/* What happens to a variable when its scope is entered. */
enum jinja_load_action { JINJA_LOAD_PARAMETER, JINJA_LOAD_RESOLVE, JINJA_LOAD_ALIAS, JINJA_LOAD_UNDEFINED };
struct jinja_load {
    enum jinja_load_action action;
    uint32_t slot;
    uint32_t name;        /* resolve */
    uint32_t hops, outer; /* alias: activations up, slot there */
};
struct jinja_scope {
    struct jinja_load *loads; /* (count) without parameters */
    size_t count;
};

/* A body with an activation of its own: the template, a macro, a call block. */
struct jinja_function {
    const char *name; /* NULL: a call block */
    struct jinja_string *name_string;
    struct jinja_node **parameters; /* (parameter_count) names */
    struct jinja_node **defaults;   /* (parameter_count) or NULL where there is none */
    size_t parameter_count;
    struct jinja_block body;
    struct jinja_scope scope;
    uint32_t slot_count;
    bool uses_caller, uses_kwargs, uses_varargs; /* as names the body reads */
    uint32_t caller_slot, kwargs_slot, varargs_slot;
};

struct jinja_node {
    uint8_t kind; /* enum jinja_node_kind */
    uint8_t how;  /* enum jinja_operator */
    uint16_t depth;
    uint32_t line;
    union {
        struct jinja_value constant;
        struct {
            uint32_t name, hops, slot;
            struct jinja_string *attribute; /* namespace ref */
            bool store;
        } variable;
        struct {
            struct jinja_node **items;
            size_t count;
        } sequence; /* tuple, list, dict, concat, output */
        struct {
            struct jinja_node *a, *b;
        } pair; /* binary, and, or; not, negate and positive use a only */
        struct {
            struct jinja_node *first;
            struct jinja_node **operands; /* (count) */
            uint8_t *operators;           /* (count) enum jinja_comparison */
            size_t count;
        } compare;
        struct {
            struct jinja_node *object;
            struct jinja_string *name;
        } attribute;
        struct {
            struct jinja_node *object;
            struct jinja_node *bounds[3]; /* item: [0] only; slice: start, stop, step, NULL where left out */
        } subscript;
        struct {
            struct jinja_node *object; /* callee, or what a filter or test is applied to; NULL: a filter block's text */
            struct jinja_arguments *arguments;
            struct jinja_string *name;
            const void *target; /* struct jinja_filter or jinja_test; NULL: unknown, an error when it is reached */
        } call;
        struct {
            struct jinja_node *test, *yes, *no;
        } cond;
        struct {
            const char *bytes;
            size_t size;
        } data;
        struct jinja_branches *branches;
        struct jinja_for *loop;
        struct {
            struct jinja_node *target, *value;
        } set;
        struct jinja_capture *capture;
        struct {
            struct jinja_function *function;
            struct jinja_node *target; /* macro: the name; call block: the call */
        } macro;
        struct jinja_with *with;
    };
};

struct jinja_branches {
    struct jinja_node **tests; /* (count) if and elif */
    struct jinja_block *bodies;
    size_t count;
    struct jinja_block otherwise;
};

struct jinja_for {
    struct jinja_node *target, *iterable, *test; /* test: NULL where there is none */
    struct jinja_block body, otherwise;
    struct jinja_node *test_target; /* the target again, with slots of the test's own scope */
    struct jinja_scope body_scope, test_scope, else_scope;
    bool uses_loop;
    uint32_t loop_slot;
};

/* set block, filter block, generation */
struct jinja_capture {
    struct jinja_node *target; /* set block */
    struct jinja_node *filter; /* outermost filter; its innermost object is NULL; or NULL */
    struct jinja_block body;
    struct jinja_scope scope;
};

struct jinja_with {
    struct jinja_node **targets, **values; /* (count) */
    size_t count;
    struct jinja_block body;
    struct jinja_scope scope;
};

struct jinja_program {
    struct arena arena; /* owns everything below */
    const char *source; /* with newlines normalized */
    size_t source_size;
    struct jinja_function root;
    const char **names; /* (name_count) of variables */
    uint32_t name_count;
};

enum status jinja_program_open(const char *source, size_t size, struct jinja_program **out, struct error *error);
void jinja_program_close(struct jinja_program *program);

/* scope.c: gives every name its slot, as jinja2's idtracking does, and checks filters and tests. */
enum status jinja_scope_program(struct jinja_program *program, struct error *error);

/* reads.c: whether the body reads this name as one of its surroundings. UINT32_MAX: no name, false. */
bool jinja_block_reads(const struct jinja_block *body, uint32_t name);

#endif
