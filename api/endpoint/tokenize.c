/* POST /tokenize: text or messages to ids, in the shapes of vLLM (prompt, messages) and llama.cpp (content). The answer
 * has both servers' members. */
#include <inttypes.h>
#include <string.h>

#include "api/body.h"
#include "api/endpoint/endpoints.h"
#include "api/openai_fields.h"
#include "api/openai_messages.h"
#include "api/reply.h"
#include "api/text.h"
#include "kernels/base/utf8.h"

static enum status read_text(const struct field_context *context, const char *name, const cJSON *value,
                             struct error *error)
{
    struct api_call *call = context->call;
    if (call->prompts != NULL || call->is_chat)
        return field_invalid(error, name, "only one of prompt, content and messages may be sent");
    struct api_prompt *prompt = api_call_add_prompts(call, 1);
    if (prompt == NULL)
        return field_no_memory(error);
    return field_text(call, name, value, &prompt->text, &prompt->size, error);
}

static enum status parse_prompt(const struct field_context *context, const cJSON *value, struct error *error)
{
    return read_text(context, "prompt", value, error);
}

static enum status parse_content(const struct field_context *context, const cJSON *value, struct error *error)
{
    return read_text(context, "content", value, error);
}

static enum status parse_messages(const struct field_context *context, const cJSON *value, struct error *error)
{
    if (context->call->prompts != NULL)
        return field_invalid(error, "messages", "only one of prompt, content and messages may be sent");
    return openai_messages_parse(context, value, error);
}

static const struct field rows[] = {
    ROW_PARSED("prompt", FIELD_STRING, parse_prompt),
    ROW_PARSED("content", FIELD_STRING, parse_content),
    ROW_PARSED("messages", FIELD_ARRAY, parse_messages),
    ROW_BOOL("add_special_tokens", add_special_tokens), /* on where a prompt is sent */
    ROW_BOOL("add_special", add_special_tokens),
    ROW_BOOL("return_token_strs", return_token_strings),
    ROW_BOOL("with_pieces", return_pieces),
    ROW_BOOL_ON("add_generation_prompt", chat.add_generation_prompt),
    ROW_BOOL("continue_final_message", chat.continue_final_message),
    ROW_PARSED_UP_TO("chat_template_kwargs", FIELD_OBJECT, OPENAI_KWARGS_MAX, openai_kwargs_parse),
    ROW_PARSED("reasoning_effort", FIELD_STRING, openai_reasoning_effort_parse),
    ROW_PARSED_UP_TO("model", FIELD_STRING, API_MODEL_NAME_MAX, openai_model_parse),
    ROW_REFUSED("tools", field_is_empty),
    ROW_REFUSED("chat_template", field_is_empty),
    ROW_REFUSED("parse_special", field_is_false),
};

const struct field_table tokenize_fields = FIELD_TABLE(rows);

static enum status finish(const struct field_context *context, struct error *error)
{
    struct api_call *call = context->call;
    bool asked =
        json_get(context->body, "add_special_tokens") != NULL || json_get(context->body, "add_special") != NULL;
    if (!call->is_chat && call->prompts == NULL)
        return field_missing(error, "prompt", "a string (or send content, or messages)");
    if (call->is_chat && call->add_special_tokens && asked)
        return field_unsupported(error, "add_special_tokens",
                                 "add_special_tokens is not supported together with messages");
    if (call->is_chat)
        call->add_special_tokens = false;
    else if (!asked) /* each server's own default */
        call->add_special_tokens = json_get(context->body, "prompt") != NULL;
    return openai_prompt_end_finish(context, error);
}

enum status tokenize_parse(struct api_call *call, const char *body, size_t size, const struct api_facts *facts,
                           struct error *error)
{
    static const struct body_shape shape = {{&tokenize_fields, NULL}, finish};
    call->kind = API_TOKENIZE;
    return body_parse(call, body, size, facts, &shape, error);
}

/* llama.cpp's form: the piece as text where it is text, else its bytes. */
static void write_piece(struct json_writer *writer, const struct api_token *token)
{
    json_object_begin(writer);
    json_key(writer, "id");
    json_integer(writer, token->id);
    json_key(writer, "piece");
    if (utf8_invalid_at(token->text, token->size) == token->size)
        json_bytes(writer, token->text, token->size);
    else
        text_write_bytes(writer, token->text, token->size);
    json_object_end(writer);
}

static void add_tokens(struct api_reply *reply, const struct api_event *event)
{
    for (uint32_t i = 0; i < event->token_count; i++) {
        const struct api_token *token = &event->tokens[i];
        struct json_writer writer = json_writer_start(&reply->answer);
        reply_separate(&reply->answer);
        if (reply->call->return_pieces)
            write_piece(&writer, token);
        else
            json_integer(&writer, token->id);
        if (!reply->call->return_token_strings)
            continue;
        writer = json_writer_start(&reply->strings);
        reply_separate(&reply->strings);
        text_write_lossy(&writer, token->text, token->size);
    }
    reply->answer_count += event->token_count;
}

void tokenize_event(struct api_reply *reply, const struct api_event *event, struct buffer *out)
{
    if (event->type == API_EVENT_ERROR)
        reply_fail(reply, event, out);
    else if (event->type == API_EVENT_TOKENS)
        add_tokens(reply, event);
    if (event->type != API_EVENT_END)
        return;
    struct json_writer writer = json_writer_start(out);
    json_object_begin(&writer);
    json_key(&writer, "count");
    json_integer(&writer, reply->answer_count);
    json_key(&writer, "max_model_len");
    json_integer(&writer, reply->facts->context);
    json_key(&writer, "tokens");
    reply_write_list(&writer, &reply->answer);
    json_key(&writer, "token_strs");
    if (reply->call->return_token_strings)
        reply_write_list(&writer, &reply->strings);
    else
        json_null(&writer);
    json_object_end(&writer);
}
