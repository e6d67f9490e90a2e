/* Finds the tokens that are taken out of a text before anything else: control tokens where the text is trusted, and
 * user-defined tokens everywhere. The leftmost wins, then the longest, as `tokenizers` does; a control token that is
 * not wholly inside trusted text is as if it did not exist. Adjacent trusted spans are one stretch, also over an empty
 * untrusted one: what a template writes around an empty field is the template's own text.
 *
 * Constant after open. Token texts are borrowed: the vocabulary outlives this. */
#ifndef MODEL_TEXT_SPECIAL_TOKENS_H
#define MODEL_TEXT_SPECIAL_TOKENS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/base/status.h"
#include "model/text/tokenizer.h"

#define SPECIAL_TOKEN_BYTES_MAX 1024

struct special_token {
    const char *text;
    size_t size; /* 1 .. SPECIAL_TOKEN_BYTES_MAX */
    int32_t id;
    bool control;
};

struct special_tokens {
    struct special_token *tokens; /* (count), in the order of their bytes */
    size_t count;
    uint32_t first[257]; /* tokens that begin with byte b: first[b] .. first[b + 1] - 1 */
    uint8_t starts[256]; /* SPECIAL_CONTROL, SPECIAL_PLAIN: kinds of token that begin with this byte */
    uint8_t kinds;       /* all of them together */
};

/* Takes over `tokens` (malloc'ed) in any case. Two equal texts are refused. */
enum status special_tokens_open(struct special_token *tokens, size_t count, struct special_tokens *out,
                                struct error *error);
void special_tokens_close(struct special_tokens *special);

/* A walk through one text. Start with special_cursor_start, then call special_tokens_next until it says false. */
struct special_cursor {
    const struct tokenizer_input *input;
    size_t at;
    size_t stretch_end; /* of the stretch of equal trust that `at` is in */
    bool trusted;
    size_t next_span;
};

struct special_match {
    size_t offset;
    size_t size;
    int32_t id;
};

struct special_cursor special_cursor_start(const struct tokenizer_input *input);
bool special_tokens_next(const struct special_tokens *special, struct special_cursor *cursor,
                         struct special_match *match);

#endif
