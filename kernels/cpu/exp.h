/* exp for softmax and silu: the same bits in every variant, which therefore follow these steps exactly.
 *
 *     t = fma(x, log2 e, 1.5 * 2^23)         the integer n nearest to x * log2 e sits in t's low bits
 *     n = t - 1.5 * 2^23
 *     r = fma(n, -ln2_high, x); r = fma(n, -ln2_low, r)
 *     p = polynomial of degree 5 (Cephes expf), Horner in fma
 *     y = fma(p, r * r, r) + 1, times 2^n through the exponent bits
 *
 * 0 below EXP_LOW (results that would not be normal numbers), infinity above EXP_HIGH. Relative error at most
 * 2^-22.8. */
#ifndef KERNELS_CPU_EXP_H
#define KERNELS_CPU_EXP_H

#include <math.h>

#include "kernels/cpu/half.h"

#define EXP_LOW (-87.33654f)
#define EXP_HIGH 88.37626f
#define EXP_LOG2E 1.44269504088896341f
#define EXP_MAGIC 12582912.0f
#define EXP_MAGIC_BITS 0x4b400000u
#define EXP_LN2_HIGH 0.693359375f
#define EXP_LN2_LOW (-2.12194440e-4f)
#define EXP_P0 1.9875691500e-4f
#define EXP_P1 1.3981999507e-3f
#define EXP_P2 8.3334519073e-3f
#define EXP_P3 4.1665795894e-2f
#define EXP_P4 1.6666665459e-1f
#define EXP_P5 5.0000001201e-1f

static inline float exp_f32(float x)
{
    if (x < EXP_LOW)
        return 0.0f;
    if (x > EXP_HIGH)
        return INFINITY;
    float t = fmaf(x, EXP_LOG2E, EXP_MAGIC);
    float n = t - EXP_MAGIC;
    float r = fmaf(n, -EXP_LN2_HIGH, x);
    r = fmaf(n, -EXP_LN2_LOW, r);
    float p = fmaf(EXP_P0, r, EXP_P1);
    p = fmaf(p, r, EXP_P2);
    p = fmaf(p, r, EXP_P3);
    p = fmaf(p, r, EXP_P4);
    p = fmaf(p, r, EXP_P5);
    float y = fmaf(p, r * r, r) + 1.0f;
    return y * bits_float((float_bits(t) - EXP_MAGIC_BITS + 127u) << 23);
}

#endif
