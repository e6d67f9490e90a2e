/* What the engine counts beside its status: how requests ended, and how long their parts took, in fixed buckets.
 *
 *     stats_observe(&stats, STATS_QUEUE_SECONDS, seconds)       as it happens, from any thread
 *     stats_read(&stats, &numbers)                              a copy, of about 2 KiB
 *
 * A lock of its own, held for as long as a copy takes; whoever has it takes no other. */
#ifndef SERVER_ENGINE_STATS_H
#define SERVER_ENGINE_STATS_H

#include <pthread.h>
#include <stdint.h>

/* ---- histograms ---- */

enum stats_histogram {
    STATS_FIRST_TOKEN_SECONDS, /* from submit to the first token */
    STATS_INTER_TOKEN_SECONDS, /* between two tokens of a choice */
    STATS_QUEUE_SECONDS,       /* from submit to the lease */
    STATS_PREFILL_SECONDS,     /* from the lease to the first token */
    STATS_DECODE_SECONDS,      /* from the first token to the end; of requests that finished, like all below */
    STATS_REQUEST_SECONDS,     /* from submit to the end */
    STATS_PROMPT_TOKENS,
    STATS_GENERATED_TOKENS,
    STATS_HISTOGRAMS
};

#define STATS_BOUNDS_MAX 22

/* The last count is of what is above all bounds. */
struct histogram {
    uint64_t counts[STATS_BOUNDS_MAX + 1];
    double sum;
};

/* Upper bounds, inclusive, ascending: (*count). Those of vLLM, so that its dashboards show these numbers too. */
const double *stats_bounds(enum stats_histogram which, uint32_t *count);

/* ---- how requests ended ---- */

enum stats_end {
    STATS_END_STOP, /* finished: the model's end, or a stop string */
    STATS_END_LENGTH,
    STATS_END_FAILED,
    STATS_END_CANCELLED, /* here and below: ended early */
    STATS_END_DISCONNECTED,
    STATS_END_STOPPED, /* the server stops */
    STATS_END_SLOW_READER,
    STATS_ENDS
};

const char *stats_end_name(enum stats_end end); /* in the log and as a label: lower case, underscores */

/* ---- prompts by length ---- */

/* Classes of prompt lengths; 0 is for those not tokenized yet. */
#define STATS_LENGTHS 6

uint32_t stats_length(uint32_t prompt_tokens);
const char *stats_length_name(uint32_t length); /* "257-1024" */

/* ---- all together ---- */

struct stats_numbers {
    struct histogram histograms[STATS_HISTOGRAMS];
    uint64_t ends[STATS_ENDS];
    uint64_t ignored_fields; /* members of bodies that no field has the name of */
};

struct stats {
    pthread_mutex_t lock;
    struct stats_numbers numbers;
};

void stats_open(struct stats *stats); /* zeroed memory */
void stats_close(struct stats *stats);
void stats_observe(struct stats *stats, enum stats_histogram which, double value);
void stats_count_end(struct stats *stats, enum stats_end end);
void stats_count_ignored(struct stats *stats, uint32_t fields);
void stats_read(struct stats *stats, struct stats_numbers *out);

#endif
