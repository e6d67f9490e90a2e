/* The 16 virtual lanes of the arithmetic contract and the tree that adds them up. */
#ifndef KERNELS_CPU_LANES_H
#define KERNELS_CPU_LANES_H

#define LANES 16

static inline float lanes_sum(float lanes[LANES])
{
    for (int width = LANES / 2; width > 0; width /= 2)
        for (int lane = 0; lane < width; lane++)
            lanes[lane] += lanes[lane + width];
    return lanes[0];
}

#endif
