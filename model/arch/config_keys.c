/* Architecture metadata with limits. See config_keys.h. */
#include "model/arch/config_keys.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "kernels/base/check.h"
#include "kernels/base/size.h"
#include "kernels/base/utf8.h"
#include "model/model_file.h"

#define VOCABULARY_MAX (1u << 24)

struct full_key {
    char text[128];
};

static struct full_key full_key(const char *architecture, const char *key)
{
    struct full_key full;
    int size = snprintf(full.text, sizeof(full.text), "%s.%s", architecture, key);
    CHECK(size > 0 && (size_t)size < sizeof(full.text));
    return full;
}

static const struct weights_value *find(const struct model_file *file, const char *key)
{
    return weights_value(&file->weights, key, strlen(key));
}

static enum status refuse_missing(const struct model_file *file, const char *key, struct error *error)
{
    return error_set(error, STATUS_INVALID, "%.160s: the metadata key '%s' is missing",
                     weights_file_name(&file->weights), key);
}

enum status config_integer(const struct model_file *file, const char *architecture, struct config_integer want,
                           uint32_t *out, struct error *error)
{
    struct full_key key = full_key(architecture, want.key);
    const struct weights_value *value = find(file, key.text);
    int64_t number;
    if (value == NULL) {
        if (want.absent == NULL)
            return refuse_missing(file, key.text, error);
        *out = *want.absent;
        return STATUS_OK;
    }
    if (value->array)
        return error_set(error, STATUS_UNSUPPORTED, "%.160s: '%s' differs from layer to layer, which is not supported",
                         weights_file_name(&file->weights), key.text);
    if (!weights_read_integer(value, 0, &number))
        return error_set(error, STATUS_INVALID, "%.160s: '%s' is not an integer", weights_file_name(&file->weights),
                         key.text);
    if (number < (int64_t)want.min || number > (int64_t)want.max)
        return error_set(error, STATUS_INVALID, "%.160s: '%s' is %" PRId64 "; it must be from %" PRIu32 " to %" PRIu32,
                         weights_file_name(&file->weights), key.text, number, want.min, want.max);
    *out = (uint32_t)number;
    return STATUS_OK;
}

enum status config_number(const struct model_file *file, const char *architecture, struct config_number want,
                          double *out, struct error *error)
{
    struct full_key key = full_key(architecture, want.key);
    const struct weights_value *value = find(file, key.text);
    double number;
    if (value == NULL) {
        if (want.absent == NULL)
            return refuse_missing(file, key.text, error);
        *out = *want.absent;
        return STATUS_OK;
    }
    if (value->array || !weights_read_number(value, 0, &number))
        return error_set(error, STATUS_INVALID, "%.160s: '%s' is not a number", weights_file_name(&file->weights),
                         key.text);
    if (!(number >= want.min && number <= want.max)) /* NaN too */
        return error_set(error, STATUS_INVALID, "%.160s: '%s' is %g; it must be from %g to %g",
                         weights_file_name(&file->weights), key.text, number, want.min, want.max);
    *out = number;
    return STATUS_OK;
}

enum status config_refuse_unless(const struct model_file *file, const char *architecture, const char *key,
                                 double neutral, struct error *error)
{
    struct full_key full = full_key(architecture, key);
    const struct weights_value *value = find(file, full.text);
    double number;
    if (value == NULL ||
        (!value->array && weights_read_number(value, 0, &number) && number >= neutral && number <= neutral))
        return STATUS_OK;
    return error_set(error, STATUS_UNSUPPORTED, "%.160s: '%s' asks for something that is not supported yet",
                     weights_file_name(&file->weights), full.text);
}

/* ---- what every architecture has ---- */

static bool is_printable(struct model_text text)
{
    for (size_t i = 0; i < text.size; i++)
        if ((uint8_t)text.data[i] < ' ' || text.data[i] == 0x7f)
            return false;
    return text.size > 0 && utf8_invalid_at(text.data, text.size) == text.size;
}

static void read_name(const struct model_file *file, char *out, size_t room)
{
    struct model_text name;
    if (!model_file_text(file, "general.name", &name) || !is_printable(name)) {
        const char *path = weights_file_name(&file->weights);
        const char *dot = strrchr(path, '.');
        name = (struct model_text){path, dot != NULL && dot != path ? (size_t)(dot - path) : strlen(path)};
        if (!is_printable(name))
            name = (struct model_text){"model", strlen("model")};
    }
    size_t size = size_min(name.size, room - 1);
    if (size < name.size)
        size -= utf8_incomplete_tail(name.data, size);
    memcpy(out, name.data, size);
    out[size] = '\0';
}

/* The embedding's rows; the tokenizer and the metadata must agree with them where they say a number. */
static enum status read_vocabulary(const struct model_file *file, const char *embedding, struct model_config *config,
                                   struct error *error)
{
    const struct weights_tensor *tensor = weights_tensor(&file->weights, embedding, strlen(embedding));
    const char *file_name = weights_file_name(&file->weights);
    if (tensor == NULL)
        return error_set(error, STATUS_INVALID, "%.160s: the tensor '%s' is missing", file_name, embedding);
    if (tensor->shape[1] > VOCABULARY_MAX)
        return error_set(error, STATUS_INVALID,
                         "%.160s: the vocabulary has %" PRIu64 " tokens; at most %u are possible", file_name,
                         tensor->shape[1], VOCABULARY_MAX);
    config->vocabulary = (uint32_t)tensor->shape[1];
    uint32_t said;
    enum status status = config_integer(
        file, config->architecture,
        (struct config_integer){.key = "vocab_size", .min = 1, .max = VOCABULARY_MAX, .absent = &config->vocabulary},
        &said, error);
    if (status != STATUS_OK)
        return status;
    size_t tokens;
    if (said != config->vocabulary)
        return error_set(error, STATUS_INVALID, "%.160s: '%s.vocab_size' is %" PRIu32 ", but '%s' has %" PRIu32 " rows",
                         file_name, config->architecture, said, embedding, config->vocabulary);
    if (model_file_array(file, "tokenizer.ggml.tokens", &tokens) && tokens != config->vocabulary)
        return error_set(error, STATUS_INVALID, "%.160s: the tokenizer has %zu tokens, but '%s' has %" PRIu32 " rows",
                         file_name, tokens, embedding, config->vocabulary);
    return STATUS_OK;
}

enum status config_common(const struct model_file *file, const char *embedding, const char *head,
                          struct model_config *config, struct error *error)
{
    read_name(file, config->name, sizeof(config->name));
    config->tied_head = weights_tensor(&file->weights, head, strlen(head)) == NULL;
    config->parameters = 0;
    for (size_t i = 0; i < file->weights.tensor_count; i++)
        config->parameters += file->weights.tensors[i].elements; /* distinct places in one file: no overflow */
    return read_vocabulary(file, embedding, config, error);
}
