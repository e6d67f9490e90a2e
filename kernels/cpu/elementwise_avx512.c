/* Row operations with AVX-512, and the table of that variant. */
#include "kernels/cpu/avx512.h"
#include "kernels/cpu/quantize.h"

#define ROUND_NEAREST (_MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)

static void norm_row(const float *x, const float *weight, float epsilon, uint32_t columns, float *out)
{
    __m512 squares = _mm512_setzero_ps();
    for (uint32_t k = 0; k < columns; k += 16) {
        __mmask16 mask = mask_below(columns - k);
        __m512 v = _mm512_maskz_loadu_ps(mask, x + k);
        squares = _mm512_mask3_fmadd_ps(v, v, squares, mask);
    }
    float mean = sum_lanes(squares) / (float)columns;
    __m512 scale = _mm512_set1_ps(1.0f / sqrtf(mean + epsilon));
    for (uint32_t k = 0; k < columns; k += 16) {
        __mmask16 mask = mask_below(columns - k);
        __m512 scaled = _mm512_mul_ps(_mm512_maskz_loadu_ps(mask, x + k), scale);
        _mm512_mask_storeu_ps(out + k, mask, _mm512_mul_ps(scaled, _mm512_maskz_loadu_ps(mask, weight + k)));
    }
}

static void swiglu_row(const float *gate, const float *up, uint32_t columns, float *out)
{
    const __m512 one = _mm512_set1_ps(1.0f), sign = _mm512_set1_ps(-0.0f);
    for (uint32_t k = 0; k < columns; k += 16) {
        __mmask16 mask = mask_below(columns - k);
        __m512 g = _mm512_maskz_loadu_ps(mask, gate + k);
        __m512 silu = _mm512_div_ps(g, _mm512_add_ps(one, exp_lanes(_mm512_xor_ps(g, sign))));
        _mm512_mask_storeu_ps(out + k, mask, _mm512_mul_ps(silu, _mm512_maskz_loadu_ps(mask, up + k)));
    }
}

static __m512i quantize_lanes(__m512 x, __m512 inverse)
{
    __m512 scaled = _mm512_roundscale_ps(_mm512_mul_ps(x, inverse), ROUND_NEAREST);
    scaled = _mm512_max_ps(scaled, _mm512_set1_ps(-127.0f)); /* the second one where the first is NaN */
    return _mm512_cvtps_epi32(_mm512_min_ps(scaled, _mm512_set1_ps(127.0f)));
}

static void quantize_row(const float *x, uint32_t blocks, struct activation_block *group, uint32_t lane)
{
    const __m512i magnitude = _mm512_set1_epi32(0x7fffffff);
    for (uint32_t b = 0; b < blocks; b++) {
        __m512 low = _mm512_loadu_ps(x + (size_t)b * QUANT_BLOCK),
               high = _mm512_loadu_ps(x + (size_t)b * QUANT_BLOCK + 16);
        __m512i bits = _mm512_max_epi32(_mm512_and_si512(_mm512_castps_si512(low), magnitude),
                                        _mm512_and_si512(_mm512_castps_si512(high), magnitude));
        float amax = bits_float((uint32_t)_mm512_reduce_max_epi32(bits));
        __m512 inverse = _mm512_set1_ps(quantize_inverse(amax));
        __m512i first = quantize_lanes(low, inverse), second = quantize_lanes(high, inverse);
        int8_t *q = group[b].q[lane];
        _mm_storeu_si128((__m128i *)(void *)q, _mm512_cvtepi32_epi8(first));
        _mm_storeu_si128((__m128i *)(void *)(q + 16), _mm512_cvtepi32_epi8(second));
        int32_t sum_first = _mm512_reduce_add_epi32(first);
        group[b].meta[lane] = quantize_meta(amax, sum_first + _mm512_reduce_add_epi32(second), sum_first);
    }
}

/* Pairs (a, b) of x with (c, s): even lanes a*c - b*s, odd ones a*s + b*c. */
static void rope_head(float *x, const float *table, uint32_t dims)
{
    for (uint32_t i = 0; i < dims; i += 16) {
        __mmask16 mask = mask_below(dims - i);
        __m512 v = _mm512_maskz_loadu_ps(mask, x + i), cs = _mm512_maskz_loadu_ps(mask, table + i);
        __m512 sc = _mm512_permute_ps(cs, 0xb1);
        __m512 product = _mm512_mul_ps(_mm512_movehdup_ps(v), sc);
        _mm512_mask_storeu_ps(x + i, mask, _mm512_fmaddsub_ps(_mm512_moveldup_ps(v), cs, product));
    }
}

static void to_half(const float *x, uint32_t count, uint16_t *out)
{
    for (uint32_t i = 0; i < count; i += 16) {
        __mmask16 mask = mask_below(count - i);
        __m256i halves = _mm512_cvtps_ph(_mm512_maskz_loadu_ps(mask, x + i), ROUND_NEAREST);
        _mm256_mask_storeu_epi16(out + i, mask, halves);
    }
}

static void to_float(const uint16_t *x, uint32_t count, float *out)
{
    for (uint32_t i = 0; i < count; i += 16) {
        __mmask16 mask = mask_below(count - i);
        _mm512_mask_storeu_ps(out + i, mask, _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(mask, x + i)));
    }
}

const struct cpu_variant cpu_variant_avx512 = {
    .name = "avx512",
    .matmul_int8 = matmul_int8_avx512,
    .matmul_float = matmul_float_avx512,
    .attention_segment = attention_segment_avx512,
    .attention_merge = attention_merge_avx512,
    .norm_row = norm_row,
    .swiglu_row = swiglu_row,
    .quantize_row = quantize_row,
    .rope_head = rope_head,
    .to_half = to_half,
    .to_float = to_float,
};
