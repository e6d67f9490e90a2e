/* Ids to text as it streams: whole UTF-8 sequences only. Bytes that can never become valid come out as U+FFFD, one for
 * each maximal invalid part (as Python's errors="replace"); an incomplete sequence is held back until it is complete or
 * the stream ends. Control tokens give no text unless asked for.
 *
 * One a choice, on the engine thread. The struct is plain: start with detokenizer_start, nothing to release. */
#ifndef MODEL_TEXT_DETOKENIZER_H
#define MODEL_TEXT_DETOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/base/buffer.h"
#include "model/text/tokenizer.h"

struct detokenizer {
    const struct tokenizer *tokenizer;
    bool control_text; /* control tokens appear as their text */
    unsigned char held[4];
    uint32_t held_size;
};

struct detokenizer detokenizer_start(const struct tokenizer *tokenizer, bool control_text);
void detokenizer_push(struct detokenizer *detokenizer, int32_t id, struct buffer *out); /* appends 0.. bytes */
void detokenizer_finish(struct detokenizer *detokenizer, struct buffer *out);           /* the held bytes, as U+FFFD */

#endif
