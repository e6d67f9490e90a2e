/* Row operations with AVX2, and the table of that variant. */
#include "kernels/cpu/avx2.h"
#include "kernels/cpu/quantize.h"

#define ROUND_NEAREST (_MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)

/* acc + v * v in the lanes of the mask only. */
static __m256 add_squares(__m256 acc, const float *x, __m256i mask)
{
    __m256 v = _mm256_maskload_ps(x, mask);
    return _mm256_blendv_ps(acc, _mm256_fmadd_ps(v, v, acc), _mm256_castsi256_ps(mask));
}

static void norm_row(const float *x, const float *weight, float epsilon, uint32_t columns, float *out)
{
    __m256 low = _mm256_setzero_ps(), high = _mm256_setzero_ps();
    for (uint32_t k = 0; k < columns; k += 16) {
        low = add_squares(low, x + k, mask_below(columns - k));
        if (columns - k > 8)
            high = add_squares(high, x + k + 8, mask_below(columns - k - 8));
    }
    float mean = sum_lanes(low, high) / (float)columns;
    __m256 scale = _mm256_set1_ps(1.0f / sqrtf(mean + epsilon));
    for (uint32_t k = 0; k < columns; k += 8) {
        __m256i mask = mask_below(columns - k);
        __m256 scaled = _mm256_mul_ps(_mm256_maskload_ps(x + k, mask), scale);
        _mm256_maskstore_ps(out + k, mask, _mm256_mul_ps(scaled, _mm256_maskload_ps(weight + k, mask)));
    }
}

static void swiglu_row(const float *gate, const float *up, uint32_t columns, float *out)
{
    const __m256 one = _mm256_set1_ps(1.0f), sign = _mm256_set1_ps(-0.0f);
    for (uint32_t k = 0; k < columns; k += 8) {
        __m256i mask = mask_below(columns - k);
        __m256 g = _mm256_maskload_ps(gate + k, mask);
        __m256 silu = _mm256_div_ps(g, _mm256_add_ps(one, exp_lanes(_mm256_xor_ps(g, sign))));
        _mm256_maskstore_ps(out + k, mask, _mm256_mul_ps(silu, _mm256_maskload_ps(up + k, mask)));
    }
}

static __m256i magnitude(const float *x)
{
    return _mm256_and_si256(_mm256_castps_si256(_mm256_loadu_ps(x)), _mm256_set1_epi32(0x7fffffff));
}

static float max_magnitude(const float *x)
{
    __m256i bits = _mm256_max_epi32(_mm256_max_epi32(magnitude(x), magnitude(x + 8)),
                                    _mm256_max_epi32(magnitude(x + 16), magnitude(x + 24)));
    __m128i max = _mm_max_epi32(_mm256_castsi256_si128(bits), _mm256_extracti128_si256(bits, 1));
    max = _mm_max_epi32(max, _mm_shuffle_epi32(max, 0x4e));
    max = _mm_max_epi32(max, _mm_shuffle_epi32(max, 0xb1));
    return bits_float((uint32_t)_mm_cvtsi128_si32(max));
}

static __m256i quantize_lanes(const float *x, __m256 inverse)
{
    __m256 scaled = _mm256_round_ps(_mm256_mul_ps(_mm256_loadu_ps(x), inverse), ROUND_NEAREST);
    scaled = _mm256_max_ps(scaled, _mm256_set1_ps(-127.0f)); /* the second one where the first is NaN */
    return _mm256_cvtps_epi32(_mm256_min_ps(scaled, _mm256_set1_ps(127.0f)));
}

static int32_t add_lanes(__m256i v)
{
    __m128i sum = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0xb1)));
}

/* 16 elements to bytes; their sum. */
static int32_t quantize_half(const float *x, __m256 inverse, int8_t *q)
{
    __m256i low = quantize_lanes(x, inverse), high = quantize_lanes(x + 8, inverse);
    __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(low, high), 0xd8);
    __m128i bytes = _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    _mm_storeu_si128((__m128i *)(void *)q, bytes);
    return add_lanes(_mm256_add_epi32(low, high));
}

static void quantize_row(const float *x, uint32_t blocks, struct activation_block *group, uint32_t lane)
{
    for (uint32_t b = 0; b < blocks; b++, x += QUANT_BLOCK) {
        float amax = max_magnitude(x);
        __m256 inverse = _mm256_set1_ps(quantize_inverse(amax));
        int32_t first = quantize_half(x, inverse, group[b].q[lane]);
        int32_t second = quantize_half(x + 16, inverse, group[b].q[lane] + 16);
        group[b].meta[lane] = quantize_meta(amax, first + second, first);
    }
}

/* Pairs (a, b) of x with (c, s): even lanes a*c - b*s, odd ones a*s + b*c. */
static void rope_head(float *x, const float *table, uint32_t dims)
{
    for (uint32_t i = 0; i < dims; i += 8) {
        __m256i mask = mask_below(dims - i);
        __m256 v = _mm256_maskload_ps(x + i, mask), cs = _mm256_maskload_ps(table + i, mask);
        __m256 product = _mm256_mul_ps(_mm256_movehdup_ps(v), _mm256_permute_ps(cs, 0xb1));
        _mm256_maskstore_ps(x + i, mask, _mm256_fmaddsub_ps(_mm256_moveldup_ps(v), cs, product));
    }
}

static void to_half(const float *x, uint32_t count, uint16_t *out)
{
    uint32_t i = 0;
    for (; i + 8 <= count; i += 8) {
        __m128i halves = _mm256_cvtps_ph(_mm256_loadu_ps(x + i), ROUND_NEAREST);
        _mm_storeu_si128((__m128i *)(void *)(out + i), halves);
    }
    to_half_scalar(x + i, count - i, out + i);
}

static void to_float(const uint16_t *x, uint32_t count, float *out)
{
    uint32_t i = 0;
    for (; i + 8 <= count; i += 8)
        _mm256_storeu_ps(out + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(x + i))));
    to_float_scalar(x + i, count - i, out + i);
}

const struct cpu_variant cpu_variant_avx2 = {
    .name = "avx2",
    .matmul_int8 = matmul_int8_avx2,
    .matmul_float = matmul_float_avx2,
    .attention_segment = attention_segment_avx2,
    .attention_merge = attention_merge_avx2,
    .norm_row = norm_row,
    .swiglu_row = swiglu_row,
    .quantize_row = quantize_row,
    .rope_head = rope_head,
    .to_half = to_half,
    .to_float = to_float,
};
