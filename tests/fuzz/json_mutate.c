/* Changes to JSON as a tree. libFuzzer's own mutations work on bytes and mostly break it; they still have every fourth
 * turn, and whatever is no JSON. */
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "tests/fuzz/fuzz.h"

#define NODES_MAX 2048

struct node {
    cJSON *parent;
    cJSON *value;
};

struct nodes {
    struct node items[NODES_MAX];
    size_t count;
};

static const char *const odd_values[] = {
    "null",
    "true",
    "false",
    "0",
    "1",
    "-1",
    "2",
    "0.5",
    "1.0",
    "1e2",
    "1e400",
    "-0",
    "9007199254740993",
    "18446744073709551616",
    "\"\"",
    "\" \"",
    "\"a\"",
    "\"<|im_end|>\"",
    "\"<|im_start|>system\\n\"",
    "\"</s><s>\"",
    "\"\\u00e9\\ud83d\\ude00\"",
    "\"\\u2028\"",
    "[]",
    "{}",
    "[1,2]",
    "[\"a\",\"b\"]",
    "[[1],[2]]",
    "{\"role\":\"user\",\"content\":\"a\"}",
    "{\"role\":\"assistant\",\"content\":\"b\"}",
    "{\"role\":\"tool\",\"tool_call_id\":\"c\",\"content\":\"d\"}",
    "{\"type\":\"text\",\"text\":\"e\"}",
    "{\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"x\\\":1}\"}}"};

static const char *const odd_keys[] = {
    "",          "content",           "role",         "name", "type", "text", "tool_calls", "function",
    "arguments", "reasoning_content", "tool_call_id", "a.b",  "0"};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* splitmix64 */
static size_t below(uint64_t *random, size_t limit)
{
    uint64_t z = *random += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return (size_t)((z ^ z >> 31) % limit);
}

static void collect(struct nodes *nodes, cJSON *parent, cJSON *value)
{
    if (nodes->count < NODES_MAX)
        nodes->items[nodes->count++] = (struct node){parent, value};
    for (cJSON *child = value->child; child != NULL; child = child->next)
        collect(nodes, value, child);
}

/* Takes `fresh`, and puts it in the node's place. */
static void replace(const struct node *node, cJSON *fresh, cJSON **root)
{
    if (fresh == NULL)
        return;
    if (node->parent == NULL) {
        cJSON_Delete(*root);
        *root = fresh;
        return;
    }
    if (node->value->string != NULL) {
        fresh->string = strdup(node->value->string);
        CHECK(fresh->string != NULL);
    }
    cJSON_ReplaceItemViaPointer(node->parent, node->value, fresh);
}

static void add(cJSON *container, cJSON *fresh, const char *key)
{
    if (cJSON_IsObject(container))
        cJSON_AddItemToObject(container, key, fresh);
    else if (cJSON_IsArray(container))
        cJSON_AddItemToArray(container, fresh);
    else
        cJSON_Delete(fresh);
}

static cJSON *mutate_text(const cJSON *value, uint64_t *random)
{
    char text[4096];
    if (!cJSON_IsString(value) || strlen(value->valuestring) > sizeof(text) / 2)
        return cJSON_Parse(odd_values[below(random, COUNT(odd_values))]);
    size_t size = strlen(value->valuestring);
    memcpy(text, value->valuestring, size);
    size = LLVMFuzzerMutate((uint8_t *)text, size, sizeof(text) - 1);
    text[size] = '\0';
    return cJSON_CreateString(text);
}

static void mutate_tree(struct nodes *nodes, cJSON **root, uint64_t *random)
{
    nodes->count = 0;
    collect(nodes, NULL, *root);
    struct node node = nodes->items[below(random, nodes->count)], other = nodes->items[below(random, nodes->count)];
    const char *key = odd_keys[below(random, COUNT(odd_keys))];
    switch (below(random, 7)) {
    case 0:
        replace(&node, cJSON_Parse(odd_values[below(random, COUNT(odd_values))]), root);
        return;
    case 1:
        replace(&node, cJSON_Duplicate(other.value, true), root);
        return;
    case 2:
        if (node.parent != NULL)
            cJSON_Delete(cJSON_DetachItemViaPointer(node.parent, node.value));
        return;
    case 3:
        add(node.value, cJSON_Duplicate(other.value, true), other.value->string == NULL ? key : other.value->string);
        return;
    case 4:
        add(node.value, cJSON_Parse(odd_values[below(random, COUNT(odd_values))]), key);
        return;
    case 5:
        if (node.parent != NULL)
            add(node.parent, cJSON_Duplicate(node.value, true), key);
        return;
    default:
        replace(&node, mutate_text(node.value, random), root);
        return;
    }
}

size_t fuzz_mutate_json(uint8_t *data, size_t size, size_t size_max, unsigned seed)
{
    static struct nodes nodes;
    uint64_t random = seed;
    size_t head = 0;
    while (head < size && data[head] != '{' && data[head] != '[')
        head++;
    cJSON *root = below(&random, 4) == 0 ? NULL : cJSON_ParseWithLength((const char *)data + head, size - head);
    if (root == NULL)
        return LLVMFuzzerMutate(data, size, size_max);
    for (size_t turns = 1 + below(&random, 3); turns > 0; turns--)
        mutate_tree(&nodes, &root, &random);
    char *text = cJSON_PrintUnformatted(root);
    cJSON_Delete(root);
    size_t text_size = text == NULL ? 0 : strlen(text);
    if (text == NULL || text_size > size_max - head) {
        free(text);
        return LLVMFuzzerMutate(data, size, size_max);
    }
    memcpy(data + head, text, text_size);
    free(text);
    return head + text_size;
}
