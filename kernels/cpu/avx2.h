/* What the AVX2 files share. Included by *_avx2.c only. A register holds 8 lanes: the 16 virtual lanes of the
 * arithmetic contract are two of them. */
#ifndef KERNELS_CPU_AVX2_H
#define KERNELS_CPU_AVX2_H

#include <immintrin.h>
#include <string.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/exp.h"
#include "kernels/cpu/scalar.h"

struct expanded_block;

void matmul_int8_avx2(const struct matmul_item *item);
void matmul_float_avx2(const struct matmul_item *item);
void matmul_expand_avx2(const struct matrix *matrix, uint32_t panel, struct expanded_block *out);
void attention_segment_avx2(const struct attention_item *item);
void attention_merge_avx2(const struct attention_merge *merge);

/* All ones in the lowest `count` of 8 lanes. */
static inline __m256i mask_below(uint32_t count)
{
    const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)(count < 8 ? count : 8)), lanes);
}

/* The tree of the arithmetic contract; `low` holds lanes 0..7, `high` 8..15. */
static inline float sum_lanes(__m256 low, __m256 high)
{
    __m256 sum8 = _mm256_add_ps(low, high);
    __m128 sum4 = _mm_add_ps(_mm256_castps256_ps128(sum8), _mm256_extractf128_ps(sum8, 1));
    __m128 sum2 = _mm_add_ps(sum4, _mm_movehl_ps(sum4, sum4));
    return _mm_cvtss_f32(_mm_add_ss(sum2, _mm_movehdup_ps(sum2)));
}

/* exp_f32 of exp.h, lane by lane. */
static inline __m256 exp_lanes(__m256 x)
{
    __m256 t = _mm256_fmadd_ps(x, _mm256_set1_ps(EXP_LOG2E), _mm256_set1_ps(EXP_MAGIC));
    __m256 n = _mm256_sub_ps(t, _mm256_set1_ps(EXP_MAGIC));
    __m256 r = _mm256_fmadd_ps(n, _mm256_set1_ps(-EXP_LN2_HIGH), x);
    r = _mm256_fmadd_ps(n, _mm256_set1_ps(-EXP_LN2_LOW), r);
    __m256 p = _mm256_fmadd_ps(_mm256_set1_ps(EXP_P0), r, _mm256_set1_ps(EXP_P1));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(EXP_P2));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(EXP_P3));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(EXP_P4));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(EXP_P5));
    __m256 y = _mm256_add_ps(_mm256_fmadd_ps(p, _mm256_mul_ps(r, r), r), _mm256_set1_ps(1.0f));
    __m256i exponent = _mm256_add_epi32(_mm256_castps_si256(t), _mm256_set1_epi32((int)(127u - EXP_MAGIC_BITS)));
    y = _mm256_mul_ps(y, _mm256_castsi256_ps(_mm256_slli_epi32(exponent, 23)));
    y = _mm256_blendv_ps(y, _mm256_set1_ps(INFINITY), _mm256_cmp_ps(x, _mm256_set1_ps(EXP_HIGH), _CMP_GT_OQ));
    return _mm256_and_ps(_mm256_cmp_ps(x, _mm256_set1_ps(EXP_LOW), _CMP_NLT_UQ), y);
}

#endif
