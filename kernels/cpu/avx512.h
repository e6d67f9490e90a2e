/* What the AVX-512 files share. Included by *_avx512.c only. */
#ifndef KERNELS_CPU_AVX512_H
#define KERNELS_CPU_AVX512_H

#include <immintrin.h>
#include <string.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/exp.h"
#include "kernels/cpu/scalar.h"

struct expanded_block;

void matmul_int8_avx512(const struct matmul_item *item);
void matmul_float_avx512(const struct matmul_item *item);
void matmul_expand_avx512(const struct matrix *matrix, uint32_t panel, struct expanded_block *out);
void attention_segment_avx512(const struct attention_item *item);
void attention_merge_avx512(const struct attention_merge *merge);

/* The lowest `count` of 16 lanes. */
static inline __mmask16 mask_below(uint32_t count)
{
    return (__mmask16)(count >= 16 ? 0xffff : (1u << count) - 1);
}

/* The tree of the arithmetic contract. */
static inline float sum_lanes(__m512 v)
{
    __m256 sum8 = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
    __m128 sum4 = _mm_add_ps(_mm256_castps256_ps128(sum8), _mm256_extractf128_ps(sum8, 1));
    __m128 sum2 = _mm_add_ps(sum4, _mm_movehl_ps(sum4, sum4));
    return _mm_cvtss_f32(_mm_add_ss(sum2, _mm_movehdup_ps(sum2)));
}

/* exp_f32 of exp.h, lane by lane. */
static inline __m512 exp_lanes(__m512 x)
{
    __m512 t = _mm512_fmadd_ps(x, _mm512_set1_ps(EXP_LOG2E), _mm512_set1_ps(EXP_MAGIC));
    __m512 n = _mm512_sub_ps(t, _mm512_set1_ps(EXP_MAGIC));
    __m512 r = _mm512_fmadd_ps(n, _mm512_set1_ps(-EXP_LN2_HIGH), x);
    r = _mm512_fmadd_ps(n, _mm512_set1_ps(-EXP_LN2_LOW), r);
    __m512 p = _mm512_fmadd_ps(_mm512_set1_ps(EXP_P0), r, _mm512_set1_ps(EXP_P1));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(EXP_P2));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(EXP_P3));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(EXP_P4));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(EXP_P5));
    __m512 y = _mm512_add_ps(_mm512_fmadd_ps(p, _mm512_mul_ps(r, r), r), _mm512_set1_ps(1.0f));
    __m512i exponent = _mm512_add_epi32(_mm512_castps_si512(t), _mm512_set1_epi32((int)(127u - EXP_MAGIC_BITS)));
    y = _mm512_mul_ps(y, _mm512_castsi512_ps(_mm512_slli_epi32(exponent, 23)));
    y = _mm512_mask_mov_ps(y, _mm512_cmp_ps_mask(x, _mm512_set1_ps(EXP_HIGH), _CMP_GT_OQ), _mm512_set1_ps(INFINITY));
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, _mm512_set1_ps(EXP_LOW), _CMP_NLT_UQ), y);
}

/* The panel's 16 outputs for one row: bias first, then what `out` held. */
static inline void store_panel_row(const struct matmul_item *item, uint32_t row, __m512 value)
{
    uint32_t first = item->panel * PANEL_ROWS;
    __mmask16 mask = mask_below(item->matrix->rows - first);
    float *out = item->out + (size_t)row * item->matrix->rows + first;
    if (item->bias != NULL)
        value = _mm512_add_ps(value, _mm512_maskz_loadu_ps(mask, item->bias + first));
    if (item->accumulate)
        value = _mm512_add_ps(_mm512_maskz_loadu_ps(mask, out), value);
    _mm512_mask_storeu_ps(out, mask, value);
}

#endif
