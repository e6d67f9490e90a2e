/* A parsed request body: cJSON's tree behind the strict scan, with what cJSON loses put back. Keys are looked up case-
 * sensitively, of a key that an object has twice the last value counts (at the first one's place, as in Python), and each
 * number still has its exact text. */
#ifndef API_JSON_TREE_H
#define API_JSON_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "kernels/base/arena.h"
#include "kernels/base/status.h"
#include "model/text/chat.h"

struct json_tree {
    char *text; /* owned: the body, as scanned; number nodes point into it */
    cJSON *root;
};

/* Failures are STATUS_INVALID with code "invalid_json", or STATUS_NO_MEMORY. */
enum status json_tree_open(const char *text, size_t size, struct json_tree *tree, struct error *error);
void json_tree_close(struct json_tree *tree);

/* The member of an object; NULL where it is absent or null: null is absent, for every field. */
const cJSON *json_get(const cJSON *object, const char *key);
/* "a string", "an array", ...: for messages. */
const char *json_kind(const cJSON *value);
/* The text of a number node, as sent. */
const char *json_number_text(const cJSON *number, size_t *size);
/* Whole numbers that fit, exactly; 1.0 and 1e2 are whole. false: it is none. */
bool json_whole(const cJSON *value, int64_t *out);

/* The same value for templates; `field` (borrowed, may be NULL) becomes the path of its parts, "field.0.name". NULL:
 * the arena is exhausted. */
struct chat_value *json_chat_value(struct arena *arena, const cJSON *value, int32_t message, const char *field);
/* Appends to an object or a list that this file or chat.h made. The object does not have the key yet. */
bool json_chat_append(struct arena *arena, struct chat_value *container, const char *key, struct chat_value *value);

#endif
