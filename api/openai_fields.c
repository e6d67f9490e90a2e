/* The shared rows, the parsers behind them, and the rules between them. */
#include "api/openai_fields.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/size.h"

#define MODEL_NAME_MAX 256
#define STOP_IDS_MAX 1024
#define STOP_BYTES_MAX 4096

/* ---- sampling ---- */

static enum status parse_top_k(const struct field_context *context, const cJSON *value, struct error *error)
{
    int64_t top_k;
    enum status status = field_whole("top_k", value, -1, INT32_MAX, &top_k, error);
    if (status == STATUS_OK)
        context->call->sampling.top_k = top_k < 0 ? 0 : (uint32_t)top_k;
    return status;
}

static enum status parse_seed(const struct field_context *context, const cJSON *value, struct error *error)
{
    int64_t seed;
    enum status status = field_whole("seed", value, INT64_MIN, INT64_MAX, &seed, error);
    context->call->sampling.has_seed = status == STATUS_OK;
    context->call->sampling.seed = status == STATUS_OK ? (uint64_t)seed : 0;
    return status;
}

/* A token id as an object's key: digits only, no leading zero, so that no two keys mean one id. */
static bool read_id_key(const char *key, uint32_t vocabulary, int32_t *id)
{
    size_t length = strspn(key, "0123456789");
    if (length == 0 || length > 9 || key[length] != '\0' || (length > 1 && key[0] == '0'))
        return false;
    *id = (int32_t)strtol(key, NULL, 10);
    return (uint32_t)*id < vocabulary;
}

static enum status parse_logit_bias(const struct field_context *context, const cJSON *value, struct error *error)
{
    if (!cJSON_IsObject(value))
        return field_wrong_type(error, "logit_bias", "an object of token ids and numbers", value);
    size_t count = 0, size = (size_t)cJSON_GetArraySize(value);
    struct api_bias *bias = arena_array(&context->call->arena, size, sizeof(*bias));
    if (bias == NULL)
        return field_no_memory(error);
    for (const cJSON *item = value->child; item != NULL; item = item->next) {
        struct api_bias *one = &bias[count++];
        if (!read_id_key(item->string, context->facts->vocabulary, &one->id))
            return field_invalid(error, "logit_bias",
                                 "logit_bias has the key \"%.40s\"; it must be a token id from 0 to %" PRIu32,
                                 item->string, context->facts->vocabulary - 1);
        if (!cJSON_IsNumber(item) || !(item->valuedouble >= -100 && item->valuedouble <= 100))
            return field_invalid(error, "logit_bias", "logit_bias[\"%s\"] must be a number from -100 to 100",
                                 item->string);
        one->value = (float)item->valuedouble;
    }
    context->call->sampling.bias = bias;
    context->call->sampling.bias_count = (uint32_t)count;
    return STATUS_OK;
}

/* ---- limits ---- */

static enum status parse_tokens_max(const struct field_context *context, const char *name, const cJSON *value,
                                    struct error *error)
{
    int64_t tokens;
    enum status status = field_whole(name, value, 0, INT64_MAX, &tokens, error);
    if (status != STATUS_OK)
        return status;
    context->call->has_max_tokens = true;
    context->call->max_tokens = (uint32_t)(tokens < UINT32_MAX ? tokens : UINT32_MAX);
    return STATUS_OK;
}

/* Clients send numbers far above any context; the engine ends at the context whatever was asked for. */
static enum status parse_max_tokens(const struct field_context *context, const cJSON *value, struct error *error)
{
    if (json_get(context->body, "max_completion_tokens") != NULL)
        return STATUS_OK;
    return parse_tokens_max(context, "max_tokens", value, error);
}

static enum status parse_max_completion_tokens(const struct field_context *context, const cJSON *value,
                                               struct error *error)
{
    return parse_tokens_max(context, "max_completion_tokens", value, error);
}

static enum status parse_n(const struct field_context *context, const cJSON *value, struct error *error)
{
    int64_t choices;
    enum status status = field_whole("n", value, 1, API_CHOICES_MAX, &choices, error);
    if (status != STATUS_OK)
        return status;
    if (choices > context->facts->choices_max)
        return field_invalid(error, "n", "n is %" PRId64 "; this server runs at most %" PRIu32 " choices at once",
                             choices, context->facts->choices_max);
    context->call->choices = (uint32_t)choices;
    return STATUS_OK;
}

/* ---- stops ---- */

static enum status add_stop(struct api_call *call, const cJSON *item, struct api_stop *stop, struct error *error)
{
    enum status status = field_text(call, "stop", item, &stop->text, &stop->size, error);
    if (status != STATUS_OK)
        return status;
    if (stop->size == 0)
        return field_invalid(error, "stop", "stop has an empty string; each must have at least one character");
    if (stop->size > STOP_BYTES_MAX)
        return field_invalid(error, "stop", "stop has a string of %zu bytes; at most %d are accepted", stop->size,
                             STOP_BYTES_MAX);
    return STATUS_OK;
}

static enum status parse_stop(const struct field_context *context, const cJSON *value, struct error *error)
{
    struct api_call *call = context->call;
    bool list = cJSON_IsArray(value);
    if (!list && !cJSON_IsString(value))
        return field_wrong_type(error, "stop", "a string or an array of strings", value);
    size_t size = list ? (size_t)cJSON_GetArraySize(value) : 1;
    if (size > API_STOP_STRINGS_MAX)
        return field_invalid(error, "stop", "stop has %zu strings; at most %d are accepted", size,
                             API_STOP_STRINGS_MAX);
    struct api_stop *stop = arena_array(&call->arena, size, sizeof(*stop));
    if (stop == NULL)
        return field_no_memory(error);
    call->stop = stop;
    call->stop_count = (uint32_t)size;
    for (const cJSON *item = list ? value->child : value; item != NULL; item = list ? item->next : NULL) {
        enum status status = add_stop(call, item, stop++, error);
        if (status != STATUS_OK)
            return status;
    }
    return STATUS_OK;
}

static enum status parse_stop_token_ids(const struct field_context *context, const cJSON *value, struct error *error)
{
    return field_ids(context, "stop_token_ids", value, STOP_IDS_MAX, &context->call->stop_ids,
                     &context->call->stop_id_count, error);
}

/* ---- the rest ---- */

static enum status parse_model(const struct field_context *context, const cJSON *value, struct error *error)
{
    size_t size;
    enum status status = field_text(context->call, "model", value, &context->call->model, &size, error);
    if (status == STATUS_OK && size > MODEL_NAME_MAX)
        return field_invalid(error, "model", "model has %zu bytes; at most %d are accepted", size, MODEL_NAME_MAX);
    return status;
}

static enum status parse_stream_options(const struct field_context *context, const cJSON *value, struct error *error)
{
    if (!cJSON_IsObject(value))
        return field_wrong_type(error, "stream_options", "an object", value);
    if (!cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(context->body, "stream")))
        return field_invalid(error, "stream_options", "stream_options is only allowed together with \"stream\": true");
    const cJSON *usage = json_get(value, "include_usage");
    return usage == NULL ? STATUS_OK
                         : field_bool("stream_options.include_usage", usage, &context->call->include_usage, error);
}

static enum status parse_service_tier(const struct field_context *context, const cJSON *value, struct error *error)
{
    (void)value;
    (void)error;
    context->call->echo_service_tier = true;
    return STATUS_OK;
}

static bool is_text_format(const cJSON *value)
{
    const cJSON *type = json_get(value, "type");
    return cJSON_IsString(type) && strcmp(type->valuestring, "text") == 0;
}

static bool is_minus_one(const cJSON *value)
{
    return cJSON_IsNumber(value) && value->valuedouble == -1;
}

static const struct field rows[] = {
    ROW_PARSED("model", parse_model),
    ROW_BOOL("stream", stream),
    ROW_PARSED("stream_options", parse_stream_options),
    ROW_PARSED("max_tokens", parse_max_tokens),
    ROW_PARSED("max_completion_tokens", parse_max_completion_tokens),
    ROW_UINT32("min_tokens", min_tokens, 0, UINT32_MAX),
    ROW_PARSED("n", parse_n),
    ROW_FLOAT("temperature", sampling.temperature, 0, 2),
    ROW_FLOAT_ABOVE("top_p", sampling.top_p, 0, 1),
    ROW_PARSED("top_k", parse_top_k),
    ROW_FLOAT("min_p", sampling.min_p, 0, 1),
    ROW_FLOAT("repetition_penalty", sampling.repetition_penalty, 0.001, 100),
    ROW_FLOAT("presence_penalty", sampling.presence_penalty, -2, 2),
    ROW_FLOAT("frequency_penalty", sampling.frequency_penalty, -2, 2),
    ROW_PARSED("logit_bias", parse_logit_bias),
    ROW_PARSED("seed", parse_seed),
    ROW_PARSED("stop", parse_stop),
    ROW_PARSED("stop_token_ids", parse_stop_token_ids),
    ROW_BOOL("ignore_eos", ignore_eos),
    ROW_BOOL("include_stop_str_in_output", include_stop_text),
    ROW_BOOL("skip_special_tokens", skip_special_tokens),
    ROW_BOOL("return_token_ids", return_token_ids),
    ROW_PARSED("service_tier", parse_service_tier),

    ROW_REFUSED("response_format", is_text_format),
    ROW_REFUSED("structured_outputs", NULL),
    ROW_REFUSED("guided_json", NULL),
    ROW_REFUSED("guided_regex", NULL),
    ROW_REFUSED("guided_choice", field_is_empty),
    ROW_REFUSED("guided_grammar", field_is_empty),
    ROW_REFUSED("grammar", field_is_empty),
    ROW_REFUSED("json_schema", NULL),
    ROW_REFUSED("echo", field_is_false),
    ROW_REFUSED("prompt_logprobs", NULL),
    ROW_REFUSED("prompt_embeds", NULL),
    ROW_REFUSED("cache_salt", NULL),
    ROW_REFUSED("truncate_prompt_tokens", is_minus_one),
    ROW_REFUSED("use_beam_search", field_is_false),
    ROW_REFUSED("bad_words", field_is_empty),
    ROW_REFUSED("allowed_token_ids", NULL),
    ROW_REFUSED("logits_processors", field_is_empty),
    ROW_REFUSED("typical", field_is_one),
    ROW_REFUSED("typical_p", field_is_one),
    ROW_REFUSED("tfs_z", field_is_one),
    ROW_REFUSED("top_a", field_is_zero),
    ROW_REFUSED("mirostat", field_is_zero),
    ROW_REFUSED("mirostat_mode", field_is_zero),
    ROW_REFUSED("dynatemp_range", field_is_zero),
    ROW_REFUSED("xtc_probability", field_is_zero),
    ROW_REFUSED("dry_multiplier", field_is_zero),
    ROW_REFUSED("repeat_penalty", field_is_one),
    ROW_REFUSED("lora_request", NULL),
    ROW_REFUSED("lora", field_is_empty),

    ROW_HINT("user"),
    ROW_HINT("safety_identifier"),
    ROW_HINT("metadata"),
    ROW_HINT("store"),
    ROW_HINT("prompt_cache_key"),
    ROW_HINT("prompt_cache_options"),
    ROW_HINT("prompt_cache_retention"),
    ROW_HINT("cache_prompt"),
    ROW_HINT("prediction"),
    ROW_HINT("verbosity"),
    ROW_HINT("priority"),
    ROW_HINT("request_id"),
    ROW_HINT("spaces_between_special_tokens"),
};

const struct field_table openai_fields = FIELD_TABLE(rows);

enum status openai_fields_finish(const struct field_context *context, struct error *error)
{
    const struct api_call *call = context->call;
    if (call->has_max_tokens && call->min_tokens > call->max_tokens)
        return field_invalid(error, "min_tokens", "min_tokens is %" PRIu32 "; it must be at most max_tokens, %" PRIu32,
                             call->min_tokens, call->max_tokens);
    return STATUS_OK;
}
