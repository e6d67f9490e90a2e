/* The history that penalties look at: a row for each id that was seen, found through a map from the id. */
#include "model/sampler.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/check.h"
#include "kernels/base/map.h"
#include "kernels/base/size.h"

struct sampler {
    struct sampler_params params; /* bias and end_ids point to the copies below */
    struct sample_bias *bias;     /* (bias_count) */
    int32_t *end_ids;             /* (end_count) */
    struct sample_count *counts;  /* (counts_max), `count` of them in use; NULL: no penalty is on */
    uint32_t count;
    uint32_t counts_max;
    struct map places; /* id -> row of counts */
    uint32_t drawn;
    uint32_t tokens_max;
};

static bool penalizes_prompt(const struct sampler_params *params)
{
    return params->repetition_penalty != 1;
}

static bool penalizes(const struct sampler_params *params)
{
    return penalizes_prompt(params) || params->presence_penalty != 0 || params->frequency_penalty != 0;
}

static enum status check_params(const struct sampler_params *params, struct error *error)
{
    const struct {
        const char *field;
        float value, low, high;
    } ranges[] = {
        {"temperature", params->temperature, 0, 100},
        {"top_p", params->top_p, 0, 1},
        {"min_p", params->min_p, 0, 1},
        {"repetition_penalty", params->repetition_penalty, 1e-3f, 1e3f},
        {"presence_penalty", params->presence_penalty, -1e3f, 1e3f},
        {"frequency_penalty", params->frequency_penalty, -1e3f, 1e3f},
    };
    for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
        if (!(ranges[i].value >= ranges[i].low && ranges[i].value <= ranges[i].high))
            return error_field(error, STATUS_INVALID, ranges[i].field, "%s is %g; it must be between %g and %g",
                               ranges[i].field, (double)ranges[i].value, (double)ranges[i].low, (double)ranges[i].high);
    }
    if (params->logprobs > SAMPLE_LOGPROBS_MAX)
        return error_field(error, STATUS_INVALID, "logprobs", "%" PRIu32 " log-probabilities are asked for; at most %d",
                           params->logprobs, SAMPLE_LOGPROBS_MAX);
    return STATUS_OK;
}

struct same_id {
    const struct sampler *sampler;
    int32_t id;
};

static bool is_id(void *context, uint32_t place)
{
    const struct same_id *wanted = context;
    return wanted->sampler->counts[place].id == wanted->id;
}

/* The id's row, made if it is new: there is room for as many as can come. */
static struct sample_count *count_of(struct sampler *sampler, int32_t id)
{
    struct same_id wanted = {sampler, id};
    uint32_t place = map_find(&sampler->places, (uint64_t)(uint32_t)id, is_id, &wanted);
    if (place == MAP_NONE) {
        CHECK(sampler->count < sampler->counts_max);
        place = sampler->count++;
        sampler->counts[place] = (struct sample_count){.id = id};
        CHECK(map_insert(&sampler->places, (uint64_t)(uint32_t)id, place));
    }
    return &sampler->counts[place];
}

static void *copy_array(const void *from, size_t count, size_t size)
{
    void *copy = calloc(count + 1, size);
    if (copy != NULL && count > 0)
        memcpy(copy, from, count * size);
    return copy;
}

static size_t history_rows(const struct sampler_params *params, size_t prompt_count, uint32_t tokens_max)
{
    return (penalizes_prompt(params) ? prompt_count : 0) + tokens_max;
}

size_t sampler_bytes(const struct sampler_params *params, size_t prompt_count, uint32_t tokens_max)
{
    const size_t row = sizeof(struct sample_count) + 2 * sizeof(struct map_slot);
    size_t rows = penalizes(params) ? history_rows(params, prompt_count, tokens_max) : 0;
    return sizeof(struct sampler) + rows * row + params->bias_count * sizeof(struct sample_bias) +
           params->end_count * sizeof(int32_t);
}

/* Takes room for every id of the prompt and every token that may be accepted, so that accepting never allocates. */
static bool history_open(struct sampler *sampler, const int32_t *prompt, size_t prompt_count)
{
    size_t rows = history_rows(&sampler->params, prompt_count, sampler->tokens_max);
    if (rows >= UINT32_MAX)
        return false;
    sampler->counts_max = (uint32_t)rows;
    sampler->counts = calloc(rows + 1, sizeof(*sampler->counts));
    if (sampler->counts == NULL || !map_reserve(&sampler->places, rows))
        return false;
    for (size_t i = 0; penalizes_prompt(&sampler->params) && i < prompt_count; i++)
        count_of(sampler, prompt[i])->in_prompt = true;
    return true;
}

enum status sampler_open(const struct sampler_params *params, const int32_t *prompt, size_t prompt_count,
                         uint32_t tokens_max, struct sampler **out, struct error *error)
{
    *out = NULL;
    enum status status = check_params(params, error);
    if (status != STATUS_OK)
        return status;
    struct sampler *sampler = calloc(1, sizeof(*sampler));
    if (sampler == NULL)
        return error_no_memory(error, "a sampler");
    sampler->params = *params;
    sampler->tokens_max = tokens_max;
    sampler->bias = copy_array(params->bias, params->bias_count, sizeof(*params->bias));
    sampler->end_ids = copy_array(params->end_ids, params->end_count, sizeof(*params->end_ids));
    sampler->params.bias = sampler->bias;
    sampler->params.end_ids = sampler->end_ids;
    bool opened = sampler->bias != NULL && sampler->end_ids != NULL &&
                  (!penalizes(params) || history_open(sampler, prompt, prompt_count));
    if (!opened) {
        sampler_close(sampler);
        return error_no_memory(error, "a sampler");
    }
    *out = sampler;
    return STATUS_OK;
}

void sampler_close(struct sampler *sampler)
{
    if (sampler == NULL)
        return;
    map_free(&sampler->places);
    free(sampler->counts);
    free(sampler->end_ids);
    free(sampler->bias);
    free(sampler);
}

struct sample_row sampler_row(struct sampler *sampler, uint32_t position)
{
    const struct sampler_params *params = &sampler->params;
    return (struct sample_row){
        .temperature = params->temperature,
        .top_k = params->top_k,
        .top_p = params->top_p,
        .min_p = params->min_p,
        .repetition_penalty = params->repetition_penalty,
        .presence_penalty = params->presence_penalty,
        .frequency_penalty = params->frequency_penalty,
        .bias = params->bias,
        .bias_count = params->bias_count,
        .counts = sampler->counts,
        .count_count = sampler->count,
        .banned = params->end_ids,
        .banned_count = sampler->drawn < params->min_tokens ? params->end_count : 0,
        .seed = params->seed,
        .choice = params->choice,
        .position = position,
        .logprobs = params->logprobs,
    };
}

void sampler_accept(struct sampler *sampler, int32_t id)
{
    CHECK(sampler->drawn < sampler->tokens_max);
    sampler->drawn++;
    if (sampler->counts != NULL)
        count_of(sampler, id)->generated++;
}
