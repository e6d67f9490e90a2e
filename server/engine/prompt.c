/* The path from a conversation to ids: rendering, then tokenizing with the spans' trust. */
#include "server/engine/prompt.h"

enum status prompt_render(const struct chat_template *chat_template, const struct chat *chat, struct arena *arena,
                          struct chat_prompt *out, struct error *error)
{
    struct error again;
    enum status status = chat_template_render(chat_template, chat, NULL, arena, out, error);
    for (int fold = 0; status == STATUS_INVALID && fold < 2; fold++) {
        struct chat turns = *chat;
        turns.messages = chat_merge_turns(arena, chat->messages, fold == 1);
        if (turns.messages == NULL)
            return error_no_memory(error, "the prompt's messages");
        if (turns.messages != chat->messages)
            status = chat_template_render(chat_template, &turns, NULL, arena, out, &again);
    }
    return status == STATUS_OK ? STATUS_OK : error->status;
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
