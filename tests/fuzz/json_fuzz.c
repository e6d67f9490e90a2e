/* The body of a request as JSON: scan, tree and writer agree. What the scan takes, the tree holds; written again and
 * read again it is the same; and what the scan refuses is refused with a place in the text. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "api/json_scan.h"
#include "api/json_tree.h"
#include "kernels/base/json_writer.h"
#include "tests/fuzz/fuzz.h"

#define WRITER_DEPTH_MAX 64

static uint32_t depth_of(const cJSON *value)
{
    uint32_t deepest = 0;
    for (const cJSON *child = value->child; child != NULL; child = child->next) {
        uint32_t depth = depth_of(child);
        deepest = depth > deepest ? depth : deepest;
    }
    return deepest + (cJSON_IsObject(value) || cJSON_IsArray(value));
}

/* ---- the writer ---- */

static void write_value(struct json_writer *writer, const cJSON *value);

static void write_members(struct json_writer *writer, const cJSON *value)
{
    for (const cJSON *child = value->child; child != NULL; child = child->next) {
        if (child->string != NULL)
            json_key(writer, child->string);
        write_value(writer, child);
    }
}

static void write_value(struct json_writer *writer, const cJSON *value)
{
    size_t size;
    if (cJSON_IsObject(value)) {
        json_object_begin(writer);
        write_members(writer, value);
        json_object_end(writer);
    } else if (cJSON_IsArray(value)) {
        json_array_begin(writer);
        write_members(writer, value);
        json_array_end(writer);
    } else if (cJSON_IsString(value)) {
        json_string(writer, value->valuestring);
    } else if (cJSON_IsNumber(value)) {
        const char *text = json_number_text(value, &size);
        json_raw(writer, text, size);
    } else if (cJSON_IsBool(value)) {
        json_bool(writer, cJSON_IsTrue(value));
    } else {
        json_null(writer);
    }
}

/* ---- numbers ---- */

static void check_number(const cJSON *value)
{
    size_t size;
    int64_t whole;
    const char *text = json_number_text(value, &size);
    CHECK(size > 0 && size <= JSON_NUMBER_MAX);
    char copy[JSON_NUMBER_MAX + 1] = {0}, *end;
    memcpy(copy, text, size);
    CHECK(strtod(copy, &end) == value->valuedouble && *end == '\0');
    if (json_whole(value, &whole))
        CHECK((double)whole == value->valuedouble);
    struct buffer out = {0};
    struct json_writer writer = json_writer_start(&out);
    json_number(&writer, value->valuedouble);
    if (isfinite(value->valuedouble))
        CHECK(strtod(out.data, &end) == value->valuedouble && *end == '\0');
    fuzz_check_json(out.data, out.size);
    buffer_free(&out);
}

static void check_numbers(const cJSON *value)
{
    if (cJSON_IsNumber(value))
        check_number(value);
    for (const cJSON *child = value->child; child != NULL; child = child->next)
        check_numbers(child);
}

/* ---- the form that templates see ---- */

static void check_chat_value(const struct chat_value *chat, const cJSON *value)
{
    size_t size, i = 0;
    CHECK((chat->kind == CHAT_OBJECT) == (cJSON_IsObject(value) != 0));
    CHECK((chat->kind == CHAT_LIST) == (cJSON_IsArray(value) != 0));
    CHECK((chat->kind == CHAT_TEXT) == (cJSON_IsString(value) != 0));
    CHECK((chat->kind == CHAT_INTEGER || chat->kind == CHAT_FLOAT) == (cJSON_IsNumber(value) != 0));
    CHECK(!chat->trusted);
    if (cJSON_IsString(value))
        CHECK(strcmp(chat->text, value->valuestring) == 0 && chat->text_size == strlen(chat->text));
    if (cJSON_IsNumber(value)) {
        const char *text = json_number_text(value, &size);
        bool negative_zero = size == 2 && memcmp(text, "-0", 2) == 0; /* an integer has none */
        CHECK(negative_zero || (chat->text_size == size && memcmp(chat->text, text, size) == 0));
    }
    for (const cJSON *child = value->child; child != NULL; child = child->next, i++) {
        CHECK(i < chat->count);
        if (chat->kind == CHAT_OBJECT)
            CHECK(strcmp(chat->keys[i]->text, child->string) == 0);
        check_chat_value(chat->items[i], child);
    }
    CHECK(i == chat->count);
}

static void check_tree(const struct json_tree *tree)
{
    struct json_tree again;
    struct error error;
    struct arena arena = {0};
    struct buffer out = {0}, twice = {0};
    check_numbers(tree->root);
    struct chat_value *chat = json_chat_value(&arena, tree->root, 0, "field");
    CHECK(chat != NULL);
    check_chat_value(chat, tree->root);
    if (depth_of(tree->root) <= WRITER_DEPTH_MAX) {
        struct json_writer writer = json_writer_start(&out);
        write_value(&writer, tree->root);
        CHECK(!out.failed && json_tree_open(out.data, out.size, &again, &error) == STATUS_OK);
        check_chat_value(chat, again.root);
        writer = json_writer_start(&twice);
        write_value(&writer, again.root);
        CHECK(twice.size == out.size && memcmp(twice.data, out.data, out.size) == 0);
        json_tree_close(&again);
    }
    buffer_free(&out);
    buffer_free(&twice);
    arena_free(&arena);
}

static void check_place(const struct error *error, size_t size)
{
    const char *at = strstr(error->text, " at byte ");
    CHECK(error->status == STATUS_INVALID && strcmp(error->code, "invalid_json") == 0);
    CHECK(at != NULL && strtoul(at + strlen(" at byte "), NULL, 10) <= size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct json_tree tree;
    struct error scan_error = {0}, error = {0};
    char *text = fuzz_copy(data, size);
    enum status scanned = json_scan(text, size, &scan_error);
    enum status status = json_tree_open((const char *)data, size, &tree, &error);
    if (scanned != STATUS_OK) {
        check_place(&scan_error, size);
        CHECK(status == scanned && strcmp(error.text, scan_error.text) == 0);
    } else if (status != STATUS_OK) {
        CHECK(status == STATUS_INVALID && strstr(error.text, "twice") != NULL);
    } else {
        CHECK(memcmp(tree.text, text, size) == 0);
        CHECK(json_scan(text, size, &error) == STATUS_OK && memcmp(tree.text, text, size) == 0);
        check_tree(&tree);
        json_tree_close(&tree);
    }
    free(text);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t size_max, unsigned seed)
{
    return fuzz_mutate_json(data, size, size_max, seed);
}
