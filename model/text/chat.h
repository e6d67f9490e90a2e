/* The neutral form of a conversation: what an endpoint makes of a request body and a chat template renders.
 *
 * A chat_value is a JSON value with insertion-ordered objects; it lives in the arena of its request and is constant
 * once built. Numbers keep their exact text, since templates print them. Text of a value is data from outside unless
 * `trusted`: only trusted text may become control tokens, and the builder sets it only for words of a closed list (a
 * role's name), never for what a client chose freely. */
#ifndef MODEL_TEXT_CHAT_H
#define MODEL_TEXT_CHAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/base/arena.h"

enum chat_kind { CHAT_NULL, CHAT_BOOL, CHAT_INTEGER, CHAT_FLOAT, CHAT_TEXT, CHAT_LIST, CHAT_OBJECT };

struct chat_value {
    enum chat_kind kind;
    bool boolean;
    bool trusted;
    int64_t integer;  /* CHAT_INTEGER that fits; beyond int64 the nearest; `text` says all of it */
    double number;    /* CHAT_FLOAT */
    const char *text; /* CHAT_TEXT: UTF-8, NUL-terminated besides; CHAT_INTEGER, CHAT_FLOAT: the number as sent */
    size_t text_size;
    int32_t message;           /* index of the message that this value came from; -1: none */
    const char *field;         /* "content", "tool_calls.0.function.name", ...: for spans; NULL: none */
    size_t count;              /* CHAT_LIST, CHAT_OBJECT; CHAT_TEXT: of the texts it was joined from, or 0 */
    struct chat_value **items; /* (count); of a joined text each says where its part came from */
    struct chat_value **keys;  /* (count) CHAT_TEXT: CHAT_OBJECT only */
    size_t capacity;           /* of items and keys; the builder's */
};

/* Builders: NULL or false when the arena is exhausted. chat_object_put replaces the value of a key that is there (order
 * kept), which takes a look at every key; chat_object_add appends without looking: the caller knows that the key is
 * new. */
struct chat_value *chat_null(struct arena *arena);
struct chat_value *chat_bool(struct arena *arena, bool value);
struct chat_value *chat_integer(struct arena *arena, int64_t value);
struct chat_value *chat_number(struct arena *arena, const char *text, size_t size); /* integer or float by its text */
struct chat_value *chat_text(struct arena *arena, const char *text, size_t size);   /* copied */
/* One text of several, in order; nothing of where they came from is lost. */
struct chat_value *chat_text_join(struct arena *arena, struct chat_value *const *texts, size_t count);
struct chat_value *chat_list(struct arena *arena);
struct chat_value *chat_object(struct arena *arena);
bool chat_list_add(struct arena *arena, struct chat_value *list, struct chat_value *item);
bool chat_object_put(struct arena *arena, struct chat_value *object, const char *key, size_t key_size,
                     struct chat_value *value);
bool chat_object_add(struct arena *arena, struct chat_value *object, struct chat_value *key, struct chat_value *value);
struct chat_value *chat_object_get(const struct chat_value *object, const char *key); /* NULL: absent */

/* What a template is rendered with. */
struct chat {
    struct chat_value *messages; /* list of objects: role, content, ... */
    struct chat_value *tools;    /* list, or NULL */
    struct chat_value *kwargs;   /* object merged into the template's variables, or NULL */
    bool add_generation_prompt;
    bool continue_final_message; /* the last message is left open: its end is cut off the rendered text */
    int64_t now_unix_s;          /* what strftime_now reads */
};

/* The same messages for a template that insists on turns: neighbours with one role (user, assistant, system) and nothing
 * but content become one message, an empty line between their texts. With `fold_system` a system message after the first
 * turn becomes part of the user turn where it stands. Returns `messages` where nothing changes; NULL: no memory. */
struct chat_value *chat_merge_turns(struct arena *arena, struct chat_value *messages, bool fold_system);

#endif
