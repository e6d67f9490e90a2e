/* The shared rows, the parsers behind them, and the rules between them. */
#include "api/openai_fields.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/size.h"

#define METADATA_MAX 16
#define STOP_IDS_MAX 1024
#define STOP_BYTES_MAX 4096

/* ---- sampling ---- */

/* -1 is how other servers spell "off"; ours is 0. */
static enum status parse_top_k(const struct field_context *context, const cJSON *value, struct error *error)
{
    int64_t top_k;
    (void)error;
    context->call->sampling.top_k = json_whole(value, &top_k) && top_k > 0 ? (uint32_t)top_k : 0;
    return STATUS_OK;
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

/* Clients send numbers far above any context; the engine ends at the context whatever was asked for. The older name is
 * checked too, and gives way where both are there. */
static enum status parse_max_tokens(const struct field_context *context, const cJSON *value, struct error *error)
{
    uint32_t other = context->call->max_tokens;
    enum status status = parse_tokens_max(context, "max_tokens", value, error);
    if (json_get(context->body, "max_completion_tokens") != NULL)
        context->call->max_tokens = other;
    return status;
}

static enum status parse_max_completion_tokens(const struct field_context *context, const cJSON *value,
                                               struct error *error)
{
    return parse_tokens_max(context, "max_completion_tokens", value, error);
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
    size_t size = list ? (size_t)cJSON_GetArraySize(value) : 1;
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

enum status openai_model_parse(const struct field_context *context, const cJSON *value, struct error *error)
{
    size_t size;
    enum status status = field_text(context->call, "model", value, &context->call->model, &size, error);
    if (status == STATUS_OK && context->facts->strict_model)
        return openai_model_check(context->call->model, context->facts, error);
    return status;
}

enum status openai_model_check(const char *name, const struct api_facts *facts, struct error *error)
{
    if (strcmp(name, facts->model_id) == 0)
        return STATUS_OK;
    error_field(error, STATUS_NOT_FOUND, "model", "the model \"%.120s\" is not here; this server has \"%.120s\"", name,
                facts->model_id);
    return error_code(error, "model_not_found");
}

static enum status parse_stream_options(const struct field_context *context, const cJSON *value, struct error *error)
{
    if (!cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(context->body, "stream")))
        return field_invalid(error, "stream_options", "stream_options is only allowed together with \"stream\": true");
    const cJSON *usage = json_get(value, "include_usage");
    return usage == NULL ? STATUS_OK
                         : field_bool("stream_options.include_usage", usage, &context->call->include_usage, error);
}

/* An empty one would look like protection and be none. */
static enum status parse_cache_salt(const struct field_context *context, const cJSON *value, struct error *error)
{
    struct api_call *call = context->call;
    enum status status = field_text(call, "cache_salt", value, &call->cache_salt, &call->cache_salt_size, error);
    if (status == STATUS_OK && call->cache_salt_size == 0)
        return field_invalid(error, "cache_salt", "cache_salt is empty; it must have at least one character");
    return status;
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

static bool is_plain_reasoning(const cJSON *value)
{
    return cJSON_IsString(value) &&
           (strcmp(value->valuestring, "none") == 0 || strcmp(value->valuestring, "auto") == 0);
}

/* The three servers whose clients come here: OpenAI's own fields first, then what vLLM and llama.cpp add. */
static const struct field rows[] = {
    ROW_PARSED_UP_TO("model", FIELD_STRING, API_MODEL_NAME_MAX, openai_model_parse),
    ROW_BOOL("stream", stream),
    ROW_PARSED("stream_options", FIELD_OBJECT, parse_stream_options),
    ROW_PARSED("max_tokens", FIELD_WHOLE, parse_max_tokens),
    ROW_PARSED("max_completion_tokens", FIELD_WHOLE, parse_max_completion_tokens),
    ROW_UINT32("min_tokens", min_tokens, 0, UINT32_MAX, "0"),
    ROW_UINT32("n", choices, 1, API_CHOICES_MAX, "1"),
    ROW_FLOAT("temperature", sampling.temperature, 0, 2, "1"),
    ROW_FLOAT_ABOVE("top_p", sampling.top_p, 0, 1, "1"),
    {.name = "top_k", .types = FIELD_WHOLE, .minimum = -1, .maximum = INT32_MAX, .standard = "0", .parse = parse_top_k},
    ROW_FLOAT("min_p", sampling.min_p, 0, 1, "0"),
    ROW_FLOAT("repetition_penalty", sampling.repetition_penalty, 0.001, 100, "1"),
    ROW_FLOAT("presence_penalty", sampling.presence_penalty, -2, 2, "0"),
    ROW_FLOAT("frequency_penalty", sampling.frequency_penalty, -2, 2, "0"),
    ROW_PARSED("logit_bias", FIELD_OBJECT, parse_logit_bias),
    ROW_PARSED("seed", FIELD_WHOLE, parse_seed),
    ROW_PARSED_UP_TO("stop", FIELD_STRING | FIELD_ARRAY, API_STOP_STRINGS_MAX, parse_stop),
    ROW_PARSED_UP_TO("stop_token_ids", FIELD_ARRAY, STOP_IDS_MAX, parse_stop_token_ids),
    ROW_BOOL("ignore_eos", ignore_eos),
    ROW_BOOL("include_stop_str_in_output", include_stop_text),
    ROW_BOOL_ON("skip_special_tokens", skip_special_tokens),
    ROW_BOOL("return_token_ids", return_token_ids),
    ROW_PARSED("service_tier", FIELD_STRING, parse_service_tier),

    ROW_HINT("user", FIELD_STRING),
    ROW_HINT("safety_identifier", FIELD_STRING),
    {.name = "metadata", .act = FIELD_HINT, .types = FIELD_OBJECT, .count_max = METADATA_MAX},
    ROW_HINT("store", FIELD_BOOL),
    ROW_HINT("prediction", FIELD_OBJECT),
    ROW_HINT("verbosity", FIELD_STRING),
    ROW_HINT("prompt_cache_key", FIELD_STRING),
    ROW_HINT("prompt_cache_options", FIELD_OBJECT),
    ROW_HINT("prompt_cache_retention", FIELD_STRING),
    ROW_REFUSED_FOR("response_format", is_text_format, "only {\"type\": \"text\"} is"),

    /* vLLM, SGLang */
    ROW_PARSED_UP_TO("cache_salt", FIELD_STRING, API_CACHE_SALT_BYTES_MAX, parse_cache_salt),
    ROW_HINT("priority", FIELD_WHOLE),
    ROW_HINT("request_id", FIELD_STRING),
    ROW_HINT("spaces_between_special_tokens", FIELD_BOOL),
    ROW_HINT("kv_transfer_params", FIELD_OBJECT),
    ROW_HINT("length_penalty", FIELD_NUMBER),          /* with use_beam_search only */
    ROW_HINT("early_stopping", FIELD_ANY),             /* the same */
    ROW_HINT("guided_decoding_backend", FIELD_STRING), /* with guided_* only */
    ROW_HINT("guided_whitespace_pattern", FIELD_STRING),
    ROW_HINT("truncation_side", FIELD_STRING), /* with truncate_prompt_tokens only */
    ROW_REFUSED("structured_outputs", NULL),
    ROW_REFUSED("structural_tag", NULL),
    ROW_REFUSED("guided_json", NULL),
    ROW_REFUSED("guided_regex", NULL),
    ROW_REFUSED("guided_choice", field_is_empty),
    ROW_REFUSED("guided_grammar", field_is_empty),
    ROW_REFUSED("regex", field_is_empty),
    ROW_REFUSED("ebnf", field_is_empty),
    ROW_REFUSED("stop_regex", field_is_empty),
    ROW_REFUSED("prompt_logprobs", NULL),
    ROW_REFUSED("prompt_embeds", NULL),
    ROW_REFUSED("truncate_prompt_tokens", field_is_minus_one),
    ROW_REFUSED("use_beam_search", field_is_false),
    ROW_REFUSED("bad_words", field_is_empty),
    ROW_REFUSED("allowed_token_ids", NULL),
    ROW_REFUSED("logits_processors", field_is_empty),
    ROW_REFUSED("vllm_xargs", field_is_empty),
    ROW_REFUSED("return_tokens_as_token_ids", field_is_false),
    ROW_REFUSED("repetition_detection", NULL),
    ROW_REFUSED("lora_request", NULL),

    /* llama.cpp and its kin */
    ROW_HINT("cache_prompt", FIELD_BOOL),
    ROW_HINT("id_slot", FIELD_WHOLE),
    ROW_HINT("n_keep", FIELD_WHOLE), /* a full context ends a reply here: nothing is shifted out */
    ROW_HINT("timings_per_token", FIELD_BOOL),
    ROW_HINT("return_progress", FIELD_BOOL),
    ROW_HINT("mirostat_tau", FIELD_NUMBER), /* with mirostat only; and so on for the next rows */
    ROW_HINT("mirostat_eta", FIELD_NUMBER),
    ROW_HINT("dynatemp_exponent", FIELD_NUMBER),
    ROW_HINT("xtc_threshold", FIELD_NUMBER),
    ROW_HINT("dry_base", FIELD_NUMBER),
    ROW_HINT("dry_allowed_length", FIELD_WHOLE),
    ROW_HINT("dry_penalty_last_n", FIELD_WHOLE),
    ROW_HINT("dry_sequence_breakers", FIELD_ARRAY),
    ROW_HINT("repeat_last_n", FIELD_WHOLE),
    ROW_REFUSED_FOR("n_predict", field_is_minus_one, "use max_tokens"),
    ROW_REFUSED_FOR("n_probs", field_is_zero, "use logprobs"),
    ROW_REFUSED_FOR("repeat_penalty", field_is_one, "use repetition_penalty"),
    ROW_REFUSED("grammar", field_is_empty),
    ROW_REFUSED("json_schema", NULL),
    ROW_REFUSED("typical", field_is_one),
    ROW_REFUSED("typical_p", field_is_one),
    ROW_REFUSED("tfs_z", field_is_one),
    ROW_REFUSED("top_a", field_is_zero),
    ROW_REFUSED("top_n_sigma", field_is_minus_one),
    ROW_REFUSED("mirostat", field_is_zero),
    ROW_REFUSED("mirostat_mode", field_is_zero),
    ROW_REFUSED("dynatemp_range", field_is_zero),
    ROW_REFUSED("xtc_probability", field_is_zero),
    ROW_REFUSED("dry_multiplier", field_is_zero),
    ROW_REFUSED("min_keep", field_is_zero),
    ROW_REFUSED("samplers", field_is_empty),
    ROW_REFUSED("post_sampling_probs", field_is_false),
    ROW_REFUSED("response_fields", field_is_empty),
    ROW_REFUSED("reasoning_format", is_plain_reasoning),
    ROW_REFUSED("lora", field_is_empty),
};

const struct field_table openai_fields = FIELD_TABLE(rows);

enum status openai_fields_finish(const struct field_context *context, struct error *error)
{
    const struct api_call *call = context->call;
    if (call->choices > context->facts->choices_max)
        return field_invalid(error, "n", "n is %" PRIu32 "; this server runs at most %" PRIu32 " choices at once",
                             call->choices, context->facts->choices_max);
    if (call->has_max_tokens && call->min_tokens > call->max_tokens)
        return field_invalid(error, "min_tokens", "min_tokens is %" PRIu32 "; it must be at most max_tokens, %" PRIu32,
                             call->min_tokens, call->max_tokens);
    return STATUS_OK;
}
