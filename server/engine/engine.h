/* The engine: one thread that owns the model, the cache and every sequence; requests in, events out.
 *
 *     engine_open -> the loop thread and the prepare threads run
 *     engine_submit -> a request handle; a prepare thread parses, renders and tokenizes it, checks that it can ever fit
 *     engine_request_take: its events, in order (api.h), after `wake` was called; ends with END or ERROR
 *     engine_request_release: done with it, at any time; a request that has not ended is ended: its reader has gone
 *     engine_close: everything still running ends with an ERROR event
 *
 * Handles may be used from any thread, each by one thread at a time; engine_request_cancel and _stop by any thread at
 * any time before the release. `wake` is called from the engine's, a prepare or the closing thread whenever events were
 * added to a mailbox that was empty; it must not block nor call the engine back. engine_request_release waits for a
 * `wake` that is under way, so it must not be called with a lock held that `wake` takes; take and cancel may be.
 * Handles may outlive engine_close.
 *
 * A request that stops being taken from: its mailbox is bounded (bytes); when it is full the request ends with an
 * error. The engine never waits for a reader. */
#ifndef SERVER_ENGINE_ENGINE_H
#define SERVER_ENGINE_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/api.h"
#include "kernels/base/status.h"
#include "model/model.h"
#include "model/text/chat_template.h"
#include "model/text/tokenizer.h"
#include "server/engine/stats.h"

struct engine;
struct engine_request;

/* The model was opened with rows_max >= prefill_chunk + sequences_max, with sequences_max and logits_rows_max >=
 * sequences_max + score_rows. */
struct engine_args {
    struct model *model;              /* used by the engine thread alone from now on */
    enum activation_mode activations; /* as the model was opened: part of the cache's identity */
    const struct tokenizer *tokenizer;
    const struct chat_template *chat_template; /* NULL: chat requests are refused with the reason */
    uint32_t sequences_max;                    /* running at once */
    uint32_t prefill_chunk;                    /* prompt tokens a step at most */
    uint32_t score_rows;                       /* rows of a step at most whose tokens are prompts' and are scored */
    uint32_t step_ms;                          /* time a step should take; the prefill chunk adapts; 0: no adaption */
    uint32_t queue_max;                        /* requests waiting; more are refused with STATUS_BUSY */
    bool prefix_cache;
    uint32_t cache_key_bits; /* bits of a block key that are used; 0: all. Tests cut keys to make them collide */
    const char *model_id;    /* for errors */
};

enum status engine_open(const struct engine_args *args, struct engine **out, struct error *error);
void engine_close(struct engine *engine);

typedef void engine_wake(void *context);

/* What is asked for: a call, or a body that a prepare thread makes one of. A body is not looked at before, so that a
 * large one holds nobody up; one that cannot be parsed ends with an ERROR event, the client's error in it. */
struct engine_submission {
    struct api_call *call; /* taken; NULL: ... */
    const struct api_endpoint *endpoint;
    struct buffer body;            /* ... taken, for `endpoint`, and ... */
    const struct api_facts *facts; /* ... borrowed until the handle is released and the engine closed */
    const char *request_id;        /* copied: it names the request in the log */
    const char *space;             /* copied: KV is shared within it only; NULL: "" */
    engine_wake *wake;
    void *wake_context;
};

/* Takes the call and the body, also on failure. STATUS_BUSY: the queue is full, or the engine closes. */
enum status engine_submit(struct engine *engine, const struct engine_submission *submission,
                          struct engine_request **out, struct error *error);
/* The call, borrowed while the handle is held. NULL until an event was taken that is no ERROR: it may not be there. */
const struct api_call *engine_request_call(const struct engine_request *request);
/* The next event; false: none now. What it points to is borrowed until the next take or the release. */
bool engine_request_take(struct engine_request *request, struct api_event *event);
/* Asks for an early end; an ERROR event with STATUS_CANCELLED follows. Blocks and slots are free within a step. */
void engine_request_cancel(struct engine_request *request);
/* The same because the server stops: so says the log. */
void engine_request_stop(struct engine_request *request);
/* The same because its client does not read. */
void engine_request_drop(struct engine_request *request);
/* After it returns `wake` is not called any more. */
void engine_request_release(struct engine_request *request);

/* What is going on, for /health, the log and tests. */
struct engine_status {
    uint32_t running;                          /* sequences with a lease */
    uint32_t waiting;                          /* requests accepted, not started; being prepared counts */
    uint32_t waiting_by_length[STATS_LENGTHS]; /* of them, by the length of their prompts */
    uint32_t preempted;                        /* sequences that ran, had to leave, and wait to go on */
    bool prefix_cache;                         /* on; constant, as are the next two */
    uint32_t block_tokens;                     /* of a page */
    uint32_t pages_total;
    uint32_t pages_free;
    uint32_t pages_leased;
    uint32_t pages_cached;
    uint64_t requests;
    uint64_t prompt_tokens;
    uint64_t queried_tokens;  /* of prompts looked up in the cache, once a request ... */
    uint64_t cached_tokens;   /* ... and those found */
    uint64_t computed_tokens; /* rows prefilled, recomputation included */
    uint64_t generated_tokens;
    uint64_t preemptions;
    uint64_t evicted_blocks;
    uint64_t steps;
    uint64_t last_step_ns; /* clock_ns of the last finished step */
};

struct engine_status engine_status(struct engine *engine);

/* When a thread that has work to do last came further: took it up, finished a step, or a layer of one. */
struct engine_heartbeat {
    uint64_t progress_ns; /* clock_ns, of the thread that waits longest; 0: nobody has anything to do */
    const char *thread;   /* "engine" or "prepare" */
};

struct engine_heartbeat engine_heartbeat(struct engine *engine);

/* How requests ended, and how long they took. */
void engine_numbers(struct engine *engine, struct stats_numbers *out);

#endif
