/* What the tensor types of GGUF are, and decoding them to binary32. */
#include "kernels/base/check.h"
#include "kernels/cpu/half.h"
#include "kernels/kernels.h"
#include "kernels/quant_block.h"

static const struct tensor_type_facts unknown_type = {.name = NULL};

const struct tensor_type_facts *tensor_type_facts(uint32_t type)
{
    static const struct tensor_type_facts facts[] = {
        [TENSOR_F32] = {"F32", 1, 4},       [TENSOR_F16] = {"F16", 1, 2},       [TENSOR_Q4_0] = {"Q4_0", 32, 18},
        [TENSOR_Q4_1] = {"Q4_1", 32, 20},   [TENSOR_Q5_0] = {"Q5_0", 32, 22},   [TENSOR_Q5_1] = {"Q5_1", 32, 24},
        [TENSOR_Q8_0] = {"Q8_0", 32, 34},   [TENSOR_Q4_K] = {"Q4_K", 256, 144}, [TENSOR_Q5_K] = {"Q5_K", 256, 176},
        [TENSOR_Q6_K] = {"Q6_K", 256, 210}, [TENSOR_BF16] = {"BF16", 1, 2},
    };
    if (type >= sizeof(facts) / sizeof(facts[0]))
        return &unknown_type;
    return &facts[type];
}

/* The source may lie at any address in a file. */
static uint32_t read_u16(const uint8_t *bytes)
{
    return (uint32_t)(bytes[0] | bytes[1] << 8);
}

void tensor_dequantize(enum tensor_type type, const void *source, size_t count, float *out)
{
    const uint8_t *bytes = source;
    const struct quant_facts *quant = quant_facts(type);
    CHECK(count % tensor_type_facts(type)->block_elements == 0);
    if (quant->kind != QUANT_NONE) {
        for (size_t block = 0; block < count / QUANT_BLOCK; block++) {
            struct quant_block decoded;
            quant_block_read(type, bytes, block, &decoded);
            quant_block_values(quant, &decoded, out + block * QUANT_BLOCK);
        }
        return;
    }
    if (type == TENSOR_F32)
        memcpy(out, source, count * sizeof(float));
    else if (type == TENSOR_F16)
        for (size_t i = 0; i < count; i++)
            out[i] = half_to_float((uint16_t)read_u16(bytes + i * 2));
    else
        for (size_t i = 0; i < count; i++)
            out[i] = bits_float(read_u16(bytes + i * 2) << 16);
}
