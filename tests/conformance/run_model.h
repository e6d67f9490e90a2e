/* What conformance tests run models with: opening in one line, page tables, and a whole sequence evaluated in chunks. */
#ifndef TESTS_CONFORMANCE_RUN_MODEL_H
#define TESTS_CONFORMANCE_RUN_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/kernels.h"
#include "model/batch.h"
#include "model/model.h"

struct run_args {
    const char *path;
    const char *cpu;              /* NULL: "auto" */
    const struct kernel_ops *ops; /* NULL: the CPU's */
    enum activation_mode activations;
    uint32_t threads;
    uint32_t context;         /* 0: 512 */
    uint32_t rows_max;        /* 0: 512 */
    uint32_t sequences_max;   /* 0: 8 */
    uint32_t logits_rows_max; /* 0: rows_max */
    uint32_t kv_sequences;    /* the pool holds this many sequences of `context`; 0: 8 */
};

/* Opens with logits kept, or ends the test. */
struct model *run_open(const struct run_args *args);

/* The variants that this processor has, best last; ends with NULL. Those it has not are printed once. */
const char *const *run_variants(void);

/* A greedy draw without log-probabilities. */
extern const struct sample_row run_greedy;

/* Runs `count` ids from position 0 in chunks of `chunk` rows over pages 0, 1, 2, ... and gives the logits of positions
 * from .. count-1. */
struct run_whole {
    const int32_t *ids;
    uint32_t count;
    uint32_t from;
    uint32_t chunk;
    float *logits; /* (count - from, vocabulary) */
};
void run_whole(struct model *model, const struct run_whole *args);

#endif
