/* The `prompt` of completions and tokenize: a text, or token ids. */
#ifndef API_ENDPOINT_PROMPT_H
#define API_ENDPOINT_PROMPT_H

#include "api/field.h"

/* One string, one array of ids, or an array with one of either. Several prompts are refused. */
enum status prompt_parse(const struct field_context *context, const char *name, const cJSON *value,
                         struct error *error);

#endif
