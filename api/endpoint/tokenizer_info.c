/* GET /tokenizer_info: what evaluation harnesses need to know of the tokenizer. */
#include <string.h>

#include "api/endpoint/endpoints.h"
#include "api/text.h"

enum status tokenizer_info_answer(const struct api_facts *facts, const char *rest, struct buffer *out,
                                  struct error *error)
{
    (void)rest;
    (void)error;
    struct json_writer writer = json_writer_start(out);
    json_object_begin(&writer);
    json_key(&writer, "eos_token");
    if (facts->eos_text == NULL)
        json_null(&writer);
    else
        text_write_lossy(&writer, facts->eos_text, strlen(facts->eos_text)); /* from a file: perhaps no text */
    json_key(&writer, "vocab_size");
    json_integer(&writer, facts->vocabulary);
    json_key(&writer, "model_max_length");
    json_integer(&writer, facts->context);
    json_key(&writer, "has_chat_template");
    json_bool(&writer, facts->has_chat_template);
    json_object_end(&writer);
    return STATUS_OK;
}
