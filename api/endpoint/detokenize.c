/* POST /detokenize: ids to text, in the shapes of vLLM (prompt) and llama.cpp (content): the answer has both. */
#include "api/body.h"
#include "api/endpoint/endpoints.h"
#include "api/json_scan.h"
#include "api/openai_fields.h"
#include "api/reply.h"

static enum status parse_tokens(const struct field_context *context, const cJSON *value, struct error *error)
{
    struct api_prompt *prompt = api_call_add_prompts(context->call, 1);
    if (prompt == NULL)
        return field_no_memory(error);
    return field_ids(context, "tokens", value, JSON_VALUES_MAX, &prompt->ids, &prompt->id_count, error);
}

static const struct field rows[] = {
    ROW_PARSED("tokens", FIELD_ARRAY, parse_tokens),
    ROW_BOOL("skip_special_tokens", skip_special_tokens),
    ROW_PARSED_UP_TO("model", FIELD_STRING, API_MODEL_NAME_MAX, openai_model_parse),
};

const struct field_table detokenize_fields = FIELD_TABLE(rows);

static enum status finish(const struct field_context *context, struct error *error)
{
    return context->call->prompts == NULL ? field_missing(error, "tokens", "an array of token ids") : STATUS_OK;
}

enum status detokenize_parse(struct api_call *call, const char *body, size_t size, const struct api_facts *facts,
                             struct error *error)
{
    static const struct body_shape shape = {{&detokenize_fields, NULL}, finish};
    call->kind = API_DETOKENIZE;
    return body_parse(call, body, size, facts, &shape, error);
}

void detokenize_event(struct api_reply *reply, const struct api_event *event, struct buffer *out)
{
    const char *text;
    size_t size;
    if (!reply_take_answer(reply, event, out, &text, &size))
        return;
    struct json_writer writer = json_writer_start(out);
    json_object_begin(&writer);
    json_key(&writer, "prompt");
    json_bytes(&writer, text, size);
    json_key(&writer, "content");
    json_bytes(&writer, text, size);
    json_object_end(&writer);
}
