/* What the kernel tests share: an opened backend, random weights in every file format, and exact comparison. */
#ifndef TESTS_KERNELS_BED_H
#define TESTS_KERNELS_BED_H

#include "kernels/kernels.h"

#define TEST_TYPES 11
extern const enum tensor_type test_types[TEST_TYPES];

/* The variants this processor has; "scalar" is the last one. */
#define TEST_VARIANTS_MAX 4
uint32_t bed_variants(const char *names[TEST_VARIANTS_MAX]);

struct bed_args {
    const char *cpu;
    uint32_t threads;
    enum activation_mode mode;
    uint32_t rows_max;
    uint32_t context;
    uint32_t query_heads;
    uint32_t heads;
    uint32_t head_dim;
    uint32_t rope_dims;
    uint32_t window; /* 0: a full group only; else layer 1 has this window */
    uint32_t block_tokens;
    uint32_t pages;
};

/* Layer 0 attends to everything, layer 1 has the window if there is one. */
struct kernels *bed_open(const struct bed_args *args);
struct kv_layout bed_layout(const struct bed_args *args);
void bed_close(struct kernels *kernels);

/* Random blocks of a type with finite scales; freed by the caller. */
uint8_t *bed_weights(enum tensor_type type, uint32_t rows, uint32_t columns, uint64_t *random);
struct matrix *bed_pack(struct kernels *kernels, enum tensor_type type, const void *data, uint32_t rows,
                        uint32_t columns);

float *bed_floats(struct kernels *kernels, size_t count);
/* Device floats of about unit size. */
float *bed_random(struct kernels *kernels, size_t count, uint64_t *random);
float bed_normal(uint64_t *random);

/* Fails the test at the first index whose bits differ. */
void bed_equal(const char *what, const float *got, const float *expected, size_t count);
/* Fails the test where |got - expected| > tolerance * scale. */
void bed_near(const char *what, float got, double expected, double scale, double tolerance);

#endif
