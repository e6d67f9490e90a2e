/* POST /v1/chat/completions: the request. */
#include <stdio.h>
#include <string.h>

#include "api/body.h"
#include "api/endpoint/endpoints.h"
#include "api/openai_fields.h"
#include "api/openai_messages.h"

static bool is_none_or_auto(const cJSON *value)
{
    return cJSON_IsString(value) &&
           (strcmp(value->valuestring, "none") == 0 || strcmp(value->valuestring, "auto") == 0);
}

/* Any list of modalities that names nothing but text. */
static bool is_text_only(const cJSON *value)
{
    if (!cJSON_IsArray(value))
        return false;
    for (const cJSON *item = value->child; item != NULL; item = item->next)
        if (!cJSON_IsString(item) || strcmp(item->valuestring, "text") != 0)
            return false;
    return true;
}

static const struct field rows[] = {
    ROW_PARSED("messages", FIELD_ARRAY, openai_messages_parse),
    ROW_BOOL("logprobs", logprobs),
    ROW_UINT32("top_logprobs", top_logprobs, 0, API_TOP_LOGPROBS_MAX, "0"),
    ROW_BOOL_ON("add_generation_prompt", chat.add_generation_prompt),
    ROW_BOOL("continue_final_message", chat.continue_final_message),
    ROW_PARSED_UP_TO("chat_template_kwargs", FIELD_OBJECT, OPENAI_KWARGS_MAX, openai_kwargs_parse),
    ROW_PARSED("reasoning_effort", FIELD_STRING, openai_reasoning_effort_parse),

    ROW_HINT("parallel_tool_calls", FIELD_BOOL), /* decides something only when there are tools */
    ROW_HINT("include_reasoning", FIELD_BOOL),   /* no reasoning is told apart from the text yet */
    ROW_HINT("separate_reasoning", FIELD_BOOL),
    ROW_HINT("stream_reasoning", FIELD_BOOL),
    ROW_HINT("media_io_kwargs", FIELD_OBJECT), /* no media are accepted */
    ROW_HINT("mm_processor_kwargs", FIELD_OBJECT),

    ROW_REFUSED("tools", field_is_empty),
    ROW_REFUSED("tool_choice", is_none_or_auto),
    ROW_REFUSED_FOR("functions", field_is_empty, "its successor is tools"),
    ROW_REFUSED_FOR("function_call", is_none_or_auto, "its successor is tool_choice"),
    ROW_REFUSED("echo", field_is_false),
    ROW_REFUSED("audio", NULL),
    ROW_REFUSED_FOR("modalities", is_text_only, "this model writes only text"),
    ROW_REFUSED("web_search_options", NULL),
    ROW_REFUSED("moderation", NULL),
    ROW_REFUSED("documents", field_is_empty),
    ROW_REFUSED("chat_template", field_is_empty),
    ROW_REFUSED("add_special_tokens", field_is_false),
    ROW_REFUSED("thinking_token_budget", field_is_minus_one),
};

const struct field_table openai_chat_fields = FIELD_TABLE(rows);

static enum status finish(const struct field_context *context, struct error *error)
{
    struct api_call *call = context->call;
    if (call->chat.messages == NULL)
        return field_missing(error, "messages", "an array of messages");
    if (call->top_logprobs > 0 && !call->logprobs)
        return field_invalid(error, "top_logprobs", "top_logprobs is only allowed together with \"logprobs\": true");
    enum status status = openai_prompt_end_finish(context, error);
    return status != STATUS_OK ? status : openai_fields_finish(context, error);
}

enum status openai_chat_parse(struct api_call *call, const char *body, size_t size, const struct api_facts *facts,
                              struct error *error)
{
    static const struct body_shape shape = {{&openai_chat_fields, &openai_fields}, finish};
    call->kind = API_CHAT;
    return body_parse(call, body, size, facts, &shape, error);
}
