/* Plan to rows: tokens, positions, page tables, draws. */
#include "server/engine/batch.h"

#include <stdlib.h>

#include "kernels/base/check.h"
#include "kernels/base/size.h"
#include "server/engine/request.h"
#include "server/engine/step_cost.h"

enum status step_batch_open(uint32_t capacity, uint32_t scores_max, struct step_batch *batch, struct error *error)
{
    *batch = (struct step_batch){
        .capacity = capacity,
        .scores_max = scores_max,
        .entries = calloc(capacity, sizeof(*batch->entries)),
        .sequences = calloc(capacity, sizeof(*batch->sequences)),
        .draws = calloc((size_t)capacity + scores_max, sizeof(*batch->draws)),
        .results = calloc((size_t)capacity + scores_max, sizeof(*batch->results)),
    };
    if (batch->entries != NULL && batch->sequences != NULL && batch->draws != NULL && batch->results != NULL)
        return STATUS_OK;
    step_batch_close(batch);
    return error_no_memory(error, "the rows of a step");
}

void step_batch_close(struct step_batch *batch)
{
    free(batch->entries);
    free(batch->sequences);
    free(batch->draws);
    free(batch->results);
    *batch = (struct step_batch){0};
}

void step_batch_clear(struct step_batch *batch)
{
    batch->count = 0;
    batch->draw_count = 0;
    batch->score_count = 0;
    batch->rows = 0;
    batch->prefill_rows = 0;
    batch->attended = 0;
}

bool step_batch_forks(const struct sequence *sequence)
{
    return sequence->count == sequence->prompt_count && sequence->request->choices_each > 1;
}

static uint32_t add_draws(struct step_batch *batch, struct sequence *sequence)
{
    if (sequence->sampler == NULL)
        return 0;
    uint32_t draws = step_batch_forks(sequence) ? sequence->request->choices_each : 1;
    CHECK(batch->draw_count - batch->score_count + draws <= batch->capacity);
    for (uint32_t i = 0; i < draws; i++)
        batch->draws[batch->draw_count++] = sampler_row(sequence[i].sampler, sequence->count);
    return draws;
}

uint32_t step_batch_rows(const struct step_batch *batch, const struct sequence *sequence, uint32_t rows)
{
    uint32_t to_score = sequence_rows_to_score(sequence);
    if (to_score == 0)
        return rows;
    return (uint32_t)size_min(size_min(rows, to_score), batch->scores_max - batch->score_count);
}

static uint32_t add_scores(struct step_batch *batch, const struct sequence *sequence, uint32_t rows)
{
    CHECK(batch->score_count + rows <= batch->scores_max);
    for (uint32_t i = 0; i < rows; i++)
        batch->draws[batch->draw_count++] = (struct sample_row){
            .scores = true,
            .scored = sequence->ids[sequence->committed + i + 1],
            .logprobs = sequence->request->call->top_logprobs + 1,
        };
    batch->score_count += rows;
    return rows;
}

void step_batch_add(struct step_batch *batch, struct sequence *sequence, uint32_t rows, uint32_t groups)
{
    CHECK(batch->count < batch->capacity && rows > 0);
    CHECK(sequence->committed + rows <= cache_lease_tokens(sequence->lease));
    const struct sample_row *draws = &batch->draws[batch->draw_count];
    bool last = sequence->committed + rows == sequence->count;
    struct step_entry entry = {.sequence = sequence, .rows = rows, .scores = sequence_rows_to_score(sequence) > 0};
    if (entry.scores)
        entry.draws = add_scores(batch, sequence, rows);
    else if (last)
        entry.draws = add_draws(batch, sequence);
    struct batch_sequence *run = &batch->sequences[batch->count];
    *run = (struct batch_sequence){
        .ids = sequence->ids + sequence->committed,
        .count = rows,
        .position = sequence->committed,
        .sample = entry.draws > 0 ? draws : NULL,
        .sample_count = entry.scores ? 1 : entry.draws,
        .logits_rows = entry.scores ? rows : 0,
    };
    for (uint32_t group = 0; group < groups; group++)
        run->pages[group] = cache_lease_pages(sequence->lease, group);
    batch->entries[batch->count++] = entry;
    batch->rows += rows;
    batch->attended += step_cost_attended(rows, sequence->committed);
    if (!sequence_decodes(sequence))
        batch->prefill_rows += rows;
}
