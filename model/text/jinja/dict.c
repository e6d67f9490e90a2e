/* Hashing, and dicts: Python's in insertion order, and objects that are still a chat_value. */
#include <math.h>
#include <string.h>
#include <xxhash.h>

#include "model/text/jinja/run.h"

#define DICT_INDEX_FROM 8 /* entries; fewer are searched one by one */

/* ---- reading ---- */

size_t jinja_dict_count(struct jinja_value dict)
{
    return dict.kind == JINJA_OBJECT ? dict.object->count : dict.dict->count;
}

bool jinja_dict_key(struct jinja_run *run, struct jinja_value dict, size_t index, struct jinja_value *out)
{
    if (dict.kind == JINJA_OBJECT)
        return jinja_from_chat(run, dict.object->keys[index], out);
    *out = dict.dict->keys[index];
    return true;
}

bool jinja_dict_value(struct jinja_run *run, struct jinja_value dict, size_t index, struct jinja_value *out)
{
    if (dict.kind == JINJA_OBJECT)
        return jinja_from_chat(run, dict.object->items[index], out);
    *out = dict.dict->values[index];
    return true;
}

/* ---- hashing ---- */

bool jinja_hash(struct jinja_run *run, struct jinja_value value, uint64_t *out)
{
    const char *bytes;
    switch ((enum jinja_kind)value.kind) {
    case JINJA_STRING:
        bytes = jinja_string_bytes(run, value.string);
        *out = bytes == NULL ? 0 : XXH3_64bits(bytes, value.string->size);
        return bytes != NULL;
    case JINJA_BIG:
        *out = XXH3_64bits(value.text, strlen(value.text));
        return true;
    case JINJA_FLOAT:
        if (value.number >= -9e18 && value.number <= 9e18 && value.number == floor(value.number))
            *out = (uint64_t)(int64_t)value.number * 0x9E3779B97F4A7C15u;
        else
            *out = XXH3_64bits(&value.number, sizeof(value.number));
        return true;
    case JINJA_BOOL:
    case JINJA_INTEGER:
        *out = (uint64_t)value.integer * 0x9E3779B97F4A7C15u;
        return true;
    case JINJA_LIST:
    case JINJA_DICT:
    case JINJA_OBJECT:
        return jinja_fail(run, "unhashable type: '%s'", jinja_type_name(value));
    case JINJA_TUPLE:
        *out = 0x345678;
        for (size_t i = 0; i < value.list->count; i++) {
            struct jinja_value item;
            uint64_t one;
            if (!jinja_list_get(run, value.list, i, &item) || !jinja_enter(run))
                return false;
            bool hashed = jinja_hash(run, item, &one);
            jinja_leave(run);
            if (!hashed)
                return false;
            *out = (*out ^ one) * 1000003u;
        }
        return true;
    case JINJA_NONE:
    case JINJA_UNDEFINED:
        *out = value.kind;
        return true;
    default:
        *out = (uint64_t)(uintptr_t)value.text;
        return true;
    }
}

struct jinja_dict *jinja_dict_make(struct jinja_run *run, size_t capacity)
{
    struct jinja_dict *dict = jinja_take(run, sizeof(*dict));
    if (dict == NULL || capacity == 0)
        return dict;
    if (capacity > UINT32_MAX / 4) {
        jinja_fail_status(run, STATUS_TOO_LARGE, "a dict is too large");
        return NULL;
    }
    dict->keys = jinja_take_array(run, capacity, sizeof(*dict->keys));
    dict->values = jinja_take_array(run, capacity, sizeof(*dict->values));
    dict->capacity = (uint32_t)capacity;
    return dict->keys == NULL || dict->values == NULL ? NULL : dict;
}

static bool dict_index(struct jinja_run *run, struct jinja_dict *dict)
{
    uint32_t capacity = 32;
    while (capacity < dict->capacity * 2)
        capacity *= 2;
    dict->index = jinja_take_array(run, capacity, sizeof(*dict->index));
    dict->index_capacity = capacity;
    if (dict->index == NULL)
        return false;
    for (uint32_t i = 0; i < dict->count; i++) {
        uint64_t hash = 0;
        if (!jinja_hash(run, dict->keys[i], &hash))
            return false;
        uint32_t at = (uint32_t)(hash ^ hash >> 32) & (capacity - 1);
        while (dict->index[at] != 0)
            at = (at + 1) & (capacity - 1);
        dict->index[at] = i + 1;
    }
    return true;
}

/* 1: found at *entry, 0: absent, -1: failed */
static int dict_seek(struct jinja_run *run, const struct jinja_dict *dict, struct jinja_value key, uint32_t *entry)
{
    uint64_t hash = 0;
    bool equal = false;
    if (!jinja_hash(run, key, &hash))
        return -1;
    if (dict->index == NULL) {
        for (uint32_t i = 0; i < dict->count; i++) {
            if (!jinja_equal(run, dict->keys[i], key, &equal))
                return -1;
            if (equal) {
                *entry = i;
                return 1;
            }
        }
        return 0;
    }
    uint32_t mask = dict->index_capacity - 1;
    for (uint32_t at = (uint32_t)(hash ^ hash >> 32) & mask; dict->index[at] != 0; at = (at + 1) & mask) {
        if (!jinja_equal(run, dict->keys[dict->index[at] - 1], key, &equal))
            return -1;
        if (equal) {
            *entry = dict->index[at] - 1;
            return 1;
        }
    }
    return 0;
}

bool jinja_dict_put(struct jinja_run *run, struct jinja_dict *dict, struct jinja_value key, struct jinja_value value)
{
    uint32_t entry;
    int found = dict_seek(run, dict, key, &entry);
    if (found < 0)
        return false;
    if (found == 1) {
        dict->values[entry] = value;
        return true;
    }
    if (dict->count == dict->capacity) {
        struct jinja_dict *larger = jinja_dict_make(run, dict->capacity == 0 ? 4 : (size_t)dict->capacity * 2);
        if (larger == NULL)
            return false;
        if (dict->count > 0) {
            memcpy(larger->keys, dict->keys, dict->count * sizeof(*larger->keys));
            memcpy(larger->values, dict->values, dict->count * sizeof(*larger->values));
        }
        larger->count = dict->count;
        *dict = *larger;
        if (dict->count >= DICT_INDEX_FROM && !dict_index(run, dict))
            return false;
    }
    dict->keys[dict->count] = key;
    dict->values[dict->count] = value;
    dict->count++;
    if (dict->index == NULL)
        return dict->count < DICT_INDEX_FROM || dict_index(run, dict);
    uint64_t hash = 0;
    if (!jinja_hash(run, key, &hash))
        return false;
    uint32_t mask = dict->index_capacity - 1, at = (uint32_t)(hash ^ hash >> 32) & mask;
    while (dict->index[at] != 0)
        at = (at + 1) & mask;
    dict->index[at] = dict->count;
    return true;
}

int jinja_dict_find_text(struct jinja_run *run, struct jinja_value dict, const char *key, size_t size,
                         struct jinja_value *out)
{
    if (dict.kind == JINJA_OBJECT) {
        const struct chat_value *object = dict.object;
        if (!jinja_step(run, object->count / 32)) /* what a client sent may have very many keys */
            return -1;
        for (size_t i = 0; i < object->count; i++)
            if (object->keys[i]->text_size == size && memcmp(object->keys[i]->text, key, size) == 0)
                return jinja_from_chat(run, object->items[i], out) ? 1 : -1;
        return 0;
    }
    struct jinja_string text = {0};
    jinja_string_constant(&text, key, size);
    uint32_t entry;
    int found = dict_seek(run, dict.dict, jinja_from_string(&text), &entry);
    if (found == 1)
        *out = dict.dict->values[entry];
    return found;
}

int jinja_dict_find(struct jinja_run *run, struct jinja_value dict, struct jinja_value key, struct jinja_value *out)
{
    if (dict.kind == JINJA_OBJECT) {
        if (key.kind == JINJA_STRING) {
            const char *bytes = jinja_string_bytes(run, key.string);
            return bytes == NULL ? -1 : jinja_dict_find_text(run, dict, bytes, key.string->size, out);
        }
        uint64_t hash = 0;
        return jinja_hash(run, key, &hash) ? 0 : -1;
    }
    uint32_t entry;
    int found = dict_seek(run, dict.dict, key, &entry);
    if (found == 1)
        *out = dict.dict->values[entry];
    return found;
}
