/* One choice of a request: its ids, its hold on KV, its sampler and its way to the reader. Taken by a prepare thread,
 * used by the engine thread, released with the request. Nothing is allocated between.
 *
 *     IDLE -> WAITING -> RUNNING -> ENDED       RUNNING -> WAITING when preempted
 *
 * The first choice of a prompt computes it; the others are IDLE until the first token was drawn for all of them. */
#ifndef SERVER_ENGINE_SEQUENCE_H
#define SERVER_ENGINE_SEQUENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "cache/cache.h"
#include "model/sampler.h"
#include "server/engine/deliver.h"

struct engine_request;
struct request_prompt;

enum sequence_state { SEQUENCE_IDLE, SEQUENCE_WAITING, SEQUENCE_RUNNING, SEQUENCE_ENDED };

struct sequence {
    struct engine_request *request;
    struct request_prompt *prompt; /* of the request: the one it continues */
    uint32_t choice;               /* among all of the request */
    enum sequence_state state;
    struct sequence *older; /* in the loop's list: by arrival of the request, then by choice */
    struct sequence *younger;

    int32_t *ids;          /* (capacity): the prompt, then what was drawn */
    uint32_t capacity;     /* prompt and tokens_max */
    uint32_t count;        /* ids known */
    uint32_t prompt_count; /* of them the prompt's */

    struct cache_lease *lease; /* RUNNING */
    uint32_t hit;              /* tokens the lease began with */
    uint32_t committed;        /* ids whose KV is written */
    uint64_t drawn_ns;         /* when its last token was; 0: none yet */
    uint32_t computed_before;  /* the most that `committed` ever was: more than that is not recomputation */

    bool preempted;  /* WAITING: it ran before */
    bool scores;     /* the prompt's tokens are scored: nothing of it may come from the cache until that is done ... */
    uint32_t scored; /* ... for so many of them; the first one has no score */

    bool held_back;        /* WAITING: another sequence computes a prefix of this one ... */
    uint32_t pending;      /* ... and this many tokens can be had from it */
    uint32_t rows_left;    /* WAITING: expected after the hit */
    uint32_t pages_needed; /* WAITING: available pages that admission takes, as far as is known */

    struct sampler *sampler; /* NULL: the request draws nothing */
    struct deliver deliver;
};

struct sequence_args {
    struct engine_request *request;
    struct request_prompt *of;
    const struct tokenizer *tokenizer;
    const struct api_call *call;
    const int32_t *prompt; /* (prompt_count), copied */
    uint32_t prompt_count;
    uint32_t tokens_max;    /* to draw; 0: none */
    const int32_t *end_ids; /* (end_count), borrowed from the request */
    uint32_t end_count;
    uint64_t seed;
    uint32_t choice; /* among all of the request ... */
    uint32_t draw;   /* ... and of its prompt, which is what its draws depend on */
};

/* What sequence_open takes, in bytes, about. */
size_t sequence_bytes(const struct sequence_args *args);
enum status sequence_open(const struct sequence_args *args, struct sequence *out, struct error *error);
void sequence_close(struct sequence *sequence); /* without a lease */

/* Whether the row that is computed next for it comes of a token it has just drawn. */
bool sequence_decodes(const struct sequence *sequence);
/* How many of the next rows have a score: each that of the token behind it. */
uint32_t sequence_rows_to_score(const struct sequence *sequence);

#endif
