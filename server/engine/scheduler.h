/* Who runs in the next step, and how many tokens each: pure, state in, plan out; no clock, no model, no cache.
 *
 * Rules, in order:
 *   1. Every sequence that is decoding gets its one row, if there is a page for it (rule 4).
 *   2. Prefilling sequences, oldest first, share what is left of the row budget: prefill_chunk, rows_max - decoding
 *      rows, and the rows that fit the time budget at the depth at which they stand, but a few always.
 *   3. Waiting sequences are admitted in order of arrival while slots, rows and pages for all their ids are there, and
 *      a block for each one that runs stays in reserve. One that is held back by a prefix in flight does not keep the
 *      later ones from starting, but none overtakes for lack of pages or slots (no starvation).
 *   4. When a running sequence needs a page and the pool has none, the youngest running sequence is preempted: its
 *      lease is released (its blocks stay cached as long as they can) and it waits again, in its old place. Only
 *      younger ones give way to older ones, so never the oldest; the youngest itself stands still until a page is
 *      there.
 *
 * The pages that a preemption sets free are an estimate (others may share them), so a plan that preempts admits nobody:
 * the caller carries the preemptions out, counts again and asks for a new plan. */
#ifndef SERVER_ENGINE_SCHEDULER_H
#define SERVER_ENGINE_SCHEDULER_H

#include <stdbool.h>
#include <stdint.h>

#include "server/engine/step_cost.h"

struct scheduler_limits {
    uint32_t sequences_max;
    uint32_t rows_max;      /* of a step */
    uint32_t prefill_chunk; /* prompt rows of a step */
    uint32_t block_tokens;
    uint32_t pages_per_block;
    uint32_t step_ms; /* 0: no time budget */
};

enum scheduler_phase { SCHEDULER_WAITING, SCHEDULER_PREFILL, SCHEDULER_DECODE };

/* One sequence as the scheduler sees it. The array is in order of arrival. */
struct scheduler_sequence {
    enum scheduler_phase phase;
    uint32_t slots;        /* of sequences_max that it takes: all its choices, until they begin */
    uint32_t position;     /* of the next row: what is computed or cached before it */
    uint32_t rows_left;    /* rows still to compute, after the cache hit; DECODE: 1 */
    uint32_t pages_needed; /* WAITING: available pages that its admission takes, for all its ids; else: for this step */
    uint32_t pages_held;   /* that a preemption would make available */
    bool held_back;        /* WAITING: a prefix that it shares is being computed */
};

struct scheduler_state {
    const struct scheduler_sequence *sequences; /* (count), oldest first */
    uint32_t count;
    uint32_t pages_available; /* free or evictable now */
    struct step_cost cost;    /* what rows take on this machine */
};

enum scheduler_action { SCHEDULER_IDLE, SCHEDULER_RUN, SCHEDULER_ADMIT, SCHEDULER_PREEMPT };

struct scheduler_decision {
    enum scheduler_action action; /* ADMIT: acquire a lease, then run `rows` */
    uint32_t rows;                /* RUN, ADMIT: at least 1 */
};

/* Fills decisions[i] for sequences[i]. */
void scheduler_plan(const struct scheduler_limits *limits, const struct scheduler_state *state,
                    struct scheduler_decision *decisions /* (count) */);

#endif
