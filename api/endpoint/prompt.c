/* See prompt.h. */
#include "api/endpoint/prompt.h"

#include <inttypes.h>
#include <stdio.h>

#include "api/json_scan.h"

#define ITEM_NAME_BYTES 64

static enum status read_one(const struct field_context *context, const char *name, const cJSON *value,
                            struct api_prompt *out, struct error *error)
{
    if (cJSON_IsString(value))
        return field_text(context->call, name, value, &out->text, &out->size, error);
    if (value->child == NULL)
        return field_invalid(error, name, "%s is empty; it must have at least one token id", name);
    return field_ids(context, name, value, JSON_VALUES_MAX, &out->ids, &out->id_count, error);
}

static enum status check_kinds(const char *name, const cJSON *value, struct error *error)
{
    const cJSON *first = value->child;
    for (const cJSON *item = first; item != NULL; item = item->next) {
        if (!cJSON_IsString(item) && !cJSON_IsArray(item))
            return field_wrong_type(error, name, "a string, an array of token ids, or an array of either", item);
        if (cJSON_IsString(item) != cJSON_IsString(first))
            return field_invalid(error, name, "%s has strings and arrays; they must all be of one kind", name);
    }
    return STATUS_OK;
}

enum status prompt_parse(const struct field_context *context, const char *name, const cJSON *value, struct error *error)
{
    struct api_prompt *prompt;
    bool several = cJSON_IsArray(value) && !cJSON_IsNumber(value->child);
    if (cJSON_IsArray(value) && value->child == NULL)
        return field_invalid(error, name, "%s is empty; it must be a string or have at least one token id", name);
    if (!several) {
        prompt = api_call_add_prompts(context->call, 1);
        return prompt == NULL ? field_no_memory(error) : read_one(context, name, value, prompt, error);
    }
    size_t count = (size_t)cJSON_GetArraySize(value);
    if (count > API_PROMPTS_MAX)
        return field_invalid(error, name, "%s has %zu prompts; at most %d are accepted", name, count, API_PROMPTS_MAX);
    enum status status = check_kinds(name, value, error);
    if (status != STATUS_OK)
        return status;
    prompt = api_call_add_prompts(context->call, (uint32_t)count);
    if (prompt == NULL)
        return field_no_memory(error);
    char place[ITEM_NAME_BYTES];
    uint32_t index = 0;
    for (const cJSON *item = value->child; item != NULL && status == STATUS_OK; item = item->next) {
        snprintf(place, sizeof(place), "%s[%" PRIu32 "]", name, index);
        status = read_one(context, place, item, &prompt[index++], error);
    }
    return status;
}
