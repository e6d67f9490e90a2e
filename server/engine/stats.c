/* Counting into fixed buckets. */
#include "server/engine/stats.h"

#include "kernels/base/check.h"

/* ---- bounds ---- */

static const double first_token_seconds[] = {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1,  0.25,  0.5,   0.75,
                                             1.0,   2.5,   5.0,  7.5,  10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0};
static const double inter_token_seconds[] = {0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2,  0.3,  0.4, 0.5,
                                             0.75, 1.0,   2.5,  5.0,   7.5, 10.0, 20.0, 40.0, 80.0};
static const double request_seconds[] = {0.3,  0.5,  0.8,  1.0,  1.5,  2.0,   2.5,   5.0,   10.0,  15.0,  20.0,
                                         30.0, 40.0, 50.0, 60.0, 120., 240.0, 480.0, 960.0, 1920., 7680.0};
static const double tokens[] = {1,    2,    5,   10,  20,  50,  100, 200, 500, 1000,
                                2000, 5000, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5, 1e6};

struct bounds {
    const double *values; /* (count) */
    uint32_t count;
};

#define BOUNDS(values)                             \
    {                                              \
        values, sizeof(values) / sizeof(*(values)) \
    }

static const struct bounds bounds[STATS_HISTOGRAMS] = {
    [STATS_FIRST_TOKEN_SECONDS] = BOUNDS(first_token_seconds),
    [STATS_INTER_TOKEN_SECONDS] = BOUNDS(inter_token_seconds),
    [STATS_QUEUE_SECONDS] = BOUNDS(request_seconds),
    [STATS_PREFILL_SECONDS] = BOUNDS(request_seconds),
    [STATS_DECODE_SECONDS] = BOUNDS(request_seconds),
    [STATS_REQUEST_SECONDS] = BOUNDS(request_seconds),
    [STATS_PROMPT_TOKENS] = BOUNDS(tokens),
    [STATS_GENERATED_TOKENS] = BOUNDS(tokens),
};

const double *stats_bounds(enum stats_histogram which, uint32_t *count)
{
    *count = bounds[which].count;
    return bounds[which].values;
}

/* ---- names ---- */

const char *stats_end_name(enum stats_end end)
{
    static const char *const names[STATS_ENDS] = {
        [STATS_END_STOP] = "stop",
        [STATS_END_LENGTH] = "length",
        [STATS_END_FAILED] = "failed",
        [STATS_END_CANCELLED] = "cancelled",
        [STATS_END_DISCONNECTED] = "disconnected",
        [STATS_END_STOPPED] = "stopped",
        [STATS_END_SLOW_READER] = "slow_reader",
    };
    return names[end];
}

uint32_t stats_length(uint32_t prompt_tokens)
{
    uint32_t length = 1;
    for (uint32_t last = 256; length < STATS_LENGTHS - 1 && prompt_tokens > last; last *= 4)
        length++;
    return length;
}

const char *stats_length_name(uint32_t length)
{
    static const char *const names[STATS_LENGTHS] = {
        "unknown", "0-256", "257-1024", "1025-4096", "4097-16384", "16385-",
    };
    return names[length];
}

/* ---- counting ---- */

void stats_open(struct stats *stats)
{
    pthread_mutex_init(&stats->lock, NULL);
}

void stats_close(struct stats *stats)
{
    pthread_mutex_destroy(&stats->lock);
}

void stats_observe(struct stats *stats, enum stats_histogram which, double value)
{
    struct histogram *histogram = &stats->numbers.histograms[which];
    uint32_t bucket = 0;
    CHECK(bounds[which].count <= STATS_BOUNDS_MAX);
    while (bucket < bounds[which].count && value > bounds[which].values[bucket])
        bucket++;
    pthread_mutex_lock(&stats->lock);
    histogram->counts[bucket]++;
    histogram->sum += value;
    pthread_mutex_unlock(&stats->lock);
}

void stats_count_end(struct stats *stats, enum stats_end end)
{
    pthread_mutex_lock(&stats->lock);
    stats->numbers.ends[end]++;
    pthread_mutex_unlock(&stats->lock);
}

void stats_count_ignored(struct stats *stats, uint32_t fields)
{
    pthread_mutex_lock(&stats->lock);
    stats->numbers.ignored_fields += fields;
    pthread_mutex_unlock(&stats->lock);
}

void stats_read(struct stats *stats, struct stats_numbers *out)
{
    pthread_mutex_lock(&stats->lock);
    *out = stats->numbers;
    pthread_mutex_unlock(&stats->lock);
}
