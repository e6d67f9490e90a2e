/* The tokens of a model file: the bytes and kind of each, and ids by bytes. Constant after open; part of a tokenizer.
 * Nothing refers to the file after open. */
#ifndef MODEL_TEXT_VOCABULARY_H
#define MODEL_TEXT_VOCABULARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/base/map.h"
#include "kernels/base/status.h"
#include "model/model.h"

#define VOCABULARY_TOKENS_MAX (4u << 20)
#define VOCABULARY_TOKEN_BYTES_MAX (64u << 10)

/* As GGUF numbers them. */
enum token_kind {
    TOKEN_NORMAL = 1,
    TOKEN_UNKNOWN = 2, /* treated as control: "<unk>" in a text is not one */
    TOKEN_CONTROL = 3,
    TOKEN_USER_DEFINED = 4, /* plain text that is always taken out as one token */
    TOKEN_UNUSED = 5,
    TOKEN_BYTE = 6,
};

struct vocabulary {
    uint32_t count;
    char *bytes;       /* what each token stands for, each followed by a NUL */
    uint32_t *offsets; /* (count + 1) into bytes */
    uint8_t *kinds;    /* (count) enum token_kind; TOKEN_UNUSED also for normal tokens that no text can become */
    struct map words;  /* the tokens that merging may make: hash of bytes -> id */
};

/* Reads a byte-level vocabulary. On failure *out holds nothing. */
enum status vocabulary_open(const struct model_file *file, struct vocabulary *out, struct error *error);
void vocabulary_close(struct vocabulary *vocabulary);

struct model_text vocabulary_token(const struct vocabulary *vocabulary, uint32_t id);
bool vocabulary_is_control(const struct vocabulary *vocabulary, uint32_t id);

/* Whether `id` is a normal token with these bytes: cheaper than looking for it. */
bool vocabulary_is(const struct vocabulary *vocabulary, uint32_t id, const char *bytes, size_t size);

/* The id of a token that merging may make, by its bytes; MAP_NONE: there is none. */
uint32_t vocabulary_find(const struct vocabulary *vocabulary, const char *bytes, size_t size);

#endif
