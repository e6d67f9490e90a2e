/* A backend that is wrong on purpose: with more than one thread it sums the two halves of every dot product apart and
 * then together, as a backend would that lets threads share a reduction. With one thread it is right. It shows that
 * the exactness tests notice. */
#ifndef TESTS_CONFORMANCE_SPLIT_K_H
#define TESTS_CONFORMANCE_SPLIT_K_H

#include "kernels/kernels.h"

extern const struct kernel_ops split_k_ops;

#endif
