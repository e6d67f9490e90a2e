/* Cuts text into the pieces that byte pairs are merged in: one row of a table for each pre-tokenizer that a GGUF file
 * may name in tokenizer.ggml.pre, each proven by goldens against `tokenizers`.
 *
 * An open pre_tokenizer is constant and shared; each thread has a scratch of its own. Time is linear in the text, and
 * the matcher's stack, heap and steps are bounded. */
#ifndef MODEL_TEXT_PRE_TOKENIZER_H
#define MODEL_TEXT_PRE_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>

#include "kernels/base/buffer.h"
#include "kernels/base/status.h"

struct pre_tokenizer_row {
    const char *name;
    const char *pattern; /* what a piece is; text between matches is a piece too */
    bool whole_words;    /* a piece that is a token is not merged ("ignore_merges") */
    bool adds_bos;       /* what holds where the file has no tokenizer.ggml.add_bos_token */
};

/* NULL: no such row. */
const struct pre_tokenizer_row *pre_tokenizer_find(const char *name, size_t size);
/* Appends the known names, "a, b, c". */
void pre_tokenizer_names(struct buffer *out);

struct pre_tokenizer;
struct pre_tokenizer_scratch;

enum status pre_tokenizer_open(const struct pre_tokenizer_row *row, struct pre_tokenizer **out, struct error *error);
void pre_tokenizer_close(struct pre_tokenizer *pre_tokenizer);

enum status pre_tokenizer_scratch_open(const struct pre_tokenizer *pre_tokenizer, struct pre_tokenizer_scratch **out,
                                       struct error *error);
void pre_tokenizer_scratch_close(struct pre_tokenizer_scratch *scratch);

/* The end of the piece that begins at `at` < size, where a piece before ended, or 0. The text is valid UTF-8: nothing
 * here looks whether it is. */
enum status pre_tokenizer_next(const struct pre_tokenizer *pre_tokenizer, struct pre_tokenizer_scratch *scratch,
                               const char *text, size_t size, size_t at, size_t *end, struct error *error);

#endif
