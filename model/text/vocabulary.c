/* See vocabulary.h. Control and user-defined tokens are kept as their text, all others as the bytes that their text
 * stands for; a token whose text is not in the byte alphabet can only be decoded, and stays as it is. */
#include "model/text/vocabulary.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "kernels/base/check.h"
#include "kernels/base/utf8.h"
#include "model/text/byte_level.h"
#include "model/text/file_name.h"

#define TOKENS_KEY "tokenizer.ggml.tokens"
#define KINDS_KEY "tokenizer.ggml.token_type"
#define BYTES_MAX (1u << 30)

struct model_text vocabulary_token(const struct vocabulary *vocabulary, uint32_t id)
{
    CHECK(id < vocabulary->count);
    uint32_t start = vocabulary->offsets[id];
    return (struct model_text){vocabulary->bytes + start, vocabulary->offsets[id + 1] - start - 1};
}

bool vocabulary_is_control(const struct vocabulary *vocabulary, uint32_t id)
{
    CHECK(id < vocabulary->count);
    return vocabulary->kinds[id] == TOKEN_CONTROL || vocabulary->kinds[id] == TOKEN_UNKNOWN;
}

bool vocabulary_is(const struct vocabulary *vocabulary, uint32_t id, const char *bytes, size_t size)
{
    if (id >= vocabulary->count || vocabulary->kinds[id] != TOKEN_NORMAL)
        return false;
    struct model_text token = vocabulary_token(vocabulary, id);
    return token.size == size && memcmp(token.data, bytes, size) == 0;
}

struct search {
    const struct vocabulary *vocabulary;
    const char *bytes;
    size_t size;
};

static bool token_equals(void *context, uint32_t id)
{
    const struct search *search = context;
    struct model_text token = vocabulary_token(search->vocabulary, id);
    return token.size == search->size && memcmp(token.data, search->bytes, search->size) == 0;
}

uint32_t vocabulary_find(const struct vocabulary *vocabulary, const char *bytes, size_t size)
{
    struct search search = {vocabulary, bytes, size};
    return map_find(&vocabulary->words, XXH3_64bits(bytes, size), token_equals, &search);
}

/* ---- reading ---- */

static enum status read_kind(const struct model_file *file, struct vocabulary *out, uint32_t id, struct error *error)
{
    int64_t kind;
    if (!model_file_array_integer(file, KINDS_KEY, id, &kind))
        return error_set(error, STATUS_INVALID, "%.100s: %s is not an array of integers", file_name(file), KINDS_KEY);
    if (kind < TOKEN_NORMAL || kind > TOKEN_BYTE)
        return error_set(error, STATUS_INVALID, "%.100s: %s[%" PRIu32 "] is %" PRId64 "; it must be %d to %d",
                         file_name(file), KINDS_KEY, id, kind, TOKEN_NORMAL, TOKEN_BYTE);
    out->kinds[id] = (uint8_t)kind;
    return STATUS_OK;
}

static enum status check_text(const struct model_file *file, uint32_t id, struct model_text text, struct error *error)
{
    const char *wrong = NULL;
    if (text.size == 0)
        wrong = "is empty";
    else if (text.size > VOCABULARY_TOKEN_BYTES_MAX)
        wrong = "is longer than 64 KiB";
    else if (utf8_invalid_at(text.data, text.size) != text.size)
        wrong = "is not valid UTF-8";
    else if (memchr(text.data, '\0', text.size) != NULL)
        wrong = "contains a NUL";
    if (wrong != NULL)
        return error_set(error, STATUS_INVALID, "%.100s: %s[%" PRIu32 "] %s", file_name(file), TOKENS_KEY, id, wrong);
    return STATUS_OK;
}

static enum status add_word(const struct model_file *file, struct vocabulary *out, uint32_t id, struct error *error)
{
    struct model_text token = vocabulary_token(out, id);
    uint32_t earlier = vocabulary_find(out, token.data, token.size);
    if (earlier != MAP_NONE)
        return error_set(error, STATUS_INVALID, "%.100s: %s[%" PRIu32 "] and [%" PRIu32 "] are the same token",
                         file_name(file), TOKENS_KEY, earlier, id);
    if (!map_insert(&out->words, XXH3_64bits(token.data, token.size), id))
        return error_no_memory(error, "the vocabulary");
    return STATUS_OK;
}

/* Puts the token behind those before it; *used is how much of `bytes` they take, *capacity its size. */
static enum status read_token(const struct model_file *file, struct vocabulary *out, uint32_t id, size_t *used,
                              size_t *capacity, struct error *error)
{
    struct model_text text;
    if (!model_file_array_text(file, TOKENS_KEY, id, &text))
        return error_set(error, STATUS_INVALID, "%.100s: %s is not an array of strings", file_name(file), TOKENS_KEY);
    enum status status = check_text(file, id, text, error);
    if (status == STATUS_OK)
        status = read_kind(file, out, id, error);
    if (status != STATUS_OK)
        return status;

    if (*capacity - *used < text.size + 1) {
        size_t grown = *capacity * 2 + text.size + 1;
        if (grown > BYTES_MAX)
            return error_set(error, STATUS_INVALID,
                             "%.100s: the tokens of %s have too many bytes; the limit is %u in all", file_name(file),
                             TOKENS_KEY, BYTES_MAX);
        char *bytes = realloc(out->bytes, grown);
        if (bytes == NULL)
            return error_no_memory(error, "the vocabulary");
        out->bytes = bytes;
        *capacity = grown;
    }
    char *bytes = out->bytes + *used;
    size_t size = text.size;
    bool literal = vocabulary_is_control(out, id) || out->kinds[id] == TOKEN_USER_DEFINED;
    bool word = !literal && byte_level_decode(text.data, text.size, bytes, &size);
    if (!word) {
        out->kinds[id] = literal ? out->kinds[id] : TOKEN_UNUSED;
        memcpy(bytes, text.data, text.size);
        size = text.size;
    }
    bytes[size] = '\0';
    *used += size + 1;
    out->offsets[id + 1] = (uint32_t)*used;
    return word ? add_word(file, out, id, error) : STATUS_OK;
}

/* A control token that is spelt like a word of the vocabulary would be two tokens of one text. */
static enum status check_control_texts(const struct model_file *file, const struct vocabulary *vocabulary,
                                       struct error *error)
{
    for (uint32_t id = 0; id < vocabulary->count; id++) {
        struct model_text text;
        if (vocabulary->kinds[id] == TOKEN_NORMAL || !model_file_array_text(file, TOKENS_KEY, id, &text))
            continue;
        char *bytes = malloc(text.size + 1);
        if (bytes == NULL)
            return error_no_memory(error, "the vocabulary");
        size_t size;
        bool word = byte_level_decode(text.data, text.size, bytes, &size);
        uint32_t other = word ? vocabulary_find(vocabulary, bytes, size) : MAP_NONE;
        free(bytes);
        if (other != MAP_NONE && other != id)
            return error_set(error, STATUS_INVALID, "%.100s: %s[%" PRIu32 "] and [%" PRIu32 "] are the same token",
                             file_name(file), TOKENS_KEY, other, id);
    }
    return STATUS_OK;
}

static enum status read_counts(const struct model_file *file, struct vocabulary *out, struct error *error)
{
    size_t count, kinds;
    const char *name = file_name(file);
    if (!model_file_array(file, TOKENS_KEY, &count))
        return error_set(error, STATUS_INVALID, "%.100s has no %s: there is no vocabulary in it", name, TOKENS_KEY);
    if (count == 0 || count > VOCABULARY_TOKENS_MAX)
        return error_set(error, STATUS_INVALID, "%.100s: %s has %zu tokens; it must have 1 to %u", name, TOKENS_KEY,
                         count, VOCABULARY_TOKENS_MAX);
    if (!model_file_array(file, KINDS_KEY, &kinds))
        return error_set(error, STATUS_INVALID, "%.100s has no %s: control tokens cannot be told from text", name,
                         KINDS_KEY);
    if (kinds != count)
        return error_set(error, STATUS_INVALID, "%.100s: %s has %zu entries for %zu tokens", name, KINDS_KEY, kinds,
                         count);
    out->count = (uint32_t)count;
    return STATUS_OK;
}

enum status vocabulary_open(const struct model_file *file, struct vocabulary *out, struct error *error)
{
    *out = (struct vocabulary){0};
    enum status status = read_counts(file, out, error);
    if (status != STATUS_OK)
        goto fail;
    size_t used = 0, capacity = (size_t)out->count * 12;
    out->bytes = malloc(capacity);
    out->offsets = malloc(((size_t)out->count + 1) * sizeof(*out->offsets));
    out->kinds = malloc(out->count);
    if (out->bytes == NULL || out->offsets == NULL || out->kinds == NULL || !map_reserve(&out->words, out->count)) {
        status = error_no_memory(error, "the vocabulary");
        goto fail;
    }
    out->offsets[0] = 0;
    for (uint32_t id = 0; id < out->count; id++) {
        status = read_token(file, out, id, &used, &capacity, error);
        if (status != STATUS_OK)
            goto fail;
    }
    status = check_control_texts(file, out, error);
    if (status == STATUS_OK)
        return STATUS_OK;
fail:
    vocabulary_close(out);
    return status;
}

void vocabulary_close(struct vocabulary *vocabulary)
{
    map_free(&vocabulary->words);
    free(vocabulary->kinds);
    free(vocabulary->offsets);
    free(vocabulary->bytes);
    *vocabulary = (struct vocabulary){0};
}
