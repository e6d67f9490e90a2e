/* The messages of a request as chat values: roles from the closed list become trusted words, everything else is
 * data. */
#ifndef API_OPENAI_MESSAGES_H
#define API_OPENAI_MESSAGES_H

#include "api/field.h"

#define OPENAI_KWARGS_MAX 256

/* Fills call->chat.messages. */
enum status openai_messages_parse(const struct field_context *context, const cJSON *value, struct error *error);
/* The rule between continue_final_message and add_generation_prompt, after field_read. */
enum status openai_prompt_end_finish(const struct field_context *context, struct error *error);
/* Merges into call->chat.kwargs; a variable that is there already stays when `weak`. */
enum status openai_kwargs_add(struct api_call *call, const char *key, struct chat_value *value, bool weak,
                              struct error *error);
enum status openai_kwargs_parse(const struct field_context *context, const cJSON *value, struct error *error);
enum status openai_reasoning_effort_parse(const struct field_context *context, const cJSON *value, struct error *error);

#endif
