/* What a step takes, learnt from steps: pure, no clock.
 *
 * A step reads the weights once, computes rows, and in each row attends to all positions up to it, so a row deep in
 * a sequence costs several times a shallow one. Costs are in units: one row at position 0 is one.
 *
 *     units = STEP_COST_FIXED + rows + weight * attended      ms = units / speed
 *
 * `speed` follows the machine within a few steps. `weight` is a property of model and kernels; it moves slowly, towards
 * what explains why steps deeper than those just before take longer than expected. */
#ifndef SERVER_ENGINE_STEP_COST_H
#define SERVER_ENGINE_STEP_COST_H

#include <stdint.h>

/* Reading the weights costs as much as so many rows: decoding one sequence is about nine times slower than a prompt. */
#define STEP_COST_FIXED 8.0

struct step_cost {
    double speed;  /* units a millisecond; 0: not known yet */
    double weight; /* units for each position attended to */
    double share;  /* of attention in the units of recent steps */
};

struct step_cost step_cost_start(void);

/* Positions that `rows` rows attend to which begin at `position`. */
double step_cost_attended(uint32_t rows, uint32_t position);
double step_cost_units(const struct step_cost *cost, uint32_t rows, double attended);
/* The most rows from `position` on, up to `rows_max`, that cost no more than `units`, without the fixed part. */
uint32_t step_cost_rows(const struct step_cost *cost, double units, uint32_t position, uint32_t rows_max);

/* A step with a prompt in it is over. */
void step_cost_learn(struct step_cost *cost, uint32_t rows, double attended, double ms);

#endif
