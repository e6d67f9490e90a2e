/* See detokenizer.h. `held` is always the beginning of a sequence that may still become valid. */
#include "model/text/detokenizer.h"

#include "kernels/base/utf8.h"

static const char replacement[] = "\xEF\xBF\xBD";

struct detokenizer detokenizer_start(const struct tokenizer *tokenizer, bool control_text)
{
    return (struct detokenizer){.tokenizer = tokenizer, .control_text = control_text};
}

/* Takes one byte. An invalid one ends what is held, which is a maximal invalid part, and may begin something itself. */
static void push_byte(struct detokenizer *detokenizer, char byte, struct buffer *out)
{
    char *held = (char *)detokenizer->held;
    held[detokenizer->held_size++] = byte;
    uint32_t code_point;
    if (utf8_decode(held, detokenizer->held_size, &code_point) != 0) {
        buffer_append(out, held, detokenizer->held_size);
        detokenizer->held_size = 0;
    } else if (utf8_incomplete_tail(held, detokenizer->held_size) == detokenizer->held_size) {
        return;
    } else {
        bool alone = detokenizer->held_size == 1;
        buffer_text(out, replacement);
        detokenizer->held_size = 0;
        if (!alone)
            push_byte(detokenizer, byte, out);
    }
}

void detokenizer_push(struct detokenizer *detokenizer, int32_t id, struct buffer *out)
{
    struct tokenizer_piece piece;
    if (!tokenizer_piece(detokenizer->tokenizer, id, &piece) || (piece.control && !detokenizer->control_text))
        return;
    for (size_t at = 0; at < piece.size;) {
        size_t valid = detokenizer->held_size > 0 ? 0 : utf8_invalid_at(piece.data + at, piece.size - at);
        if (valid > 0)
            buffer_append(out, piece.data + at, valid);
        at += valid;
        if (at < piece.size)
            push_byte(detokenizer, piece.data[at++], out);
    }
}

void detokenizer_finish(struct detokenizer *detokenizer, struct buffer *out)
{
    if (detokenizer->held_size > 0)
        buffer_text(out, replacement);
    detokenizer->held_size = 0;
}
