/* POST /v1/completions: the request. */
#include <inttypes.h>

#include "api/body.h"
#include "api/endpoint/endpoints.h"
#include "api/endpoint/prompt.h"
#include "api/openai_fields.h"

#define MAX_TOKENS_DEFAULT 16

static enum status parse_prompt(const struct field_context *context, const cJSON *value, struct error *error)
{
    return prompt_parse(context, "prompt", value, error);
}

static enum status parse_logprobs(const struct field_context *context, const cJSON *value, struct error *error)
{
    int64_t top;
    enum status status = field_whole("logprobs", value, 0, API_TOP_LOGPROBS_MAX, &top, error);
    if (status != STATUS_OK)
        return status;
    context->call->logprobs = true;
    context->call->top_logprobs = (uint32_t)top;
    return STATUS_OK;
}

/* Several are drawn and only the best n answered: nothing else than n is built. */
static enum status parse_best_of(const struct field_context *context, const cJSON *value, struct error *error)
{
    int64_t best_of, choices = 1;
    const cJSON *n = json_get(context->body, "n");
    enum status status = field_whole("best_of", value, 0, API_CHOICES_MAX, &best_of, error);
    if (status != STATUS_OK)
        return status;
    if (best_of == 0 || (n != NULL && !json_whole(n, &choices)) || best_of == choices)
        return STATUS_OK;
    return field_unsupported(error, "best_of", "best_of is not supported unless it equals n");
}

static const struct field rows[] = {
    ROW_PARSED("prompt", FIELD_STRING | FIELD_ARRAY, parse_prompt),
    ROW_PARSED("logprobs", FIELD_WHOLE, parse_logprobs),
    ROW_PARSED("best_of", FIELD_WHOLE, parse_best_of),
    ROW_BOOL_ON("add_special_tokens", add_special_tokens),
    ROW_BOOL("echo", echo),
    ROW_REFUSED("suffix", field_is_empty),
};

const struct field_table openai_completions_fields = FIELD_TABLE(rows);

static enum status finish(const struct field_context *context, struct error *error)
{
    struct api_call *call = context->call;
    if (call->prompts == NULL)
        return field_missing(error, "prompt", "a string, an array of token ids, or an array of either");
    if ((uint64_t)call->prompt_count * call->choices > API_BATCH_CHOICES_MAX)
        return field_invalid(error, "n", "n is %" PRIu32 " for %" PRIu32 " prompts; at most %d choices are accepted",
                             call->choices, call->prompt_count, API_BATCH_CHOICES_MAX);
    if (!call->has_max_tokens) {
        call->has_max_tokens = true;
        call->max_tokens = MAX_TOKENS_DEFAULT > call->min_tokens ? MAX_TOKENS_DEFAULT : call->min_tokens;
    }
    return openai_fields_finish(context, error);
}

enum status openai_completions_parse(struct api_call *call, const char *body, size_t size,
                                     const struct api_facts *facts, struct error *error)
{
    static const struct body_shape shape = {{&openai_completions_fields, &openai_fields}, finish};
    call->kind = API_COMPLETION;
    return body_parse(call, body, size, facts, &shape, error);
}
