/* See vocabulary_file.h. */
#include "tests/support/vocabulary_file.h"

#include <unistd.h>

#include "kernels/base/check.h"
#include "tests/support/gguf_writer.h"

enum { GGUF_I32 = 5, GGUF_TEXT = 8, GGUF_ARRAY = 9, GGUF_I64 = 11 };

static void put_array_head(struct buffer *out, uint32_t type, uint64_t count)
{
    buffer_append(out, &type, sizeof(type));
    buffer_append(out, &count, sizeof(count));
}

static void put_integers(struct gguf_writer *writer, const char *key, const int32_t *values, size_t count)
{
    struct buffer array = {0};
    put_array_head(&array, GGUF_I32, count);
    buffer_append(&array, values, count * sizeof(*values));
    gguf_value(writer, key, GGUF_ARRAY, array.data, array.size);
    buffer_free(&array);
}

static void put_id(struct gguf_writer *writer, const char *key, int64_t id)
{
    if (id != -1)
        gguf_value(writer, key, GGUF_I64, &id, sizeof(id));
}

static void put_texts(struct gguf_writer *writer, const char *key, const char *const *texts, size_t count, bool numbers)
{
    static const int32_t zeros[VOCABULARY_FILE_TEXTS_MAX];
    if (numbers)
        put_integers(writer, key, zeros, count);
    else
        gguf_texts(writer, key, texts, count);
}

static struct model_file *save_and_open(struct gguf_writer *writer)
{
    char path[] = "/tmp/vocabulary-XXXXXX";
    int handle = mkstemp(path);
    CHECK(handle >= 0);
    close(handle);
    struct buffer file = {0};
    gguf_finish(writer, &file);
    gguf_save(&file, path);
    buffer_free(&file);
    struct model_file *opened;
    struct error error;
    enum status status = model_file_open(path, &opened, &error);
    unlink(path);
    if (status != STATUS_OK) {
        fprintf(stderr, "%s\n", error.text);
        exit(EXIT_FAILURE);
    }
    return opened;
}

struct vocabulary_file vocabulary_file_small(void)
{
    struct vocabulary_file small = {
        .model = "gpt2",
        .pre = "smollm",
        .tokens = {"<s>", "</s>", "<turn>", "a", "b", "c", "d", "e", "f", "g", "h", "1", "Ġ", "Ċ", "ab", "abc", "hh",
                   "<mark>"},
        .token_count = SMALL_COUNT,
        .kind_count = SMALL_COUNT,
        .merges = {"a b", "ab c", "h h"},
        .merge_count = 3,
        .bos = SMALL_BOS,
        .eos = SMALL_EOS,
        .eot = SMALL_TURN,
        .eom = -1,
        .add_bos = -1,
    };
    for (size_t id = 0; id < SMALL_COUNT; id++)
        small.kinds[id] = id <= SMALL_TURN ? 3 : id == SMALL_MARK ? 4 : 1;
    return small;
}

struct model_file *vocabulary_file_open(const struct vocabulary_file *vocabulary)
{
    struct gguf_writer writer = {.version = 3, .alignment = 32};
    if (vocabulary->model != NULL)
        gguf_text(&writer, "tokenizer.ggml.model", vocabulary->model);
    if (vocabulary->pre != NULL)
        gguf_text(&writer, "tokenizer.ggml.pre", vocabulary->pre);
    if (!vocabulary->no_tokens)
        put_texts(&writer, "tokenizer.ggml.tokens", vocabulary->tokens, vocabulary->token_count,
                  vocabulary->tokens_are_numbers);
    if (!vocabulary->no_kinds && vocabulary->kinds_are_texts)
        gguf_texts(&writer, "tokenizer.ggml.token_type", vocabulary->tokens, vocabulary->kind_count);
    else if (!vocabulary->no_kinds)
        put_integers(&writer, "tokenizer.ggml.token_type", vocabulary->kinds, vocabulary->kind_count);
    if (!vocabulary->no_merges)
        put_texts(&writer, "tokenizer.ggml.merges", vocabulary->merges, vocabulary->merge_count,
                  vocabulary->merges_are_numbers);
    put_id(&writer, "tokenizer.ggml.bos_token_id", vocabulary->bos);
    put_id(&writer, "tokenizer.ggml.eos_token_id", vocabulary->eos);
    put_id(&writer, "tokenizer.ggml.eot_token_id", vocabulary->eot);
    put_id(&writer, "tokenizer.ggml.eom_token_id", vocabulary->eom);
    if (vocabulary->add_bos >= 0)
        gguf_bool(&writer, "tokenizer.ggml.add_bos_token", vocabulary->add_bos != 0);
    return save_and_open(&writer);
}

static void copy_texts(struct gguf_writer *writer, const struct model_file *from, const char *key)
{
    size_t count;
    CHECK(model_file_array(from, key, &count));
    struct buffer array = {0};
    put_array_head(&array, GGUF_TEXT, count);
    for (size_t i = 0; i < count; i++) {
        struct model_text text;
        CHECK(model_file_array_text(from, key, i, &text));
        uint64_t size = text.size;
        buffer_append(&array, &size, sizeof(size));
        buffer_append(&array, text.data, text.size);
    }
    gguf_value(writer, key, GGUF_ARRAY, array.data, array.size);
    buffer_free(&array);
}

struct model_file *vocabulary_file_with_pre(const struct model_file *from, const char *pre)
{
    struct gguf_writer writer = {.version = 3, .alignment = 32};
    gguf_text(&writer, "tokenizer.ggml.model", "gpt2");
    gguf_text(&writer, "tokenizer.ggml.pre", pre);
    copy_texts(&writer, from, "tokenizer.ggml.tokens");
    copy_texts(&writer, from, "tokenizer.ggml.merges");
    size_t count;
    CHECK(model_file_array(from, "tokenizer.ggml.token_type", &count));
    int32_t *kinds = calloc(count, sizeof(*kinds));
    CHECK(kinds != NULL);
    for (size_t i = 0; i < count; i++) {
        int64_t kind;
        CHECK(model_file_array_integer(from, "tokenizer.ggml.token_type", i, &kind));
        kinds[i] = (int32_t)kind;
    }
    put_integers(&writer, "tokenizer.ggml.token_type", kinds, count);
    free(kinds);
    gguf_bool(&writer, "tokenizer.ggml.add_bos_token", false);
    return save_and_open(&writer);
}
