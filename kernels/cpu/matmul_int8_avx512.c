/* Quantized weights times int8 activations with AVX-512 VNNI.
 *
 * A tile is one panel (16 outputs, one a lane) times T rows of activations. For each block of 32 k, VPDPBUSD multiplies
 * operands of weights with four activation bytes broadcast from memory, 8 instructions a row; then the int32 sums are
 * scaled into the float accumulators: 4 more. Up to 8 rows read the packed panel (a byte of weights is read once);
 * for more, the panel is expanded once and its tiles of 12 rows find it in the cache. */
#include <immintrin.h>

#include "kernels/cpu/avx512.h"
#include "kernels/cpu/expanded.h"

#define TILE_MAX 12
#define PACKED_ROWS_MAX 8
#define PREFETCH_BYTES 4096 /* ahead of the packed codes; past the end it does nothing */
#define INLINE static inline __attribute__((always_inline))

/* How a tile reads its weights; constant in every instance. */
struct form {
    enum quant_kind kind;
    int bits;
    int offset_shift; /* log2 of the offset; 0: no offset */
    bool expanded;
};

static const struct form form_q4_0 = {QUANT_SCALE, 4, 3, false};
static const struct form form_q4_1 = {QUANT_SCALE_MIN, 4, 0, false};
static const struct form form_q5_0 = {QUANT_SCALE, 5, 4, false};
static const struct form form_q5_1 = {QUANT_SCALE_MIN, 5, 0, false};
static const struct form form_q8_0 = {QUANT_SCALE, 8, 7, false};
static const struct form form_q4_k = {QUANT_SUPER_SCALE_MIN, 4, 0, false};
static const struct form form_q5_k = {QUANT_SUPER_SCALE_MIN, 5, 0, false};
static const struct form form_q6_k = {QUANT_SUPER_SCALE, 6, 5, false};

static const struct form form_min = {QUANT_SCALE_MIN, 8, 0, true};
static const struct form form_offset_8 = {QUANT_SCALE, 8, 3, true};
static const struct form form_offset_16 = {QUANT_SCALE, 8, 4, true};
static const struct form form_offset_128 = {QUANT_SCALE, 8, 7, true};
static const struct form form_halves = {QUANT_SUPER_SCALE, 8, 5, true};

struct block_scales {
    __m512 scale;
    __m512 min;
    __m512i half[2];
};

INLINE __m512i shift_right(__m512i v, int count)
{
    return count >= 0 ? _mm512_srli_epi16(v, (unsigned)count) : _mm512_slli_epi16(v, (unsigned)-count);
}

/* Operands 4 * half .. + 3 of a packed block. */
INLINE void packed_operands(const uint8_t *codes, struct form form, int half, __m512i w[4])
{
    const __m512i low = _mm512_set1_epi8(0x0f);
    if (form.bits == 8) {
        for (int i = 0; i < 4; i++)
            w[i] = _mm512_loadu_si512(codes + (4 * half + i) * 64);
        return;
    }
    for (int i = 0; i < 2; i++) {
        __m512i v = _mm512_loadu_si512(codes + (2 * half + i) * 64);
        w[2 * i] = _mm512_and_si512(v, low);
        w[2 * i + 1] = _mm512_and_si512(_mm512_srli_epi16(v, 4), low);
    }
    if (form.bits == 5) {
        __m512i high = _mm512_loadu_si512(codes + 4 * 64);
        for (int i = 0; i < 4; i++) {
            __m512i bit = _mm512_and_si512(shift_right(high, 4 * half + i - 4), _mm512_set1_epi8(0x10));
            w[i] = _mm512_or_si512(w[i], bit);
        }
    }
    if (form.bits == 6) {
        __m512i high = _mm512_loadu_si512(codes + (4 + half) * 64);
        for (int i = 0; i < 4; i++) {
            __m512i pair = _mm512_and_si512(shift_right(high, 2 * i - 4), _mm512_set1_epi8(0x30));
            w[i] = _mm512_or_si512(w[i], pair);
        }
    }
}

INLINE __m512 load_halves(const uint8_t *halves)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)halves));
}

INLINE __m512i load_u8(const uint8_t *bytes)
{
    return _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)bytes));
}

INLINE __m512i load_i8(const uint8_t *bytes)
{
    return _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(const void *)bytes));
}

INLINE struct block_scales packed_scales(const uint8_t *scales, uint32_t block, struct form form)
{
    struct block_scales out = {
        _mm512_setzero_ps(), _mm512_setzero_ps(), {_mm512_setzero_si512(), _mm512_setzero_si512()}};
    uint32_t sub = block % QUANT_SUPER;
    if (form.kind == QUANT_SCALE) {
        out.scale = load_halves(scales + (size_t)block * 32);
    } else if (form.kind == QUANT_SCALE_MIN) {
        out.scale = load_halves(scales + (size_t)block * 64);
        out.min = load_halves(scales + (size_t)block * 64 + 32);
    } else if (form.kind == QUANT_SUPER_SCALE_MIN) {
        const uint8_t *super = scales + (size_t)(block / QUANT_SUPER) * (64 + QUANT_SUPER * 32);
        out.scale = _mm512_mul_ps(load_halves(super), _mm512_cvtepi32_ps(load_u8(super + 64 + sub * 32)));
        out.min = _mm512_mul_ps(load_halves(super + 32), _mm512_cvtepi32_ps(load_u8(super + 64 + sub * 32 + 16)));
        out.min = _mm512_xor_ps(out.min, _mm512_set1_ps(-0.0f));
    } else {
        const uint8_t *super = scales + (size_t)(block / QUANT_SUPER) * (32 + QUANT_SUPER * 32);
        out.scale = load_halves(super);
        out.half[0] = load_i8(super + 32 + sub * 32);
        out.half[1] = load_i8(super + 32 + sub * 32 + 16);
    }
    return out;
}

INLINE struct block_scales expanded_scales(const struct expanded_block *block, struct form form)
{
    struct block_scales out = {
        _mm512_loadu_ps(block->scale), _mm512_setzero_ps(), {_mm512_setzero_si512(), _mm512_setzero_si512()}};
    if (form.kind == QUANT_SCALE_MIN)
        out.min = _mm512_loadu_ps(block->min);
    if (form.kind == QUANT_SUPER_SCALE) {
        out.half[0] = _mm512_loadu_si512(block->half_scale[0]);
        out.half[1] = _mm512_loadu_si512(block->half_scale[1]);
    }
    return out;
}

INLINE __m512i broadcast_i32(const void *from)
{
    int32_t value;
    memcpy(&value, from, sizeof(value));
    return _mm512_set1_epi32(value);
}

/* What the offset of the codes adds, negated: where a sum starts. For the SUPER_SCALE kind of each half. */
INLINE __m512i start_sum(const struct activation_meta *meta, struct form form, int half)
{
    if (form.offset_shift == 0)
        return _mm512_setzero_si512();
    __m512i sum = broadcast_i32(&meta->minus_sum);
    if (form.kind == QUANT_SUPER_SCALE) {
        __m512i first = broadcast_i32(&meta->minus_sum_first);
        sum = half == 0 ? first : _mm512_sub_epi32(sum, first);
    }
    return _mm512_slli_epi32(sum, (unsigned)form.offset_shift);
}

INLINE __m512 add_scaled(__m512 acc, __m512i sum, const struct block_scales *scales, const struct activation_meta *meta,
                         struct form form)
{
    __m512 scale = _mm512_mul_ps(scales->scale, _mm512_set1_ps(meta->scale));
    acc = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum), scale, acc);
    if (form.kind == QUANT_SCALE_MIN || form.kind == QUANT_SUPER_SCALE_MIN)
        acc = _mm512_fmadd_ps(scales->min, _mm512_set1_ps(meta->block_sum), acc);
    return acc;
}

/* The weights of a tile. */
struct weights {
    const uint8_t *codes;                  /* packed */
    const uint8_t *scales;                 /* packed */
    const struct expanded_block *expanded; /* or expanded */
};

INLINE struct block_scales block_scales(const struct weights *weights, uint32_t block, struct form form)
{
    return form.expanded ? expanded_scales(&weights->expanded[block], form)
                         : packed_scales(weights->scales, block, form);
}

INLINE const uint8_t *block_codes(const struct weights *weights, uint32_t block, struct form form)
{
    if (form.expanded)
        return &weights->expanded[block].codes[0][0];
    return weights->codes + (size_t)block * (size_t)(form.bits * 64);
}

/* One block for T rows; x[t / 4] is the block of row t's group. Scales are loaded where they are needed: registers are
 * short. */
INLINE void add_block(const struct weights *weights, uint32_t block, struct form form,
                      const struct activation_block *const *x, int rows, __m512 *acc)
{
    const uint8_t *codes = block_codes(weights, block, form);
    __m512i sum[TILE_MAX], first[TILE_MAX];
    for (int half = 0; half < 2; half++) {
        __m512i w[4];
        packed_operands(codes, form, half, w);
        if (half == 0 || form.kind == QUANT_SUPER_SCALE)
            for (int t = 0; t < rows; t++)
                sum[t] = start_sum(&x[t / 4]->meta[t % 4], form, half);
        for (int i = 0; i < 4; i++)
            for (int t = 0; t < rows; t++)
                sum[t] = _mm512_dpbusd_epi32(sum[t], w[i], broadcast_i32(x[t / 4]->q[t % 4] + 16 * half + 4 * i));
        if (form.kind == QUANT_SUPER_SCALE) {
            __m512i half_scale = block_scales(weights, block, form).half[half];
            for (int t = 0; t < rows; t++) {
                sum[t] = _mm512_mullo_epi32(sum[t], half_scale);
                if (half == 0)
                    first[t] = sum[t];
                else
                    sum[t] = _mm512_add_epi32(sum[t], first[t]);
            }
        }
    }
    struct block_scales scales = block_scales(weights, block, form);
    for (int t = 0; t < rows; t++)
        acc[t] = add_scaled(acc[t], sum[t], &scales, &x[t / 4]->meta[t % 4], form);
}

/* Rows row .. row + T - 1 (T = tile); the first `live` of them exist. */
INLINE void do_tile(const struct matmul_item *item, struct form form, uint32_t row, uint32_t live, int tile)
{
    const struct matrix *matrix = item->matrix;
    const uint8_t *codes = matrix_codes(matrix, item->panel, 0);
    const struct weights weights = {codes, codes + matrix->scales_offset, item->scratch};
    const struct activation_block *x[TILE_MAX / 4];
    __m512 acc[TILE_MAX];
    for (int g = 0; g < (tile + 3) / 4; g++)
        x[g] = activations_group(item->input, row + 4 * (uint32_t)g);
    for (int t = 0; t < tile; t++)
        acc[t] = _mm512_setzero_ps();

    for (uint32_t b = 0; b < matrix->blocks; b++) {
        if (!form.expanded)
            for (int line = 0; line < form.bits; line++)
                _mm_prefetch((const char *)block_codes(&weights, b, form) + PREFETCH_BYTES + line * 64, _MM_HINT_T0);
        add_block(&weights, b, form, x, tile, acc);
        for (int g = 0; g < (tile + 3) / 4; g++)
            x[g]++;
    }
    for (int t = 0; t < tile; t++)
        if ((uint32_t)t < live)
            store_panel_row(item, row + (uint32_t)t, acc[t]);
}

/* ---- instances: a function each, since together the compiler would not find them enough registers ---- */

typedef void tile_function(const struct matmul_item *item, uint32_t row, uint32_t live);
typedef void expand_function(const struct matrix *matrix, uint32_t panel, struct expanded_block *out);

/* Of one form: tiles of 1, 2, 4, 8 and 12 rows; NULL where the form does not use one. */
struct instances {
    tile_function *rows1, *rows2, *rows4, *rows8, *rows12;
    expand_function *expand;
};

INLINE void expand(const struct matrix *matrix, uint32_t panel, struct form form, struct expanded_block *out)
{
    const uint8_t *codes = matrix_codes(matrix, panel, 0);
    const uint8_t *scales = codes + matrix->scales_offset;
    for (uint32_t b = 0; b < matrix->blocks; b++) {
        struct block_scales of_block = packed_scales(scales, b, form);
        for (int half = 0; half < 2; half++) {
            __m512i w[4];
            packed_operands(codes + (size_t)b * (size_t)(form.bits * 64), form, half, w);
            for (int i = 0; i < 4; i++)
                _mm512_storeu_si512(out[b].codes[4 * half + i], w[i]);
            _mm512_storeu_si512(out[b].half_scale[half], of_block.half[half]);
        }
        _mm512_storeu_ps(out[b].scale, of_block.scale);
        _mm512_storeu_ps(out[b].min, of_block.min);
    }
}

#define TILE(name, tile)                                                                                             \
    static __attribute__((noinline)) void name##_##tile(const struct matmul_item *item, uint32_t row, uint32_t live) \
    {                                                                                                                \
        do_tile(item, form_##name, row, live, tile);                                                                 \
    }

#define PACKED_FORM(name)                                                                            \
    TILE(name, 1)                                                                                    \
    TILE(name, 2)                                                                                    \
    TILE(name, 4)                                                                                    \
    TILE(name, 8)                                                                                    \
    static __attribute__((noinline)) void name##_expand(const struct matrix *matrix, uint32_t panel, \
                                                        struct expanded_block *out)                  \
    {                                                                                                \
        expand(matrix, panel, form_##name, out);                                                     \
    }
#define PACKED_INSTANCES(name)                                      \
    {                                                               \
        name##_1, name##_2, name##_4, name##_8, NULL, name##_expand \
    }

PACKED_FORM(q4_0)
PACKED_FORM(q4_1)
PACKED_FORM(q5_0)
PACKED_FORM(q5_1)
PACKED_FORM(q8_0)
PACKED_FORM(q4_k)
PACKED_FORM(q5_k)
PACKED_FORM(q6_k)

static const struct instances packed_instances[] = {
    [TENSOR_Q4_0] = PACKED_INSTANCES(q4_0), [TENSOR_Q4_1] = PACKED_INSTANCES(q4_1),
    [TENSOR_Q5_0] = PACKED_INSTANCES(q5_0), [TENSOR_Q5_1] = PACKED_INSTANCES(q5_1),
    [TENSOR_Q8_0] = PACKED_INSTANCES(q8_0), [TENSOR_Q4_K] = PACKED_INSTANCES(q4_k),
    [TENSOR_Q5_K] = PACKED_INSTANCES(q5_k), [TENSOR_Q6_K] = PACKED_INSTANCES(q6_k),
};

#define EXPANDED_FORM(name) \
    TILE(name, 4)           \
    TILE(name, 8)           \
    TILE(name, 12)
#define EXPANDED_INSTANCES(name)                        \
    {                                                   \
        NULL, NULL, name##_4, name##_8, name##_12, NULL \
    }

EXPANDED_FORM(min)
EXPANDED_FORM(offset_8)
EXPANDED_FORM(offset_16)
EXPANDED_FORM(offset_128)
TILE(halves, 4)
TILE(halves, 8)

static const struct instances min_instances = EXPANDED_INSTANCES(min);
static const struct instances offset_8_instances = EXPANDED_INSTANCES(offset_8);
static const struct instances offset_16_instances = EXPANDED_INSTANCES(offset_16);
static const struct instances offset_128_instances = EXPANDED_INSTANCES(offset_128);
/* Two sums a row: 12 rows do not fit the registers. */
static const struct instances halves_instances = {NULL, NULL, halves_4, halves_8, NULL, NULL};

static const struct instances *expanded_instances(const struct quant_facts *quant)
{
    switch (quant->offset) {
    case 0:
        return &min_instances;
    case 8:
        return &offset_8_instances;
    case 16:
        return &offset_16_instances;
    case 128:
        return &offset_128_instances;
    default:
        return &halves_instances;
    }
}

/* ---- the item ---- */

void matmul_expand_avx512(const struct matrix *matrix, uint32_t panel, struct expanded_block *out)
{
    packed_instances[matrix->type].expand(matrix, panel, out);
}

static void do_expanded(const struct matmul_item *item)
{
    const struct instances *instances = expanded_instances(item->matrix->quant);
    uint32_t end = item->first_row + item->rows, row = item->first_row;
    if (instances->rows12 != NULL)
        for (; row + 8 < end; row += 12)
            instances->rows12(item, row, end - row);
    for (; row + 4 < end; row += 8)
        instances->rows8(item, row, end - row);
    if (row < end)
        instances->rows4(item, row, end - row);
}

void matmul_int8_avx512(const struct matmul_item *item)
{
    const struct instances *packed = &packed_instances[item->matrix->type];
    if (item->rows > PACKED_ROWS_MAX) {
        packed->expand(item->matrix, item->panel, item->scratch);
        do_expanded(item);
    } else if (item->rows > 4) {
        packed->rows8(item, item->first_row, item->rows);
    } else if (item->rows > 2) {
        packed->rows4(item, item->first_row, item->rows);
    } else if (item->rows == 2) {
        packed->rows2(item, item->first_row, 2);
    } else {
        packed->rows1(item, item->first_row, 1);
    }
}
