/* POST /apply-template: messages to the prompt that a chat request with them would have, in the shape of llama.cpp. */
#include "api/body.h"
#include "api/endpoint/endpoints.h"
#include "api/openai_fields.h"
#include "api/openai_messages.h"
#include "api/reply.h"

static const struct field rows[] = {
    ROW_PARSED("messages", FIELD_ARRAY, openai_messages_parse),
    ROW_BOOL_ON("add_generation_prompt", chat.add_generation_prompt),
    ROW_BOOL("continue_final_message", chat.continue_final_message),
    ROW_PARSED_UP_TO("chat_template_kwargs", FIELD_OBJECT, OPENAI_KWARGS_MAX, openai_kwargs_parse),
    ROW_PARSED("reasoning_effort", FIELD_STRING, openai_reasoning_effort_parse),
    ROW_PARSED_UP_TO("model", FIELD_STRING, API_MODEL_NAME_MAX, openai_model_parse),
    ROW_REFUSED("tools", field_is_empty),
    ROW_REFUSED("chat_template", field_is_empty),
};

const struct field_table apply_template_fields = FIELD_TABLE(rows);

static enum status finish(const struct field_context *context, struct error *error)
{
    if (context->call->chat.messages == NULL)
        return field_missing(error, "messages", "an array of messages");
    return openai_prompt_end_finish(context, error);
}

enum status apply_template_parse(struct api_call *call, const char *body, size_t size, const struct api_facts *facts,
                                 struct error *error)
{
    static const struct body_shape shape = {{&apply_template_fields, NULL}, finish};
    call->kind = API_APPLY_TEMPLATE;
    return body_parse(call, body, size, facts, &shape, error);
}

void apply_template_event(struct api_reply *reply, const struct api_event *event, struct buffer *out)
{
    const char *text;
    size_t size;
    if (!reply_take_answer(reply, event, out, &text, &size))
        return;
    struct json_writer writer = json_writer_start(out);
    json_object_begin(&writer);
    json_key(&writer, "prompt");
    json_bytes(&writer, text, size);
    json_object_end(&writer);
}
