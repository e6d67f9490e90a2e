/* Row operations, plainly; and the table of the scalar variant. */
#include "kernels/cpu/exp.h"
#include "kernels/cpu/lanes.h"
#include "kernels/cpu/quantize.h"
#include "kernels/cpu/scalar.h"

void norm_row_scalar(const float *x, const float *weight, float epsilon, uint32_t columns, float *out)
{
    float lanes[LANES] = {0};
    for (uint32_t k = 0; k < columns; k++)
        lanes[k % LANES] = fmaf(x[k], x[k], lanes[k % LANES]);
    float mean = lanes_sum(lanes) / (float)columns;
    float scale = 1.0f / sqrtf(mean + epsilon);
    for (uint32_t k = 0; k < columns; k++)
        out[k] = x[k] * scale * weight[k];
}

void swiglu_row_scalar(const float *gate, const float *up, uint32_t columns, float *out)
{
    for (uint32_t k = 0; k < columns; k++)
        out[k] = gate[k] / (1.0f + exp_f32(-gate[k])) * up[k];
}

static void quantize_block(const float *x, int8_t *q, struct activation_meta *meta)
{
    uint32_t max_bits = 0;
    for (int i = 0; i < QUANT_BLOCK; i++) {
        uint32_t magnitude = float_bits(x[i]) & 0x7fffffff;
        max_bits = magnitude > max_bits ? magnitude : max_bits;
    }
    float inverse = quantize_inverse(bits_float(max_bits));
    int32_t first = 0, sum = 0;
    for (int i = 0; i < QUANT_BLOCK; i++) {
        float scaled = rintf(x[i] * inverse);
        scaled = scaled > -127.0f ? scaled : -127.0f; /* NaN too */
        q[i] = (int8_t)(scaled < 127.0f ? scaled : 127.0f);
        sum += q[i];
        first += i < QUANT_BLOCK / 2 ? q[i] : 0;
    }
    *meta = quantize_meta(bits_float(max_bits), sum, first);
}

void quantize_row_scalar(const float *x, uint32_t blocks, struct activation_block *group, uint32_t lane)
{
    for (uint32_t b = 0; b < blocks; b++)
        quantize_block(x + (size_t)b * QUANT_BLOCK, group[b].q[lane], &group[b].meta[lane]);
}

void rope_head_scalar(float *x, const float *table, uint32_t dims)
{
    for (uint32_t i = 0; i < dims; i += 2) {
        float a = x[i], b = x[i + 1], c = table[i], s = table[i + 1];
        x[i] = fmaf(a, c, -(b * s));
        x[i + 1] = fmaf(a, s, b * c);
    }
}

void to_half_scalar(const float *x, uint32_t count, uint16_t *out)
{
    for (uint32_t i = 0; i < count; i++)
        out[i] = float_to_half(x[i]);
}

void to_float_scalar(const uint16_t *x, uint32_t count, float *out)
{
    for (uint32_t i = 0; i < count; i++)
        out[i] = half_to_float(x[i]);
}

const struct cpu_variant cpu_variant_scalar = {
    .name = "scalar",
    .matmul_int8 = matmul_int8_scalar,
    .matmul_float = matmul_float_scalar,
    .attention_segment = attention_segment_scalar,
    .attention_merge = attention_merge_scalar,
    .norm_row = norm_row_scalar,
    .swiglu_row = swiglu_row_scalar,
    .quantize_row = quantize_row_scalar,
    .rope_head = rope_head_scalar,
    .to_half = to_half_scalar,
    .to_float = to_float_scalar,
};
