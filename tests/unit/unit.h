/* What every unit test program includes. A program defines `suite`; main() stands in tests/unit/main.c and ends with
 * the line `N passed, M failed`. Options: --long runs the long variants too, --seed N repeats a run. */
#ifndef TESTS_UNIT_UNIT_H
#define TESTS_UNIT_UNIT_H

#include <check.h>
#include <stdbool.h>
#include <stdint.h>

/* The suite of this program. */
Suite *suite(void);

/* Whether this is a run of `make test-long`. */
bool test_long(void);

/* The seed of this run: printed at the start, 1 unless --seed was given. */
uint64_t test_seed(void);

/* A stream of random numbers (splitmix64): start the state from test_seed() and a number of the test's own. */
uint64_t test_random(uint64_t *state);
uint64_t test_random_below(uint64_t *state, uint64_t limit); /* 0 .. limit - 1 */
double test_random_unit(uint64_t *state);                    /* 0 <= x < 1 */

/* The CPU variant that tests of the floors above the kernels run on: $INCIPIT_CPU, else "auto". */
const char *test_cpu(void);

/* The path of the model file that tests run on: $INCIPIT_MODEL, else the default model in the cache folder. */
const char *test_model_path(void);

#endif
