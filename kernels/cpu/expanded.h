/* A panel's block with everything unpacked, as the fast variants keep it in a worker's scratch while many rows pass
 * by. */
#ifndef KERNELS_CPU_EXPANDED_H
#define KERNELS_CPU_EXPANDED_H

#include <stdint.h>

#include "kernels/cpu/cpu.h"

struct expanded_block {
    uint8_t codes[8][64]; /* the operands of cpu.h */
    float scale[PANEL_ROWS];
    float min[PANEL_ROWS];             /* kinds with a minimum */
    int32_t half_scale[2][PANEL_ROWS]; /* QUANT_SUPER_SCALE */
};

#endif
