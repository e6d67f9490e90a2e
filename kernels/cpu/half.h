/* binary16 <-> binary32 in integer arithmetic, equal to what F16C instructions do: nearest even, denormals kept,
 * NaNs made quiet. */
#ifndef KERNELS_CPU_HALF_H
#define KERNELS_CPU_HALF_H

#include <stdint.h>
#include <string.h>

static inline uint32_t float_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static inline float bits_float(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

static inline float half_to_float(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16;
    uint32_t magnitude = half & 0x7fff;
    if (magnitude > 0x7c00)
        return bits_float(sign | 0x7fc00000 | magnitude << 13);
    if (magnitude == 0x7c00)
        return bits_float(sign | 0x7f800000);
    if (magnitude >= 0x0400)
        return bits_float(sign | ((magnitude << 13) + (112u << 23)));
    return bits_float(sign | float_bits((float)magnitude * 0x1p-24f));
}

static inline uint16_t float_to_half(float value)
{
    uint32_t bits = float_bits(value);
    uint32_t sign = bits >> 16 & 0x8000;
    uint32_t magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000)
        return (uint16_t)(sign | 0x7e00 | (magnitude >> 13 & 0x03ff));
    if (magnitude >= 0x477ff000) /* 65520 and above round to infinity */
        return (uint16_t)(sign | 0x7c00);
    if (magnitude >= 0x38800000) /* 2^-14: normal halves */
        return (uint16_t)(sign | (magnitude - (112u << 23) + 0x0fff + (magnitude >> 13 & 1)) >> 13);
    /* An ulp of [0.5, 1) is 2^-24, the step of denormal halves: the addition rounds as it should. */
    return (uint16_t)(sign | (float_bits(bits_float(magnitude) + 0.5f) - float_bits(0.5f)));
}

#endif
