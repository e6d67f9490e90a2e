/* The `prompt` of completions: a text or token ids, or several of one kind. */
#ifndef API_ENDPOINT_PROMPT_H
#define API_ENDPOINT_PROMPT_H

#include "api/field.h"

/* A string, an array of ids, or an array of strings or of arrays of ids, at most API_PROMPTS_MAX. */
enum status prompt_parse(const struct field_context *context, const char *name, const cJSON *value,
                         struct error *error);

#endif
