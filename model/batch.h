/* One step of the model: rows of several sequences, in; a token for each row that samples, out.
 *
 * A batch is filled by the engine, submitted, and stays untouched until it was collected:
 *
 *     model_step_submit(model, &batch);
 *     status = model_step_collect(model, results);      // (draws of the batch)
 *
 * Results depend only on each sequence's ids and positions, never on what else is in the batch (kernels.h). */
#ifndef MODEL_BATCH_H
#define MODEL_BATCH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "kernels/base/status.h"
#include "kernels/kernels.h"

struct model;

/* `count` consecutive tokens of a sequence. KV of all positions before `position` has been written to `pages`. */
struct batch_sequence {
    const int32_t *ids; /* (count) */
    uint32_t count;
    uint32_t position;                    /* of ids[0] */
    const uint32_t *pages[KV_GROUPS_MAX]; /* per group: page of positions [i*page_tokens, (i+1)*page_tokens) at [i] */
    /* Draws after the last row. NULL: this run needs no logits (a prefill chunk that is not the last). With
     * `sample_count` > 1 the same logits are drawn from several times (choices that share a prompt). All draws of a
     * step together are at most model_args.logits_rows_max. */
    const struct sample_row *sample; /* (logits_rows, sample_count) */
    uint32_t sample_count;
    /* How many of the last rows are drawn from; 0 means 1. More: evaluation, which looks at every position. */
    uint32_t logits_rows;
};

struct batch {
    const struct batch_sequence *sequences; /* (sequence_count) */
    uint32_t sequence_count;
    /* Looked at between layers; true makes the step end early with STATUS_CANCELLED: nothing was sampled, and the rows'
     * KV is to be written again. NULL: never. */
    const atomic_bool *abandon;
    /* A sign of life: clock_ns of the last layer that was computed. NULL: nobody looks. */
    atomic_uint_least64_t *progress_ns;
};

void model_step_submit(struct model *model, const struct batch *batch);
/* Waits for the step. results[i] belongs to the i-th draw, counting sequences in order, in each its rows that
 * are drawn from, and the draws of each row. */
enum status model_step_collect(struct model *model, struct sample_result *results /* (draws of the batch) */);

/* The raw logits that the i-th draw of the step just collected was made from, before penalties: (vocabulary), valid
 * until the next submit. NULL unless model_keep_logits was switched on (tests and evaluation: it takes memory then, and
 * costs a copy a step), or there was no memory for it. */
void model_keep_logits(struct model *model, bool keep);
const float *model_logits(const struct model *model, uint32_t index);

#endif
