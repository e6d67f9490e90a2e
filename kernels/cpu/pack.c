/* Packing matrices into the layout of cpu.h, and reading single blocks and rows back out of it. */
#include <stdlib.h>
#include <string.h>

#include "kernels/base/check.h"
#include "kernels/base/size.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/half.h"

#define OPERANDS 8
#define OPERAND_BYTES 64
#define LOW_NIBBLES 0x0f0f0f0fu
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

static uint32_t load_four(const uint8_t *bytes)
{
    uint32_t word;
    memcpy(&word, bytes, sizeof(word));
    return word;
}

static void store_four(uint8_t *bytes, uint32_t word)
{
    memcpy(bytes, &word, sizeof(word));
}

/* A row has four bytes in each operand, from byte 4 * row: handled together, as the four codes of a word. */
static void put_codes(uint8_t *packed, uint32_t bits, uint32_t row, const uint8_t *codes)
{
    uint8_t *at = packed + 4 * row, *high = at + 4 * OPERAND_BYTES;
    uint32_t fifth = 0, pairs[2] = {0, 0};
    for (uint32_t g = 0; g < OPERANDS; g++) {
        uint32_t word = load_four(codes + 4 * g);
        if (bits == 8)
            store_four(at + g * OPERAND_BYTES, word);
        else if (g % 2 == 1)
            store_four(at + g / 2 * OPERAND_BYTES, (load_four(codes + 4 * g - 4) & LOW_NIBBLES) | (word & LOW_NIBBLES)
                                                                                                      << 4);
        fifth |= (word >> 4 & 0x01010101) << g;
        pairs[g / 4] |= (word >> 4 & 0x03030303) << g % 4 * 2;
    }
    if (bits == 5)
        store_four(high, fifth);
    if (bits == 6) {
        store_four(high, pairs[0]);
        store_four(high + OPERAND_BYTES, pairs[1]);
    }
}

static void get_codes(const uint8_t *packed, uint32_t bits, uint32_t row, uint8_t *codes)
{
    const uint8_t *at = packed + 4 * row, *high = at + 4 * OPERAND_BYTES;
    for (uint32_t g = 0; g < OPERANDS; g++) {
        if (bits == 8) {
            store_four(codes + 4 * g, load_four(at + g * OPERAND_BYTES));
            continue;
        }
        uint32_t word = load_four(at + g / 2 * OPERAND_BYTES) >> g % 2 * 4 & LOW_NIBBLES;
        if (bits == 5)
            word |= (load_four(high) >> g & 0x01010101) << 4;
        if (bits == 6)
            word |= (load_four(high + g / 4 * OPERAND_BYTES) >> g % 4 * 2 & 0x03030303) << 4;
        store_four(codes + 4 * g, word);
    }
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
    get_codes(codes, matrix->quant->bits, lane, out->codes);
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
            put_codes(codes, matrix->quant->bits, lane, block.codes);
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
