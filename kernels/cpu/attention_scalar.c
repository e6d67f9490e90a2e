/* Attention over one segment, plainly. */
#include "kernels/cpu/exp.h"
#include "kernels/cpu/lanes.h"
#include "kernels/cpu/scalar.h"

/* Element (key, dim) of a converted K segment. */
static float k_at(const struct attention_item *item, uint32_t key, uint32_t dim)
{
    return item->k[((size_t)(key / SEGMENT_CHUNK) * item->head_dim + dim) * SEGMENT_CHUNK + key % SEGMENT_CHUNK];
}

static float score(const struct attention_item *item, const float *q, uint32_t key)
{
    float sum = 0;
    for (uint32_t dim = 0; dim < item->head_dim; dim++)
        sum = fmaf(q[dim], k_at(item, key, dim), sum);
    return sum;
}

static void attend_row(const struct attention_item *item, uint32_t row)
{
    uint32_t begin = item->begin[row], end = item->end[row];
    const float *q = item->q + (size_t)row * item->head_dim;
    float *out = item->out + (size_t)row * item->head_dim;
    float *weights = item->weights + (size_t)row * SEGMENT_TOKENS;
    float lanes[LANES] = {0};
    float max = -INFINITY;

    if (begin >= end)
        return;
    for (uint32_t key = begin; key < end; key++) {
        weights[key] = score(item, q, key);
        max = weights[key] > max ? weights[key] : max;
    }
    for (uint32_t key = begin; key < end; key++) {
        weights[key] = exp_f32(weights[key] - max);
        lanes[key % LANES] += weights[key];
    }
    for (uint32_t dim = 0; dim < item->head_dim; dim++) {
        float sum = 0;
        for (uint32_t key = begin; key < end; key++)
            sum = fmaf(weights[key], item->v[(size_t)key * item->head_dim + dim], sum);
        out[dim] = sum;
    }
    item->max[row] = max;
    item->sum[row] = lanes_sum(lanes);
}

void attention_segment_scalar(const struct attention_item *item)
{
    for (uint32_t row = 0; row < item->rows; row++)
        attend_row(item, row);
}

void attention_merge_scalar(const struct attention_merge *merge)
{
    float max = *merge->max > merge->next_max ? *merge->max : merge->next_max;
    float a = exp_f32(*merge->max - max);
    float b = exp_f32(merge->next_max - max);
    *merge->max = max;
    *merge->sum = fmaf(*merge->sum, a, merge->next_sum * b);
    for (uint32_t dim = 0; dim < merge->head_dim; dim++)
        merge->out[dim] = fmaf(merge->out[dim], a, merge->next_out[dim] * b);
}
