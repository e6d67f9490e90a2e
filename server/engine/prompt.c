/* The path from a conversation to ids: rendering, then tokenizing with the spans' trust. */
#include "server/engine/prompt.h"

enum status prompt_render(const struct chat_template *chat_template, const struct chat *chat, struct arena *arena,
                          struct chat_prompt *out, struct error *error)
{
    return chat_template_render(chat_template, chat, NULL, arena, out, error);
}

enum status prompt_tokenize(const struct tokenizer *tokenizer, struct tokenizer_scratch *scratch,
                            const struct chat_prompt *prompt, struct tokenizer_ids *out, struct error *error)
{
    struct tokenizer_span *spans = calloc(prompt->span_count + 1, sizeof *spans);
    if (spans == NULL)
        return error_no_memory(error, "the prompt's spans");
    for (size_t i = 0; i < prompt->span_count; i++)
        spans[i] = (struct tokenizer_span){.size = prompt->spans[i].size, .trusted = prompt->spans[i].trusted};
    struct tokenizer_input input = {
        .text = prompt->text, .size = prompt->size, .spans = spans, .span_count = prompt->span_count, .add_bos = true};
    enum status status = tokenizer_encode(tokenizer, scratch, &input, out, error);
    free(spans);
    return status;
}
