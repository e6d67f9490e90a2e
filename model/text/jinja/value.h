/* Values of a render: Python's, as far as templates see them. A value is 16 bytes and is passed by value; what it
 * points to lives in the arena of the render, or in the compiled template, and never changes (only namespaces do).
 *
 * Text carries where it came from: a string is a run of pieces, each with its origin, so that concatenation keeps
 * message, field and offset of every part. Making one long string by appending is linear: strings share the piece array
 * they end. */
#ifndef MODEL_TEXT_JINJA_VALUE_H
#define MODEL_TEXT_JINJA_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/text/chat.h"

#define JINJA_UNKNOWN SIZE_MAX

enum jinja_kind {
    JINJA_MISSING, /* a variable without a value; never seen by an expression */
    JINJA_UNDEFINED,
    JINJA_NONE,
    JINJA_BOOL,
    JINJA_INTEGER,
    JINJA_BIG, /* an integer beyond 64 bits: its decimal text */
    JINJA_FLOAT,
    JINJA_STRING,
    JINJA_LIST,
    JINJA_TUPLE,
    JINJA_DICT,
    JINJA_OBJECT, /* a dict that is still a chat_value */
    JINJA_RANGE,
    JINJA_VIEW,     /* dict.keys(), .values(), .items() */
    JINJA_ITERATOR, /* a generator: one pass, no length */
    JINJA_NAMESPACE,
    JINJA_LOOP,
    JINJA_MACRO,
    JINJA_METHOD,   /* bound to its object */
    JINJA_FUNCTION, /* a global */
};

/* Why a value is undefined, for the message when it is used. */
enum jinja_reason {
    JINJA_REASON_VARIABLE,  /* text: the name */
    JINJA_REASON_ATTRIBUTE, /* text: the name; extra: the kind of the object */
    JINJA_REASON_ELEMENT,   /* no text; extra: the kind of the object */
    JINJA_REASON_PARAMETER, /* text: the name */
    JINJA_REASON_UNSAFE,    /* text: the name; extra: the kind of the object */
    JINJA_REASON_HINT,      /* text: the whole message */
};

struct jinja_value {
    uint8_t kind;   /* enum jinja_kind */
    bool tainted;   /* numbers and none: came from outside the template */
    uint8_t detail; /* undefined: enum jinja_reason; view: enum jinja_view; method, function: which */
    uint8_t extra;
    union {
        int64_t integer; /* bool: 0 or 1 */
        double number;
        const char *text; /* undefined: see enum jinja_reason; big: decimal digits with sign */
        struct jinja_string *string;
        const struct jinja_list *list; /* list, tuple */
        struct jinja_dict *dict;       /* dict, namespace */
        const struct chat_value *object;
        const struct jinja_range *range;
        const struct jinja_view *view;
        struct jinja_iterator *iterator;
        struct jinja_loop *loop;
        const struct jinja_macro *macro;
        const struct jinja_method *method;
    };
};

struct jinja_origin {
    const char *field;
    size_t offset; /* in the field's text, or JINJA_UNKNOWN */
    int32_t message;
    bool trusted;
};

struct jinja_piece {
    const char *bytes;
    size_t size;
    size_t start; /* bytes of the pieces before it in its array */
    struct jinja_origin origin;
};

/* Grows at the end only; output, captured blocks and strings are runs of one of these. */
struct jinja_pieces {
    struct jinja_piece *items;
    uint32_t count;
    uint32_t capacity;
    size_t size; /* bytes of all pieces */
};

struct jinja_string {
    size_t size;                 /* bytes */
    size_t characters;           /* code points; JINJA_UNKNOWN: not counted yet */
    const char *bytes;           /* all of it in one run; NULL: not made yet */
    struct jinja_pieces *store;  /* NULL: `own` is the only piece */
    uint32_t first, piece_count; /* of the store */
    bool markup;                 /* marked by `safe` or `escape`: markupsafe's Markup */
    struct jinja_piece own;
};

/* A window on native values or on the items of a chat_value: item i is at items[i * stride]. */
struct jinja_list {
    const struct jinja_value *items;
    struct chat_value *const *chat_items; /* used when items is NULL */
    size_t count;
    ptrdiff_t stride;
    const struct chat_value *source; /* the chat_value it is, or NULL */
};

struct jinja_dict {
    struct jinja_value *keys;   /* (count), in insertion order */
    struct jinja_value *values; /* (count) */
    uint32_t count, capacity;
    uint32_t *index; /* (index_capacity) entry + 1, 0: empty; NULL while small */
    uint32_t index_capacity;
};

struct jinja_range {
    int64_t start, stop, step;
    int64_t count;
};

enum jinja_view_kind { JINJA_VIEW_KEYS, JINJA_VIEW_VALUES, JINJA_VIEW_ITEMS };

struct jinja_view {
    struct jinja_value dict;
};

struct jinja_method {
    struct jinja_value object;
    const char *name;
};

struct jinja_run;

/* Makers. NULL or false: the failure is in run->error. */
struct jinja_value jinja_undefined(enum jinja_reason reason, const char *text, uint8_t object_kind);
struct jinja_value jinja_none(void);
struct jinja_value jinja_bool(bool value);
struct jinja_value jinja_integer(int64_t value);
struct jinja_value jinja_float(double value);
struct jinja_value jinja_from_string(struct jinja_string *string);
bool jinja_from_chat(struct jinja_run *run, const struct chat_value *chat, struct jinja_value *out);
bool jinja_list_make(struct jinja_run *run, enum jinja_kind kind, const struct jinja_value *items, size_t count,
                     struct jinja_value *out); /* items are not copied */
bool jinja_pair(struct jinja_run *run, struct jinja_value a, struct jinja_value b, struct jinja_value *out);

/* Reading. */
bool jinja_list_get(struct jinja_run *run, const struct jinja_list *list, size_t index, struct jinja_value *out);
bool jinja_is_list(struct jinja_value value);   /* list or tuple */
bool jinja_is_dict(struct jinja_value value);   /* native or chat object */
bool jinja_is_number(struct jinja_value value); /* bool, integer, big, float */
size_t jinja_dict_count(struct jinja_value dict);
bool jinja_dict_key(struct jinja_run *run, struct jinja_value dict, size_t index, struct jinja_value *out);
bool jinja_dict_value(struct jinja_run *run, struct jinja_value dict, size_t index, struct jinja_value *out);
/* 1: found, 0: absent, -1: failed (an unhashable key) */
int jinja_dict_find(struct jinja_run *run, struct jinja_value dict, struct jinja_value key, struct jinja_value *out);
int jinja_dict_find_text(struct jinja_run *run, struct jinja_value dict, const char *key, size_t size,
                         struct jinja_value *out);

struct jinja_dict *jinja_dict_make(struct jinja_run *run, size_t capacity);
bool jinja_dict_put(struct jinja_run *run, struct jinja_dict *dict, struct jinja_value key, struct jinja_value value);

/* Python's operators. */
bool jinja_truth(struct jinja_value value);
bool jinja_same(struct jinja_value a, struct jinja_value b); /* Python's `is` */
bool jinja_equal(struct jinja_run *run, struct jinja_value a, struct jinja_value b, bool *out);
/* -1, 0, 1, or 2 for NaN; fails where Python raises. */
bool jinja_order(struct jinja_run *run, struct jinja_value a, struct jinja_value b, const char *operation, int *out);
bool jinja_contains(struct jinja_run *run, struct jinja_value container, struct jinja_value item, bool *out);
bool jinja_length(struct jinja_run *run, struct jinja_value value, size_t *out);
bool jinja_has_length(struct jinja_value value);
bool jinja_hash(struct jinja_run *run, struct jinja_value value, uint64_t *out);
const char *jinja_type_name(struct jinja_value value);
const char *jinja_kind_name(uint8_t kind);

#endif
