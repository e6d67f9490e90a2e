/* What a Llama file must hold: the configuration that is read from it, and the sentence for each thing that is
 * wrong. */
#include "tests/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "model/arch/arch.h"
#include "model/model_file.h"
#include "model/model_state.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/tiny_model.h"

static struct model_file *open_file(const struct buffer *bytes)
{
    char path[] = "/tmp/incipit-llama-XXXXXX";
    struct model_file *file;
    struct error error;
    int descriptor = mkstemp(path);
    ck_assert_int_ge(descriptor, 0);
    close(descriptor);
    gguf_save(bytes, path);
    ck_assert_msg(model_file_open(path, &file, &error) == STATUS_OK, "%s", error.text);
    unlink(path);
    return file;
}

/* Configures and checks the tensors, as opening the model does first. */
static enum status check_file(const struct buffer *bytes, struct model_config *config, struct error *error)
{
    const struct arch *arch;
    struct model_file *file = open_file(bytes);
    enum status status = model_file_config(file, config, error);
    if (status == STATUS_OK && (status = arch_of_file(file, &arch, error)) == STATUS_OK)
        status = model_load_check(file, arch, config, error);
    model_file_close(file);
    return status;
}

START_TEST(reads_the_configuration)
{
    struct buffer bytes = {0};
    struct model_config config;
    struct error error;
    struct tiny_model tiny = *tiny_model_named("bias");
    tiny_model_write(&tiny, &bytes);
    ck_assert_msg(check_file(&bytes, &config, &error) == STATUS_OK, "%s", error.text);
    ck_assert_str_eq(config.architecture, "llama");
    ck_assert_str_eq(config.name, "bias");
    ck_assert_uint_eq(config.layers, tiny.layers);
    ck_assert_uint_eq(config.width, tiny.width);
    ck_assert_uint_eq(config.ffn_width, tiny.ffn_width);
    ck_assert_uint_eq(config.heads, tiny.heads);
    ck_assert_uint_eq(config.kv_heads, tiny.kv_heads);
    ck_assert_uint_eq(config.head_dim, tiny.head_dim);
    ck_assert_uint_eq(config.vocabulary, tiny.vocabulary);
    ck_assert_uint_eq(config.context_trained, tiny.context);
    ck_assert_uint_eq(config.rope_dims, tiny.head_dim);
    ck_assert(config.rope_base == 10000.0);
    ck_assert(config.norm_epsilon == 1e-5f);
    ck_assert(!config.tied_head);
    buffer_free(&bytes);
}
END_TEST

/* ---- wrong files: a tiny model with one thing changed ---- */

/* The bytes behind the first place where `text` stands as a whole key or name. */
static char *behind(struct buffer *bytes, const char *text)
{
    size_t size = strlen(text);
    char *at = memmem(bytes->data, bytes->size, text, size);
    ck_assert_msg(at != NULL, "the file has no %s", text);
    return at + size;
}

static void set_u32(struct buffer *bytes, const char *key, uint32_t value)
{
    memcpy(behind(bytes, key) + 4, &value, 4); /* after the type */
}

static void set_f32(struct buffer *bytes, const char *key, float value)
{
    memcpy(behind(bytes, key) + 4, &value, 4);
}

static void set_type(struct buffer *bytes, const char *key, uint32_t type)
{
    memcpy(behind(bytes, key), &type, 4);
}

/* As if it were not there, as far as anyone knows who looks for it. */
static void misspell(struct buffer *bytes, const char *text)
{
    behind(bytes, text)[-1] = '?';
}

static void swap_shape(struct buffer *bytes, const char *name)
{
    char *shape = behind(bytes, name) + 4, first[8];
    memcpy(first, shape, 8);
    memmove(shape, shape + 8, 8);
    memcpy(shape + 8, first, 8);
}

static void no_layers_key(struct buffer *b)
{
    misspell(b, "llama.block_count");
}

static void no_epsilon(struct buffer *b)
{
    misspell(b, "llama.attention.layer_norm_rms_epsilon");
}

static void no_layers(struct buffer *b)
{
    set_u32(b, "llama.block_count", 0);
}

static void too_many_layers(struct buffer *b)
{
    set_u32(b, "llama.block_count", 257);
}

static void more_layers_than_tensors(struct buffer *b)
{
    set_u32(b, "llama.block_count", 4);
}

static void fewer_layers_than_tensors(struct buffer *b)
{
    set_u32(b, "llama.block_count", 2);
}

static void no_heads(struct buffer *b)
{
    set_u32(b, "llama.attention.head_count", 0);
}

static void heads_not_shared_evenly(struct buffer *b)
{
    set_u32(b, "llama.attention.head_count_kv", 4);
}

static void no_kv_heads(struct buffer *b)
{
    set_u32(b, "llama.attention.head_count_kv", 0);
}

static void heads_too_long(struct buffer *b)
{
    set_u32(b, "llama.attention.key_length", 512);
}

static void values_shorter_than_keys(struct buffer *b)
{
    set_u32(b, "llama.attention.value_length", 8);
}

static void width_is_a_text(struct buffer *b)
{
    set_type(b, "llama.embedding_length", 6);
}

static void epsilon_not_a_number(struct buffer *b)
{
    set_u32(b, "llama.attention.layer_norm_rms_epsilon", 0x7fc00000); /* NaN */
}

static void epsilon_zero(struct buffer *b)
{
    set_f32(b, "llama.attention.layer_norm_rms_epsilon", 0);
}

static void rope_base_negative(struct buffer *b)
{
    set_f32(b, "llama.rope.freq_base", -1);
}

static void another_vocabulary(struct buffer *b)
{
    set_u32(b, "llama.vocab_size", 95);
}

static void context_zero(struct buffer *b)
{
    set_u32(b, "llama.context_length", 0);
}

static void no_embedding(struct buffer *b)
{
    misspell(b, "token_embd.weight");
}

static void no_up(struct buffer *b)
{
    misspell(b, "blk.1.ffn_up.weight");
}

static void up_turned(struct buffer *b)
{
    swap_shape(b, "blk.1.ffn_up.weight");
}

static void wrong_width(struct buffer *b)
{
    set_u32(b, "llama.embedding_length", 192);
}

static void another_architecture(struct buffer *b)
{
    memcpy(behind(b, "general.architecture") + 12, "lama2", 5);
}

static void no_architecture(struct buffer *b)
{
    misspell(b, "general.architecture");
}

static const struct {
    void (*spoil)(struct buffer *bytes);
    const char *words;
} wrong_files[] = {
    {no_layers_key, "the metadata key 'llama.block_count' is missing"},
    {no_epsilon, "the metadata key 'llama.attention.layer_norm_rms_epsilon' is missing"},
    {no_layers, "'llama.block_count' is 0; it must be from 1 to 256"},
    {too_many_layers, "'llama.block_count' is 257"},
    {more_layers_than_tensors, "the tensor 'blk.3.attn_norm.weight' is missing"},
    {fewer_layers_than_tensors, "the tensor 'blk.2.attn_norm.weight' has no place"},
    {no_heads, "'llama.attention.head_count' is 0"},
    {heads_not_shared_evenly, "6 query heads cannot share 4 KV heads evenly"},
    {no_kv_heads, "'llama.attention.head_count_kv' is 0"},
    {heads_too_long, "'llama.attention.key_length' is 512; it must be from 1 to 256"},
    {values_shorter_than_keys, "keys of 16 and values of 8 elements are not supported"},
    {width_is_a_text, "'llama.embedding_length' is not an integer"},
    {epsilon_not_a_number, "'llama.attention.layer_norm_rms_epsilon' is nan"},
    {epsilon_zero, "'llama.attention.layer_norm_rms_epsilon' is 0"},
    {rope_base_negative, "'llama.rope.freq_base' is -1"},
    {another_vocabulary, "'llama.vocab_size' is 95, but 'token_embd.weight' has 96 rows"},
    {context_zero, "'llama.context_length' is 0"},
    {no_embedding, "the tensor 'token_embd.weight' is missing"},
    {no_up, "the tensor 'blk.1.ffn_up.weight' is missing"},
    {up_turned, "the tensor 'blk.1.ffn_up.weight' has the shape (160, 96, 1, 1); the configuration asks for (96, 160"},
    {wrong_width, "the tensor 'token_embd.weight' has the shape (96, 96, 1, 1); the configuration asks for (192"},
    {another_architecture, "the architecture 'lama2' is not supported; this program runs: llama"},
    {no_architecture, "the metadata key 'general.architecture' is missing"},
};

START_TEST(says_what_is_wrong_with_a_file)
{
    struct buffer bytes = {0};
    struct model_config config;
    struct error error;
    tiny_model_write(tiny_model_named("f32"), &bytes);
    wrong_files[_i].spoil(&bytes);
    ck_assert_int_ne(check_file(&bytes, &config, &error), STATUS_OK);
    ck_assert_msg(strstr(error.text, wrong_files[_i].words) != NULL, "'%s' does not say '%s'", error.text,
                  wrong_files[_i].words);
    ck_assert_ptr_null(strchr(error.text, '\n'));
    buffer_free(&bytes);
}
END_TEST

/* ---- files that ask for arithmetic which is not there ---- */

static const float ones[96];

static void add_scaling(struct gguf_writer *w)
{
    gguf_text(w, "llama.rope.scaling.type", "yarn");
}

static void add_rope_factors(struct gguf_writer *w)
{
    gguf_tensor(w, &(struct gguf_tensor){"rope_freqs.weight", TENSOR_F32, 1, {8}, ones, 32});
}

static void add_experts(struct gguf_writer *w)
{
    gguf_u32(w, "llama.expert_count", 8);
}

static void add_window(struct gguf_writer *w)
{
    gguf_u32(w, "llama.attention.sliding_window", 4096);
}

static void add_old_scaling(struct gguf_writer *w)
{
    gguf_f32(w, "llama.rope.scale_linear", 4);
}

static void add_query_norm(struct gguf_writer *w)
{
    gguf_tensor(w, &(struct gguf_tensor){"blk.0.attn_q_norm.weight", TENSOR_F32, 1, {16}, ones, 64});
}

static void add_tokens(struct gguf_writer *w)
{
    gguf_texts(w, "tokenizer.ggml.tokens", (const char *const[]){"a", "b"}, 2);
}

static void add_odd_rope(struct gguf_writer *w)
{
    gguf_u32(w, "llama.rope.dimension_count", 7);
}

static void add_part(struct gguf_writer *w)
{
    gguf_u32(w, "split.count", 3);
}

static const struct {
    void (*add)(struct gguf_writer *w);
    const char *words;
} unsupported_files[] = {
    {add_scaling, "rope scaling of type 'yarn' is not supported yet"},
    {add_rope_factors, "'rope_freqs.weight' is not supported yet"},
    {add_experts, "'llama.expert_count' asks for something that is not supported yet"},
    {add_window, "'llama.attention.sliding_window' asks for something"},
    {add_old_scaling, "'llama.rope.scale_linear' asks for something"},
    {add_query_norm, "the tensor 'blk.0.attn_q_norm.weight' has no place in a model of architecture 'llama'"},
    {add_tokens, "the tokenizer has 2 tokens, but 'token_embd.weight' has 96 rows"},
    {add_odd_rope, "'llama.rope.dimension_count' is 7, an odd number"},
    {add_part, "the file is one of 3 parts"},
};

START_TEST(refuses_what_it_would_not_compute)
{
    struct buffer bytes = {0};
    struct model_config config;
    struct error error;
    struct tiny_model tiny = *tiny_model_named("f32");
    tiny.add = unsupported_files[_i].add;
    tiny_model_write(&tiny, &bytes);
    ck_assert_int_ne(check_file(&bytes, &config, &error), STATUS_OK);
    ck_assert_msg(strstr(error.text, unsupported_files[_i].words) != NULL, "'%s' does not say '%s'", error.text,
                  unsupported_files[_i].words);
    buffer_free(&bytes);
}
END_TEST

static void add_neutral(struct gguf_writer *w)
{
    gguf_text(w, "llama.rope.scaling.type", "none");
    gguf_f32(w, "llama.rope.scaling.factor", 1);
    gguf_u32(w, "llama.expert_count", 0);
    gguf_u32(w, "llama.unheard_of", 5);
}

START_TEST(accepts_keys_that_change_nothing)
{
    struct buffer bytes = {0};
    struct model_config config;
    struct error error;
    struct tiny_model tiny = *tiny_model_named("f32");
    tiny.add = add_neutral;
    tiny_model_write(&tiny, &bytes);
    ck_assert_msg(check_file(&bytes, &config, &error) == STATUS_OK, "%s", error.text);
    buffer_free(&bytes);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("llama");
    TCase *t = tcase_create("configuration");
    tcase_add_test(t, reads_the_configuration);
    tcase_add_loop_test(t, says_what_is_wrong_with_a_file, 0, sizeof(wrong_files) / sizeof(wrong_files[0]));
    tcase_add_loop_test(t, refuses_what_it_would_not_compute, 0,
                        sizeof(unsupported_files) / sizeof(unsupported_files[0]));
    tcase_add_test(t, accepts_keys_that_change_nothing);
    suite_add_tcase(s, t);
    return s;
}
