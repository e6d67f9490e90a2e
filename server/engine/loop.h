/* The engine thread: takes what was prepared, drops what was cancelled, runs steps, and sleeps when there is nothing to
 * do. Everything here is its own; the model and the cache are used by nobody else. */
#ifndef SERVER_ENGINE_LOOP_H
#define SERVER_ENGINE_LOOP_H

#include <stdbool.h>
#include <stdint.h>

#include "cache/cache.h"
#include "kernels/base/thread.h"
#include "model/model.h"
#include "server/engine/batch.h"
#include "server/engine/engine.h"
#include "server/engine/request.h"
#include "server/engine/scheduler.h"

struct loop {
    struct engine *engine;
    struct thread thread;
    struct model *model;
    struct cache *cache;
    uint32_t groups;
    struct scheduler_limits limits;

    struct sequence *oldest; /* all that wait or run, in order of arrival */
    struct sequence *youngest;
    uint32_t held_count;             /* of them held back */
    bool lease_ended;                /* since those held back were last looked at */
    struct engine_request *finished; /* ended in this step: to be let go when nothing points to them */

    /* Of the plan: (plan_max) */
    uint32_t plan_max;
    uint32_t plan_count;
    struct sequence **planned;
    struct scheduler_sequence *views;
    struct scheduler_decision *decisions;

    struct step_batch batch;
    struct api_token tokens[SAMPLE_LOGPROBS_MAX]; /* of one event: the drawn one, then the others */
    struct step_cost cost;                        /* of steps with prompts in them */
    double decode_ms;                             /* a step without prompts; 0: not yet */
    double lost_ms; /* others' time in steps ended early, less what whole steps since then took */
    struct engine_status status;
    bool *page_written; /* (pages), since it was last free; checked builds only */
};

enum status loop_open(struct engine *engine, struct loop **out, struct error *error);
void loop_close(struct loop *loop); /* waits for the thread; every request left ends with an error */

/* For the files of the engine thread. */
void loop_insert(struct loop *loop, struct sequence *sequence, struct sequence *after); /* NULL: as the youngest */
void loop_publish(struct loop *loop);
/* KV of this page is about to be written: it is to be poisoned when it is free again. */
void loop_note_written(struct loop *loop, uint32_t page);
/* Ends a request, all its choices: END, or ERROR when `error` is not NULL. It is let go after the step. */
void loop_end_request(struct loop *loop, struct engine_request *request, const struct error *error);
/* One choice is over: its lease ends, it leaves the list. */
void loop_end_sequence(struct loop *loop, struct sequence *sequence);

#endif
