/* Packing matrices into the layout of cpu.h, and reading single blocks and rows back out of it. */
#include <stdlib.h>
#include <string.h>

#include "kernels/base/check.h"
#include "kernels/base/size.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/half.h"

#define OPERAND_BYTES 64
#define LOAD_SLACK 64 /* vector loads may run past the last element */

static uint32_t code_bytes(const struct quant_facts *quant)
{
    return quant->bits * QUANT_BLOCK * PANEL_ROWS / 8;
}

static size_t scale_bytes(const struct quant_facts *quant, uint32_t blocks)
{
    switch (quant->kind) {
    case QUANT_SCALE:
        return (size_t)blocks * 32;
    case QUANT_SCALE_MIN:
        return (size_t)blocks * 64;
    case QUANT_SUPER_SCALE_MIN:
        return (size_t)(blocks / QUANT_SUPER) * (64 + QUANT_SUPER * 32);
    default:
        return (size_t)(blocks / QUANT_SUPER) * (32 + QUANT_SUPER * 32);
    }
}

/* Element k of a row sits in operand k / 4, byte 4 * row + k % 4. */
static void put_code(uint8_t *codes, uint32_t bits, uint32_t row, uint32_t k, uint8_t code)
{
    uint32_t operand = k / 4, byte = 4 * row + k % 4;
    if (bits == 8) {
        codes[operand * OPERAND_BYTES + byte] = code;
        return;
    }
    codes[operand / 2 * OPERAND_BYTES + byte] |= (uint8_t)((code & 0x0f) << operand % 2 * 4);
    uint8_t *high = codes + 4 * OPERAND_BYTES;
    if (bits == 5)
        high[byte] |= (uint8_t)(code >> 4 << operand);
    else if (bits == 6)
        high[operand / 4 * OPERAND_BYTES + byte] |= (uint8_t)(code >> 4 << operand % 4 * 2);
}

static uint8_t get_code(const uint8_t *codes, uint32_t bits, uint32_t row, uint32_t k)
{
    uint32_t operand = k / 4, byte = 4 * row + k % 4;
    if (bits == 8)
        return codes[operand * OPERAND_BYTES + byte];
    uint8_t low = codes[operand / 2 * OPERAND_BYTES + byte] >> operand % 2 * 4 & 0x0f;
    const uint8_t *high = codes + 4 * OPERAND_BYTES;
    if (bits == 5)
        return (uint8_t)(low | (high[byte] >> operand & 1) << 4);
    if (bits == 6)
        return (uint8_t)(low | (high[operand / 4 * OPERAND_BYTES + byte] >> operand % 4 * 2 & 3) << 4);
    return low;
}

static void put_half(uint8_t *halves, uint32_t row, uint16_t value)
{
    memcpy(halves + row * 2, &value, 2);
}

static uint16_t get_half(const uint8_t *halves, uint32_t row)
{
    uint16_t value;
    memcpy(&value, halves + row * 2, 2);
    return value;
}

static void put_scales(uint8_t *scales, enum quant_kind kind, uint32_t row, uint32_t sub,
                       const struct quant_block *block)
{
    put_half(scales, row, block->scale);
    if (kind == QUANT_SCALE_MIN)
        put_half(scales + 32, row, block->min);
    if (kind == QUANT_SUPER_SCALE_MIN) {
        put_half(scales + 32, row, block->min);
        scales[64 + sub * 32 + row] = block->sub_scale;
        scales[64 + sub * 32 + 16 + row] = block->sub_min;
    }
    if (kind == QUANT_SUPER_SCALE) {
        scales[32 + sub * 32 + row] = (uint8_t)block->half_scale[0];
        scales[32 + sub * 32 + 16 + row] = (uint8_t)block->half_scale[1];
    }
}

void matrix_block_read(const struct matrix *matrix, uint32_t row, uint32_t block, struct quant_block *out)
{
    uint32_t panel = row / PANEL_ROWS, lane = row % PANEL_ROWS, sub = block % QUANT_SUPER;
    const uint8_t *codes = matrix_codes(matrix, panel, block);
    const uint8_t *scales = matrix_scales(matrix, panel, block);

    *out = (struct quant_block){.scale = get_half(scales, lane)};
    for (uint32_t k = 0; k < QUANT_BLOCK; k++)
        out->codes[k] = get_code(codes, matrix->quant->bits, lane, k);
    if (matrix->quant->kind == QUANT_SCALE_MIN || matrix->quant->kind == QUANT_SUPER_SCALE_MIN)
        out->min = get_half(scales + 32, lane);
    if (matrix->quant->kind == QUANT_SUPER_SCALE_MIN) {
        out->sub_scale = scales[64 + sub * 32 + lane];
        out->sub_min = scales[64 + sub * 32 + 16 + lane];
    }
    if (matrix->quant->kind == QUANT_SUPER_SCALE) {
        out->half_scale[0] = (int8_t)scales[32 + sub * 32 + lane];
        out->half_scale[1] = (int8_t)scales[32 + sub * 32 + 16 + lane];
    }
}

void matrix_row_read(const struct matrix *matrix, uint32_t row, float *out)
{
    CHECK(row < matrix->rows);
    if (matrix->quant->kind == QUANT_NONE) {
        size_t row_bytes = (size_t)matrix->columns * tensor_type_facts(matrix->type)->block_bytes;
        tensor_dequantize(matrix->type, matrix->data + row * row_bytes, matrix->columns, out);
        return;
    }
    for (uint32_t b = 0; b < matrix->blocks; b++) {
        struct quant_block block;
        matrix_block_read(matrix, row, b, &block);
        quant_block_values(matrix->quant, &block, out + (size_t)b * QUANT_BLOCK);
    }
}

struct pack_job {
    const struct tensor_view *view;
    struct matrix *matrix;
    size_t row_bytes; /* in the file */
    uint32_t workers;
};

static void pack_panel(const struct pack_job *job, uint32_t panel)
{
    struct matrix *matrix = job->matrix;
    const uint8_t *source = job->view->data;
    uint8_t *data = matrix->data + panel * matrix->panel_bytes;
    for (uint32_t lane = 0; lane < PANEL_ROWS; lane++) {
        uint32_t row = panel * PANEL_ROWS + lane;
        if (row >= matrix->rows)
            return;
        for (uint32_t b = 0; b < matrix->blocks; b++) {
            struct quant_block block;
            uint8_t *codes = data + (size_t)b * matrix->code_bytes;
            uint8_t *scales = data + (matrix_scales(matrix, panel, b) - data);
            quant_block_read(matrix->type, source + row * job->row_bytes, b, &block);
            for (uint32_t k = 0; k < QUANT_BLOCK; k++)
                put_code(codes, matrix->quant->bits, lane, k, block.codes[k]);
            put_scales(scales, matrix->quant->kind, lane, b % QUANT_SUPER, &block);
        }
    }
}

static void pack_share(void *context, uint32_t worker)
{
    const struct pack_job *job = context;
    uint32_t end = pool_share(job->matrix->panels, worker + 1, job->workers);
    for (uint32_t panel = pool_share(job->matrix->panels, worker, job->workers); panel < end; panel++)
        pack_panel(job, panel);
}

static enum status check_view(const struct tensor_view *view, struct error *error)
{
    const struct tensor_type_facts *facts = tensor_type_facts(view->type);
    if (facts->name == NULL)
        return error_set(error, STATUS_UNSUPPORTED, "tensor type %d is not supported", (int)view->type);
    if (view->rows == 0 || view->columns == 0 || view->columns % facts->block_elements != 0)
        return error_set(error, STATUS_INVALID, "a %s matrix has the shape (%u, %u); its rows must be blocks of %u",
                         facts->name, view->rows, view->columns, facts->block_elements);
    return STATUS_OK;
}

enum status cpu_matrix_pack(struct kernels *kernels, const struct tensor_view *view, struct matrix **out,
                            struct error *error)
{
    *out = NULL;
    enum status status = check_view(view, error);
    if (status != STATUS_OK)
        return status;
    const struct tensor_type_facts *facts = tensor_type_facts(view->type);
    size_t row_bytes = (size_t)view->columns / facts->block_elements * facts->block_bytes;
    struct matrix *matrix = calloc(1, sizeof(*matrix));
    if (matrix == NULL)
        return error_no_memory(error, "a matrix");
    *matrix = (struct matrix){
        .type = view->type,
        .quant = quant_facts(view->type),
        .rows = view->rows,
        .columns = view->columns,
        .panels = (view->rows - 1) / PANEL_ROWS + 1,
    };
    if (matrix->quant->kind == QUANT_NONE) {
        matrix->panel_bytes = row_bytes * PANEL_ROWS;
        matrix->bytes = row_bytes * view->rows + LOAD_SLACK;
    } else {
        matrix->blocks = view->columns / QUANT_BLOCK;
        matrix->code_bytes = code_bytes(matrix->quant);
        matrix->scales_offset = (size_t)matrix->blocks * matrix->code_bytes;
        matrix->panel_bytes = matrix->scales_offset + size_round_up(scale_bytes(matrix->quant, matrix->blocks), 64);
        matrix->bytes = matrix->panel_bytes * matrix->panels;
    }
    matrix->data = cpu_take(matrix->bytes, &kernels->memory.weights_bytes);
    if (matrix->data == NULL) {
        free(matrix);
        return error_set(error, STATUS_NO_MEMORY, "no memory for a matrix of %u rows and %u columns", view->rows,
                         view->columns);
    }
    kernels->taken++;
    status = cpu_scratch_reserve(kernels, cpu_matmul_scratch(kernels, matrix), error);
    if (status != STATUS_OK) {
        cpu_matrix_free(kernels, matrix);
        return status;
    }
    if (matrix->quant->kind == QUANT_NONE) {
        memcpy(matrix->data, view->data, row_bytes * view->rows);
    } else {
        struct pack_job job = {view, matrix, row_bytes, kernels->workers};
        pool_run(kernels->pool, pack_share, &job);
    }
    *out = matrix;
    return STATUS_OK;
}

void cpu_matrix_free(struct kernels *kernels, struct matrix *matrix)
{
    if (matrix == NULL)
        return;
    cpu_give(matrix->data, matrix->bytes, &kernels->memory.weights_bytes);
    kernels->taken--;
    free(matrix);
}
