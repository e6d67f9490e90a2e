/* Builders of chat values. */
#include "model/text/chat.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct chat_value *make(struct arena *arena, enum chat_kind kind)
{
    struct chat_value *value = arena_take(arena, sizeof(*value));
    if (value != NULL) {
        value->kind = kind;
        value->message = -1;
    }
    return value;
}

struct chat_value *chat_null(struct arena *arena)
{
    return make(arena, CHAT_NULL);
}

struct chat_value *chat_bool(struct arena *arena, bool boolean)
{
    struct chat_value *value = make(arena, CHAT_BOOL);
    if (value != NULL)
        value->boolean = boolean;
    return value;
}

struct chat_value *chat_integer(struct arena *arena, int64_t integer)
{
    char text[24];
    int size = snprintf(text, sizeof(text), "%lld", (long long)integer);
    return chat_number(arena, text, (size_t)size);
}

struct chat_value *chat_number(struct arena *arena, const char *text, size_t size)
{
    struct chat_value *value = make(arena, CHAT_INTEGER);
    if (value == NULL)
        return NULL;
    value->text = arena_copy(arena, text, size);
    value->text_size = size;
    if (value->text == NULL)
        return NULL;
    value->number = strtod(value->text, NULL);
    if (strpbrk(value->text, ".eEnN") != NULL) { /* n: NaN and Infinity, which JSON of Python may hold */
        value->kind = CHAT_FLOAT;
        return value;
    }
    if (size == 2 && memcmp(text, "-0", 2) == 0) { /* an integer has no negative zero */
        value->text = "0";
        value->text_size = 1;
    }
    value->integer = strtoll(value->text, NULL, 10);
    return value;
}

struct chat_value *chat_text(struct arena *arena, const char *text, size_t size)
{
    struct chat_value *value = make(arena, CHAT_TEXT);
    if (value == NULL)
        return NULL;
    value->text = arena_copy(arena, text, size);
    value->text_size = size;
    return value->text == NULL ? NULL : value;
}

struct chat_value *chat_text_join(struct arena *arena, struct chat_value *const *texts, size_t count)
{
    struct chat_value *value = make(arena, CHAT_TEXT);
    size_t size = 0, parts = 0;
    for (size_t i = 0; i < count; i++) {
        size += texts[i]->text_size;
        parts += texts[i]->count == 0 ? 1 : texts[i]->count;
    }
    char *bytes = arena_take(arena, size + 1);
    struct chat_value **items = arena_array(arena, parts, sizeof(struct chat_value *));
    if (value == NULL || bytes == NULL || items == NULL)
        return NULL;
    value->text = bytes;
    value->text_size = size;
    value->items = items;
    value->capacity = parts;
    for (size_t i = 0; i < count; i++) {
        memcpy(bytes, texts[i]->text, texts[i]->text_size);
        bytes += texts[i]->text_size;
        for (size_t k = 0; k < texts[i]->count; k++)
            items[value->count++] = texts[i]->items[k];
        if (texts[i]->count == 0)
            items[value->count++] = texts[i];
    }
    return value;
}

struct chat_value *chat_list(struct arena *arena)
{
    return make(arena, CHAT_LIST);
}

struct chat_value *chat_object(struct arena *arena)
{
    return make(arena, CHAT_OBJECT);
}

/* Room for one more item, and key where there are keys. */
static bool grow(struct arena *arena, struct chat_value *value)
{
    if (value->count < value->capacity)
        return true;
    size_t capacity = value->capacity == 0 ? 4 : value->capacity * 2;
    struct chat_value **items = arena_array(arena, capacity, sizeof(struct chat_value *));
    struct chat_value **keys =
        value->kind == CHAT_OBJECT ? arena_array(arena, capacity, sizeof(struct chat_value *)) : NULL;
    if (items == NULL || (value->kind == CHAT_OBJECT && keys == NULL))
        return false;
    if (value->count > 0) {
        memcpy(items, value->items, value->count * sizeof(struct chat_value *));
        if (keys != NULL)
            memcpy(keys, value->keys, value->count * sizeof(struct chat_value *));
    }
    value->items = items;
    value->keys = keys;
    value->capacity = capacity;
    return true;
}

bool chat_list_add(struct arena *arena, struct chat_value *list, struct chat_value *item)
{
    if (item == NULL || !grow(arena, list))
        return false;
    list->items[list->count++] = item;
    return true;
}

/* The index of a key; the count when it is not there. */
static size_t find_key(const struct chat_value *object, const char *key, size_t size)
{
    size_t i = 0;
    while (i < object->count && !(object->keys[i]->text_size == size && memcmp(object->keys[i]->text, key, size) == 0))
        i++;
    return i;
}

bool chat_object_put(struct arena *arena, struct chat_value *object, const char *key, size_t key_size,
                     struct chat_value *value)
{
    if (value == NULL)
        return false;
    size_t at = find_key(object, key, key_size);
    if (at == object->count)
        return chat_object_add(arena, object, chat_text(arena, key, key_size), value);
    object->items[at] = value;
    return true;
}

bool chat_object_add(struct arena *arena, struct chat_value *object, struct chat_value *key, struct chat_value *value)
{
    if (key == NULL || value == NULL || !grow(arena, object))
        return false;
    object->keys[object->count] = key;
    object->items[object->count++] = value;
    return true;
}

struct chat_value *chat_object_get(const struct chat_value *object, const char *key)
{
    if (object == NULL || object->kind != CHAT_OBJECT)
        return NULL;
    size_t at = find_key(object, key, strlen(key));
    return at == object->count ? NULL : object->items[at];
}
