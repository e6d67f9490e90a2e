/* The parts of activation quantization that are one computation a block, shared by all variants. */
#ifndef KERNELS_CPU_QUANTIZE_H
#define KERNELS_CPU_QUANTIZE_H

#include "kernels/cpu/cpu.h"

/* Below this 127 / amax could be infinite: such a block is all zeros. */
#define QUANTIZE_AMAX_MIN 0x1p-119f

static inline float quantize_inverse(float amax)
{
    return amax >= QUANTIZE_AMAX_MIN ? 127.0f / amax : 0.0f;
}

/* `amax` is NaN when the block holds one; the scale then is too, so that it is not lost. */
static inline struct activation_meta quantize_meta(float amax, int32_t sum, int32_t sum_first)
{
    float scale = amax / 127.0f;
    return (struct activation_meta){
        .scale = scale,
        .block_sum = scale * (float)sum,
        .minus_sum = -sum,
        .minus_sum_first = -sum_first,
    };
}

#endif
