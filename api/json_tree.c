/* cJSON keeps numbers as doubles only. Since its tree and the text list the numbers in the same order, a walk over both
 * hangs each number's text on its node: `valuestring` is free there, and marked as a reference so that cJSON does not
 * free it. */
#include "api/json_tree.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/json_scan.h"
#include "kernels/base/size.h"

#define PATH_MAX_BYTES 160 /* deeper values carry the path of the one above them */

/* ---- parsing ---- */

static void hang_numbers(cJSON *value, const char **at, const char *end)
{
    if (cJSON_IsNumber(value)) {
        *at = json_scan_number(*at, end);
        value->valuestring = (char *)(uintptr_t)*at;
        value->type |= cJSON_IsReference;
        *at += json_scan_number_size(*at, end);
    }
    for (cJSON *child = value->child; child != NULL; child = child->next)
        hang_numbers(child, at, end);
}

struct member {
    cJSON *node;
    size_t at; /* its place in the object */
};

static int compare_members(const void *a, const void *b)
{
    const struct member *left = a, *right = b;
    int order = strcmp(left->node->string, right->node->string);
    return order != 0 ? order : left->at < right->at ? -1 : 1;
}

/* As Python has it: the last value stands where the key was first. Sorted, equal keys are neighbours, in order. */
static enum status merge_keys(cJSON *object, struct error *error)
{
    size_t count = (size_t)cJSON_GetArraySize(object), i = 0;
    if (count < 2)
        return STATUS_OK;
    struct member *members = calloc(count, sizeof(*members));
    if (members == NULL)
        return error_no_memory(error, "the request");
    for (cJSON *child = object->child; child != NULL; child = child->next, i++)
        members[i] = (struct member){child, i};
    qsort(members, count, sizeof(*members), compare_members);
    for (size_t first = 0, end; first < count; first = end) {
        for (end = first + 1; end < count && strcmp(members[end].node->string, members[first].node->string) == 0;)
            end++;
        for (i = first + 1; i + 1 < end; i++)
            cJSON_Delete(cJSON_DetachItemViaPointer(object, members[i].node));
        if (end - first < 2)
            continue;
        cJSON *last = cJSON_DetachItemViaPointer(object, members[end - 1].node);
        cJSON_ReplaceItemViaPointer(object, members[first].node, last);
    }
    free(members);
    return STATUS_OK;
}

static enum status merge_all_keys(cJSON *value, struct error *error)
{
    enum status status = cJSON_IsObject(value) ? merge_keys(value, error) : STATUS_OK;
    for (cJSON *child = value->child; child != NULL && status == STATUS_OK; child = child->next)
        if (child->child != NULL)
            status = merge_all_keys(child, error);
    return status;
}

enum status json_tree_open(const char *text, size_t size, struct json_tree *tree, struct error *error)
{
    *tree = (struct json_tree){0};
    size_t room;
    if (!size_add(size, 1, &room) || (tree->text = malloc(room)) == NULL)
        return error_no_memory(error, "the request");
    if (size > 0)
        memcpy(tree->text, text, size);
    tree->text[size] = '\0';
    enum status status = json_scan(tree->text, size, error);
    if (status != STATUS_OK)
        goto fail;
    tree->root = cJSON_ParseWithLengthOpts(tree->text, room, NULL, true);
    if (tree->root == NULL) { /* the syntax is right: the scan has seen to that */
        status = error_no_memory(error, "the request");
        goto fail;
    }
    const char *at = tree->text;
    hang_numbers(tree->root, &at, tree->text + size); /* while tree and text still have the same numbers */
    status = merge_all_keys(tree->root, error);
    if (status == STATUS_OK)
        return STATUS_OK;

fail:
    json_tree_close(tree);
    return status;
}

void json_tree_close(struct json_tree *tree)
{
    cJSON_Delete(tree->root);
    free(tree->text);
    *tree = (struct json_tree){0};
}

/* ---- reading ---- */

const cJSON *json_get(const cJSON *object, const char *key)
{
    const cJSON *value = cJSON_GetObjectItemCaseSensitive(object, key);
    return value == NULL || cJSON_IsNull(value) ? NULL : value;
}

const char *json_kind(const cJSON *value)
{
    return value == NULL || cJSON_IsNull(value) ? "null"
           : cJSON_IsBool(value)                ? "a boolean"
           : cJSON_IsNumber(value)              ? "a number"
           : cJSON_IsString(value)              ? "a string"
           : cJSON_IsArray(value)               ? "an array"
                                                : "an object";
}

const char *json_number_text(const cJSON *number, size_t *size)
{
    *size = json_scan_number_size(number->valuestring, number->valuestring + JSON_NUMBER_MAX);
    return number->valuestring;
}

bool json_whole(const cJSON *value, int64_t *out)
{
    size_t size;
    if (!cJSON_IsNumber(value))
        return false;
    const char *text = json_number_text(value, &size);
    int64_t number = 0;
    bool negative = *text == '-', plain = true;
    for (size_t i = negative ? 1 : 0; i < size && plain; i++) {
        int64_t digit = text[i] - '0';
        plain = digit >= 0 && digit <= 9;
        if (plain && (__builtin_mul_overflow(number, 10, &number) ||
                      __builtin_add_overflow(number, negative ? -digit : digit, &number)))
            return false;
    }
    if (plain) {
        *out = number;
        return true;
    }
    /* With a fraction or an exponent: exact as long as a double is. */
    if (!(fabs(value->valuedouble) <= 0x1p53) || value->valuedouble != rint(value->valuedouble))
        return false;
    *out = (int64_t)value->valuedouble;
    return true;
}

/* ---- values for templates ---- */

bool json_chat_append(struct arena *arena, struct chat_value *container, const char *key, struct chat_value *value)
{
    bool object = container->kind == CHAT_OBJECT;
    if (value == NULL)
        return false;
    if (container->count == container->capacity) {
        size_t capacity = size_max(container->capacity * 2, 4);
        struct chat_value **items = arena_array(arena, capacity, sizeof(*items));
        struct chat_value **keys = object ? arena_array(arena, capacity, sizeof(*keys)) : NULL;
        if (items == NULL || (object && keys == NULL))
            return false;
        if (container->count > 0)
            memcpy(items, container->items, container->count * sizeof(*items));
        if (container->count > 0 && object)
            memcpy(keys, container->keys, container->count * sizeof(*keys));
        container->items = items;
        container->keys = keys;
        container->capacity = capacity;
    }
    if (object) {
        struct chat_value *name = chat_text(arena, key, strlen(key));
        if (name == NULL)
            return false;
        name->message = value->message;
        container->keys[container->count] = name;
    }
    container->items[container->count++] = value;
    return true;
}

static const char *child_path(struct arena *arena, const char *path, const char *key, size_t index)
{
    char text[PATH_MAX_BYTES];
    if (path == NULL)
        return NULL;
    int length = key != NULL ? snprintf(text, sizeof(text), "%s.%s", path, key)
                             : snprintf(text, sizeof(text), "%s.%zu", path, index);
    return length < 0 || (size_t)length >= sizeof(text) ? path : arena_copy(arena, text, (size_t)length);
}

static struct chat_value *chat_leaf(struct arena *arena, const cJSON *value)
{
    size_t size;
    if (cJSON_IsBool(value))
        return chat_bool(arena, cJSON_IsTrue(value));
    if (cJSON_IsString(value))
        return chat_text(arena, value->valuestring, strlen(value->valuestring));
    if (!cJSON_IsNumber(value))
        return chat_null(arena);
    const char *text = json_number_text(value, &size);
    return chat_number(arena, text, size);
}

struct chat_value *json_chat_value(struct arena *arena, const cJSON *value, int32_t message, const char *field)
{
    bool object = cJSON_IsObject(value);
    bool container = object || cJSON_IsArray(value);
    struct chat_value *out = object ? chat_object(arena) : container ? chat_list(arena) : chat_leaf(arena, value);
    if (out == NULL)
        return NULL;
    out->message = message;
    out->field = field;
    size_t index = 0;
    for (const cJSON *child = container ? value->child : NULL; child != NULL; child = child->next) {
        const char *path = child_path(arena, field, object ? child->string : NULL, index++);
        if (!json_chat_append(arena, out, child->string, json_chat_value(arena, child, message, path)))
            return NULL;
    }
    return out;
}
