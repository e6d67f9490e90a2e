/* Sampling without a sort: passes over the vocabulary that the compiler turns into vector code, then a radix selection
 * among the few tokens that can matter. Linear in the vocabulary whatever the logits are. */
#include "kernels/cpu/sample.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "kernels/base/check.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/exp.h"
#include "kernels/cpu/lanes.h"

#define CHUNK 256 /* tokens whose weights are added up together */
#define GROUPS_MAX 512
#define BINS_LOG2 11
#define BINS (1u << BINS_LOG2)

/* One row being drawn. Some tokens of the vocabulary, in ascending order, are `ids`; `raw` holds the logits as the
 * model gave them and is filled only when log-probabilities are asked for. */
struct draw {
    float *logits; /* (vocabulary) */
    uint32_t vocabulary;
    float largest;
    float temperature;
    float weight_min; /* min_p */
    float *raw;       /* (vocabulary) */
    int32_t *ids;     /* (vocabulary), `count` of them in use */
    uint32_t count;
};

/* A choice without a branch, which compilers turn into vector code. */
static inline float select_or_zero(bool choose, float value)
{
    return bits_float(float_bits(value) & (0u - (uint32_t)choose));
}

/* exp(x) for x <= 0, and 0 where that would not be a normal number or x is not a number. The polynomial of exp.h, but
 * without fused operations, which the baseline processor lacks. */
static inline float exp_negative(float x)
{
    float t = x * EXP_LOG2E + EXP_MAGIC;
    float n = t - EXP_MAGIC;
    float r = (x - n * EXP_LN2_HIGH) - n * EXP_LN2_LOW;
    float p = EXP_P0 * r + EXP_P1;
    p = p * r + EXP_P2;
    p = p * r + EXP_P3;
    p = p * r + EXP_P4;
    p = p * r + EXP_P5;
    float y = (p * (r * r) + r) + 1.0f;
    y *= bits_float((float_bits(t) - EXP_MAGIC_BITS + 127u) << 23);
    return select_or_zero(x >= EXP_LOW, y);
}

static inline float weight_of(const struct draw *draw, float logit)
{
    return exp_negative((logit - draw->largest) / draw->temperature);
}

/* ---- passes over the vocabulary ---- */

static float largest_of(const float *logits, uint32_t count)
{
    float lanes[LANES];
    uint32_t at = 0;
    for (int lane = 0; lane < LANES; lane++)
        lanes[lane] = -INFINITY;
    for (; at + LANES <= count; at += LANES)
        for (int lane = 0; lane < LANES; lane++)
            lanes[lane] = logits[at + lane] > lanes[lane] ? logits[at + lane] : lanes[lane];
    float largest = -INFINITY;
    for (int lane = 0; lane < LANES; lane++)
        largest = lanes[lane] > largest ? lanes[lane] : largest;
    for (; at < count; at++)
        largest = logits[at] > largest ? logits[at] : largest;
    return largest;
}

static int32_t first_equal(const float *logits, uint32_t count, float value)
{
    for (uint32_t id = 0; id < count; id++) {
        if (logits[id] == value)
            return (int32_t)id;
    }
    return 0;
}

/* Sum of the weights of at most CHUNK tokens that are at least weight_min. */
static double chunk_sum(const struct draw *draw, const float *logits, uint32_t count)
{
    double lanes[LANES] = {0};
    float weights[CHUNK] = {0};
    float largest = draw->largest, temperature = draw->temperature, weight_min = draw->weight_min;
    for (uint32_t i = 0; i < count; i++) {
        float weight = exp_negative((logits[i] - largest) / temperature);
        weights[i] = select_or_zero(weight >= weight_min, weight);
    }
    for (uint32_t i = 0; i < count; i += LANES)
        for (int lane = 0; lane < LANES; lane++)
            lanes[lane] += (double)weights[i + lane];
    for (int width = LANES / 2; width > 0; width /= 2)
        for (int lane = 0; lane < width; lane++)
            lanes[lane] += lanes[lane + width];
    return lanes[0];
}

/* Sum of all weights; sums[g]: that of group g, `group` consecutive chunks. */
static double group_sums(const struct draw *draw, uint32_t group, double sums[GROUPS_MAX])
{
    double total = 0;
    for (uint32_t chunk = 0, at = 0; at < draw->vocabulary; chunk++, at += CHUNK) {
        uint32_t left = draw->vocabulary - at;
        double sum = chunk_sum(draw, draw->logits + at, left < CHUNK ? left : CHUNK);
        sums[chunk / group] += sum;
        total += sum;
    }
    return total;
}

/* Chunks a group, so that there are at most GROUPS_MAX groups. */
static uint32_t group_chunks(uint32_t vocabulary)
{
    return vocabulary / (CHUNK * GROUPS_MAX) + 1;
}

static double total_weight(const struct draw *draw)
{
    double sums[GROUPS_MAX] = {0};
    return group_sums(draw, group_chunks(draw->vocabulary), sums);
}

/* ids = the tokens whose logit is at least `floor`. */
static void collect(struct draw *draw, float floor)
{
    uint32_t count = 0;
    for (uint32_t id = 0; id < draw->vocabulary; id++) {
        draw->ids[count] = (int32_t)id;
        count += draw->logits[id] >= floor;
    }
    draw->count = count;
}

/* ---- selection ---- */

/* Unsigned integers in the order of the floats; both zeros are one. */
static inline uint32_t order_key(float x)
{
    uint32_t bits = float_bits(x + 0.0f);
    return bits ^ ((0u - (bits >> 31)) | 0x80000000u);
}

static inline float key_float(uint32_t key)
{
    return bits_float(key >> 31 != 0 ? key & 0x7FFFFFFFu : ~key);
}

/* A logit that at least `wanted` tokens reach and not many more: the lower end of the bin that holds the wanted-th. */
static float floor_of_largest(const struct draw *draw, uint32_t wanted)
{
    uint32_t counts[BINS] = {0}, above = 0;
    for (uint32_t id = 0; id < draw->vocabulary; id++) {
        float logit = draw->logits[id];
        uint32_t is_number = 0u - (uint32_t)(logit == logit);
        counts[(order_key(logit) & is_number) >> (32 - BINS_LOG2)]++;
    }
    for (uint32_t bin = BINS; bin-- > 0;) {
        above += counts[bin];
        if (above >= wanted && key_float(bin << (32 - BINS_LOG2)) > -INFINITY)
            return key_float(bin << (32 - BINS_LOG2));
    }
    return -INFINITY;
}

/* What a selection adds up: tokens, or their weights. */
typedef double select_measure(const struct draw *draw, float logit);

static double measure_one(const struct draw *draw, float logit)
{
    (void)draw;
    (void)logit;
    return 1;
}

static double measure_weight(const struct draw *draw, float logit)
{
    return (double)weight_of(draw, logit);
}

/* Finds, among the ids whose key agrees with `prefix` in `mask`, the bin of the next key bits in which the sum from
 * above reaches the target; adds what lies above that bin to *above. */
static uint32_t select_bin(const struct draw *draw, select_measure *measure, uint32_t prefix, uint32_t mask,
                           uint32_t shift, double target, double *above)
{
    double sums[BINS] = {0};
    uint32_t chosen = 0;
    double before_chosen = *above, sum = *above;
    for (uint32_t i = 0; i < draw->count; i++) {
        float logit = draw->logits[draw->ids[i]];
        uint32_t key = order_key(logit);
        if ((key & mask) == prefix)
            sums[key >> shift & (BINS - 1)] += measure(draw, logit);
    }
    for (uint32_t bin = BINS; bin-- > 0;) {
        if (sums[bin] <= 0)
            continue;
        chosen = bin;
        before_chosen = sum;
        sum += sums[bin];
        if (sum >= target)
            break;
    }
    *above = before_chosen;
    return chosen;
}

/* Keeps the fewest ids, largest logits first and lower ids first among equal ones, whose measure adds up to at least
 * the target; one at least, all of them if they do not reach it. Three levels of 11, 11 and 10 key bits. */
static void select_prefix(struct draw *draw, select_measure *measure, double target)
{
    static const uint32_t shifts[] = {21, 10, 0};
    uint32_t prefix = 0, mask = 0, kept = 0;
    double above = 0;
    for (int level = 0; level < 3; level++) {
        uint32_t shift = shifts[level];
        prefix |= select_bin(draw, measure, prefix, mask, shift, target, &above) << shift;
        mask |= (BINS - 1) << shift;
    }
    for (uint32_t i = 0; i < draw->count; i++) {
        float logit = draw->logits[draw->ids[i]];
        uint32_t key = order_key(logit);
        bool keep = key > prefix;
        if (key == prefix && (above < target || kept == 0)) {
            keep = true;
            above += measure(draw, logit);
        }
        draw->ids[kept] = draw->ids[i];
        kept += keep;
    }
    draw->count = kept;
}

static void keep_largest(struct draw *draw, uint32_t wanted)
{
    collect(draw, floor_of_largest(draw, wanted));
    if (draw->count > wanted)
        select_prefix(draw, measure_one, wanted);
}

/* After keep_largest, or on the whole vocabulary (`cut` false). */
static void keep_nucleus(struct draw *draw, double top_p, bool cut)
{
    double total = 0;
    if (cut) {
        for (uint32_t i = 0; i < draw->count; i++)
            total += measure_weight(draw, draw->logits[draw->ids[i]]);
    } else {
        /* Tokens below the floor have together less than half of 1 - top_p: the nucleus is reached without them. */
        total = total_weight(draw);
        double weight = (1 - top_p) * total / (2.0 * draw->vocabulary);
        double floor = (double)draw->largest + (double)draw->temperature * log(weight);
        collect(draw, nextafterf((float)floor, -INFINITY));
    }
    select_prefix(draw, measure_weight, top_p * total);
}

/* ---- the draw ---- */

static uint64_t mix(uint64_t z)
{
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return z ^ z >> 31;
}

double sample_uniform(uint64_t seed, uint32_t choice, uint32_t position)
{
    uint64_t where = (uint64_t)choice << 32 | position;
    uint64_t bits = mix(mix(seed + UINT64_C(0x9E3779B97F4A7C15)) + where * UINT64_C(0xD1B54A32D192ED03));
    return (double)(mix(bits) >> 11) * 0x1p-53;
}

static int32_t draw_from_ids(const struct draw *draw, double uniform)
{
    double total = 0, sum = 0;
    int32_t last = draw->ids[0];
    for (uint32_t i = 0; i < draw->count; i++) {
        float weight = weight_of(draw, draw->logits[draw->ids[i]]);
        total += weight >= draw->weight_min ? (double)weight : 0;
    }
    for (uint32_t i = 0; i < draw->count; i++) {
        float weight = weight_of(draw, draw->logits[draw->ids[i]]);
        if (weight < draw->weight_min || weight <= 0)
            continue;
        last = draw->ids[i];
        sum += (double)weight;
        if (sum > uniform * total)
            break;
    }
    return last;
}

/* Over the whole vocabulary: the group of chunks in which the sum passes, then the token in it. */
static int32_t draw_from_all(const struct draw *draw, double uniform)
{
    double sums[GROUPS_MAX] = {0}, sum = 0;
    uint32_t chunks = group_chunks(draw->vocabulary), chosen = 0;
    double target = uniform * group_sums(draw, chunks, sums);
    for (uint32_t group = 0; group < GROUPS_MAX; group++) {
        if (sums[group] <= 0)
            continue;
        chosen = group;
        if (sum + sums[group] > target)
            break;
        sum += sums[group];
    }
    uint32_t begin = chosen * chunks * CHUNK, left = draw->vocabulary - begin;
    uint32_t end = begin + (left < chunks * CHUNK ? left : chunks * CHUNK);
    int32_t last = (int32_t)begin;
    for (uint32_t id = begin; id < end; id++) {
        float weight = weight_of(draw, draw->logits[id]);
        if (weight < draw->weight_min || weight <= 0)
            continue;
        last = (int32_t)id;
        sum += (double)weight;
        if (sum > target)
            break;
    }
    return last;
}

static int32_t draw_token(struct draw *draw, const struct sample_row *row)
{
    draw->largest = largest_of(draw->logits, draw->vocabulary);
    if (!(row->temperature > 0) || isinf(draw->largest))
        return first_equal(draw->logits, draw->vocabulary, draw->largest);
    double uniform = sample_uniform(row->seed, row->choice, row->position);
    bool cut = row->top_k > 0 && row->top_k < draw->vocabulary;
    draw->temperature = row->temperature;
    draw->weight_min = 0;
    if (cut)
        keep_largest(draw, row->top_k);
    if (row->top_p < 1)
        keep_nucleus(draw, (double)row->top_p, cut);
    draw->weight_min = row->min_p;
    return cut || row->top_p < 1 ? draw_from_ids(draw, uniform) : draw_from_all(draw, uniform);
}

/* ---- before the draw ---- */

static void adjust(float *logits, uint32_t vocabulary, const struct sample_row *row)
{
    for (uint32_t i = 0; i < row->bias_count; i++) {
        if ((uint32_t)row->bias[i].id < vocabulary)
            logits[row->bias[i].id] += row->bias[i].value;
    }
    for (uint32_t i = 0; i < row->count_count; i++) {
        const struct sample_count *seen = &row->counts[i];
        if ((uint32_t)seen->id >= vocabulary)
            continue;
        float logit = logits[seen->id];
        if (seen->in_prompt || seen->generated > 0)
            logit = logit > 0 ? logit / row->repetition_penalty : logit * row->repetition_penalty;
        if (seen->generated > 0)
            logit -= row->presence_penalty + row->frequency_penalty * (float)seen->generated;
        logits[seen->id] = logit;
    }
    for (uint32_t i = 0; i < row->banned_count; i++) {
        if ((uint32_t)row->banned[i] < vocabulary)
            logits[row->banned[i]] = -INFINITY;
    }
}

/* ---- log-probabilities ---- */

/* Log of the sum of exp of all logits. */
static double log_total(struct draw *draw)
{
    draw->largest = largest_of(draw->logits, draw->vocabulary);
    draw->temperature = 1;
    draw->weight_min = 0;
    return (double)draw->largest + log(total_weight(draw));
}

/* The most probable tokens of the raw logits, sorted. */
static void list_top(struct draw *draw, uint32_t wanted, double total, struct sample_result *result)
{
    keep_largest(draw, wanted);
    result->top_count = draw->count;
    for (uint32_t i = 0; i < draw->count; i++) {
        int32_t id = draw->ids[i];
        uint32_t at = i;
        /* Ids come in ascending order, so equal logits stay in it. */
        for (; at > 0 && draw->logits[result->top[at - 1].id] < draw->logits[id]; at--)
            result->top[at] = result->top[at - 1];
        result->top[at].id = id;
    }
    for (uint32_t i = 0; i < draw->count; i++)
        result->top[i].logprob = (float)((double)draw->logits[result->top[i].id] - total);
}

size_t sample_scratch_bytes(uint32_t vocabulary)
{
    return (size_t)vocabulary * (sizeof(float) + sizeof(int32_t));
}

void sample_draw(float *logits, uint32_t vocabulary, const struct sample_row *row, void *scratch,
                 struct sample_result *result)
{
    struct draw draw = {.logits = logits, .vocabulary = vocabulary, .raw = scratch};
    double total = 0;
    CHECK(row->logprobs <= SAMPLE_LOGPROBS_MAX);
    draw.ids = (int32_t *)(draw.raw + vocabulary);
    *result = (struct sample_result){0};
    if (row->logprobs > 0) {
        uint32_t others = row->logprobs - 1;
        total = log_total(&draw);
        if (others > 0)
            list_top(&draw, others < vocabulary ? others : vocabulary, total, result);
        memcpy(draw.raw, logits, vocabulary * sizeof(float));
    }
    if (row->scores) {
        CHECK(row->scored >= 0 && (uint32_t)row->scored < vocabulary);
        result->id = row->scored;
    } else {
        adjust(logits, vocabulary, row);
        result->id = draw_token(&draw, row);
    }
    if (row->logprobs > 0)
        result->logprob = (float)((double)draw.raw[result->id] - total);
}

/* ---- the operation ---- */

struct sample_job {
    const struct kernels *kernels;
    const struct sample_args *args;
};

/* A worker draws every workers-th row: rows cost about the same, whatever their settings. */
static void draw_rows(void *context, uint32_t worker)
{
    const struct sample_job *job = context;
    const struct sample_args *args = job->args;
    size_t bytes = sample_scratch_bytes(args->vocabulary);
    void *scratch = job->kernels->sampling + worker * bytes;
    for (uint32_t row = worker; row < args->rows; row += job->kernels->workers)
        sample_draw(args->logits + (size_t)row * args->vocabulary, args->vocabulary, &args->row[row], scratch,
                    &args->result[row]);
}

void cpu_sample(struct kernels *kernels, const struct sample_args *args)
{
    struct sample_job job = {kernels, args};
    CHECK(args->vocabulary > 0 && args->vocabulary <= kernels->args.vocabulary);
    CHECK(args->rows <= kernels->args.sample_rows_max);
    if (args->rows == 1)
        draw_rows(&job, 0);
    else if (args->rows > 1)
        pool_run(kernels->pool, draw_rows, &job);
}
