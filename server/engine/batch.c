/* Plan to rows: tokens, positions, page tables, draws. */
#include "server/engine/batch.h"

#include <stdlib.h>

#include "kernels/base/check.h"
#include "server/engine/request.h"
#include "server/engine/step_cost.h"

enum status step_batch_open(uint32_t capacity, struct step_batch *batch, struct error *error)
{
    *batch = (struct step_batch){
        .capacity = capacity,
        .entries = calloc(capacity, sizeof(*batch->entries)),
        .sequences = calloc(capacity, sizeof(*batch->sequences)),
        .draws = calloc(capacity, sizeof(*batch->draws)),
        .results = calloc(capacity, sizeof(*batch->results)),
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
    CHECK(batch->draw_count + draws <= batch->capacity);
    for (uint32_t i = 0; i < draws; i++)
        batch->draws[batch->draw_count++] = sampler_row(sequence[i].sampler, sequence->count);
    return draws;
}

void step_batch_add(struct step_batch *batch, struct sequence *sequence, uint32_t rows, uint32_t groups)
{
    CHECK(batch->count < batch->capacity && rows > 0);
    CHECK(sequence->committed + rows <= cache_lease_tokens(sequence->lease));
    const struct sample_row *draws = &batch->draws[batch->draw_count];
    bool last = sequence->committed + rows == sequence->count;
    struct step_entry entry = {.sequence = sequence, .rows = rows};
    if (last)
        entry.draws = add_draws(batch, sequence);
    struct batch_sequence *run = &batch->sequences[batch->count];
    *run = (struct batch_sequence){
        .ids = sequence->ids + sequence->committed,
        .count = rows,
        .position = sequence->committed,
        .sample = entry.draws > 0 ? draws : NULL,
        .sample_count = entry.draws,
    };
    for (uint32_t group = 0; group < groups; group++)
        run->pages[group] = cache_lease_pages(sequence->lease, group);
    batch->entries[batch->count++] = entry;
    batch->rows += rows;
    batch->attended += step_cost_attended(rows, sequence->committed);
    if (!sequence_decodes(sequence))
        batch->prefill_rows += rows;
}
