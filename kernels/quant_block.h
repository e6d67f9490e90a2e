/* The quantized formats of GGUF, read 32 elements at a time: codes and the scales that go with them.
 *
 * Every format is one of four kinds. With `code` the unsigned integer of an element and `offset` of its format:
 *
 *     QUANT_SCALE            (code - offset) * d                          Q4_0 Q5_0 Q8_0
 *     QUANT_SCALE_MIN        code * d + m                                 Q4_1 Q5_1
 *     QUANT_SUPER_SCALE_MIN  code * (d * sub_scale) - (dmin * sub_min)    Q4_K Q5_K
 *     QUANT_SUPER_SCALE      (code - offset) * (d * half_scale)           Q6_K, half_scale for each 16 elements
 *
 * in binary32, every operation rounded; d, m and dmin are f16 in the file. Private to kernels. */
#ifndef KERNELS_QUANT_BLOCK_H
#define KERNELS_QUANT_BLOCK_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/kernels.h"

#define QUANT_BLOCK 32 /* elements */
#define QUANT_SUPER 8  /* blocks that share d and dmin in the SUPER kinds */

enum quant_kind { QUANT_NONE, QUANT_SCALE, QUANT_SCALE_MIN, QUANT_SUPER_SCALE_MIN, QUANT_SUPER_SCALE };

struct quant_facts {
    enum quant_kind kind; /* QUANT_NONE: a float type */
    uint8_t bits;         /* a code: 4, 5, 6 or 8 */
    uint8_t offset;       /* what a code of value 0 is; 0 for kinds with a minimum */
};

struct quant_block {
    uint8_t codes[QUANT_BLOCK];
    uint16_t scale; /* f16: d */
    uint16_t min;   /* f16: m or dmin */
    uint8_t sub_scale;
    uint8_t sub_min;
    int8_t half_scale[2];
};

const struct quant_facts *quant_facts(enum tensor_type type);

/* Block `block` (counted in 32 elements) of a row as it lies in the file. */
void quant_block_read(enum tensor_type type, const uint8_t *row, size_t block, struct quant_block *out);

/* w_scale and w_min of the arithmetic contract. QUANT_SUPER_SCALE: the scale is d alone. */
float quant_block_scale(const struct quant_facts *facts, const struct quant_block *block);
float quant_block_min(const struct quant_facts *facts, const struct quant_block *block);

void quant_block_values(const struct quant_facts *facts, const struct quant_block *block,
                        float *out /* (QUANT_BLOCK) */);

#endif
