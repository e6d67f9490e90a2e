/* Calls: their memory and their defaults. What a body says is the endpoint's to read. */
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/endpoint/endpoints.h"
#include "api/openai_fields.h"
#include "kernels/base/check.h"
#include "kernels/base/thread.h"

#define ARENA_BYTES_MAX ((size_t)512 << 20)

struct api_call *api_call_blank(enum api_kind kind)
{
    struct api_call *call = calloc(1, sizeof(*call));
    if (call == NULL)
        return NULL;
    call->arena.limit_bytes = ARENA_BYTES_MAX;
    call->kind = kind;
    call->chat.now_unix_s = (int64_t)(clock_unix_ms() / 1000);
    field_set_defaults(&openai_fields, call);
    field_set_defaults(&openai_chat_fields, call);
    return call;
}

enum status api_call_open(const struct api_endpoint *endpoint, const char *body, size_t size,
                          const struct api_facts *facts, struct api_call **out, struct error *error)
{
    CHECK(endpoint->parse != NULL);
    struct api_call *call = api_call_blank(API_CHAT); /* parse sets the kind */
    *out = NULL;
    if (call == NULL)
        return error_no_memory(error, "the request");
    call->endpoint = endpoint;
    call->model = facts->model_id;
    enum status status = endpoint->parse(call, body, size, facts, error);
    if (status != STATUS_OK) {
        api_call_close(call);
        return status;
    }
    *out = call;
    return STATUS_OK;
}

struct api_prompt *api_call_add_prompts(struct api_call *call, uint32_t count)
{
    struct api_prompt *prompts = arena_array(&call->arena, count, sizeof(*prompts));
    if (prompts == NULL)
        return NULL;
    memset(prompts, 0, count * sizeof(*prompts));
    call->prompts = prompts;
    call->prompt_count = count;
    return prompts;
}

uint32_t api_call_prompts(const struct api_call *call)
{
    return call->prompt_count > 0 ? call->prompt_count : 1;
}

uint32_t api_call_choices(const struct api_call *call)
{
    return api_call_prompts(call) * (call->choices > 0 ? call->choices : 1);
}

void api_call_close(struct api_call *call)
{
    if (call == NULL)
        return;
    arena_free(&call->arena);
    free(call);
}
