/* Float activations times weights of any type, as binary32, with AVX-512.
 *
 * The 16 virtual lanes of the contract are the lanes of a register. A tile is 4 outputs times 4 rows: 8 loads for 16
 * multiply-adds. 16-bit weights are widened as they are loaded while the rows are few; otherwise, and in quantized
 * types, a panel is decoded once for all rows. */
#include "kernels/cpu/avx512.h"
#include "kernels/cpu/expanded.h"

#define TILE 4
#define DIRECT_ROWS_MAX 2
#define INLINE static inline __attribute__((always_inline))

/* ---- decoding a panel to row-major floats ---- */

/* 16 weights of a float type from element `at`. */
INLINE __m512 load_weights(const void *weights, enum tensor_type type, size_t at)
{
    if (type == TENSOR_F32)
        return _mm512_loadu_ps((const float *)weights + at);
    __m256i halves = _mm256_loadu_si256((const __m256i *)(const void *)((const uint16_t *)weights + at));
    if (type == TENSOR_F16)
        return _mm512_cvtph_ps(halves);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
}

/* Those of the mask only. */
INLINE __m512 load_weights_masked(const void *weights, enum tensor_type type, size_t at, __mmask16 mask)
{
    if (type == TENSOR_F32)
        return _mm512_maskz_loadu_ps(mask, (const float *)weights + at);
    __m256i halves = _mm256_maskz_loadu_epi16(mask, (const uint16_t *)weights + at);
    if (type == TENSOR_F16)
        return _mm512_cvtph_ps(halves);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
}

static void decode_floats(const void *weights, enum tensor_type type, size_t count, float *to)
{
    for (size_t k = 0; k < count; k += 16) {
        __mmask16 mask = mask_below(count - k < 16 ? (uint32_t)(count - k) : 16);
        _mm512_mask_storeu_ps(to + k, mask, load_weights_masked(weights, type, k, mask));
    }
}

/* 32 k of 16 rows: values[k] holds the rows' elements k. */
static void block_values(const struct matrix *matrix, const struct expanded_block *block, float values[QUANT_BLOCK][16])
{
    enum quant_kind kind = matrix->quant->kind;
    __m512i offset = _mm512_set1_epi32(matrix->quant->offset);
    for (int k = 0; k < QUANT_BLOCK; k++) {
        __m512 scale = _mm512_loadu_ps(block->scale);
        if (kind == QUANT_SUPER_SCALE)
            scale = _mm512_mul_ps(scale, _mm512_cvtepi32_ps(_mm512_loadu_si512(block->half_scale[k / 16])));
        __m512i operand = _mm512_loadu_si512(block->codes[k / 4]);
        __m512i code = _mm512_and_si512(_mm512_srli_epi32(operand, (unsigned)(k % 4 * 8)), _mm512_set1_epi32(0xff));
        __m512 value = _mm512_mul_ps(scale, _mm512_cvtepi32_ps(_mm512_sub_epi32(code, offset)));
        if (kind == QUANT_SCALE_MIN || kind == QUANT_SUPER_SCALE_MIN)
            value = _mm512_add_ps(value, _mm512_loadu_ps(block->min));
        _mm512_storeu_ps(values[k], value);
    }
}

static void decode_quantized(const struct matrix *matrix, uint32_t panel, struct expanded_block *blocks, float *to)
{
    const __m512i stride = _mm512_mullo_epi32(_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
                                              _mm512_set1_epi32(16));
    matmul_expand_avx512(matrix, panel, blocks);
    for (uint32_t b = 0; b < matrix->blocks; b++) {
        float values[QUANT_BLOCK][16];
        block_values(matrix, &blocks[b], values);
        for (uint32_t row = 0; row < PANEL_ROWS; row++) {
            float *at = to + (size_t)row * matrix->columns + (size_t)b * QUANT_BLOCK;
            _mm512_storeu_ps(at, _mm512_i32gather_ps(stride, &values[0][row], 4));
            _mm512_storeu_ps(at + 16, _mm512_i32gather_ps(stride, &values[16][row], 4));
        }
    }
}

/* The panel's rows as (rows, columns) floats, in the scratch. */
static const float *decode_panel(const struct matmul_item *item, const void *data, uint32_t rows)
{
    const struct matrix *matrix = item->matrix;
    float *out = item->scratch;
    void *blocks = out + (size_t)PANEL_ROWS * matrix->columns;
    if (matrix->quant->kind != QUANT_NONE)
        decode_quantized(matrix, item->panel, blocks, out);
    else
        decode_floats(data, matrix->type, (size_t)rows * matrix->columns, out);
    return out;
}

/* ---- the dots ---- */

/* `outputs` rows of weights from `output` times `rows` rows of activations from `row`. `weights`: the panel's. */
INLINE void do_tile(const struct matmul_item *item, const void *weights, enum tensor_type type, uint32_t output,
                    uint32_t row, int outputs, int rows)
{
    uint32_t columns = item->matrix->columns;
    size_t w = (size_t)(output % PANEL_ROWS) * columns;
    const float *x = item->input->floats + (size_t)row * columns;
    __m512 acc[TILE][TILE];
    for (int o = 0; o < outputs; o++)
        for (int r = 0; r < rows; r++)
            acc[o][r] = _mm512_setzero_ps();
    uint32_t k = 0;
    for (; k + 16 <= columns; k += 16) {
        __m512 a[TILE];
        for (int r = 0; r < rows; r++)
            a[r] = _mm512_loadu_ps(x + (size_t)r * columns + k);
        for (int o = 0; o < outputs; o++) {
            __m512 b = load_weights(weights, type, w + (size_t)o * columns + k);
            for (int r = 0; r < rows; r++)
                acc[o][r] = _mm512_fmadd_ps(b, a[r], acc[o][r]);
        }
    }
    if (k < columns) {
        __mmask16 mask = mask_below(columns - k);
        for (int o = 0; o < outputs; o++) {
            __m512 b = load_weights_masked(weights, type, w + (size_t)o * columns + k, mask);
            for (int r = 0; r < rows; r++) {
                __m512 a = _mm512_maskz_loadu_ps(mask, x + (size_t)r * columns + k);
                acc[o][r] = _mm512_mask3_fmadd_ps(b, a, acc[o][r], mask);
            }
        }
    }
    for (int o = 0; o < outputs; o++)
        for (int r = 0; r < rows; r++)
            matmul_store(item, row + (uint32_t)r, output + (uint32_t)o, sum_lanes(acc[o][r]));
}

/* All rows times the outputs of the panel. */
INLINE void do_panel(const struct matmul_item *item, const void *weights, enum tensor_type type, uint32_t outputs)
{
    uint32_t first = item->panel * PANEL_ROWS, outputs_end = first + outputs;
    uint32_t end = item->first_row + item->rows, row = item->first_row;
    for (; row < end; row += row + TILE <= end ? TILE : 1) {
        uint32_t output = first;
        for (; output < outputs_end; output += output + TILE <= outputs_end ? TILE : 1) {
            bool whole_outputs = output + TILE <= outputs_end, whole_rows = row + TILE <= end;
            if (whole_outputs && whole_rows)
                do_tile(item, weights, type, output, row, TILE, TILE);
            else if (whole_outputs)
                do_tile(item, weights, type, output, row, TILE, 1);
            else if (whole_rows)
                do_tile(item, weights, type, output, row, 1, TILE);
            else
                do_tile(item, weights, type, output, row, 1, 1);
        }
    }
}

/* Apart from each other: together in one function they would not get enough registers. */
#define APART static __attribute__((noinline))

APART void do_panel_f32(const struct matmul_item *item, const float *weights, uint32_t outputs)
{
    do_panel(item, weights, TENSOR_F32, outputs);
}

APART void do_panel_f16(const struct matmul_item *item, const void *weights, uint32_t outputs)
{
    do_panel(item, weights, TENSOR_F16, outputs);
}

APART void do_panel_bf16(const struct matmul_item *item, const void *weights, uint32_t outputs)
{
    do_panel(item, weights, TENSOR_BF16, outputs);
}

void matmul_float_avx512(const struct matmul_item *item)
{
    const struct matrix *matrix = item->matrix;
    const void *data = matrix->data + item->panel * matrix->panel_bytes;
    uint32_t left = matrix->rows - item->panel * PANEL_ROWS;
    uint32_t outputs = left < PANEL_ROWS ? left : PANEL_ROWS;
    if (matrix->type == TENSOR_F32)
        do_panel_f32(item, data, outputs);
    else if (matrix->type == TENSOR_F16 && item->rows <= DIRECT_ROWS_MAX)
        do_panel_f16(item, data, outputs);
    else if (matrix->type == TENSOR_BF16 && item->rows <= DIRECT_ROWS_MAX)
        do_panel_bf16(item, data, outputs);
    else
        do_panel_f32(item, decode_panel(item, data, outputs), outputs);
}
