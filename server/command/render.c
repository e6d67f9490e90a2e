/* incipit render: a chat request's JSON -> the prompt text, where each part came from, and the ids. */
#include "api/api.h"
#include "kernels/base/file.h"
#include "kernels/base/json_writer.h"
#include "server/command/command.h"
#include "server/engine/prompt.h"
#include "server/runtime.h"

#define REQUEST_BYTES_MAX (64u << 20)

struct rendering {
    struct api_call *call;
    struct chat_prompt prompt;
    struct tokenizer_ids ids;
};

static enum status read_request(const struct options *options, struct buffer *out, struct error *error)
{
    if (options->operand_count == 1)
        return file_read(options->operands[0], REQUEST_BYTES_MAX, out, error);
    return command_input(options, out, error);
}

static enum status parse_request(const struct options *options, const struct runtime *runtime, struct api_call **call,
                                 struct error *error)
{
    struct api_facts facts = {
        .model_id = runtime->config.name,
        .context = runtime->config.context_trained,
        .context_trained = runtime->config.context_trained,
        .vocabulary = tokenizer_vocabulary(runtime->tokenizer),
        .choices_max = API_CHOICES_MAX,
        .fingerprint = "",
        .version = "",
        .has_chat_template = true,
    };
    const char *rest, *allow;
    const struct api_endpoint *endpoint = api_endpoint_find("POST", "/v1/chat/completions", &rest, &allow, error);
    struct buffer body = {0};
    enum status status = endpoint == NULL ? error->status : read_request(options, &body, error);
    if (status == STATUS_OK)
        status = api_call_open(endpoint, body.data != NULL ? body.data : "", body.size, &facts, call, error);
    buffer_free(&body);
    return status;
}

static enum status render(const struct options *options, const struct runtime *runtime, struct rendering *out,
                          struct error *error)
{
    if (runtime->chat_template == NULL)
        return error_set(error, STATUS_UNSUPPORTED, "%s has no chat template", runtime->config.name);
    enum status status = parse_request(options, runtime, &out->call, error);
    struct tokenizer_scratch *scratch = NULL;
    if (status == STATUS_OK)
        status = tokenizer_scratch_open(runtime->tokenizer, &scratch, error);
    if (status == STATUS_OK)
        status = prompt_render(runtime->chat_template, &out->call->chat, &out->call->arena, &out->prompt, error);
    if (status == STATUS_OK)
        status = prompt_tokenize(runtime->tokenizer, scratch, &out->prompt, &out->ids, error);
    tokenizer_scratch_close(scratch);
    return status;
}

static void write_span(struct json_writer *writer, const struct chat_span *span)
{
    json_object_begin(writer);
    json_key(writer, "offset");
    json_integer(writer, (int64_t)span->offset);
    json_key(writer, "size");
    json_integer(writer, (int64_t)span->size);
    json_key(writer, "message");
    span->message >= 0 ? json_integer(writer, span->message) : json_null(writer);
    json_key(writer, "field");
    span->field != NULL ? json_string(writer, span->field) : json_null(writer);
    json_key(writer, "source_offset");
    span->source_offset != CHAT_SPAN_UNKNOWN ? json_integer(writer, (int64_t)span->source_offset) : json_null(writer);
    json_key(writer, "trusted");
    json_bool(writer, span->trusted);
    json_object_end(writer);
}

static void write_json(const struct rendering *rendering, struct buffer *out)
{
    struct json_writer writer = json_writer_start(out);
    json_object_begin(&writer);
    json_key(&writer, "prompt");
    json_bytes(&writer, rendering->prompt.text, rendering->prompt.size);
    json_key(&writer, "count");
    json_integer(&writer, (int64_t)rendering->ids.count);
    json_key(&writer, "tokens");
    json_array_begin(&writer);
    for (size_t i = 0; i < rendering->ids.count; i++)
        json_integer(&writer, rendering->ids.ids[i]);
    json_array_end(&writer);
    json_key(&writer, "spans");
    json_array_begin(&writer);
    for (size_t i = 0; i < rendering->prompt.span_count; i++)
        write_span(&writer, &rendering->prompt.spans[i]);
    json_array_end(&writer);
    json_object_end(&writer);
    buffer_byte(out, '\n');
}

static void write_text(const struct rendering *rendering, struct buffer *out)
{
    buffer_append(out, rendering->prompt.text, rendering->prompt.size);
    buffer_printf(out, "\n\n%zu tokens:", rendering->ids.count);
    for (size_t i = 0; i < rendering->ids.count; i++)
        buffer_printf(out, " %d", rendering->ids.ids[i]);
    buffer_byte(out, '\n');
}

int command_render(const struct options *options)
{
    struct runtime runtime;
    struct rendering rendering = {0};
    struct buffer out = {0};
    struct error error;
    enum status status = runtime_open_text(options, &runtime, &error);
    if (status == STATUS_OK)
        status = render(options, &runtime, &rendering, &error);
    int result;
    if (status == STATUS_OK) {
        (options->json ? write_json : write_text)(&rendering, &out);
        result = command_output(&out);
    } else {
        result = command_fail(&error);
    }
    tokenizer_ids_free(&rendering.ids);
    if (rendering.call != NULL)
        api_call_close(rendering.call);
    buffer_free(&out);
    runtime_close(&runtime);
    return result;
}
