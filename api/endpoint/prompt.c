/* See prompt.h. */
#include "api/endpoint/prompt.h"

#include "api/json_scan.h"

enum status prompt_parse(const struct field_context *context, const char *name, const cJSON *value, struct error *error)
{
    struct api_call *call = context->call;
    const cJSON *first = cJSON_IsArray(value) ? value->child : NULL;
    if (cJSON_IsString(value))
        return field_text(call, name, value, &call->prompt, &call->prompt_size, error);
    if (!cJSON_IsArray(value))
        return field_wrong_type(error, name, "a string or an array of token ids", value);
    if (first == NULL)
        return field_invalid(error, name, "%s is empty; it must be a string or have at least one token id", name);
    if (cJSON_IsNumber(first))
        return field_ids(context, name, value, JSON_VALUES_MAX, &call->prompt_ids, &call->prompt_id_count, error);
    if (first->next != NULL)
        return field_unsupported(error, name, "%s has several prompts; send one a request", name);
    if (cJSON_IsArray(first) && first->child != NULL && !cJSON_IsNumber(first->child))
        return field_wrong_type(error, name, "a string or an array of token ids", first->child);
    return prompt_parse(context, name, first, error);
}
