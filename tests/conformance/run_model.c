/* Running models for tests. See run_model.h. */
#include "tests/conformance/run_model.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/check.h"

const struct sample_row run_greedy = {.top_p = 1, .repetition_penalty = 1};

/* Bytes of pages for `sequences` of `context` tokens with one group; more groups need more, which opening would say. */
static uint64_t kv_bytes(const struct model_config *config, uint32_t context, uint32_t block_tokens, uint32_t sequences)
{
    uint64_t token = (uint64_t)config->layers * config->kv_heads * config->head_dim * 2 * sizeof(uint16_t);
    uint64_t pages = (context + block_tokens - 1) / block_tokens;
    return pages * sequences * (token * block_tokens + 64);
}

struct model *run_open(const struct run_args *args)
{
    struct error error;
    struct model_file *file;
    struct model_config config;
    struct model *model;
    ck_assert_msg(model_file_open(args->path, &file, &error) == STATUS_OK, "%s", error.text);
    ck_assert_msg(model_file_config(file, &config, &error) == STATUS_OK, "%s", error.text);
    uint32_t context = args->context == 0 ? 512 : args->context;
    uint32_t rows_max = args->rows_max == 0 ? 512 : args->rows_max;
    struct model_args model_args = {
        .ops = args->ops == NULL ? &kernels_cpu : args->ops,
        .cpu = args->cpu,
        .threads = args->threads,
        .activations = args->activations,
        .context = context,
        .block_tokens = 32,
        .kv_bytes = kv_bytes(&config, context, 32, args->kv_sequences == 0 ? 8 : args->kv_sequences),
        .rows_max = rows_max,
        .sequences_max = args->sequences_max == 0 ? 8 : args->sequences_max,
        .logits_rows_max = args->logits_rows_max == 0 ? rows_max : args->logits_rows_max,
    };
    ck_assert_msg(model_open(file, &model_args, &model, &error) == STATUS_OK, "%s", error.text);
    model_file_close(file);
    model_keep_logits(model, true);
    return model;
}

/* Whether a backend of that variant opens: the smallest one there can be. */
static bool has_variant(const char *name)
{
    struct kv_layer_shape shape = {.kind = KV_FULL, .heads = 1, .head_dim = 16};
    struct kernels_args args = {.cpu = name,
                                .threads = 1,
                                .rows_max = 1,
                                .runs_max = 1,
                                .context = 1,
                                .query_heads_max = 1,
                                .vocabulary = 1,
                                .sample_rows_max = 1,
                                .rope_base = 1,
                                .rope_dims = 2,
                                .pages = 1};
    struct kernels *kernels;
    struct error error;
    CHECK(kv_layout_plan(&shape, 1, 16, KV_F16, KV_F16, &args.layout, &error) == STATUS_OK);
    enum status status = kernels_cpu.open(&args, &kernels, &error);
    if (status != STATUS_OK) {
        ck_assert_msg(status == STATUS_UNSUPPORTED, "%s", error.text);
        printf("not tested here: %s\n", error.text);
        return false;
    }
    kernels_cpu.close(kernels);
    return true;
}

const char *const *run_variants(void)
{
    static const char *const all[] = {"scalar", "avx2", "avx512"};
    static const char *found[sizeof(all) / sizeof(all[0]) + 1];
    if (found[0] != NULL)
        return found;
    size_t count = 0;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (has_variant(all[i]))
            found[count++] = all[i];
    return found;
}

void run_whole(struct model *model, const struct run_whole *args)
{
    uint32_t page_tokens = model_kv_layout(model)->groups[0].page_tokens;
    uint32_t page_count = (args->count + page_tokens - 1) / page_tokens, vocabulary = model_config(model)->vocabulary;
    uint32_t *pages = calloc(page_count, sizeof(*pages));
    struct sample_row *draws = calloc(args->chunk, sizeof(*draws));
    struct sample_result *results = calloc(args->chunk, sizeof(*results));
    CHECK(pages != NULL && draws != NULL && results != NULL && page_count <= model_kv_pages(model));
    for (uint32_t i = 0; i < page_count; i++)
        pages[i] = i;
    for (uint32_t i = 0; i < args->chunk; i++)
        draws[i] = run_greedy;
    for (uint32_t at = 0; at < args->count; at += args->chunk) {
        uint32_t rows = args->count - at < args->chunk ? args->count - at : args->chunk;
        uint32_t end = at + rows, first = at > args->from ? at : args->from;
        uint32_t wanted = end > first ? end - first : 0;
        struct batch_sequence sequence = {.ids = args->ids + at,
                                          .count = rows,
                                          .position = at,
                                          .pages = {pages},
                                          .sample = wanted > 0 ? draws : NULL,
                                          .sample_count = wanted > 0,
                                          .logits_rows = wanted};
        model_step_submit(model, &(struct batch){.sequences = &sequence, .sequence_count = 1});
        CHECK(model_step_collect(model, results) == STATUS_OK);
        for (uint32_t i = 0; i < wanted; i++)
            memcpy(args->logits + (size_t)(first + i - args->from) * vocabulary, model_logits(model, i),
                   vocabulary * sizeof(float));
    }
    free(pages);
    free(draws);
    free(results);
}
