/* The plan of a step: two passes over the sequences, oldest first. The first serves those that hold a lease with pages,
 * taking them from the youngest if need be; the second shares the rows that are left among prompts. */
#include "server/engine/scheduler.h"

#include "kernels/base/check.h"
#include "kernels/base/size.h"

/* Prompt rows of a step while nobody knows how fast this machine is. */
#define FIRST_ROWS 64
/* Prompt rows of a step however little time is left: fewer would read the weights for next to nothing. */
#define LEAST_ROWS 8

struct plan {
    const struct scheduler_limits *limits;
    const struct scheduler_state *state;
    struct scheduler_decision *decisions; /* (state->count) */
    uint32_t pages;                       /* still available */
    uint32_t room;                        /* rows that fit the step besides */
    uint32_t chunk;                       /* of them prompts' */
    uint32_t least;                       /* of those whatever they take */
    double units;                         /* of time that are left to prompts (step_cost.h) */
    uint32_t running;                     /* sequences with a lease that keep it */
    uint32_t slots_used;
    bool short_of_pages; /* somebody was preempted or stands still */
};

static double row_units(const struct plan *plan, const struct scheduler_sequence *sequence, uint32_t rows)
{
    return rows + plan->state->cost.weight * step_cost_attended(rows, sequence->position);
}

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
        plan->room -= decision->rows;
        if (decodes)
            plan->units -= row_units(plan, sequence, 1);
    }
}

/* A waiting sequence of one row is as good as decoding: it costs nothing of the prompts' budget. */
static bool is_one_row(const struct scheduler_sequence *sequence)
{
    return sequence->phase == SCHEDULER_WAITING && sequence->rows_left == 1;
}

static uint32_t rows_for(const struct plan *plan, const struct scheduler_sequence *sequence)
{
    if (is_one_row(sequence))
        return (uint32_t)size_min(1, plan->room);
    uint32_t rows_max = (uint32_t)size_min(sequence->rows_left, size_min(plan->chunk, plan->room));
    if (plan->limits->step_ms == 0)
        return rows_max;
    uint32_t timed = step_cost_rows(&plan->state->cost, plan->units, sequence->position, rows_max);
    if (timed < size_min(LEAST_ROWS, sequence->rows_left)) /* what another prompt has left over starts nobody */
        timed = 0;
    return (uint32_t)size_max(timed, size_min(plan->least, rows_max));
}

static void take_rows(struct plan *plan, const struct scheduler_sequence *sequence, uint32_t rows)
{
    plan->room -= rows;
    if (is_one_row(sequence))
        return;
    plan->chunk -= rows;
    plan->least -= (uint32_t)size_min(plan->least, rows);
    plan->units -= row_units(plan, sequence, rows);
}

static bool may_enter(const struct plan *plan, const struct scheduler_sequence *sequence)
{
    uint64_t pages = (uint64_t)sequence->pages_needed + (uint64_t)plan->running * plan->limits->pages_per_block;
    return plan->slots_used + sequence->slots <= plan->limits->sequences_max && pages <= plan->pages;
}

static void share_rows(struct plan *plan)
{
    bool closed = plan->short_of_pages;
    for (uint32_t i = 0; i < plan->state->count; i++) {
        const struct scheduler_sequence *sequence = &plan->state->sequences[i];
        struct scheduler_decision *decision = &plan->decisions[i];
        bool waits = sequence->phase == SCHEDULER_WAITING;
        if (waits ? sequence->held_back || closed : decision->action != SCHEDULER_RUN || decision->rows > 0)
            continue;
        uint32_t rows = rows_for(plan, sequence);
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
        take_rows(plan, sequence, rows);
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
        .chunk = limits->prefill_chunk,
        .least = LEAST_ROWS,
        .units = state->cost.speed > 0 ? limits->step_ms * state->cost.speed - STEP_COST_FIXED : FIRST_ROWS,
    };
    serve_running(&plan);
    share_rows(&plan);
}
