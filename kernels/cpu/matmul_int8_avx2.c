/* Quantized weights times int8 activations with AVX2.
 *
 * A tile is half a panel (8 outputs, one a lane) times T rows of activations. VPMADDUBSW adds products in pairs into
 * int16: codes of at most 6 bits times activations of at most 127 stay below 2^15 for `pairs` instructions, after which
 * VPMADDWD widens the sum. 8-bit codes would saturate, so their sign goes to the activation: |w| * (sign(w) * x) with
 * |w| <= 128 stays below 2^15. All sums are exact, hence equal to those of the other variants.
 *
 * Up to 4 rows read the packed panel; for more, it is expanded once and tiles of 4 rows pass by. */
#include "kernels/cpu/avx2.h"
#include "kernels/cpu/expanded.h"

#define TILE 4
#define PACKED_ROWS_MAX 4
#define HALF_ROWS 8 /* outputs of a tile */
#define INLINE static inline __attribute__((always_inline))

/* How a tile reads its weights; constant in every instance. */
struct form {
    enum quant_kind kind;
    int bits;         /* as packed */
    int code_bits;    /* of a code: how many products an int16 holds */
    int offset_shift; /* log2 of the offset; 0: no offset, or codes made signed */
    bool expanded;
};

static const struct form form_q4_0 = {QUANT_SCALE, 4, 4, 3, false};
static const struct form form_q4_1 = {QUANT_SCALE_MIN, 4, 4, 0, false};
static const struct form form_q5_0 = {QUANT_SCALE, 5, 5, 4, false};
static const struct form form_q5_1 = {QUANT_SCALE_MIN, 5, 5, 0, false};
static const struct form form_q8_0 = {QUANT_SCALE, 8, 8, 0, false};
static const struct form form_q4_k = {QUANT_SUPER_SCALE_MIN, 4, 4, 0, false};
static const struct form form_q5_k = {QUANT_SUPER_SCALE_MIN, 5, 5, 0, false};
static const struct form form_q6_k = {QUANT_SUPER_SCALE, 6, 6, 5, false};

struct block_scales {
    __m256 scale;
    __m256 min;
    __m256i half[2];
};

INLINE __m256i load(const uint8_t *bytes)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)bytes);
}

INLINE __m256i shift_right(__m256i v, int count)
{
    return count >= 0 ? _mm256_srli_epi16(v, count) : _mm256_slli_epi16(v, -count);
}

/* Operands 4 * half .. + 3 of the 8 rows whose bytes start at `codes`. */
INLINE void packed_operands(const uint8_t *codes, struct form form, int half, __m256i w[4])
{
    const __m256i low = _mm256_set1_epi8(0x0f);
    if (form.bits == 8) {
        for (int i = 0; i < 4; i++)
            w[i] = load(codes + (4 * half + i) * 64);
        return;
    }
    for (int i = 0; i < 2; i++) {
        __m256i v = load(codes + (2 * half + i) * 64);
        w[2 * i] = _mm256_and_si256(v, low);
        w[2 * i + 1] = _mm256_and_si256(_mm256_srli_epi16(v, 4), low);
    }
    if (form.bits == 5) {
        __m256i high = load(codes + 4 * 64);
        for (int i = 0; i < 4; i++) {
            __m256i bit = _mm256_and_si256(shift_right(high, 4 * half + i - 4), _mm256_set1_epi8(0x10));
            w[i] = _mm256_or_si256(w[i], bit);
        }
    }
    if (form.bits == 6) {
        __m256i high = load(codes + (4 + half) * 64);
        for (int i = 0; i < 4; i++) {
            __m256i pair = _mm256_and_si256(shift_right(high, 2 * i - 4), _mm256_set1_epi8(0x30));
            w[i] = _mm256_or_si256(w[i], pair);
        }
    }
}

INLINE __m256 load_halves(const uint8_t *halves)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)halves));
}

INLINE __m256i load_u8(const uint8_t *bytes)
{
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)bytes));
}

INLINE __m256i load_i8(const uint8_t *bytes)
{
    return _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)bytes));
}

/* `lane`: the first of the 8 rows in the panel, 0 or 8. */
INLINE struct block_scales packed_scales(const uint8_t *scales, uint32_t block, struct form form, uint32_t lane)
{
    struct block_scales out = {
        _mm256_setzero_ps(), _mm256_setzero_ps(), {_mm256_setzero_si256(), _mm256_setzero_si256()}};
    uint32_t sub = block % QUANT_SUPER;
    if (form.kind == QUANT_SCALE) {
        out.scale = load_halves(scales + (size_t)block * 32 + 2 * lane);
    } else if (form.kind == QUANT_SCALE_MIN) {
        out.scale = load_halves(scales + (size_t)block * 64 + 2 * lane);
        out.min = load_halves(scales + (size_t)block * 64 + 32 + 2 * lane);
    } else if (form.kind == QUANT_SUPER_SCALE_MIN) {
        const uint8_t *super = scales + (size_t)(block / QUANT_SUPER) * (64 + QUANT_SUPER * 32);
        const uint8_t *of_block = super + 64 + sub * 32 + lane;
        out.scale = _mm256_mul_ps(load_halves(super + 2 * lane), _mm256_cvtepi32_ps(load_u8(of_block)));
        out.min = _mm256_mul_ps(load_halves(super + 32 + 2 * lane), _mm256_cvtepi32_ps(load_u8(of_block + 16)));
        out.min = _mm256_xor_ps(out.min, _mm256_set1_ps(-0.0f));
    } else {
        const uint8_t *super = scales + (size_t)(block / QUANT_SUPER) * (32 + QUANT_SUPER * 32);
        out.scale = load_halves(super + 2 * lane);
        out.half[0] = load_i8(super + 32 + sub * 32 + lane);
        out.half[1] = load_i8(super + 32 + sub * 32 + 16 + lane);
    }
    return out;
}

INLINE struct block_scales expanded_scales(const struct expanded_block *block, struct form form, uint32_t lane)
{
    struct block_scales out = {
        _mm256_loadu_ps(block->scale + lane), _mm256_setzero_ps(), {_mm256_setzero_si256(), _mm256_setzero_si256()}};
    if (form.kind == QUANT_SCALE_MIN)
        out.min = _mm256_loadu_ps(block->min + lane);
    if (form.kind == QUANT_SUPER_SCALE) {
        out.half[0] = load((const uint8_t *)(block->half_scale[0] + lane));
        out.half[1] = load((const uint8_t *)(block->half_scale[1] + lane));
    }
    return out;
}

INLINE __m256i broadcast_i32(const void *from)
{
    int32_t value;
    memcpy(&value, from, sizeof(value));
    return _mm256_set1_epi32(value);
}

/* What the offset of the codes adds, negated: where a sum starts. */
INLINE __m256i start_sum(const struct activation_meta *meta, struct form form, int half)
{
    if (form.offset_shift == 0)
        return _mm256_setzero_si256();
    __m256i sum = broadcast_i32(&meta->minus_sum);
    if (form.kind == QUANT_SUPER_SCALE) {
        __m256i first = broadcast_i32(&meta->minus_sum_first);
        sum = half == 0 ? first : _mm256_sub_epi32(sum, first);
    }
    return _mm256_slli_epi32(sum, form.offset_shift);
}

/* sum + four operands times 16 activations. */
INLINE __m256i dot_half(__m256i sum, const __m256i w[4], const int8_t *q, struct form form)
{
    const __m256i ones = _mm256_set1_epi16(1);
    __m256i products[4];
    for (int i = 0; i < 4; i++) {
        __m256i x = broadcast_i32(q + 4 * i);
        if (form.code_bits == 8) {
            __m256i code = _mm256_xor_si256(w[i], _mm256_set1_epi8((char)0x80));
            products[i] = _mm256_maddubs_epi16(_mm256_abs_epi8(code), _mm256_sign_epi8(x, code));
        } else {
            products[i] = _mm256_maddubs_epi16(w[i], x);
        }
    }
    /* 2 * 31 * 127 * 4 < 2^15, 2 * 63 * 127 * 2 < 2^15 */
    if (form.code_bits <= 5) {
        __m256i pairs =
            _mm256_add_epi16(_mm256_add_epi16(products[0], products[1]), _mm256_add_epi16(products[2], products[3]));
        return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, ones));
    }
    if (form.code_bits == 6) {
        sum = _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_add_epi16(products[0], products[1]), ones));
        return _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_add_epi16(products[2], products[3]), ones));
    }
    for (int i = 0; i < 4; i++)
        sum = _mm256_add_epi32(sum, _mm256_madd_epi16(products[i], ones));
    return sum;
}

INLINE __m256 add_scaled(__m256 acc, __m256i sum, const struct block_scales *scales, const struct activation_meta *meta,
                         struct form form)
{
    __m256 scale = _mm256_mul_ps(scales->scale, _mm256_set1_ps(meta->scale));
    acc = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum), scale, acc);
    if (form.kind == QUANT_SCALE_MIN || form.kind == QUANT_SUPER_SCALE_MIN)
        acc = _mm256_fmadd_ps(scales->min, _mm256_set1_ps(meta->block_sum), acc);
    return acc;
}

/* One block of 8 outputs for up to four rows, which are of one group. */
INLINE void add_block(const uint8_t *codes, const struct block_scales *scales, struct form form,
                      const struct activation_block *x, int rows, __m256 *acc)
{
    __m256i sum[TILE], first[TILE];
    for (int half = 0; half < 2; half++) {
        __m256i w[4];
        packed_operands(codes, form, half, w);
        for (int t = 0; t < rows; t++) {
            if (half == 0 || form.kind == QUANT_SUPER_SCALE)
                sum[t] = start_sum(&x->meta[t], form, half);
            sum[t] = dot_half(sum[t], w, x->q[t] + 16 * half, form);
            if (form.kind == QUANT_SUPER_SCALE) {
                sum[t] = _mm256_mullo_epi32(sum[t], scales->half[half]);
                if (half == 0)
                    first[t] = sum[t];
                else
                    sum[t] = _mm256_add_epi32(sum[t], first[t]);
            }
        }
    }
    for (int t = 0; t < rows; t++)
        acc[t] = add_scaled(acc[t], sum[t], scales, &x->meta[t], form);
}

/* 8 outputs from panel lane `lane` for one row: bias first, then what `out` held. */
INLINE void store_row(const struct matmul_item *item, uint32_t row, uint32_t lane, __m256 value)
{
    uint32_t first = item->panel * PANEL_ROWS + lane;
    if (first >= item->matrix->rows)
        return;
    __m256i mask = mask_below(item->matrix->rows - first);
    float *out = item->out + (size_t)row * item->matrix->rows + first;
    if (item->bias != NULL)
        value = _mm256_add_ps(value, _mm256_maskload_ps(item->bias + first, mask));
    if (item->accumulate)
        value = _mm256_add_ps(_mm256_maskload_ps(out, mask), value);
    _mm256_maskstore_ps(out, mask, value);
}

/* Rows row .. row + T - 1 (T = tile), the first `live` of which exist, for the panel's 8 outputs from `lane`. */
INLINE void do_tile(const struct matmul_item *item, struct form form, uint32_t row, uint32_t live, uint32_t lane,
                    int tile)
{
    const struct matrix *matrix = item->matrix;
    const struct expanded_block *expanded = item->scratch;
    const uint8_t *codes = matrix_codes(matrix, item->panel, 0);
    const uint8_t *scales = codes + matrix->scales_offset;
    const struct activation_block *x = activations_group(item->input, row);
    __m256 acc[TILE];
    for (int t = 0; t < tile; t++)
        acc[t] = _mm256_setzero_ps();
    for (uint32_t b = 0; b < matrix->blocks; b++) {
        struct block_scales block_scales =
            form.expanded ? expanded_scales(&expanded[b], form, lane) : packed_scales(scales, b, form, lane);
        const uint8_t *block_codes =
            form.expanded ? &expanded[b].codes[0][0] : codes + (size_t)b * (size_t)(form.bits * 64);
        add_block(block_codes + 4 * lane, &block_scales, form, &x[b], tile, acc);
    }
    for (int t = 0; t < tile; t++)
        if ((uint32_t)t < live)
            store_row(item, row + (uint32_t)t, lane, acc[t]);
}

INLINE void do_packed(const struct matmul_item *item, struct form form)
{
    for (uint32_t lane = 0; lane < PANEL_ROWS; lane += HALF_ROWS) {
        if (item->rows == 1)
            do_tile(item, form, item->first_row, 1, lane, 1);
        else if (item->rows == 2)
            do_tile(item, form, item->first_row, 2, lane, 2);
        else
            do_tile(item, form, item->first_row, item->rows, lane, 4);
    }
}

static void do_packed_panel(const struct matmul_item *item)
{
    switch (item->matrix->type) {
    case TENSOR_Q4_0:
        do_packed(item, form_q4_0);
        break;
    case TENSOR_Q4_1:
        do_packed(item, form_q4_1);
        break;
    case TENSOR_Q5_0:
        do_packed(item, form_q5_0);
        break;
    case TENSOR_Q5_1:
        do_packed(item, form_q5_1);
        break;
    case TENSOR_Q8_0:
        do_packed(item, form_q8_0);
        break;
    case TENSOR_Q4_K:
        do_packed(item, form_q4_k);
        break;
    case TENSOR_Q5_K:
        do_packed(item, form_q5_k);
        break;
    default:
        do_packed(item, form_q6_k);
        break;
    }
}

INLINE void expand(const struct matrix *matrix, uint32_t panel, struct form form, struct expanded_block *out)
{
    const uint8_t *codes = matrix_codes(matrix, panel, 0);
    const uint8_t *scales = codes + matrix->scales_offset;
    for (uint32_t b = 0; b < matrix->blocks; b++, codes += form.bits * 64) {
        for (uint32_t lane = 0; lane < PANEL_ROWS; lane += HALF_ROWS) {
            struct block_scales of_block = packed_scales(scales, b, form, lane);
            for (int half = 0; half < 2; half++) {
                __m256i w[4];
                packed_operands(codes + 4 * lane, form, half, w);
                for (int i = 0; i < 4; i++)
                    _mm256_storeu_si256((__m256i *)(void *)(out[b].codes[4 * half + i] + 4 * lane), w[i]);
                _mm256_storeu_si256((__m256i *)(void *)(out[b].half_scale[half] + lane), of_block.half[half]);
            }
            _mm256_storeu_ps(out[b].scale + lane, of_block.scale);
            _mm256_storeu_ps(out[b].min + lane, of_block.min);
        }
    }
}

void matmul_expand_avx2(const struct matrix *matrix, uint32_t panel, struct expanded_block *out)
{
    switch (matrix->type) {
    case TENSOR_Q4_0:
        expand(matrix, panel, form_q4_0, out);
        break;
    case TENSOR_Q4_1:
        expand(matrix, panel, form_q4_1, out);
        break;
    case TENSOR_Q5_0:
        expand(matrix, panel, form_q5_0, out);
        break;
    case TENSOR_Q5_1:
        expand(matrix, panel, form_q5_1, out);
        break;
    case TENSOR_Q8_0:
        expand(matrix, panel, form_q8_0, out);
        break;
    case TENSOR_Q4_K:
        expand(matrix, panel, form_q4_k, out);
        break;
    case TENSOR_Q5_K:
        expand(matrix, panel, form_q5_k, out);
        break;
    default:
        expand(matrix, panel, form_q6_k, out);
        break;
    }
}

INLINE void do_expanded(const struct matmul_item *item, struct form form)
{
    for (uint32_t done = 0; done < item->rows; done += TILE) {
        uint32_t live = item->rows - done < TILE ? item->rows - done : TILE;
        for (uint32_t lane = 0; lane < PANEL_ROWS; lane += HALF_ROWS)
            do_tile(item, form, item->first_row + done, live, lane, TILE);
    }
}

static void do_expanded_panel(const struct matmul_item *item)
{
    switch (item->matrix->quant->offset) {
    case 0:
        do_expanded(item, (struct form){QUANT_SCALE_MIN, 8, 5, 0, true});
        break;
    case 8:
        do_expanded(item, (struct form){QUANT_SCALE, 8, 4, 3, true});
        break;
    case 16:
        do_expanded(item, (struct form){QUANT_SCALE, 8, 5, 4, true});
        break;
    case 128:
        do_expanded(item, (struct form){QUANT_SCALE, 8, 8, 0, true});
        break;
    default:
        do_expanded(item, (struct form){QUANT_SUPER_SCALE, 8, 6, 5, true});
        break;
    }
}

void matmul_int8_avx2(const struct matmul_item *item)
{
    if (item->rows <= PACKED_ROWS_MAX) {
        do_packed_panel(item);
        return;
    }
    matmul_expand_avx2(item->matrix, item->panel, item->scratch);
    do_expanded_panel(item);
}
