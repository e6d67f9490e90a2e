/* Float activations times weights of any type, as binary32, with AVX-512.
 *
 * The 16 virtual lanes of the contract are the lanes of a register. A tile is 4 outputs times 4 rows: 8 loads for 16
 * multiply-adds. Weights other than F32 are decoded once for all rows, a panel at a time. */
#include "kernels/cpu/avx512.h"
#include "kernels/cpu/expanded.h"

#define TILE 4
#define INLINE static inline __attribute__((always_inline))

/* ---- decoding a panel to row-major floats ---- */

static void decode_f16(const uint16_t *from, uint32_t columns, float *to)
{
    for (uint32_t k = 0; k < columns; k += 16) {
        __mmask16 mask = mask_below(columns - k);
        _mm512_mask_storeu_ps(to + k, mask, _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(mask, from + k)));
    }
}

static void decode_bf16(const uint16_t *from, uint32_t columns, float *to)
{
    for (uint32_t k = 0; k < columns; k += 16) {
        __mmask16 mask = mask_below(columns - k);
        __m512i wide = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, from + k));
        _mm512_mask_storeu_ps(to + k, mask, _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16)));
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
    const __m512i stride = _mm512_mullo_epi32(
        _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15), _mm512_set1_epi32(16));
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

/* The panel's rows as (rows, columns) floats: in place, or in the scratch. */
static const float *panel_floats(const struct matmul_item *item, uint32_t rows)
{
    const struct matrix *matrix = item->matrix;
    const uint8_t *data = matrix->data + item->panel * matrix->panel_bytes;
    float *out = item->scratch;
    if (matrix->type == TENSOR_F32)
        return (const float *)(const void *)data;
    if (matrix->quant->kind != QUANT_NONE) {
        decode_quantized(matrix, item->panel, (struct expanded_block *)(void *)(out + PANEL_ROWS * matrix->columns), out);
        return out;
    }
    for (uint32_t row = 0; row < rows; row++) {
        const uint16_t *from = (const uint16_t *)(const void *)data + (size_t)row * matrix->columns;
        float *to = out + (size_t)row * matrix->columns;
        if (matrix->type == TENSOR_F16)
            decode_f16(from, matrix->columns, to);
        else
            decode_bf16(from, matrix->columns, to);
    }
    return out;
}

/* ---- the dots ---- */

static void store_one(const struct matmul_item *item, uint32_t row, uint32_t output, float value)
{
    float *out = item->out + (size_t)row * item->matrix->rows + output;
    if (item->bias != NULL)
        value += item->bias[output];
    *out = item->accumulate ? *out + value : value;
}

/* `outputs` rows of weights from `output` times `rows` rows of activations from `row`. */
INLINE void do_tile(const struct matmul_item *item, const float *weights, uint32_t output, uint32_t row, int outputs,
                    int rows)
{
    uint32_t columns = item->matrix->columns;
    const float *w = weights + (size_t)(output % PANEL_ROWS) * columns;
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
            __m512 b = _mm512_loadu_ps(w + (size_t)o * columns + k);
            for (int r = 0; r < rows; r++)
                acc[o][r] = _mm512_fmadd_ps(b, a[r], acc[o][r]);
        }
    }
    if (k < columns) {
        __mmask16 mask = mask_below(columns - k);
        for (int o = 0; o < outputs; o++) {
            __m512 b = _mm512_maskz_loadu_ps(mask, w + (size_t)o * columns + k);
            for (int r = 0; r < rows; r++) {
                __m512 a = _mm512_maskz_loadu_ps(mask, x + (size_t)r * columns + k);
                acc[o][r] = _mm512_mask3_fmadd_ps(b, a, acc[o][r], mask);
            }
        }
    }
    for (int o = 0; o < outputs; o++)
        for (int r = 0; r < rows; r++)
            store_one(item, row + (uint32_t)r, output + (uint32_t)o, sum_lanes(acc[o][r]));
}

void matmul_float_avx512(const struct matmul_item *item)
{
    uint32_t first = item->panel * PANEL_ROWS, left = item->matrix->rows - first;
    uint32_t outputs_end = first + (left < PANEL_ROWS ? left : PANEL_ROWS);
    uint32_t end = item->first_row + item->rows, row = item->first_row;
    const float *weights = panel_floats(item, outputs_end - first);
    for (; row < end; row += row + TILE <= end ? TILE : 1) {
        uint32_t output = first;
        for (; output < outputs_end; output += output + TILE <= outputs_end ? TILE : 1) {
            bool whole_outputs = output + TILE <= outputs_end, whole_rows = row + TILE <= end;
            if (whole_outputs && whole_rows)
                do_tile(item, weights, output, row, TILE, TILE);
            else if (whole_outputs)
                do_tile(item, weights, output, row, TILE, 1);
            else if (whole_rows)
                do_tile(item, weights, output, row, 1, TILE);
            else
                do_tile(item, weights, output, row, 1, 1);
        }
    }
}
