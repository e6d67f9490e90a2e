/* The plain twins, which variants also use for what is not worth a fast version. */
#ifndef KERNELS_CPU_SCALAR_H
#define KERNELS_CPU_SCALAR_H

#include <math.h>

#include "kernels/cpu/cpu.h"

void matmul_int8_scalar(const struct matmul_item *item);
void matmul_float_scalar(const struct matmul_item *item);
void attention_segment_scalar(const struct attention_item *item);
void attention_merge_scalar(const struct attention_merge *merge);
void norm_row_scalar(const float *x, const float *weight, float epsilon, uint32_t columns, float *out);
void swiglu_row_scalar(const float *gate, const float *up, uint32_t columns, float *out);
void quantize_row_scalar(const float *x, uint32_t blocks, struct activation_block *group, uint32_t lane);
void rope_head_scalar(float *x, const float *table, uint32_t dims);
void to_half_scalar(const float *x, uint32_t count, uint16_t *out);
void to_float_scalar(const uint16_t *x, uint32_t count, float *out);

#endif
