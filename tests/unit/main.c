/* main() of every unit test program: runs the suite, prints what failed, and a line that scripts/run_tests.sh adds up. */
#include "tests/unit/unit.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool long_run;
static uint64_t seed = 1;

bool test_long(void)
{
    return long_run;
}

uint64_t test_seed(void)
{
    return seed;
}

uint64_t test_random(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return z ^ z >> 31;
}

uint64_t test_random_below(uint64_t *state, uint64_t limit)
{
    return test_random(state) % limit;
}

double test_random_unit(uint64_t *state)
{
    return (double)(test_random(state) >> 11) * 0x1p-53;
}

const char *test_cpu(void)
{
    const char *cpu = getenv("INCIPIT_CPU");
    return cpu != NULL && *cpu != '\0' ? cpu : "auto";
}

const char *test_model_path(void)
{
    static char path[4096];
    const char *model = getenv("INCIPIT_MODEL");
    const char *cache = getenv("XDG_CACHE_HOME");
    const char *home = getenv("HOME");
    const char *file = "incipit/models/smollm2/SmolLM2-135M-Instruct.Q4_1.gguf";
    if (model != NULL && *model != '\0')
        snprintf(path, sizeof(path), "%s", model);
    else if (cache != NULL && *cache != '\0')
        snprintf(path, sizeof(path), "%s/%s", cache, file);
    else
        snprintf(path, sizeof(path), "%s/.cache/%s", home == NULL ? "" : home, file);
    return path;
}

static void read_options(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--long") == 0) {
            long_run = true;
        } else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc) {
            seed = strtoull(argv[++i], NULL, 0);
        } else {
            fprintf(stderr, "usage: %s [--long] [--seed N]\n", argv[0]);
            exit(2);
        }
    }
}

int main(int argc, char **argv)
{
    read_options(argc, argv);
    /* A test that hangs is ended; a slow machine or a sanitizer must not look like one. */
    setenv("CK_DEFAULT_TIMEOUT", long_run ? "3600" : "300", 0);
    printf("seed %" PRIu64 "\n", seed);
    fflush(stdout);

    SRunner *runner = srunner_create(suite());
    srunner_run_all(runner, CK_NORMAL);
    int run = srunner_ntests_run(runner);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    printf("%d passed, %d failed\n", run - failed, failed);
    return failed == 0 && run > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
