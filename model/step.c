/* One step: the rows of a batch through all layers, then the head and the draws for the rows that need a token. */
#include <stdlib.h>
#include <string.h>

#include "kernels/base/check.h"
#include "kernels/base/thread.h"
#include "model/batch.h"
#include "model/model_state.h"

static void add_draws(struct model *model, const struct batch_sequence *sequence, uint32_t first_row)
{
    uint32_t rows = sequence->logits_rows == 0 ? 1 : sequence->logits_rows;
    uint64_t draws = (uint64_t)rows * sequence->sample_count;
    CHECK(rows <= sequence->count && draws <= model->draws_max - model->draw_count);
    for (uint32_t i = 0; i < draws; i++) {
        /* Draws from the same row each compute its logits: sampling may change them in place. */
        model->selected[model->draw_count] = first_row + sequence->count - rows + i / sequence->sample_count;
        model->draws[model->draw_count++] = sequence->sample[i];
    }
}

static void add_sequence(struct model *model, const struct batch_sequence *sequence)
{
    struct forward *f = &model->forward;
    CHECK(f->run_count < model->sequences_max);
    CHECK(sequence->count > 0 && sequence->count <= model->rows_max - f->rows);
    CHECK(sequence->position < model->context && sequence->count <= model->context - sequence->position);
    for (uint32_t i = 0; i < sequence->count; i++)
        CHECK(sequence->ids[i] >= 0 && (uint32_t)sequence->ids[i] < model->config.vocabulary);
    struct row_run *run = &f->runs[f->run_count++];
    *run = (struct row_run){.first_row = f->rows, .rows = sequence->count, .first_position = sequence->position};
    memcpy(run->pages, sequence->pages, sizeof(run->pages));
    memcpy(model->ids + f->rows, sequence->ids, sequence->count * sizeof(*model->ids));
    if (sequence->sample != NULL && sequence->sample_count > 0)
        add_draws(model, sequence, f->rows);
    f->rows += sequence->count;
}

static bool run_layers(struct model *model, const struct batch *batch)
{
    struct forward *f = &model->forward;
    f->ops->embed(f->kernels, f->weights[ARCH_EMBEDDING].matrix, model->ids, f->rows, f->residual);
    for (uint32_t layer = 0; layer < model->config.layers; layer++) {
        if (batch->abandon != NULL && atomic_load_explicit(batch->abandon, memory_order_relaxed))
            return false;
        model->arch->layer(f, layer);
        if (batch->progress_ns != NULL)
            atomic_store_explicit(batch->progress_ns, clock_ns(), memory_order_relaxed);
    }
    return true;
}

static void draw(struct model *model)
{
    struct forward *f = &model->forward;
    uint32_t vocabulary = model->config.vocabulary;
    const struct matrix *head = f->weights[ARCH_HEAD].matrix;
    f->ops->norm(f->kernels, &(struct norm_args){
                                 .x = f->residual,
                                 .selected = model->selected,
                                 .weight = f->weights[ARCH_FINAL_NORM].vector,
                                 .epsilon = model->config.norm_epsilon,
                                 .rows = model->draw_count,
                                 .columns = model->config.width,
                                 .out = model->last,
                             });
    f->ops->matmul(f->kernels, &(struct matmul_args){
                                   .input = model->last,
                                   .rows = model->draw_count,
                                   .count = 1,
                                   .matrix = {head},
                                   .out = {model->logits},
                               });
    if (model->keep_logits) {
        f->ops->download(f->kernels, model->kept, model->logits, (size_t)model->draw_count * vocabulary);
        model->kept_count = model->draw_count;
    }
    f->ops->sample(f->kernels, &(struct sample_args){
                                   .logits = model->logits,
                                   .rows = model->draw_count,
                                   .vocabulary = vocabulary,
                                   .row = model->draws,
                                   .result = model->drawn,
                               });
}

void model_step_submit(struct model *model, const struct batch *batch)
{
    CHECK(!model->submitted);
    model->submitted = true;
    model->draw_count = 0;
    model->kept_count = 0;
    model->forward.run_count = 0;
    model->forward.rows = 0;
    for (uint32_t i = 0; i < batch->sequence_count; i++)
        add_sequence(model, &batch->sequences[i]);
    model->abandoned = model->forward.rows > 0 && !run_layers(model, batch);
    if (!model->abandoned && model->draw_count > 0)
        draw(model);
}

enum status model_step_collect(struct model *model, struct sample_result *results)
{
    CHECK(model->submitted);
    model->forward.ops->wait(model->forward.kernels);
    model->submitted = false;
    if (model->abandoned)
        return STATUS_CANCELLED;
    if (model->draw_count > 0)
        memcpy(results, model->drawn, model->draw_count * sizeof(*results));
    return STATUS_OK;
}

void model_keep_logits(struct model *model, bool keep)
{
    if (keep && model->kept == NULL)
        model->kept = calloc((size_t)model->draws_max * model->config.vocabulary, sizeof(*model->kept));
    model->keep_logits = keep && model->kept != NULL;
    model->kept_count = 0;
}

const float *model_logits(const struct model *model, uint32_t index)
{
    return index < model->kept_count ? model->kept + (size_t)index * model->config.vocabulary : NULL;
}
