/* What engine tests run on: a tiny random model behind the default model's tokenizer, so that text is real and a KV
 * mix-up changes every logit; requests in one call; replies gathered event by event, in the contract's order. */
#ifndef TESTS_UNIT_SERVER_ENGINE_BED_H
#define TESTS_UNIT_SERVER_ENGINE_BED_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "kernels/base/buffer.h"
#include "server/engine/engine.h"

#define BED_CHOICES_MAX 8
#define BED_CONTEXT 2048
#define BED_BLOCK 32
#define BED_SCORE_ROWS 7

struct bed_args {
    uint32_t pages;               /* of the KV pool; 0: four times the context */
    uint32_t sequences_max;       /* 0: 8 */
    uint32_t prefill_chunk;       /* 0: 96 */
    uint32_t queue_max;           /* 0: 64 */
    uint32_t key_bits;            /* 0: all */
    const struct kernel_ops *ops; /* NULL: the CPU's */
    bool no_cache;
    bool chat; /* with the default model's chat template */
};

struct bed {
    struct model_file *file;
    struct tokenizer *tokenizer;
    struct chat_template *chat_template;
    struct model *model;
    struct engine *engine;
};

void bed_open(struct bed *bed, const struct bed_args *args);
/* What replies are compared with: no cache, room for all choices of a request. */
void bed_open_reference(struct bed *bed);
void bed_close(struct bed *bed);
/* At the end of a test: expects the baseline where there is an engine, and closes; nothing when it was not opened. */
void bed_end(struct bed *bed);

/* ---- one request ---- */

struct bed_choice {
    int32_t ids[BED_CONTEXT]; /* (count), with their log-probabilities */
    float logprobs[BED_CONTEXT];
    uint32_t count;
    uint32_t echoed; /* of them the prompt's */
    struct buffer text;
    bool stopped;
    enum api_stop_reason reason;
};

struct bed_reply {
    struct engine_request *request;
    pthread_mutex_t lock;
    pthread_cond_t woken;
    uint32_t wakes;
    uint32_t events;
    bool accepted;
    int32_t *prompt; /* (prompt_count), of the last PROMPT; owned */
    uint32_t prompt_count;
    bool started;
    bool ended;
    bool failed;
    struct error error;
    struct api_usage usage; /* of END */
    struct api_usage start; /* of STARTED */
    struct bed_choice choices[BED_CHOICES_MAX];
};

/* Ids that no other `which` gives: the beginnings of their sequences differ. */
void bed_prompt(uint64_t which, int32_t *ids, uint32_t count);

/* A completion call for these ids (copied): greedy, log-probabilities on, end tokens ignored. */
struct api_call *bed_call(const int32_t *ids, uint32_t count, uint32_t max_tokens);

/* Gives a call's prompt its ids, copied. */
void bed_set_prompt(struct api_call *call, struct api_prompt *prompt, const int32_t *ids, uint32_t count);

/* Choices that are drawn, by a seed. */
struct api_call *bed_choices_call(const int32_t *ids, uint32_t count, uint32_t choices);

struct bed_reply *bed_submit(struct bed *bed, struct api_call *call);
/* The same with all that can be said; the wake is the bed's. */
struct bed_reply *bed_submit_as(struct bed *bed, const struct engine_submission *submission);
/* Takes the next event, waiting for it; false: the last one was taken. */
bool bed_next(struct bed_reply *reply);
void bed_finish(struct bed_reply *reply);  /* takes all */
void bed_release(struct bed_reply *reply); /* the handle, and the reply */

/* submit, finish, and no error. */
struct bed_reply *bed_run(struct bed *bed, struct api_call *call);

/* Bit-equal: ids, log-probabilities and text of a choice. */
void bed_expect_equal(const struct bed_reply *a, uint32_t choice_a, const struct bed_reply *b, uint32_t choice_b);
/* Waits until nothing runs, waits or is leased; every page is free or cached. */
void bed_expect_baseline(struct bed *bed);

#endif
