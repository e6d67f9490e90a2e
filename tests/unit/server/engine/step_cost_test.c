/* The cost model against toy machines whose true costs are known. */
#include "server/engine/step_cost.h"

#include <math.h>

#include "tests/unit/unit.h"

#define STEP_MS 100.0

struct machine {
    double row_ms;
    double position_ms;
    double noise; /* largest relative error */
};

static double takes(const struct machine *machine, uint32_t rows, uint32_t position, uint64_t *random)
{
    double noise = ((double)test_random_below(random, 2001) / 1000 - 1) * machine->noise;
    double ms = (STEP_COST_FIXED + rows) * machine->row_ms + step_cost_attended(rows, position) * machine->position_ms;
    return ms * (1 + noise);
}

static uint32_t chunk(const struct step_cost *cost, uint32_t position, uint32_t left)
{
    double units = cost->speed > 0 ? STEP_MS * cost->speed - STEP_COST_FIXED : 64;
    uint32_t rows = step_cost_rows(cost, units, position, left < 512 ? left : 512);
    return rows > 8 ? rows : left < 8 ? left : 8;
}

struct steps {
    uint32_t count;
    uint32_t late; /* of them took more than twice their time */
};

/* A prompt from `position` to `end`, in chunks. */
static void prefill(struct step_cost *cost, const struct machine *machine, uint32_t position, uint32_t end,
                    uint64_t *random, struct steps *steps)
{
    while (position < end) {
        uint32_t rows = chunk(cost, position, end - position);
        double ms = takes(machine, rows, position, random);
        step_cost_learn(cost, rows, step_cost_attended(rows, position), ms);
        steps->count++;
        steps->late += rows > 8 && ms > 2 * STEP_MS;
        position += rows;
    }
}

START_TEST(rows_are_the_most_that_fit)
{
    struct step_cost cost = step_cost_start();
    for (double weight = 1e-6; weight < 0.02; weight *= 7) {
        cost.weight = weight;
        for (uint32_t position = 0; position < 100000; position = position * 3 + 50) {
            for (double units = 1.5; units < 3000; units *= 3) {
                uint32_t rows = step_cost_rows(&cost, units, position, UINT32_MAX);
                double fixed = STEP_COST_FIXED;
                ck_assert_double_le(step_cost_units(&cost, rows, step_cost_attended(rows, position)) - fixed,
                                    units * 1.000001);
                ck_assert_double_ge(step_cost_units(&cost, rows + 1, step_cost_attended(rows + 1, position)) - fixed,
                                    units * 0.999999);
            }
        }
    }
    ck_assert_uint_eq(step_cost_rows(&cost, 1e30, 5, 512), 512);
    ck_assert_uint_eq(step_cost_rows(&cost, -1, 5, 512), 0);
    ck_assert_uint_eq(step_cost_rows(&cost, 0.5, 5, 512), 0);
}
END_TEST

static const struct machine machines[] = {
    {.row_ms = 0.6, .position_ms = 0.0005, .noise = 0.05},   /* SmolLM2 on two cores */
    {.row_ms = 0.6, .position_ms = 0.0005, .noise = 0.3},    /* beside other work */
    {.row_ms = 20, .position_ms = 0.002, .noise = 0.1},      /* a large model */
    {.row_ms = 0.1, .position_ms = 0.0008, .noise = 0.1},    /* attention is slow */
    {.row_ms = 0.01, .position_ms = 0.0000004, .noise = 0.1} /* a fast device */
};

/* From the first prompt on, also where one begins deep behind a cached prefix. Steps of the fewest rows may
 * take as long as they need. */
START_TEST(fewer_than_one_step_in_fifty_is_late)
{
    const struct machine *machine = &machines[_i];
    uint64_t random = test_seed() + (uint64_t)_i;
    struct step_cost cost = step_cost_start();
    struct steps steps = {0};
    for (int round = 0; round < 20; round++) {
        prefill(&cost, machine, 0, 8000, &random, &steps);
        prefill(&cost, machine, 0, 400, &random, &steps);
        prefill(&cost, machine, 7000, 7900, &random, &steps);
        prefill(&cost, machine, 0, 300, &random, &steps);
        ck_assert_msg(steps.late * 50 <= steps.count, "%u of %u steps were late", steps.late, steps.count);
    }
}
END_TEST

START_TEST(the_weight_is_learnt_from_prompts_of_all_depths)
{
    const struct machine *machine = &machines[_i];
    uint64_t random = test_seed() + 100 + (uint64_t)_i;
    struct step_cost cost = step_cost_start();
    struct steps steps = {0};
    for (int round = 0; round < 30; round++) {
        prefill(&cost, machine, 0, 8000, &random, &steps);
        prefill(&cost, machine, 6000, 6800, &random, &steps);
    }
    double expected = takes(&(struct machine){machine->row_ms, machine->position_ms, 0}, 64, 8000, &random);
    double predicted = step_cost_units(&cost, 64, step_cost_attended(64, 8000)) / cost.speed;
    ck_assert_msg(predicted > expected * 0.65 && predicted < expected * 1.5, "predicted %g ms, took %g", predicted,
                  expected);
}
END_TEST

START_TEST(a_step_without_time_teaches_nothing)
{
    struct step_cost cost = step_cost_start();
    step_cost_learn(&cost, 100, 5000, 0);
    ck_assert_double_eq(cost.speed, 0);
    step_cost_learn(&cost, 100, 5000, NAN);
    ck_assert_double_eq(cost.speed, 0);
}
END_TEST

Suite *suite(void)
{
    Suite *suite = suite_create("server/engine/step_cost");
    TCase *tests = tcase_create("step_cost");
    const int count = (int)(sizeof(machines) / sizeof(machines[0]));
    tcase_add_test(tests, rows_are_the_most_that_fit);
    tcase_add_loop_test(tests, fewer_than_one_step_in_fifty_is_late, 0, count);
    tcase_add_loop_test(tests, the_weight_is_learnt_from_prompts_of_all_depths, 0, count);
    tcase_add_test(tests, a_step_without_time_teaches_nothing);
    suite_add_tcase(suite, tests);
    return suite;
}
