/* Merges the bytes of one piece of text into tokens: of all adjacent pairs that the file lists, the one listed first is
 * joined, the leftmost of equals, until none is left. O(n log n) in the piece.
 *
 * An open bpe is constant and shared; each thread has a scratch of its own, which remembers the tokens of short
 * pieces. */
#ifndef MODEL_TEXT_BPE_H
#define MODEL_TEXT_BPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/base/status.h"
#include "model/model.h"
#include "model/text/vocabulary.h"

#define BPE_PIECE_BYTES_MAX ((size_t)4 << 20) /* a piece takes 32 bytes of scratch a byte */
#define BPE_MERGES_MAX (16u << 20)

struct bpe;
struct bpe_scratch;

/* `vocabulary` is borrowed for the life of the bpe. whole_words: a piece that is a token is that token, unmerged. */
enum status bpe_open(const struct model_file *file, const struct vocabulary *vocabulary, bool whole_words,
                     struct bpe **out, struct error *error);
void bpe_close(struct bpe *bpe);

enum status bpe_scratch_open(struct bpe_scratch **out, struct error *error);
void bpe_scratch_close(struct bpe_scratch *scratch);
/* Gives back what an unusually long piece took. */
void bpe_scratch_trim(struct bpe_scratch *scratch);

struct bpe_tokens {
    const int32_t *ids; /* (count) borrowed from the scratch until its next use */
    size_t count;
    size_t unknown_bytes; /* of the piece: bytes that the vocabulary has no token for, left out */
};

/* size > 0. A scratch serves one bpe for all of its life. */
enum status bpe_encode(const struct bpe *bpe, struct bpe_scratch *scratch, const char *piece, size_t size,
                       struct bpe_tokens *out, struct error *error);

#endif
