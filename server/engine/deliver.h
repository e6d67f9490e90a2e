/* What becomes of a drawn id: text for the reader, or the end of its choice. One a choice, used by the engine thread.
 *
 * Text is held back while it may be the beginning of a stop string or is not yet whole UTF-8; all of it comes out with
 * the end, except a stop string and what follows it. The first min_tokens ids end nothing, neither by themselves (the
 * sampler bans those ids) nor by their text. Ids are not held back: with log-probabilities, each goes out at once with
 * the text that is ready by then, and those that made up a stop string or ended the choice are among them. */
#ifndef SERVER_ENGINE_DELIVER_H
#define SERVER_ENGINE_DELIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/api.h"
#include "model/text/detokenizer.h"
#include "server/engine/stop_text.h"

struct deliver_args {
    const struct tokenizer *tokenizer;
    const struct api_call *call; /* borrowed: stop strings and switches */
    const int32_t *end_ids;      /* (end_count), borrowed: those that end the choice */
    uint32_t end_count;
    uint32_t tokens_max; /* ids drawn at most */
};

struct deliver {
    struct detokenizer detokenizer;
    struct stop_text stop;
    struct buffer text; /* decoded: what the last push gave out, then what is held back */
    size_t given;       /* bytes of it that were given out */
    const int32_t *end_ids;
    uint32_t end_count;
    uint32_t tokens; /* ids pushed */
    uint32_t tokens_max;
    uint32_t min_tokens;
    bool include_stop_text;
};

enum status deliver_open(const struct deliver_args *args, struct deliver *out, struct error *error);
void deliver_close(struct deliver *deliver);

struct deliver_output {
    const char *text; /* (text_size), whole UTF-8 sequences, valid until the next push */
    size_t text_size;
    bool finished;
    enum api_stop_reason reason; /* of a finished choice */
    bool failed;                 /* no memory for the text */
};

struct deliver_output deliver_push(struct deliver *deliver, int32_t id);

#endif
