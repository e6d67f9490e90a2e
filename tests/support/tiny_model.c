/* Random models from integers. See tiny_model.h. */
#include "tests/support/tiny_model.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/base/check.h"
#include "tests/support/gguf_writer.h"

#define WIDE .layers = 2, .width = 256, .ffn_width = 512, .heads = 4, .kv_heads = 2, .head_dim = 64
#define NARROW .layers = 3, .width = 96, .ffn_width = 160, .heads = 6, .kv_heads = 2, .head_dim = 16
#define TEXT .vocabulary = 96, .context = 512
#define TYPES(matrices, embedding) .matrix_type = TENSOR_##matrices, .embedding_type = TENSOR_##embedding

const struct tiny_model tiny_models[] = {
    {.name = "f32", .seed = 1, NARROW, TEXT, TYPES(F32, F32), .own_head = false, .biases = false},
    {.name = "f16", .seed = 2, NARROW, TEXT, TYPES(F16, F16), .own_head = true, .biases = false},
    {.name = "bf16", .seed = 3, NARROW, TEXT, TYPES(BF16, F32), .own_head = false, .biases = false},
    {.name = "q8_0", .seed = 4, NARROW, TEXT, TYPES(Q8_0, Q8_0), .own_head = false, .biases = false},
    {.name = "q4_0", .seed = 5, NARROW, TEXT, TYPES(Q4_0, Q8_0), .own_head = true, .biases = false},
    {.name = "q4_1", .seed = 6, NARROW, TEXT, TYPES(Q4_1, Q8_0), .own_head = false, .biases = false},
    {.name = "q5_0", .seed = 7, NARROW, TEXT, TYPES(Q5_0, Q5_1), .own_head = false, .biases = false},
    {.name = "q5_1", .seed = 8, NARROW, TEXT, TYPES(Q5_1, F16), .own_head = false, .biases = true},
    {.name = "q4_k", .seed = 9, WIDE, TEXT, TYPES(Q4_K, Q6_K), .own_head = false, .biases = false},
    {.name = "q5_k", .seed = 10, WIDE, TEXT, TYPES(Q5_K, Q8_0), .own_head = true, .biases = false},
    {.name = "q6_k", .seed = 11, WIDE, TEXT, TYPES(Q6_K, Q4_K), .own_head = false, .biases = false},
    {.name = "bias", .seed = 12, NARROW, TEXT, TYPES(F32, F32), .own_head = true, .biases = true},
    {0},
};

const struct tiny_model *tiny_model_named(const char *name)
{
    const struct tiny_model *model = tiny_models;
    while (model->name != NULL && strcmp(model->name, name) != 0)
        model++;
    CHECK(model->name != NULL);
    return model;
}

/* splitmix64 */
static uint64_t next_random(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return z ^ z >> 31;
}

int32_t tiny_model_id(const struct tiny_model *model, uint32_t i)
{
    uint64_t state = model->seed * 1000 + i;
    return (int32_t)(next_random(&state) % model->vocabulary);
}

/* ---- elements ---- */

static void put_half(uint8_t *to, uint64_t *state, uint32_t exponent, bool negative)
{
    uint16_t half = (uint16_t)((negative ? 0x8000u : 0) | exponent << 10 | (next_random(state) & 0x3ff));
    memcpy(to, &half, sizeof(half));
}

static void put_bytes(uint8_t *to, uint64_t *state, size_t count)
{
    for (size_t i = 0; i < count; i++)
        to[i] = (uint8_t)(next_random(state) >> 32);
}

/* Multiples of 2^-18 within 1/8 of `centre`. */
static void put_float(uint8_t *to, uint64_t *state, float centre)
{
    float value = centre + (float)((int32_t)(next_random(state) & 0xffff) - 0x8000) * 0x1p-18f;
    memcpy(to, &value, sizeof(value));
}

/* Exponents are biased by 15; they make weights of about 0.1. The fields are the ones of the GGUF block. */
static void put_block(enum tensor_type type, uint8_t *to, uint64_t *state)
{
    put_bytes(to, state, tensor_type_facts((uint32_t)type)->block_bytes);
    switch (type) {
    case TENSOR_F32:
        put_float(to, state, 0);
        break;
    case TENSOR_F16:
        put_half(to, state, 10 + (uint32_t)(next_random(state) & 1), (next_random(state) & 1) != 0);
        break;
    case TENSOR_BF16:
        to[1] = (uint8_t)(0x3d | (next_random(state) & 1) << 7); /* +-(2^-5 .. 2^-3) */
        break;
    case TENSOR_Q4_0:
        put_half(to, state, 9, false);
        break;
    case TENSOR_Q5_0:
        put_half(to, state, 8, false);
        break;
    case TENSOR_Q8_0:
        put_half(to, state, 5, false);
        break;
    case TENSOR_Q4_1:
        put_half(to, state, 9, false);
        put_half(to + 2, state, 12, true);
        break;
    case TENSOR_Q5_1:
        put_half(to, state, 8, false);
        put_half(to + 2, state, 12, true);
        break;
    case TENSOR_Q4_K:
        put_half(to, state, 3, false);
        put_half(to + 2, state, 6, false);
        break;
    case TENSOR_Q5_K:
        put_half(to, state, 2, false);
        put_half(to + 2, state, 6, false);
        break;
    case TENSOR_Q6_K: /* ql[128] qh[64] scales[16] d */
        put_half(to + 208, state, 1, false);
        break;
    }
}

/* ---- tensors ---- */

struct make {
    struct gguf_writer *writer;
    uint64_t state;
};

static void add_matrix(struct make *make, const char *name, enum tensor_type type, uint32_t rows, uint32_t columns)
{
    const struct tensor_type_facts *facts = tensor_type_facts((uint32_t)type);
    CHECK(columns % facts->block_elements == 0);
    size_t blocks = (size_t)rows * columns / facts->block_elements;
    uint8_t *data = malloc(blocks * facts->block_bytes);
    CHECK(data != NULL);
    for (size_t i = 0; i < blocks; i++)
        put_block(type, data + i * facts->block_bytes, &make->state);
    gguf_tensor(make->writer, &(struct gguf_tensor){.name = name,
                                                    .type = type,
                                                    .dims = 2,
                                                    .shape = {columns, rows},
                                                    .data = data,
                                                    .bytes = blocks * facts->block_bytes});
    free(data);
}

static void add_vector(struct make *make, const char *name, float centre, uint32_t count)
{
    uint8_t *data = malloc(count * sizeof(float));
    CHECK(data != NULL);
    for (size_t i = 0; i < count; i++)
        put_float(data + i * sizeof(float), &make->state, centre);
    gguf_tensor(make->writer, &(struct gguf_tensor){.name = name,
                                                    .type = TENSOR_F32,
                                                    .dims = 1,
                                                    .shape = {count},
                                                    .data = data,
                                                    .bytes = count * sizeof(float)});
    free(data);
}

static const char *layer_name(char room[64], uint32_t layer, const char *name)
{
    snprintf(room, 64, "blk.%" PRIu32 ".%s", layer, name);
    return room;
}

static void add_layer(struct make *make, const struct tiny_model *m, uint32_t layer)
{
    char name[64];
    uint32_t query_width = m->heads * m->head_dim, key_width = m->kv_heads * m->head_dim;
    enum tensor_type type = m->matrix_type;
    add_vector(make, layer_name(name, layer, "attn_norm.weight"), 1, m->width);
    add_matrix(make, layer_name(name, layer, "attn_q.weight"), type, query_width, m->width);
    add_matrix(make, layer_name(name, layer, "attn_k.weight"), type, key_width, m->width);
    add_matrix(make, layer_name(name, layer, "attn_v.weight"), type, key_width, m->width);
    add_matrix(make, layer_name(name, layer, "attn_output.weight"), type, m->width, query_width);
    if (m->biases) {
        add_vector(make, layer_name(name, layer, "attn_q.bias"), 0, query_width);
        add_vector(make, layer_name(name, layer, "attn_k.bias"), 0, key_width);
        add_vector(make, layer_name(name, layer, "attn_v.bias"), 0, key_width);
        add_vector(make, layer_name(name, layer, "attn_output.bias"), 0, m->width);
    }
    add_vector(make, layer_name(name, layer, "ffn_norm.weight"), 1, m->width);
    add_matrix(make, layer_name(name, layer, "ffn_gate.weight"), type, m->ffn_width, m->width);
    add_matrix(make, layer_name(name, layer, "ffn_up.weight"), type, m->ffn_width, m->width);
    add_matrix(make, layer_name(name, layer, "ffn_down.weight"), type, m->width, m->ffn_width);
}

void tiny_model_write(const struct tiny_model *m, struct buffer *out)
{
    struct gguf_writer writer = {.version = 3, .alignment = 32};
    struct make make = {&writer, m->seed};
    gguf_text(&writer, "general.architecture", "llama");
    gguf_text(&writer, "general.name", m->name);
    gguf_u32(&writer, "llama.block_count", m->layers);
    gguf_u32(&writer, "llama.context_length", m->context);
    gguf_u32(&writer, "llama.embedding_length", m->width);
    gguf_u32(&writer, "llama.feed_forward_length", m->ffn_width);
    gguf_u32(&writer, "llama.attention.head_count", m->heads);
    gguf_u32(&writer, "llama.attention.head_count_kv", m->kv_heads);
    gguf_u32(&writer, "llama.attention.key_length", m->head_dim);
    gguf_u32(&writer, "llama.attention.value_length", m->head_dim);
    gguf_f32(&writer, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
    gguf_f32(&writer, "llama.rope.freq_base", 10000);
    gguf_u32(&writer, "llama.vocab_size", m->vocabulary);
    add_matrix(&make, "token_embd.weight", m->embedding_type, m->vocabulary, m->width);
    for (uint32_t layer = 0; layer < m->layers; layer++)
        add_layer(&make, m, layer);
    add_vector(&make, "output_norm.weight", 1, m->width);
    if (m->own_head)
        add_matrix(&make, "output.weight", m->embedding_type, m->vocabulary, m->width);
    if (m->add != NULL)
        m->add(&writer);
    gguf_finish(&writer, out);
}

void tiny_model_save(const struct tiny_model *model, char path[TINY_PATH_BYTES])
{
    struct buffer file = {0};
    tiny_model_write(model, &file);
    snprintf(path, TINY_PATH_BYTES, "/tmp/incipit-tiny-%s-XXXXXX", model->name);
    int descriptor = mkstemp(path);
    CHECK(descriptor >= 0);
    close(descriptor);
    gguf_save(&file, path);
    buffer_free(&file);
}
