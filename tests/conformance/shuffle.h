/* The exactness shuffle: the same sequences run in a random way, and every row of logits compared with a reference, bit
 * by bit.
 *
 * A draw opens the model with a random row limit and runs sequences side by side: chunks of random size, neighbours
 * that come and go, preemption, page tables in random order, freed pages poisoned, prefixes taken over from another
 * sequence by sharing its full pages and copying the rows of its last one. */
#ifndef TESTS_CONFORMANCE_SHUFFLE_H
#define TESTS_CONFORMANCE_SHUFFLE_H

#include <stdint.h>

#include "tests/conformance/run_model.h"

#define SHUFFLE_SEQUENCES 6
#define SHUFFLE_TOKENS_MAX 300

/* Sequence i shares its first `shared[i]` ids with sequence 0. */
struct shuffle_reference {
    uint32_t vocabulary;
    uint32_t length[SHUFFLE_SEQUENCES];
    uint32_t shared[SHUFFLE_SEQUENCES];
    int32_t ids[SHUFFLE_SEQUENCES][SHUFFLE_TOKENS_MAX];
    float *logits[SHUFFLE_SEQUENCES]; /* (length, vocabulary) */
};

/* Draws lengths of 1 .. tokens_max and ids from the seed, and computes each sequence alone in chunks of `chunk`. */
void shuffle_reference_open(struct shuffle_reference *reference, const struct run_args *args, uint32_t tokens_max,
                            uint32_t chunk, uint64_t seed);
void shuffle_reference_close(struct shuffle_reference *reference);

struct shuffle_draw {
    struct run_args run; /* what to open; row limits are set by the draw */
    uint64_t seed;
    uint32_t chunk_max;       /* rows of a sequence in a step */
    uint32_t logits_rows_max; /* compared of a chunk */
    uint32_t sequences;       /* to run until the end */
};

struct shuffle_result {
    uint64_t rows; /* of logits compared */
    uint64_t different;
    uint64_t steps;
    uint64_t hits; /* sequences that took over a prefix */
    uint64_t preempted;
};

void shuffle_run(const struct shuffle_reference *reference, const struct shuffle_draw *draw,
                 struct shuffle_result *result /* added to */);

#endif
