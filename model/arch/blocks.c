/* Attention and gated feed-forward, each with its norm before and its residual after. */
#include "model/arch/blocks.h"

static void norm_rows(struct forward *f, const float *weight)
{
    f->ops->norm(f->kernels, &(struct norm_args){
                                 .x = f->residual,
                                 .weight = weight,
                                 .epsilon = f->config->norm_epsilon,
                                 .rows = f->rows,
                                 .columns = f->config->width,
                                 .out = f->normed,
                             });
}

static void add_to_residual(struct forward *f, const struct activations *input, const struct matrix *matrix,
                            const float *bias)
{
    f->ops->matmul(f->kernels, &(struct matmul_args){
                                   .input = input,
                                   .rows = f->rows,
                                   .count = 1,
                                   .matrix = {matrix},
                                   .bias = {bias},
                                   .out = {f->residual},
                                   .accumulate = {true},
                               });
}

void block_attention(struct forward *f, uint32_t layer)
{
    const struct arch_weight *w = f->layers[layer];
    norm_rows(f, w[ARCH_ATTENTION_NORM].vector);
    f->ops->matmul(f->kernels,
                   &(struct matmul_args){
                       .input = f->normed,
                       .rows = f->rows,
                       .count = 3,
                       .matrix = {w[ARCH_QUERY].matrix, w[ARCH_KEY].matrix, w[ARCH_VALUE].matrix},
                       .bias = {w[ARCH_QUERY_BIAS].vector, w[ARCH_KEY_BIAS].vector, w[ARCH_VALUE_BIAS].vector},
                       .out = {f->query, f->key, f->value},
                   });
    f->ops->rope_append(f->kernels, &(struct rope_append_args){
                                        .q = f->query,
                                        .k = f->key,
                                        .v = f->value,
                                        .query_heads = f->config->heads,
                                        .layer = layer,
                                        .runs = f->runs,
                                        .run_count = f->run_count,
                                    });
    f->ops->attention(f->kernels, &(struct attention_args){
                                      .q = f->query,
                                      .query_heads = f->config->heads,
                                      .layer = layer,
                                      .runs = f->runs,
                                      .run_count = f->run_count,
                                      .out = f->attended,
                                  });
    add_to_residual(f, f->attended, w[ARCH_ATTENTION_OUTPUT].matrix, w[ARCH_ATTENTION_OUTPUT_BIAS].vector);
}

void block_gated_ffn(struct forward *f, uint32_t layer)
{
    const struct arch_weight *w = f->layers[layer];
    norm_rows(f, w[ARCH_FFN_NORM].vector);
    f->ops->matmul(f->kernels, &(struct matmul_args){
                                   .input = f->normed,
                                   .rows = f->rows,
                                   .count = 2,
                                   .matrix = {w[ARCH_GATE].matrix, w[ARCH_UP].matrix},
                                   .bias = {w[ARCH_GATE_BIAS].vector, w[ARCH_UP_BIAS].vector},
                                   .out = {f->gate, f->up},
                               });
    f->ops->swiglu(f->kernels, &(struct swiglu_args){
                                   .gate = f->gate,
                                   .up = f->up,
                                   .rows = f->rows,
                                   .columns = f->config->ffn_width,
                                   .out = f->hidden,
                               });
    add_to_residual(f, f->hidden, w[ARCH_DOWN].matrix, w[ARCH_DOWN_BIAS].vector);
}
