/* What endpoint_table.c puts into its rows, and the tables that tests go through row by row. */
#ifndef API_ENDPOINT_ENDPOINTS_H
#define API_ENDPOINT_ENDPOINTS_H

#include "api/field.h"

extern const struct field_table openai_chat_fields;
extern const struct field_table openai_completions_fields;
extern const struct field_table tokenize_fields;
extern const struct field_table detokenize_fields;
extern const struct field_table apply_template_fields;

enum status openai_chat_parse(struct api_call *call, const char *body, size_t size, const struct api_facts *facts,
                              struct error *error);
void openai_chat_event(struct api_reply *reply, const struct api_event *event, struct buffer *out);

enum status openai_completions_parse(struct api_call *call, const char *body, size_t size,
                                     const struct api_facts *facts, struct error *error);
void openai_completions_event(struct api_reply *reply, const struct api_event *event, struct buffer *out);

enum status openai_embeddings_parse(struct api_call *call, const char *body, size_t size, const struct api_facts *facts,
                                    struct error *error);

enum status tokenize_parse(struct api_call *call, const char *body, size_t size, const struct api_facts *facts,
                           struct error *error);
void tokenize_event(struct api_reply *reply, const struct api_event *event, struct buffer *out);

enum status detokenize_parse(struct api_call *call, const char *body, size_t size, const struct api_facts *facts,
                             struct error *error);
void detokenize_event(struct api_reply *reply, const struct api_event *event, struct buffer *out);

enum status apply_template_parse(struct api_call *call, const char *body, size_t size, const struct api_facts *facts,
                                 struct error *error);
void apply_template_event(struct api_reply *reply, const struct api_event *event, struct buffer *out);

enum status models_list(const struct api_facts *facts, const char *rest, struct buffer *out, struct error *error);
enum status models_one(const struct api_facts *facts, const char *rest, struct buffer *out, struct error *error);
enum status tokenizer_info_answer(const struct api_facts *facts, const char *rest, struct buffer *out,
                                  struct error *error);
enum status version_answer(const struct api_facts *facts, const char *rest, struct buffer *out, struct error *error);

#endif
