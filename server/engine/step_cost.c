#include "server/engine/step_cost.h"

#include <math.h>

/* High at first, so that steps are too short rather than too long until more is known. */
#define WEIGHT_START (1.0 / 1024)
#define WEIGHT_MIN (1.0 / 262144)
#define WEIGHT_MAX (1.0 / 64)
#define NEWEST 0.25      /* share of the newest step in the averages */
#define WEIGHT_RATE 0.1  /* of what one step says about the weight */
#define SHARE_NOISE 0.01 /* squared: differences of share below 0.1 say little */
#define ERROR_MAX 0.5    /* one step that something else held up does not count for more */

struct step_cost step_cost_start(void)
{
    return (struct step_cost){.weight = WEIGHT_START};
}

double step_cost_attended(uint32_t rows, uint32_t position)
{
    return rows * (position + (rows + 1.0) / 2);
}

double step_cost_units(const struct step_cost *cost, uint32_t rows, double attended)
{
    return STEP_COST_FIXED + rows + cost->weight * attended;
}

uint32_t step_cost_rows(const struct step_cost *cost, double units, uint32_t position, uint32_t rows_max)
{
    if (!(units > 0))
        return 0;
    /* n + weight * n * (position + (n + 1) / 2) = units, solved in the form that stays exact for small weights. */
    double linear = 1 + cost->weight * (position + 0.5);
    double rows = 2 * units / (linear + sqrt(linear * linear + 2 * cost->weight * units));
    return rows >= rows_max ? rows_max : (uint32_t)rows;
}

static double between(double value, double low, double high)
{
    return value < low ? low : value > high ? high : value;
}

/* The error's part that goes with depth; what does not is the machine's, and changes the speed. */
static void learn_weight(struct step_cost *cost, double deeper, double error)
{
    double said = between(error, -ERROR_MAX, ERROR_MAX) * deeper / (deeper * deeper + SHARE_NOISE);
    cost->weight = between(cost->weight * exp(WEIGHT_RATE * said), WEIGHT_MIN, WEIGHT_MAX);
}

void step_cost_learn(struct step_cost *cost, uint32_t rows, double attended, double ms)
{
    double units = step_cost_units(cost, rows, attended);
    double share = cost->weight * attended / units;
    if (!(ms > 0))
        return;
    if (cost->speed > 0) {
        learn_weight(cost, share - cost->share, ms * cost->speed / units - 1);
        cost->speed += NEWEST * (units / ms - cost->speed);
        cost->share += NEWEST * (share - cost->share);
    } else {
        cost->speed = units / ms;
        cost->share = share;
    }
}
