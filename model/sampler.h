/* What a request asks of sampling, and the history that its penalties need: one per choice, owned by its sequence, used
 * on the engine thread. The drawing itself is the backend's operation (kernels.h: sample); this fills its arguments.
 *
 * Memory is taken at open, so that accept and row allocate nothing. */
#ifndef MODEL_SAMPLER_H
#define MODEL_SAMPLER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/base/status.h"
#include "kernels/kernels.h"

struct sampler_params {
    float temperature; /* 0..100; 0: greedy */
    uint32_t top_k;
    float top_p;
    float min_p;
    float repetition_penalty;
    float presence_penalty;
    float frequency_penalty;
    const struct sample_bias *bias; /* (bias_count), ids distinct; copied */
    uint32_t bias_count;
    /* (end_count): they end generation; banned while fewer than min_tokens were drawn; copied */
    const int32_t *end_ids;
    uint32_t end_count;
    uint32_t min_tokens;
    uint64_t seed;
    uint32_t choice;   /* 0 .. n-1 */
    uint32_t logprobs; /* 0: none; n: the drawn one and n-1 others */
};

struct sampler;

/* What sampler_open takes, in bytes, about: the history of penalties, bias and bans. */
size_t sampler_bytes(const struct sampler_params *params, size_t prompt_count, uint32_t tokens_max);

/* `prompt` is looked at only when the repetition penalty is on. `tokens_max`: how many ids may be accepted. */
enum status sampler_open(const struct sampler_params *params, const int32_t *prompt, size_t prompt_count,
                         uint32_t tokens_max, struct sampler **out, struct error *error);
void sampler_close(struct sampler *sampler);

/* Arguments of the next draw, for the token at `position`. Borrowed until the next call on this sampler. */
struct sample_row sampler_row(struct sampler *sampler, uint32_t position);
void sampler_accept(struct sampler *sampler, int32_t id);

#endif
