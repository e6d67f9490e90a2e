/* What the OpenAI-style generating endpoints have in common: sampling, limits, stops, streaming, and the extras of
 * other servers that clients send to them. */
#ifndef API_OPENAI_FIELDS_H
#define API_OPENAI_FIELDS_H

#include "api/field.h"

extern const struct field_table openai_fields;

/* Rules between fields, after field_read. */
enum status openai_fields_finish(const struct field_context *context, struct error *error);

#endif
