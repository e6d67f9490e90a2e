/* Drawing one row's token (kernels.h, "sampling"). There is one variant: the arithmetic below is plain multiplications
 * and additions, so every processor gives the same ids and the compiler may use what vectors it likes.
 *
 * The weight of a token is exp((logit - largest) / temperature) in binary32. Sums of weights are binary64. The kept set
 * is a prefix of the descending order (ties: lower id first): the top_k largest, of those the fewest whose weights
 * reach top_p of their sum, of those the ones whose weight is at least min_p. The drawn token is the first one in
 * ascending order of ids at which the running sum of the kept weights passes u times their total, u in [0, 1) a hash of
 * (seed, choice, position). A logit that is not a number is never drawn. */
#ifndef KERNELS_CPU_SAMPLE_H
#define KERNELS_CPU_SAMPLE_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/kernels.h"

/* Working memory of one row, 8-byte aligned. */
size_t sample_scratch_bytes(uint32_t vocabulary);

/* Draws for `row`; changes the logits. Ids that are not below `vocabulary` have no logit: they are passed over. */
void sample_draw(float *logits /* (vocabulary) */, uint32_t vocabulary, const struct sample_row *row, void *scratch,
                 struct sample_result *result);

/* The number in [0, 1) that a draw uses. */
double sample_uniform(uint64_t seed, uint32_t choice, uint32_t position);

#endif
