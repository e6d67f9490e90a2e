/* Attention over one segment with AVX-512.
 *
 * Scores: 16 keys a register, a chain over dims; a tile is up to 6 query rows times 64 keys, 10 loads for 24
 * multiply-adds. Output: 16 dims a register, a chain over keys; a tile is the same rows times 64 dims. Keys that only
 * some rows of a tile see (the diagonal, a window's edge) are done row by row, before and after the common ones. */
#include "kernels/cpu/avx512.h"

#define ROWS_MAX 6
#define INLINE static inline __attribute__((always_inline))

/* q of `rows` rows times `vectors` x 16 keys from key `key` (a multiple of 16, within one chunk). */
INLINE void score_tile(const struct attention_item *item, uint32_t row, int rows, uint32_t key, int vectors)
{
    uint32_t head_dim = item->head_dim;
    const float *q = item->q + (size_t)row * head_dim;
    const float *k = item->k + (size_t)(key / SEGMENT_CHUNK) * head_dim * SEGMENT_CHUNK + key % SEGMENT_CHUNK;
    __m512 acc[ROWS_MAX][4];
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < vectors; v++)
            acc[r][v] = _mm512_setzero_ps();
    for (uint32_t dim = 0; dim < head_dim; dim++, k += SEGMENT_CHUNK) {
        __m512 keys[4];
        for (int v = 0; v < vectors; v++)
            keys[v] = _mm512_loadu_ps(k + 16 * v);
        for (int r = 0; r < rows; r++) {
            __m512 broadcast = _mm512_set1_ps(q[(size_t)r * head_dim + dim]);
            for (int v = 0; v < vectors; v++)
                acc[r][v] = _mm512_fmadd_ps(broadcast, keys[v], acc[r][v]);
        }
    }
    float *weights = item->weights + (size_t)row * SEGMENT_TOKENS + key;
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < vectors; v++)
            _mm512_storeu_ps(weights + (size_t)r * SEGMENT_TOKENS + 16 * v, acc[r][v]);
}

/* Scores of keys low .. high - 1, and of some around them that nobody looks at. */
INLINE void score_rows(const struct attention_item *item, uint32_t row, int rows, uint32_t low, uint32_t high)
{
    for (uint32_t chunk = low / SEGMENT_CHUNK * SEGMENT_CHUNK; chunk < high; chunk += SEGMENT_CHUNK) {
        uint32_t first = low > chunk ? (low - chunk) / 16 : 0;
        uint32_t end = high - chunk < SEGMENT_CHUNK ? (high - chunk + 15) / 16 : SEGMENT_CHUNK / 16;
        if (end - first > 2)
            score_tile(item, row, rows, chunk, 4);
        else if (end - first == 2)
            score_tile(item, row, rows, chunk + 16 * first, 2);
        else
            score_tile(item, row, rows, chunk + 16 * first, 1);
    }
}

/* The lanes of the 16 keys from `key` that lie in begin .. end - 1. */
INLINE __mmask16 key_mask(uint32_t key, uint32_t begin, uint32_t end)
{
    __mmask16 mask = mask_below(end - key);
    return begin > key ? (__mmask16)(mask & ~mask_below(begin - key)) : mask;
}

/* Scores to weights, in place; max and sum. */
static void softmax_row(const struct attention_item *item, uint32_t row)
{
    uint32_t begin = item->begin[row], end = item->end[row];
    float *weights = item->weights + (size_t)row * SEGMENT_TOKENS;
    __m512 lanes_max = _mm512_set1_ps(-INFINITY), sum = _mm512_setzero_ps();
    for (uint32_t key = begin / 16 * 16; key < end; key += 16)
        lanes_max = _mm512_mask_max_ps(lanes_max, key_mask(key, begin, end), _mm512_loadu_ps(weights + key), lanes_max);
    float max = _mm512_reduce_max_ps(lanes_max);
    for (uint32_t key = begin / 16 * 16; key < end; key += 16) {
        __m512 weight = exp_lanes(_mm512_sub_ps(_mm512_loadu_ps(weights + key), _mm512_set1_ps(max)));
        sum = _mm512_mask_add_ps(sum, key_mask(key, begin, end), sum, weight);
        _mm512_storeu_ps(weights + key, weight);
    }
    item->max[row] = max;
    item->sum[row] = sum_lanes(sum);
}

/* out += weights x V for keys low .. high - 1 and `vectors` x 16 dims from `dim`. */
INLINE void output_tile(const struct attention_item *item, uint32_t row, int rows, uint32_t low, uint32_t high,
                        uint32_t dim, int vectors)
{
    uint32_t head_dim = item->head_dim;
    float *out = item->out + (size_t)row * head_dim + dim;
    const float *weights = item->weights + (size_t)row * SEGMENT_TOKENS;
    __m512 acc[ROWS_MAX][4];
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < vectors; v++)
            acc[r][v] = _mm512_loadu_ps(out + (size_t)r * head_dim + 16 * v);
    for (uint32_t key = low; key < high; key++) {
        const float *value = item->v + (size_t)key * head_dim + dim;
        __m512 values[4];
        for (int v = 0; v < vectors; v++)
            values[v] = _mm512_loadu_ps(value + 16 * v);
        for (int r = 0; r < rows; r++) {
            __m512 weight = _mm512_set1_ps(weights[(size_t)r * SEGMENT_TOKENS + key]);
            for (int v = 0; v < vectors; v++)
                acc[r][v] = _mm512_fmadd_ps(weight, values[v], acc[r][v]);
        }
    }
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < vectors; v++)
            _mm512_storeu_ps(out + (size_t)r * head_dim + 16 * v, acc[r][v]);
}

INLINE void output_rows(const struct attention_item *item, uint32_t row, int rows, uint32_t low, uint32_t high)
{
    uint32_t dim = 0;
    if (low >= high)
        return;
    for (; dim + 64 <= item->head_dim; dim += 64)
        output_tile(item, row, rows, low, high, dim, 4);
    for (; dim < item->head_dim; dim += 16)
        output_tile(item, row, rows, low, high, dim, 1);
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
    if (low >= high)
        return;
    common_high = common_high > common_low ? common_high : common_low;
    score_rows(item, row, rows, low, high);
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

void attention_segment_avx512(const struct attention_item *item)
{
    uint32_t row = 0;
    for (; row + 6 <= item->rows; row += 6)
        attend_rows(item, row, 6);
    switch (item->rows - row) {
    case 5:
        attend_rows(item, row, 5);
        break;
    case 4:
        attend_rows(item, row, 4);
        break;
    case 3:
        attend_rows(item, row, 3);
        break;
    case 2:
        attend_rows(item, row, 2);
        break;
    case 1:
        attend_rows(item, row, 1);
        break;
    default:
        break;
    }
}

void attention_merge_avx512(const struct attention_merge *merge)
{
    float max = *merge->max > merge->next_max ? *merge->max : merge->next_max;
    float a = exp_f32(*merge->max - max);
    float b = exp_f32(merge->next_max - max);
    *merge->max = max;
    *merge->sum = fmaf(*merge->sum, a, merge->next_sum * b);
    for (uint32_t dim = 0; dim < merge->head_dim; dim += 16) {
        __m512 next = _mm512_mul_ps(_mm512_loadu_ps(merge->next_out + dim), _mm512_set1_ps(b));
        __m512 out = _mm512_fmadd_ps(_mm512_loadu_ps(merge->out + dim), _mm512_set1_ps(a), next);
        _mm512_storeu_ps(merge->out + dim, out);
    }
}
