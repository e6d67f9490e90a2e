/* Reading blocks of the quantized formats. Layouts: ggml's ggml-common.h; decoding: the `gguf` package's quants.py. */
#include "kernels/quant_block.h"

#include <string.h>

#include "kernels/base/check.h"
#include "kernels/cpu/half.h"

#define Q4_0_BYTES 18
#define Q4_1_BYTES 20
#define Q5_0_BYTES 22
#define Q5_1_BYTES 24
#define Q8_0_BYTES 34
#define Q4_K_BYTES 144
#define Q5_K_BYTES 176
#define Q6_K_BYTES 210

static const struct quant_facts float_facts = {.kind = QUANT_NONE};

const struct quant_facts *quant_facts(enum tensor_type type)
{
    static const struct quant_facts facts[] = {
        [TENSOR_Q4_0] = {QUANT_SCALE, 4, 8},           [TENSOR_Q4_1] = {QUANT_SCALE_MIN, 4, 0},
        [TENSOR_Q5_0] = {QUANT_SCALE, 5, 16},          [TENSOR_Q5_1] = {QUANT_SCALE_MIN, 5, 0},
        [TENSOR_Q8_0] = {QUANT_SCALE, 8, 128},         [TENSOR_Q4_K] = {QUANT_SUPER_SCALE_MIN, 4, 0},
        [TENSOR_Q5_K] = {QUANT_SUPER_SCALE_MIN, 5, 0}, [TENSOR_Q6_K] = {QUANT_SUPER_SCALE, 6, 32},
    };
    if ((size_t)type >= sizeof(facts) / sizeof(facts[0]))
        return &float_facts;
    return &facts[type];
}

static uint16_t read_half(const uint8_t *bytes)
{
    return (uint16_t)(bytes[0] | bytes[1] << 8);
}

/* Elements 0..15 in the low nibbles, 16..31 in the high ones. */
static void read_nibbles(const uint8_t *bytes, uint8_t *codes)
{
    for (int i = 0; i < 16; i++) {
        codes[i] = bytes[i] & 0x0f;
        codes[i + 16] = bytes[i] >> 4;
    }
}

/* The fifth bit of each element, 32 of them in four bytes. */
static void read_fifth_bits(const uint8_t *bytes, uint8_t *codes)
{
    for (int i = 0; i < QUANT_BLOCK; i++)
        codes[i] |= (uint8_t)((bytes[i / 8] >> (i % 8) & 1) << 4);
}

/* Eight 6-bit scales and eight 6-bit minima in 12 bytes. */
static void read_super_scales(const uint8_t *bytes, size_t sub, struct quant_block *out)
{
    if (sub < 4) {
        out->sub_scale = bytes[sub] & 0x3f;
        out->sub_min = bytes[sub + 4] & 0x3f;
        return;
    }
    out->sub_scale = (uint8_t)((bytes[sub + 4] & 0x0f) | (bytes[sub - 4] >> 6) << 4);
    out->sub_min = (uint8_t)((bytes[sub + 4] >> 4) | (bytes[sub] >> 6) << 4);
}

/* Sub-blocks 2c and 2c+1 are the low and the high nibbles of the same 32 bytes. */
static void read_super_nibbles(const uint8_t *bytes, size_t sub, uint8_t *codes)
{
    const uint8_t *chunk = bytes + sub / 2 * 32;
    unsigned shift = sub % 2 * 4;
    for (int i = 0; i < QUANT_BLOCK; i++)
        codes[i] = chunk[i] >> shift & 0x0f;
}

static void read_q4_k(const uint8_t *super, size_t sub, struct quant_block *out)
{
    out->scale = read_half(super);
    out->min = read_half(super + 2);
    read_super_scales(super + 4, sub, out);
    read_super_nibbles(super + 16, sub, out->codes);
}

static void read_q5_k(const uint8_t *super, size_t sub, struct quant_block *out)
{
    out->scale = read_half(super);
    out->min = read_half(super + 2);
    read_super_scales(super + 4, sub, out);
    read_super_nibbles(super + 48, sub, out->codes);
    for (int i = 0; i < QUANT_BLOCK; i++)
        out->codes[i] |= (uint8_t)((super[16 + i] >> sub & 1) << 4);
}

/* Two halves of 128 elements: 64 bytes of low nibbles and 32 bytes of high bit pairs each. */
static void read_q6_k(const uint8_t *super, size_t sub, struct quant_block *out)
{
    size_t half = sub / 4, quarter = sub % 4;
    const uint8_t *low = super + half * 64 + quarter % 2 * 32;
    const uint8_t *high = super + 128 + half * 32;
    for (int i = 0; i < QUANT_BLOCK; i++) {
        unsigned nibble = low[i] >> (quarter / 2 * 4) & 0x0f;
        out->codes[i] = (uint8_t)(nibble | (high[i] >> quarter * 2 & 3) << 4);
    }
    memcpy(out->half_scale, super + 192 + sub * 2, 2);
    out->scale = read_half(super + 208);
}

void quant_block_read(enum tensor_type type, const uint8_t *row, size_t block, struct quant_block *out)
{
    const uint8_t *at;
    *out = (struct quant_block){0};
    switch (type) {
    case TENSOR_Q4_0:
        at = row + block * Q4_0_BYTES;
        out->scale = read_half(at);
        read_nibbles(at + 2, out->codes);
        return;
    case TENSOR_Q4_1:
        at = row + block * Q4_1_BYTES;
        out->scale = read_half(at);
        out->min = read_half(at + 2);
        read_nibbles(at + 4, out->codes);
        return;
    case TENSOR_Q5_0:
        at = row + block * Q5_0_BYTES;
        out->scale = read_half(at);
        read_nibbles(at + 6, out->codes);
        read_fifth_bits(at + 2, out->codes);
        return;
    case TENSOR_Q5_1:
        at = row + block * Q5_1_BYTES;
        out->scale = read_half(at);
        out->min = read_half(at + 2);
        read_nibbles(at + 8, out->codes);
        read_fifth_bits(at + 4, out->codes);
        return;
    case TENSOR_Q8_0:
        at = row + block * Q8_0_BYTES;
        out->scale = read_half(at);
        for (int i = 0; i < QUANT_BLOCK; i++)
            out->codes[i] = at[2 + i] ^ 0x80;
        return;
    case TENSOR_Q4_K:
        read_q4_k(row + block / QUANT_SUPER * Q4_K_BYTES, block % QUANT_SUPER, out);
        return;
    case TENSOR_Q5_K:
        read_q5_k(row + block / QUANT_SUPER * Q5_K_BYTES, block % QUANT_SUPER, out);
        return;
    case TENSOR_Q6_K:
        read_q6_k(row + block / QUANT_SUPER * Q6_K_BYTES, block % QUANT_SUPER, out);
        return;
    case TENSOR_F32:
    case TENSOR_F16:
    case TENSOR_BF16:
        break;
    }
    CHECK(!"a float type has no quantized blocks");
}

float quant_block_scale(const struct quant_facts *facts, const struct quant_block *block)
{
    float d = half_to_float(block->scale);
    return facts->kind == QUANT_SUPER_SCALE_MIN ? d * (float)block->sub_scale : d;
}

float quant_block_min(const struct quant_facts *facts, const struct quant_block *block)
{
    float min = half_to_float(block->min);
    return facts->kind == QUANT_SUPER_SCALE_MIN ? -(min * (float)block->sub_min) : min;
}

void quant_block_values(const struct quant_facts *facts, const struct quant_block *block, float *out)
{
    float scale = quant_block_scale(facts, block);
    float min = quant_block_min(facts, block);
    for (int i = 0; i < QUANT_BLOCK; i++) {
        float code = (float)(block->codes[i] - facts->offset);
        if (facts->kind == QUANT_SUPER_SCALE)
            out[i] = scale * (float)block->half_scale[i / 16] * code;
        else if (facts->kind == QUANT_SCALE)
            out[i] = scale * code;
        else
            out[i] = scale * code + min;
    }
}
