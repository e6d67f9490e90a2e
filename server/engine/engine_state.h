/* The engine's inside, shared by its files: what all threads see, under one lock. What only the engine thread sees is
 * in loop.h. The lock is never held while an event is posted or a `wake` runs. */
#ifndef SERVER_ENGINE_ENGINE_STATE_H
#define SERVER_ENGINE_ENGINE_STATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "cache/cache.h"
#include "kernels/base/thread.h"
#include "server/engine/engine.h"
#include "server/engine/request.h"

#define ENGINE_PREPARE_THREADS 2

struct loop;
struct prepare;

/* When each that has work to do last came further, in clock_ns; 0: it has none. Who gives it work sets the time if it
 * is 0, so that one that does not take it up shows too. */
struct engine_beats {
    uint64_t loop_ns;
    uint64_t queue_ns; /* to_prepare */
    uint64_t prepare_ns[ENGINE_PREPARE_THREADS];
};

struct engine {
    struct engine_args args;
    char *model_id;
    uint32_t context;         /* tokens a sequence may have */
    uint32_t pool_tokens_max; /* tokens of one sequence that fit the KV pool when it is alone there */
    size_t request_bytes_max; /* of one request's choices together */
    size_t piece_max;         /* bytes of the longest token's text */
    struct kv_identity identity;
    atomic_uint holders; /* the owner, and every request */

    struct prepare *prepare[ENGINE_PREPARE_THREADS];
    struct loop *loop;
    struct stats stats; /* of any thread */

    pthread_mutex_t lock; /* all below */
    pthread_cond_t prepare_wake;
    pthread_cond_t loop_wake;
    bool prepare_stopping;
    bool loop_stopping;
    struct request_queue to_prepare;
    struct request_queue arrivals; /* prepared, on their way to the engine thread */
    bool cancel_posted;
    bool step_running;     /* the engine thread waits for the model */
    bool step_abandonable; /* and it will take long enough to be worth ending early */
    uint32_t waiting;
    uint32_t waiting_by_length[STATS_LENGTHS];
    struct engine_beats beats;
    struct engine_status published;

    atomic_bool abandon;            /* the model looks at it between layers ... */
    atomic_uint_least64_t layer_ns; /* ... and says when it did one */
};

void engine_let_go(struct engine *engine);

/* Moves a request out of the count of those that wait. */
void engine_waits_no_more(struct engine *engine, struct engine_request *request);

/* Whoever has this progress time has got something to do. Under the lock. */
void engine_begin_work(uint64_t *progress_ns);

/* A cancel was asked for: the engine thread is to look. */
void engine_notice_cancel(struct engine *engine, struct engine_request *request);

/* What a request that cannot go on is told when the engine closes. */
void engine_closing_error(struct error *error);

#endif
