/* The sentence for a full context is an interface: clients look for its words and its number. */
#include "server/engine/admission.h"

#define OVERFLOW "context_length_exceeded"

enum status admission_check_choices(const struct admission_limits *limits, uint32_t choices, struct error *error)
{
    if (choices <= limits->sequences_max)
        return STATUS_OK;
    return error_field(error, STATUS_INVALID, "n", "n is %u; this server runs at most %u sequences at once", choices,
                       limits->sequences_max);
}

enum status admission_check_prompt(const struct admission_limits *limits, const struct api_call *call, size_t prompt,
                                   uint32_t *tokens_max, struct error *error)
{
    const char *field = call->is_chat ? "messages" : "prompt";
    size_t wanted = call->has_max_tokens ? call->max_tokens : 0;
    if (prompt == 0)
        return error_field(error, STATUS_INVALID, field, "%s has no tokens; at least one is needed", field);
    if (prompt >= limits->context) {
        error_field(error, STATUS_INVALID, field,
                    "This model's maximum context length is %u tokens. However, you requested %zu tokens (%zu in the "
                    "%s, %zu in the completion). Please reduce the length of the %s or completion.",
                    limits->context, prompt + wanted, prompt, field, wanted, field);
        return error_code(error, OVERFLOW);
    }
    if (prompt >= limits->pool_tokens_max) {
        error_field(error, STATUS_INVALID, field,
                    "The %s has %zu tokens, but the server's KV memory (--kv-memory) holds only %u tokens of one "
                    "sequence. Please reduce the length of the %s.",
                    field, prompt, limits->pool_tokens_max, field);
        return error_code(error, OVERFLOW);
    }
    size_t limit = limits->context < limits->pool_tokens_max ? limits->context : limits->pool_tokens_max;
    size_t room = limit - prompt;
    *tokens_max = (uint32_t)(call->has_max_tokens && wanted < room ? wanted : room);
    return STATUS_OK;
}

enum status admission_check_memory(size_t bytes_max, size_t bytes, const struct api_call *call, struct error *error)
{
    if (bytes <= bytes_max)
        return STATUS_OK;
    return error_field(error, STATUS_INVALID, call->prompt_count > 1 ? "prompt" : "n",
                       "the %u choices asked for need more than the %zu MB of memory that one request may have beside "
                       "its KV; ask for fewer of them, or for fewer tokens",
                       api_call_choices(call), bytes_max >> 20);
}
