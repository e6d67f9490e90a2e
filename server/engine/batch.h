/* The rows of a step as the model wants them, in arrays taken at open. Filled by the step, read back by it. */
#ifndef SERVER_ENGINE_BATCH_H
#define SERVER_ENGINE_BATCH_H

#include <stdint.h>

#include "model/batch.h"
#include "server/engine/sequence.h"

struct step_entry {
    struct sequence *sequence;
    uint32_t rows;
    uint32_t draws; /* 0: a prompt's chunk that is not the last, or nothing is to be drawn */
    bool scores;    /* the draws are no draws, but the scores of the tokens behind the rows */
};

struct step_batch {
    uint32_t capacity; /* sequences, and draws */
    uint32_t scores_max;
    uint32_t score_count; /* within draw_count */
    uint32_t count;       /* sequences */
    uint32_t draw_count;
    uint32_t rows;
    uint32_t prefill_rows;            /* of them prompts' */
    double attended;                  /* positions that all rows attend to */
    struct step_entry *entries;       /* (capacity) */
    struct batch_sequence *sequences; /* (capacity) */
    struct sample_row *draws;         /* (capacity + scores_max) */
    struct sample_result *results;    /* (capacity + scores_max) */
};

enum status step_batch_open(uint32_t capacity, uint32_t scores_max, struct step_batch *batch, struct error *error);
void step_batch_close(struct step_batch *batch);
void step_batch_clear(struct step_batch *batch);

/* Adds the next `rows` ids of a running sequence whose lease has pages for them. The last row of all its ids draws:
 * once for its choice, or for every choice of the prompt where they begin together. Rows to be scored are alone: at
 * most step_batch_rows of them. The lease must not change until
 * the step is over. */
void step_batch_add(struct step_batch *batch, struct sequence *sequence, uint32_t rows, uint32_t groups);

/* How many of the next `rows` rows of a sequence fit. */
uint32_t step_batch_rows(const struct step_batch *batch, const struct sequence *sequence, uint32_t rows);

/* Whether the next draw for this sequence is the first one of all choices of its prompt. */
bool step_batch_forks(const struct sequence *sequence);

#endif
