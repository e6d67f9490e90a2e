/* What the OpenAI-style generating endpoints have in common: sampling, limits, stops, streaming, and the extras of
 * other servers that clients send to them. */
#ifndef API_OPENAI_FIELDS_H
#define API_OPENAI_FIELDS_H

#include "api/field.h"

extern const struct field_table openai_fields;

/* The name of the model, echoed in the reply; another one than the loaded one is a failure when the facts are strict. */
enum status openai_model_parse(const struct field_context *context, const cJSON *value, struct error *error);
/* STATUS_NOT_FOUND, "model_not_found", for another model than the loaded one. */
enum status openai_model_check(const char *name, const struct api_facts *facts, struct error *error);
/* Rules between fields, after field_read. */
enum status openai_fields_finish(const struct field_context *context, struct error *error);

#endif
