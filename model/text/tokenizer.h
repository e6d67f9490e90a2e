/* Text to token ids and back: equal to Hugging Face `tokenizers` for the model's tokenizer, id by id.
 *
 * Constant after open; any thread may encode at once, each with its own tokenizer_scratch. Nothing refers to the file
 * after open. Control tokens (those of special type) come out only where their text lies wholly inside one trusted
 * stretch of the input, a run of adjacent trusted spans: text from a user never becomes one. All other text is cut and
 * merged without regard to spans, as the reference does it; user-defined tokens, which are plain text, are found
 * everywhere.
 *
 * Not equal to the reference on purpose: where a user-defined token overlaps the text of a control token that is not
 * trusted, it is still found; the reference steps over both. */
#ifndef MODEL_TEXT_TOKENIZER_H
#define MODEL_TEXT_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/base/status.h"
#include "model/model.h"

struct tokenizer;
struct tokenizer_scratch;

enum status tokenizer_open(const struct model_file *file, struct tokenizer **out, struct error *error);
void tokenizer_close(struct tokenizer *tokenizer);

uint32_t tokenizer_vocabulary(const struct tokenizer *tokenizer);
/* A prompt begins with BOS; templates may write their own. */
bool tokenizer_adds_bos(const struct tokenizer *tokenizer);
int32_t tokenizer_bos(const struct tokenizer *tokenizer); /* -1: none */
int32_t tokenizer_eos(const struct tokenizer *tokenizer); /* -1: none */
/* Every id that ends a reply: the file's EOS, end of turn and end of message tokens. Borrowed. */
const int32_t *tokenizer_end_ids(const struct tokenizer *tokenizer, uint32_t *count);
/* NUL-terminated, borrowed: the text of a token, meant for special ones; "" for -1. */
const char *tokenizer_special_text(const struct tokenizer *tokenizer, int32_t id);

/* A stretch of text whose bytes may (trusted) or may not become control tokens. Stretches cover the text in order. */
struct tokenizer_span {
    size_t size;
    bool trusted;
};

struct tokenizer_input {
    const char *text; /* valid UTF-8 */
    size_t size;
    const struct tokenizer_span *spans; /* (span_count), sizes add up to size; NULL: all of it is untrusted */
    size_t span_count;
    bool add_bos; /* put BOS first if the model wants one and the ids do not begin with it already */
};

struct tokenizer_ids {
    int32_t *ids; /* (count), malloc'ed; grown as needed, released with tokenizer_ids_free */
    size_t count;
    size_t capacity;
    /* Bytes of the text that the vocabulary has no token for: left out, as the reference does, but counted. SmolLM2's
     * lacks 6 control characters and the first bytes of planes 4 to 11. */
    size_t unknown_bytes;
};

enum status tokenizer_scratch_open(const struct tokenizer *tokenizer, struct tokenizer_scratch **out,
                                   struct error *error);
void tokenizer_scratch_close(struct tokenizer_scratch *scratch);

/* Appends to *out; on failure *out is as before. Linear in the text up to a logarithm; allocates nothing once *out and
 * the scratch have grown. Invalid UTF-8 is STATUS_INVALID naming the byte offset. STATUS_TOO_LARGE over 64 MiB, or 4
 * MiB without a place to cut. */
enum status tokenizer_encode(const struct tokenizer *tokenizer, struct tokenizer_scratch *scratch,
                             const struct tokenizer_input *input, struct tokenizer_ids *out, struct error *error);
void tokenizer_ids_free(struct tokenizer_ids *ids);

/* The bytes of one id (not NUL-terminated, borrowed; they may be part of a UTF-8 sequence). A control token's bytes are
 * its text. False: no such id. */
struct tokenizer_piece {
    const char *data;
    size_t size;
    bool control;
};
bool tokenizer_piece(const struct tokenizer *tokenizer, int32_t id, struct tokenizer_piece *out);

#endif
