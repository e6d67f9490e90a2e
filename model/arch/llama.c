/* The Llama family: RMS norm, rotary positions on adjacent pairs, grouped-query attention, a gated feed-forward. */
#include "model/arch/arch.h"
#include "model/arch/blocks.h"
#include "model/arch/config_keys.h"

#include <string.h>

#include "model/model_file.h"

#define NAME "llama"
#define WIDTH_MAX (1u << 17)
#define HEADS_MAX 1024

static const struct arch_tensor llama_tensors[] = {
    {ARCH_EMBEDDING, "token_embd.weight", ARCH_VOCABULARY, ARCH_WIDTH, false},
    {ARCH_FINAL_NORM, "output_norm.weight", ARCH_VECTOR, ARCH_WIDTH, false},
    {ARCH_HEAD, "output.weight", ARCH_VOCABULARY, ARCH_WIDTH, true},
    {ARCH_ATTENTION_NORM, "attn_norm.weight", ARCH_VECTOR, ARCH_WIDTH, false},
    {ARCH_QUERY, "attn_q.weight", ARCH_QUERY_WIDTH, ARCH_WIDTH, false},
    {ARCH_KEY, "attn_k.weight", ARCH_KEY_WIDTH, ARCH_WIDTH, false},
    {ARCH_VALUE, "attn_v.weight", ARCH_KEY_WIDTH, ARCH_WIDTH, false},
    {ARCH_QUERY_BIAS, "attn_q.bias", ARCH_VECTOR, ARCH_QUERY_WIDTH, true},
    {ARCH_KEY_BIAS, "attn_k.bias", ARCH_VECTOR, ARCH_KEY_WIDTH, true},
    {ARCH_VALUE_BIAS, "attn_v.bias", ARCH_VECTOR, ARCH_KEY_WIDTH, true},
    {ARCH_ATTENTION_OUTPUT, "attn_output.weight", ARCH_WIDTH, ARCH_QUERY_WIDTH, false},
    {ARCH_ATTENTION_OUTPUT_BIAS, "attn_output.bias", ARCH_VECTOR, ARCH_WIDTH, true},
    {ARCH_FFN_NORM, "ffn_norm.weight", ARCH_VECTOR, ARCH_WIDTH, false},
    {ARCH_GATE, "ffn_gate.weight", ARCH_FFN_WIDTH, ARCH_WIDTH, false},
    {ARCH_UP, "ffn_up.weight", ARCH_FFN_WIDTH, ARCH_WIDTH, false},
    {ARCH_DOWN, "ffn_down.weight", ARCH_WIDTH, ARCH_FFN_WIDTH, false},
    {ARCH_GATE_BIAS, "ffn_gate.bias", ARCH_VECTOR, ARCH_FFN_WIDTH, true},
    {ARCH_UP_BIAS, "ffn_up.bias", ARCH_VECTOR, ARCH_FFN_WIDTH, true},
    {ARCH_DOWN_BIAS, "ffn_down.bias", ARCH_VECTOR, ARCH_WIDTH, true},
};

/* Keys that change the arithmetic and are not computed, with the number at which they change nothing. */
static const struct {
    const char *key;
    double neutral;
} refused[] = {
    {"expert_count", 0},
    {"attention.sliding_window", 0},
    {"rope.scaling.factor", 1},
    {"rope.scale_linear", 1},
    {"attention.clamp_kqv", 0},
    {"attention.max_alibi_bias", 0},
    {"logit_scale", 1},
    {"residual_scale", 1},
    {"embedding_scale", 1},
    {"attn_logit_softcapping", 0},
    {"final_logit_softcapping", 0},
};

static enum status refuse_what_is_not_computed(const struct model_file *file, struct error *error)
{
    struct model_text scaling;
    if (model_file_text(file, NAME ".rope.scaling.type", &scaling) &&
        !(scaling.size == strlen("none") && memcmp(scaling.data, "none", scaling.size) == 0))
        return error_set(error, STATUS_UNSUPPORTED, "%.160s: rope scaling of type '%.*s' is not supported yet",
                         weights_file_name(&file->weights), (int)(scaling.size < 32 ? scaling.size : 32), scaling.data);
    if (weights_tensor(&file->weights, "rope_freqs.weight", strlen("rope_freqs.weight")) != NULL)
        return error_set(error, STATUS_UNSUPPORTED,
                         "%.160s: rope scaling by the tensor 'rope_freqs.weight' is not supported yet",
                         weights_file_name(&file->weights));
    enum status status = STATUS_OK;
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]) && status == STATUS_OK; i++)
        status = config_refuse_unless(file, NAME, refused[i].key, refused[i].neutral, error);
    return status;
}

static enum status read_sizes(const struct model_file *file, struct model_config *config, struct error *error)
{
    struct {
        struct config_integer want;
        uint32_t *out;
    } sizes[] = {
        {{.key = "block_count", .min = 1, .max = KV_LAYERS_MAX}, &config->layers},
        {{.key = "embedding_length", .min = 1, .max = WIDTH_MAX}, &config->width},
        {{.key = "feed_forward_length", .min = 1, .max = 4 * WIDTH_MAX}, &config->ffn_width},
        {{.key = "context_length", .min = 1, .max = INT32_MAX}, &config->context_trained},
        {{.key = "attention.head_count", .min = 1, .max = HEADS_MAX}, &config->heads},
        {{.key = "attention.head_count_kv", .min = 1, .max = HEADS_MAX, .absent = &config->heads}, &config->kv_heads},
    };
    enum status status = STATUS_OK;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]) && status == STATUS_OK; i++)
        status = config_integer(file, NAME, sizes[i].want, sizes[i].out, error);
    return status;
}

static enum status read_heads(const struct model_file *file, struct model_config *config, struct error *error)
{
    const char *name = weights_file_name(&file->weights);
    uint32_t value_dim, whole = config->width / config->heads;
    if (config->heads % config->kv_heads != 0)
        return error_set(error, STATUS_INVALID, "%.160s: %u query heads cannot share %u KV heads evenly", name,
                         config->heads, config->kv_heads);
    struct config_integer key_length = {.key = "attention.key_length", .min = 1, .max = KV_HEAD_DIM_MAX};
    if (config->width % config->heads == 0)
        key_length.absent = &whole;
    enum status status = config_integer(file, NAME, key_length, &config->head_dim, error);
    if (status != STATUS_OK)
        return status;
    if (config->head_dim > KV_HEAD_DIM_MAX)
        return error_set(error, STATUS_UNSUPPORTED, "%.160s: heads of %u elements; at most %d are supported", name,
                         config->head_dim, KV_HEAD_DIM_MAX);
    status = config_integer(
        file, NAME,
        (struct config_integer){
            .key = "attention.value_length", .min = 1, .max = KV_HEAD_DIM_MAX, .absent = &config->head_dim},
        &value_dim, error);
    if (status != STATUS_OK)
        return status;
    if (value_dim != config->head_dim)
        return error_set(error, STATUS_UNSUPPORTED, "%.160s: keys of %u and values of %u elements are not supported",
                         name, config->head_dim, value_dim);
    return config_integer(
        file, NAME,
        (struct config_integer){
            .key = "rope.dimension_count", .min = 2, .max = config->head_dim, .absent = &config->head_dim},
        &config->rope_dims, error);
}

static enum status read_numbers(const struct model_file *file, struct model_config *config, struct error *error)
{
    const double base = 10000;
    double epsilon;
    enum status status = config_number(
        file, NAME, (struct config_number){.key = "rope.freq_base", .min = 1, .max = 1e12, .absent = &base},
        &config->rope_base, error);
    if (status == STATUS_OK)
        status = config_number(
            file, NAME, (struct config_number){.key = "attention.layer_norm_rms_epsilon", .min = 1e-12, .max = 0.1},
            &epsilon, error);
    if (status != STATUS_OK)
        return status;
    config->norm_epsilon = (float)epsilon;
    if (config->rope_dims % 2 != 0)
        return error_set(error, STATUS_INVALID, "%.160s: '" NAME ".rope.dimension_count' is %u, an odd number",
                         weights_file_name(&file->weights), config->rope_dims);
    return STATUS_OK;
}

static enum status llama_configure(const struct model_file *file, struct model_config *config, struct error *error)
{
    config->architecture = NAME;
    enum status status = refuse_what_is_not_computed(file, error);
    if (status == STATUS_OK)
        status = config_common(file, "token_embd.weight", "output.weight", config, error);
    if (status == STATUS_OK)
        status = read_sizes(file, config, error);
    if (status == STATUS_OK)
        status = read_heads(file, config, error);
    if (status == STATUS_OK)
        status = read_numbers(file, config, error);
    return status;
}

static void llama_layer(struct forward *forward, uint32_t layer)
{
    block_attention(forward, layer);
    block_gated_ffn(forward, layer);
}

const struct arch arch_llama = {
    .name = NAME,
    .configure = llama_configure,
    .tensors = llama_tensors,
    .tensor_count = sizeof(llama_tensors) / sizeof(llama_tensors[0]),
    .layer = llama_layer,
};
