/* Matrix products, plainly: the twin that the fast variants are compared with. */
#include "kernels/cpu/lanes.h"
#include "kernels/cpu/scalar.h"

#define ROWS_AT_ONCE 64 /* activation rows a decoded weight row is used for */

static int32_t dot_half(const uint8_t *codes, int32_t offset, const int8_t *q)
{
    int32_t sum = 0;
    for (int i = 0; i < QUANT_BLOCK / 2; i++)
        sum += (codes[i] - offset) * q[i];
    return sum;
}

/* acc + one block, as the arithmetic contract says. */
static float add_block(float acc, const struct quant_facts *quant, const struct quant_block *weights, const int8_t *q,
                       const struct activation_meta *meta)
{
    int32_t first = dot_half(weights->codes, quant->offset, q);
    int32_t second = dot_half(weights->codes + 16, quant->offset, q + 16);
    int32_t sum = first + second;
    if (quant->kind == QUANT_SUPER_SCALE)
        sum = weights->half_scale[0] * first + weights->half_scale[1] * second;
    acc = fmaf((float)sum, quant_block_scale(quant, weights) * meta->scale, acc);
    if (quant->kind == QUANT_SCALE_MIN || quant->kind == QUANT_SUPER_SCALE_MIN)
        acc = fmaf(quant_block_min(quant, weights), meta->block_sum, acc);
    return acc;
}

static void dot_row_int8(const struct matmul_item *item, uint32_t output, uint32_t first, uint32_t rows)
{
    float acc[ROWS_AT_ONCE] = {0};
    for (uint32_t b = 0; b < item->matrix->blocks; b++) {
        struct quant_block weights;
        matrix_block_read(item->matrix, output, b, &weights);
        for (uint32_t i = 0; i < rows; i++) {
            const struct activation_block *x = activations_group(item->input, first + i) + b;
            uint32_t lane = (first + i) % ACTIVATION_GROUP;
            acc[i] = add_block(acc[i], item->matrix->quant, &weights, x->q[lane], &x->meta[lane]);
        }
    }
    for (uint32_t i = 0; i < rows; i++)
        matmul_store(item, first + i, output, acc[i]);
}

static uint32_t panel_end(const struct matmul_item *item)
{
    uint32_t end = (item->panel + 1) * PANEL_ROWS;
    return end < item->matrix->rows ? end : item->matrix->rows;
}

void matmul_int8_scalar(const struct matmul_item *item)
{
    uint32_t end = item->first_row + item->rows;
    for (uint32_t output = item->panel * PANEL_ROWS; output < panel_end(item); output++) {
        for (uint32_t first = item->first_row; first < end; first += ROWS_AT_ONCE)
            dot_row_int8(item, output, first, end - first < ROWS_AT_ONCE ? end - first : ROWS_AT_ONCE);
    }
}

static float dot(const float *a, const float *b, uint32_t count)
{
    float lanes[LANES] = {0};
    for (uint32_t k = 0; k < count; k++)
        lanes[k % LANES] = fmaf(a[k], b[k], lanes[k % LANES]);
    return lanes_sum(lanes);
}

void matmul_float_scalar(const struct matmul_item *item)
{
    float *weights = item->scratch; /* (columns) */
    uint32_t columns = item->matrix->columns;
    for (uint32_t output = item->panel * PANEL_ROWS; output < panel_end(item); output++) {
        matrix_row_read(item->matrix, output, weights);
        for (uint32_t row = item->first_row; row < item->first_row + item->rows; row++)
            matmul_store(item, row, output, dot(weights, item->input->floats + (size_t)row * columns, columns));
    }
}
