/* Attention over one segment with AVX2.
 *
 * Scores: 8 keys a register, a chain over dims; a tile is up to 6 query rows times 16 keys, 8 loads for 12
 * multiply-adds. Output: 8 dims a register, a chain over keys; a tile is the same rows times 16 dims. Keys that only
 * some rows of a tile see (the diagonal, a window's edge) are done row by row, before and after the common ones. */
#include "kernels/cpu/avx2.h"

#define ROWS_MAX 6
#define INLINE static inline __attribute__((always_inline))

/* q of `rows` rows times 16 keys from key `key` (a multiple of 16). */
INLINE void score_tile(const struct attention_item *item, uint32_t row, int rows, uint32_t key)
{
    uint32_t head_dim = item->head_dim;
    const float *q = item->q + (size_t)row * head_dim;
    const float *k = item->k + (size_t)(key / SEGMENT_CHUNK) * head_dim * SEGMENT_CHUNK + key % SEGMENT_CHUNK;
    __m256 acc[ROWS_MAX][2];
    for (int r = 0; r < rows; r++)
        acc[r][0] = acc[r][1] = _mm256_setzero_ps();
    for (uint32_t dim = 0; dim < head_dim; dim++, k += SEGMENT_CHUNK) {
        __m256 low = _mm256_loadu_ps(k), high = _mm256_loadu_ps(k + 8);
        for (int r = 0; r < rows; r++) {
            __m256 broadcast = _mm256_set1_ps(q[(size_t)r * head_dim + dim]);
            acc[r][0] = _mm256_fmadd_ps(broadcast, low, acc[r][0]);
            acc[r][1] = _mm256_fmadd_ps(broadcast, high, acc[r][1]);
        }
    }
    float *weights = item->weights + (size_t)row * SEGMENT_TOKENS + key;
    for (int r = 0; r < rows; r++) {
        _mm256_storeu_ps(weights + (size_t)r * SEGMENT_TOKENS, acc[r][0]);
        _mm256_storeu_ps(weights + (size_t)r * SEGMENT_TOKENS + 8, acc[r][1]);
    }
}

/* The lanes of the 8 keys from `key` that lie in begin .. end - 1. */
INLINE __m256 key_mask(uint32_t key, uint32_t begin, uint32_t end)
{
    __m256i before_end = mask_below(end > key ? end - key : 0);
    __m256i before_begin = mask_below(begin > key ? begin - key : 0);
    return _mm256_castsi256_ps(_mm256_andnot_si256(before_begin, before_end));
}

INLINE float max_of_lanes(__m256 v)
{
    __m128 max = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    max = _mm_max_ps(max, _mm_movehl_ps(max, max));
    return _mm_cvtss_f32(_mm_max_ss(max, _mm_movehdup_ps(max)));
}

/* Scores to weights, in place; max and sum. */
static void softmax_row(const struct attention_item *item, uint32_t row)
{
    uint32_t begin = item->begin[row], end = item->end[row];
    float *weights = item->weights + (size_t)row * SEGMENT_TOKENS;
    __m256 lanes_max = _mm256_set1_ps(-INFINITY), sum[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
    for (uint32_t key = begin / 8 * 8; key < end; key += 8) {
        __m256 larger = _mm256_max_ps(_mm256_loadu_ps(weights + key), lanes_max);
        lanes_max = _mm256_blendv_ps(lanes_max, larger, key_mask(key, begin, end));
    }
    float max = max_of_lanes(lanes_max);
    for (uint32_t key = begin / 16 * 16; key < end; key += 16) {
        for (uint32_t part = 0; part < 2; part++) {
            uint32_t first = key + 8 * part;
            __m256 weight = exp_lanes(_mm256_sub_ps(_mm256_loadu_ps(weights + first), _mm256_set1_ps(max)));
            __m256 larger = _mm256_add_ps(sum[part], weight);
            sum[part] = _mm256_blendv_ps(sum[part], larger, key_mask(first, begin, end));
            _mm256_storeu_ps(weights + first, weight);
        }
    }
    item->max[row] = max;
    item->sum[row] = sum_lanes(sum[0], sum[1]);
}

/* out += weights x V for keys low .. high - 1 and 16 dims from `dim`. */
INLINE void output_tile(const struct attention_item *item, uint32_t row, int rows, uint32_t low, uint32_t high,
                        uint32_t dim)
{
    uint32_t head_dim = item->head_dim;
    float *out = item->out + (size_t)row * head_dim + dim;
    const float *weights = item->weights + (size_t)row * SEGMENT_TOKENS;
    __m256 acc[ROWS_MAX][2];
    for (int r = 0; r < rows; r++) {
        acc[r][0] = _mm256_loadu_ps(out + (size_t)r * head_dim);
        acc[r][1] = _mm256_loadu_ps(out + (size_t)r * head_dim + 8);
    }
    for (uint32_t key = low; key < high; key++) {
        const float *value = item->v + (size_t)key * head_dim + dim;
        __m256 first = _mm256_loadu_ps(value), second = _mm256_loadu_ps(value + 8);
        for (int r = 0; r < rows; r++) {
            __m256 weight = _mm256_set1_ps(weights[(size_t)r * SEGMENT_TOKENS + key]);
            acc[r][0] = _mm256_fmadd_ps(weight, first, acc[r][0]);
            acc[r][1] = _mm256_fmadd_ps(weight, second, acc[r][1]);
        }
    }
    for (int r = 0; r < rows; r++) {
        _mm256_storeu_ps(out + (size_t)r * head_dim, acc[r][0]);
        _mm256_storeu_ps(out + (size_t)r * head_dim + 8, acc[r][1]);
    }
}

INLINE void output_rows(const struct attention_item *item, uint32_t row, int rows, uint32_t low, uint32_t high)
{
    for (uint32_t dim = 0; dim < item->head_dim && low < high; dim += 16)
        output_tile(item, row, rows, low, high, dim);
}

static void output_row(const struct attention_item *item, uint32_t row, uint32_t low, uint32_t high)
{
    output_rows(item, row, 1, low, high);
}

INLINE void attend_rows(const struct attention_item *item, uint32_t row, int rows)
{
    uint32_t low = SEGMENT_TOKENS, high = 0, common_low = 0, common_high = SEGMENT_TOKENS;
    for (int r = 0; r < rows; r++) {
        uint32_t begin = item->begin[row + (uint32_t)r], end = item->end[row + (uint32_t)r];
        low = begin < low ? begin : low;
        high = end > high ? end : high;
        common_low = begin > common_low ? begin : common_low;
        common_high = end < common_high ? end : common_high;
    }
    common_high = common_high > common_low ? common_high : common_low;
    for (uint32_t key = low / 16 * 16; key < high; key += 16)
        score_tile(item, row, rows, key);
    for (int r = 0; r < rows; r++)
        softmax_row(item, row + (uint32_t)r);
    memset(item->out + (size_t)row * item->head_dim, 0, (size_t)rows * item->head_dim * sizeof(float));
    for (int r = 0; r < rows; r++) {
        uint32_t begin = item->begin[row + (uint32_t)r], end = item->end[row + (uint32_t)r];
        output_row(item, row + (uint32_t)r, begin, end < common_low ? end : common_low);
    }
    output_rows(item, row, rows, common_low, common_high);
    for (int r = 0; r < rows; r++) {
        uint32_t begin = item->begin[row + (uint32_t)r], end = item->end[row + (uint32_t)r];
        output_row(item, row + (uint32_t)r, begin > common_high ? begin : common_high, end);
    }
}

void attention_segment_avx2(const struct attention_item *item)
{
    uint32_t row = 0;
    for (; row + 6 <= item->rows; row += 6)
        attend_rows(item, row, 6);
    for (; row + 3 <= item->rows; row += 3)
        attend_rows(item, row, 3);
    for (; row < item->rows; row++)
        attend_rows(item, row, 1);
}

void attention_merge_avx2(const struct attention_merge *merge)
{
    float max = *merge->max > merge->next_max ? *merge->max : merge->next_max;
    float a = exp_f32(*merge->max - max);
    float b = exp_f32(merge->next_max - max);
    *merge->max = max;
    *merge->sum = fmaf(*merge->sum, a, merge->next_sum * b);
    for (uint32_t dim = 0; dim < merge->head_dim; dim += 8) {
        __m256 next = _mm256_mul_ps(_mm256_loadu_ps(merge->next_out + dim), _mm256_set1_ps(b));
        __m256 out = _mm256_fmadd_ps(_mm256_loadu_ps(merge->out + dim), _mm256_set1_ps(a), next);
        _mm256_storeu_ps(merge->out + dim, out);
    }
}
