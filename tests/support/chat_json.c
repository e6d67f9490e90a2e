/* A recursive reader; nesting is what the golden files have. */
#include "tests/support/chat_json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/utf8.h"

struct reader {
    struct arena *arena;
    const char *at, *end;
};

static struct chat_value *read_value(struct reader *reader);

static void skip_space(struct reader *reader)
{
    while (reader->at < reader->end && strchr(" \t\r\n", *reader->at) != NULL)
        reader->at++;
}

static bool take(struct reader *reader, char c)
{
    skip_space(reader);
    if (reader->at >= reader->end || *reader->at != c)
        return false;
    reader->at++;
    return true;
}

static uint32_t read_hex(struct reader *reader)
{
    char digits[5] = {0};
    if (reader->end - reader->at < 4)
        return 0xFFFD;
    memcpy(digits, reader->at, 4);
    reader->at += 4;
    return (uint32_t)strtoul(digits, NULL, 16);
}

static char *read_string(struct reader *reader, size_t *size)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    if (!take(reader, '"'))
        return NULL;
    const char *close = reader->at;
    while (close < reader->end && *close != '"')
        close += *close == '\\' ? 2 : 1;
    char *out = arena_take(reader->arena, (size_t)(close - reader->at) + 8);
    size_t n = 0;
    while (out != NULL && reader->at < reader->end && *reader->at != '"') {
        if (*reader->at != '\\') {
            out[n++] = *reader->at++;
            continue;
        }
        char c = reader->at[1];
        reader->at += 2;
        if (c == 'u') {
            uint32_t code = read_hex(reader);
            if (code >= 0xD800 && code < 0xDC00 && reader->end - reader->at > 6 && reader->at[0] == '\\') {
                reader->at += 2;
                code = 0x10000 + ((code - 0xD800) << 10) + (read_hex(reader) - 0xDC00);
            }
            n += utf8_encode(code, out + n);
            continue;
        }
        const char *simple = strchr(from, c);
        if (simple == NULL)
            return NULL;
        out[n++] = to[simple - from];
    }
    if (out == NULL || !take(reader, '"'))
        return NULL;
    out[n] = '\0';
    *size = n;
    return out;
}

static struct chat_value *read_list(struct reader *reader)
{
    struct chat_value *list = chat_list(reader->arena);
    if (take(reader, ']'))
        return list;
    do {
        if (!chat_list_add(reader->arena, list, read_value(reader)))
            return NULL;
    } while (take(reader, ','));
    return take(reader, ']') ? list : NULL;
}

static struct chat_value *read_object(struct reader *reader)
{
    struct chat_value *object = chat_object(reader->arena);
    if (take(reader, '}'))
        return object;
    do {
        size_t size = 0;
        char *key = read_string(reader, &size);
        if (key == NULL || !take(reader, ':') || !chat_object_put(reader->arena, object, key, size, read_value(reader)))
            return NULL;
    } while (take(reader, ','));
    return take(reader, '}') ? object : NULL;
}

static bool take_word(struct reader *reader, const char *word)
{
    size_t n = strlen(word);
    if ((size_t)(reader->end - reader->at) < n || memcmp(reader->at, word, n) != 0)
        return false;
    reader->at += n;
    return true;
}

static struct chat_value *read_value(struct reader *reader)
{
    size_t size = 0;
    skip_space(reader);
    if (reader->at >= reader->end)
        return NULL;
    if (*reader->at == '"') {
        char *text = read_string(reader, &size);
        return text == NULL ? NULL : chat_text(reader->arena, text, size);
    }
    if (take(reader, '['))
        return read_list(reader);
    if (take(reader, '{'))
        return read_object(reader);
    if (take_word(reader, "true"))
        return chat_bool(reader->arena, true);
    if (take_word(reader, "false"))
        return chat_bool(reader->arena, false);
    if (take_word(reader, "null"))
        return chat_null(reader->arena);
    const char *from = reader->at;
    while (reader->at < reader->end && *reader->at != '\0' && strchr("+-.0123456789eENaInfity", *reader->at) != NULL)
        reader->at++;
    return reader->at == from ? NULL : chat_number(reader->arena, from, (size_t)(reader->at - from));
}

struct chat_value *chat_json_parse(struct arena *arena, const char *text, size_t size)
{
    struct reader reader = {.arena = arena, .at = text, .end = text + size};
    struct chat_value *value = read_value(&reader);
    skip_space(&reader);
    return reader.at == reader.end ? value : NULL;
}

struct chat_value *chat_json_file(struct arena *arena, const char *path)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL || fseek(file, 0, SEEK_END) != 0) {
        fprintf(stderr, "%s cannot be opened; tests run from the repository's root\n", path);
        exit(2);
    }
    long size = ftell(file);
    rewind(file);
    char *text = malloc((size_t)size + 1);
    struct chat_value *value = NULL;
    if (text != NULL && fread(text, 1, (size_t)size, file) == (size_t)size) {
        text[size] = '\0';
        value = chat_json_parse(arena, text, (size_t)size);
    }
    free(text);
    fclose(file);
    if (value == NULL) {
        fprintf(stderr, "%s is not JSON\n", path);
        exit(2);
    }
    return value;
}

static void mark(struct arena *arena, struct chat_value *value, int32_t message, const char *field)
{
    value->message = message;
    value->field = field;
    for (size_t i = 0; i < value->count; i++) {
        char path[512];
        const char *dot = field == NULL ? "" : ".", *head = field == NULL ? "" : field;
        int n = value->kind == CHAT_OBJECT ? snprintf(path, sizeof(path), "%s%s%s", head, dot, value->keys[i]->text)
                                           : snprintf(path, sizeof(path), "%s%s%zu", head, dot, i);
        mark(arena, value->items[i], message, arena_copy(arena, path, n < 511 ? (size_t)n : 511));
    }
}

void chat_json_mark(struct arena *arena, struct chat_value *messages)
{
    for (size_t i = 0; messages != NULL && i < messages->count; i++) {
        mark(arena, messages->items[i], (int32_t)i, NULL);
        struct chat_value *role = chat_object_get(messages->items[i], "role");
        if (role != NULL)
            role->trusted = true;
    }
}
