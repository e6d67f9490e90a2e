/* The plan of a step: two passes over the sequences, oldest first. The first serves those that hold a lease with pages,
 * taking them from the youngest if need be; the second shares the rows that are left among prompts. */
#include "server/engine/scheduler.h"

#include "kernels/base/check.h"
#include "kernels/base/size.h"

/* Prompt rows of a step while nobody knows how fast this machine is. */
#define FIRST_ROWS 64

struct plan {
    const struct scheduler_limits *limits;
    const struct scheduler_state *state;
    struct scheduler_decision *decisions; /* (state->count) */
    uint32_t pages;                       /* still available */
    uint32_t room;                        /* rows that fit the step besides */
    uint32_t decode_rows;
    uint32_t running; /* sequences with a lease that keep it */
    uint32_t slots_used;
    bool short_of_pages; /* somebody was preempted or stands still */
};

/* The youngest sequence that holds a lease and is younger than `index`; `index` when there is none. */
static uint32_t youngest_after(const struct plan *plan, uint32_t index)
{
    for (uint32_t i = plan->state->count - 1; i > index; i--) {
        if (plan->state->sequences[i].phase != SCHEDULER_WAITING && plan->decisions[i].action != SCHEDULER_PREEMPT)
            return i;
    }
    return index;
}

/* Rule 4. False: nobody younger is left, and the pages still do not suffice. */
static bool find_pages(struct plan *plan, uint32_t index)
{
    while (plan->state->sequences[index].pages_needed > plan->pages) {
        uint32_t victim = youngest_after(plan, index);
        plan->short_of_pages = true;
        if (victim == index)
            return false;
        plan->decisions[victim].action = SCHEDULER_PREEMPT;
        plan->pages += plan->state->sequences[victim].pages_held;
    }
    plan->pages -= plan->state->sequences[index].pages_needed;
    return true;
}

/* Prefilling sequences that may go on are marked RUN with no rows yet. */
static void serve_running(struct plan *plan)
{
    for (uint32_t i = 0; i < plan->state->count; i++) {
        const struct scheduler_sequence *sequence = &plan->state->sequences[i];
        struct scheduler_decision *decision = &plan->decisions[i];
        if (sequence->phase == SCHEDULER_WAITING || decision->action == SCHEDULER_PREEMPT)
            continue;
        plan->running++;
        plan->slots_used += sequence->slots;
        if (!find_pages(plan, i))
            continue;
        bool decodes = sequence->phase == SCHEDULER_DECODE;
        if (decodes && plan->room == 0)
            continue;
        decision->action = SCHEDULER_RUN;
        decision->rows = decodes ? 1 : 0;
        plan->decode_rows += decision->rows;
        plan->room -= decision->rows;
    }
}

static uint32_t prefill_budget(const struct plan *plan)
{
    const struct scheduler_limits *limits = plan->limits;
    uint32_t budget = limits->prefill_chunk;
    if (limits->step_ms != 0) {
        double fits = plan->state->rows_per_ms > 0
                          ? (limits->step_ms - plan->state->decode_ms) * plan->state->rows_per_ms
                          : FIRST_ROWS;
        uint32_t rows = fits >= budget ? budget : fits > 0 ? (uint32_t)fits : 0;
        uint32_t minimum = (uint32_t)size_min(limits->block_tokens, limits->prefill_chunk);
        budget = rows > minimum ? rows : minimum;
    }
    return (uint32_t)size_min(budget, plan->room);
}

/* A waiting sequence of one row is as good as decoding: it costs nothing of the prompts' budget. */
static uint32_t rows_for(const struct plan *plan, const struct scheduler_sequence *sequence, uint32_t budget)
{
    if (sequence->phase == SCHEDULER_WAITING && sequence->rows_left == 1)
        return (uint32_t)size_min(1, plan->room);
    return (uint32_t)size_min(sequence->rows_left, (uint32_t)size_min(budget, plan->room));
}

static bool may_enter(const struct plan *plan, const struct scheduler_sequence *sequence)
{
    uint64_t pages = (uint64_t)sequence->pages_needed + (uint64_t)plan->running * plan->limits->pages_per_block;
    return plan->slots_used + sequence->slots <= plan->limits->sequences_max && pages <= plan->pages;
}

static void share_rows(struct plan *plan)
{
    uint32_t budget = prefill_budget(plan);
    bool closed = plan->short_of_pages;
    for (uint32_t i = 0; i < plan->state->count; i++) {
        const struct scheduler_sequence *sequence = &plan->state->sequences[i];
        struct scheduler_decision *decision = &plan->decisions[i];
        bool waits = sequence->phase == SCHEDULER_WAITING;
        if (waits ? sequence->held_back || closed : decision->action != SCHEDULER_RUN || decision->rows > 0)
            continue;
        uint32_t rows = rows_for(plan, sequence, budget);
        if (waits && (rows == 0 || !may_enter(plan, sequence))) {
            closed = true;
            continue;
        }
        if (waits) {
            plan->pages -= sequence->pages_needed;
            plan->slots_used += sequence->slots;
            plan->running++;
        }
        decision->action = rows == 0 ? SCHEDULER_IDLE : waits ? SCHEDULER_ADMIT : SCHEDULER_RUN;
        decision->rows = rows;
        plan->room -= rows;
        if (!(waits && sequence->rows_left == 1))
            budget -= rows;
    }
}

void scheduler_plan(const struct scheduler_limits *limits, const struct scheduler_state *state,
                    struct scheduler_decision *decisions)
{
    CHECK(limits->prefill_chunk > 0 && limits->rows_max > 0 && limits->block_tokens > 0);
    for (uint32_t i = 0; i < state->count; i++)
        decisions[i] = (struct scheduler_decision){.action = SCHEDULER_IDLE};
    struct plan plan = {
        .limits = limits,
        .state = state,
        .decisions = decisions,
        .pages = state->pages_available,
        .room = limits->rows_max,
    };
    serve_running(&plan);
    share_rows(&plan);
}
