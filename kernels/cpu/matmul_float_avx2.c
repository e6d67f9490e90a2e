/* Float activations times weights of any type, as binary32, with AVX2.
 *
 * The 16 virtual lanes of the contract are two registers. A tile is 2 outputs times 3 rows: 10 loads for 12
 * multiply-adds. Weights other than F32 are decoded once for all rows, a panel at a time. */
#include "kernels/cpu/avx2.h"
#include "kernels/cpu/expanded.h"

#define OUTPUTS 2
#define ROWS 3
#define INLINE static inline __attribute__((always_inline))

/* ---- decoding a panel to row-major floats ---- */

static void decode_f16(const uint16_t *from, uint32_t columns, float *to)
{
    uint32_t k = 0;
    for (; k + 8 <= columns; k += 8)
        _mm256_storeu_ps(to + k, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(from + k))));
    for (; k < columns; k++)
        to[k] = half_to_float(from[k]);
}

static void decode_bf16(const uint16_t *from, uint32_t columns, float *to)
{
    for (uint32_t k = 0; k < columns; k++)
        to[k] = bits_float((uint32_t)from[k] << 16);
}

/* 32 k of the 8 rows from `lane`: values[k] holds the rows' elements k. */
static void block_values(const struct matrix *matrix, const struct expanded_block *block, uint32_t lane,
                         float values[QUANT_BLOCK][8])
{
    enum quant_kind kind = matrix->quant->kind;
    __m256i offset = _mm256_set1_epi32(matrix->quant->offset);
    for (int k = 0; k < QUANT_BLOCK; k++) {
        const __m256i *half = (const __m256i *)(const void *)(block->half_scale[k / 16] + lane);
        const __m256i *operand = (const __m256i *)(const void *)(block->codes[k / 4] + 4 * lane);
        __m256 scale = _mm256_loadu_ps(block->scale + lane);
        if (kind == QUANT_SUPER_SCALE)
            scale = _mm256_mul_ps(scale, _mm256_cvtepi32_ps(_mm256_loadu_si256(half)));
        __m256i code = _mm256_srl_epi32(_mm256_loadu_si256(operand), _mm_cvtsi32_si128(k % 4 * 8));
        code = _mm256_sub_epi32(_mm256_and_si256(code, _mm256_set1_epi32(0xff)), offset);
        __m256 value = _mm256_mul_ps(scale, _mm256_cvtepi32_ps(code));
        if (kind == QUANT_SCALE_MIN || kind == QUANT_SUPER_SCALE_MIN)
            value = _mm256_add_ps(value, _mm256_loadu_ps(block->min + lane));
        _mm256_storeu_ps(values[k], value);
    }
}

static void decode_quantized(const struct matrix *matrix, uint32_t panel, struct expanded_block *blocks, float *to)
{
    const __m256i stride = _mm256_setr_epi32(0, 8, 16, 24, 32, 40, 48, 56);
    matmul_expand_avx2(matrix, panel, blocks);
    for (uint32_t b = 0; b < matrix->blocks; b++) {
        for (uint32_t row = 0; row < PANEL_ROWS; row += 8) {
            float values[QUANT_BLOCK][8];
            block_values(matrix, &blocks[b], row, values);
            for (uint32_t r = 0; r < 8; r++) {
                float *at = to + (size_t)(row + r) * matrix->columns + (size_t)b * QUANT_BLOCK;
                for (uint32_t k = 0; k < QUANT_BLOCK; k += 8)
                    _mm256_storeu_ps(at + k, _mm256_i32gather_ps(&values[k][r], stride, 4));
            }
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
        void *blocks = out + (size_t)PANEL_ROWS * matrix->columns;
        decode_quantized(matrix, item->panel, blocks, out);
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

/* acc + a * b in the lanes of the mask only. */
INLINE __m256 masked_add(__m256 acc, const float *a, const float *b, __m256i mask)
{
    __m256 sum = _mm256_fmadd_ps(_mm256_maskload_ps(a, mask), _mm256_maskload_ps(b, mask), acc);
    return _mm256_blendv_ps(acc, sum, _mm256_castsi256_ps(mask));
}

/* `outputs` rows of weights from `output` times `rows` rows of activations from `row`. */
INLINE void do_tile(const struct matmul_item *item, const float *weights, uint32_t output, uint32_t row, int outputs,
                    int rows)
{
    uint32_t columns = item->matrix->columns, k = 0;
    const float *w = weights + (size_t)(output % PANEL_ROWS) * columns;
    const float *x = item->input->floats + (size_t)row * columns;
    __m256 acc[OUTPUTS][ROWS][2];
    for (int o = 0; o < outputs; o++)
        for (int r = 0; r < rows; r++)
            acc[o][r][0] = acc[o][r][1] = _mm256_setzero_ps();
    for (; k + 16 <= columns; k += 16)
        for (int part = 0; part < 2; part++)
            for (int o = 0; o < outputs; o++) {
                __m256 b = _mm256_loadu_ps(w + (size_t)o * columns + k + 8 * part);
                for (int r = 0; r < rows; r++) {
                    __m256 a = _mm256_loadu_ps(x + (size_t)r * columns + k + 8 * part);
                    acc[o][r][part] = _mm256_fmadd_ps(b, a, acc[o][r][part]);
                }
            }
    for (int part = 0; k < columns; k += 8, part++) {
        __m256i mask = mask_below(columns - k);
        for (int o = 0; o < outputs; o++)
            for (int r = 0; r < rows; r++) {
                const float *a = x + (size_t)r * columns + k, *b = w + (size_t)o * columns + k;
                if (part == 0)
                    acc[o][r][0] = masked_add(acc[o][r][0], b, a, mask);
                else
                    acc[o][r][1] = masked_add(acc[o][r][1], b, a, mask);
            }
    }
    for (int o = 0; o < outputs; o++)
        for (int r = 0; r < rows; r++)
            matmul_store(item, row + (uint32_t)r, output + (uint32_t)o, sum_lanes(acc[o][r][0], acc[o][r][1]));
}

void matmul_float_avx2(const struct matmul_item *item)
{
    uint32_t first = item->panel * PANEL_ROWS, left = item->matrix->rows - first;
    uint32_t outputs_end = first + (left < PANEL_ROWS ? left : PANEL_ROWS);
    uint32_t end = item->first_row + item->rows, row = item->first_row;
    const float *weights = panel_floats(item, outputs_end - first);
    for (; row < end; row += row + ROWS <= end ? ROWS : 1) {
        uint32_t output = first;
        for (; output < outputs_end; output += output + OUTPUTS <= outputs_end ? OUTPUTS : 1) {
            bool whole_outputs = output + OUTPUTS <= outputs_end, whole_rows = row + ROWS <= end;
            if (whole_outputs && whole_rows)
                do_tile(item, weights, output, row, OUTPUTS, ROWS);
            else if (whole_outputs)
                do_tile(item, weights, output, row, OUTPUTS, 1);
            else if (whole_rows)
                do_tile(item, weights, output, row, 1, ROWS);
            else
                do_tile(item, weights, output, row, 1, 1);
        }
    }
}
