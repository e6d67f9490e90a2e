/* Opening and closing a choice. */
#include "server/engine/sequence.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/base/check.h"
#include "kernels/base/size.h"

/* Of a choice's text on its way out. */
#define DELIVER_BYTES ((size_t)2 << 10)

static struct sampler_params params_of(const struct sequence_args *args)
{
    const struct api_sampling *sampling = &args->call->sampling;
    return (struct sampler_params){
        .temperature = sampling->temperature,
        .top_k = sampling->top_k,
        .top_p = sampling->top_p,
        .min_p = sampling->min_p,
        .repetition_penalty = sampling->repetition_penalty,
        .presence_penalty = sampling->presence_penalty,
        .frequency_penalty = sampling->frequency_penalty,
        .bias_count = sampling->bias_count,
        .end_ids = args->end_ids,
        .end_count = args->end_count,
        .min_tokens = args->call->min_tokens,
        .seed = args->seed,
        .choice = args->draw,
        .logprobs = args->call->logprobs ? args->call->top_logprobs + 1 : 0,
    };
}

size_t sequence_bytes(const struct sequence_args *args)
{
    struct sampler_params params = params_of(args);
    size_t bytes =
        sizeof(struct sequence) + DELIVER_BYTES + (args->prompt_count + (size_t)args->tokens_max) * sizeof(int32_t);
    for (uint32_t i = 0; i < args->call->stop_count; i++)
        bytes += args->call->stop[i].size * sizeof(size_t);
    return bytes + (args->tokens_max > 0 ? sampler_bytes(&params, args->prompt_count, args->tokens_max) : 0);
}

static enum status open_sampler(const struct sequence_args *args, struct sequence *sequence, struct error *error)
{
    const struct api_sampling *sampling = &args->call->sampling;
    struct sampler_params params = params_of(args);
    struct sample_bias *bias = NULL;
    if (sampling->bias_count > 0) {
        bias = calloc(sampling->bias_count, sizeof(*bias));
        if (bias == NULL)
            return error_no_memory(error, "a request's logit_bias");
        for (uint32_t i = 0; i < sampling->bias_count; i++)
            bias[i] = (struct sample_bias){.id = sampling->bias[i].id, .value = sampling->bias[i].value};
    }
    params.bias = bias;
    enum status status =
        sampler_open(&params, args->prompt, args->prompt_count, args->tokens_max, &sequence->sampler, error);
    free(bias);
    return status;
}

static enum status open_parts(const struct sequence_args *args, struct sequence *sequence, struct error *error)
{
    sequence->ids = malloc(sequence->capacity * sizeof(*sequence->ids));
    if (sequence->ids == NULL)
        return error_no_memory(error, "a sequence's tokens");
    memcpy(sequence->ids, args->prompt, args->prompt_count * sizeof(*sequence->ids));
    if (args->tokens_max > 0 && open_sampler(args, sequence, error) != STATUS_OK)
        return error->status;
    struct deliver_args deliver = {
        .tokenizer = args->tokenizer,
        .call = args->call,
        .end_ids = args->end_ids,
        .end_count = args->end_count,
        .tokens_max = args->tokens_max,
    };
    return deliver_open(&deliver, &sequence->deliver, error);
}

enum status sequence_open(const struct sequence_args *args, struct sequence *out, struct error *error)
{
    *out = (struct sequence){
        .request = args->request,
        .prompt = args->of,
        .scores = args->draw == 0 && args->call->echo && args->call->logprobs,
        .scored = 1,
        .choice = args->choice,
        .capacity = args->prompt_count + args->tokens_max,
        .count = args->prompt_count,
        .prompt_count = args->prompt_count,
    };
    if (open_parts(args, out, error) == STATUS_OK)
        return STATUS_OK;
    sequence_close(out);
    return error->status;
}

void sequence_close(struct sequence *sequence)
{
    CHECK(sequence->lease == NULL);
    if (sequence->sampler != NULL)
        sampler_close(sequence->sampler);
    deliver_close(&sequence->deliver);
    free(sequence->ids);
    *sequence = (struct sequence){0};
}

bool sequence_decodes(const struct sequence *sequence)
{
    return sequence->count > sequence->prompt_count && sequence->count - sequence->committed == 1;
}

uint32_t sequence_rows_to_score(const struct sequence *sequence)
{
    uint32_t rows = sequence->prompt_count - 1;
    return sequence->scores && sequence->committed < rows ? rows - sequence->committed : 0;
}
