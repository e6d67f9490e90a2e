/* The way of a conversation into the model: the first byte chooses a published template, the second the tokenizer, the
 * rest is the body of a chat request. Body, rendered text and its spans, and ids agree, and no control token comes from
 * what the client wrote. */
#include <stdlib.h>

#include "server/engine/prompt.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/chat_json.h"

#define HEAD 2
#define CORPUS "tests/golden/chat_template_corpus.json"

struct templates {
    struct chat_template **items; /* (count) */
    size_t count;
};

static struct templates open_templates(void)
{
    static const struct chat_template_tokens tokens = {.bos_token = "<s>", .eos_token = "</s>"};
    struct arena arena = {0};
    const struct chat_value *list = chat_object_get(chat_json_file(&arena, CORPUS), "templates");
    struct templates out = {.items = calloc(list->count, sizeof(struct chat_template *))};
    CHECK(out.items != NULL);
    for (; out.count < list->count; out.count++) {
        struct error error;
        const struct chat_value *source = chat_object_get(list->items[out.count], "source");
        CHECK(chat_template_open(source->text, source->text_size, &tokens, &out.items[out.count], &error) == STATUS_OK);
    }
    arena_free(&arena);
    return out;
}

static const struct chat_template *choose_template(uint8_t byte)
{
    static struct templates templates;
    if (templates.count == 0)
        templates = open_templates();
    return templates.items[fuzz_choice(byte, templates.count)];
}

static const struct fuzz_tokenizer *choose_tokenizer(uint8_t byte)
{
    static struct fuzz_tokenizer opened[2];
    size_t choice = fuzz_choice(byte, 2);
    if (opened[choice].tokenizer == NULL)
        opened[choice] = fuzz_tokenizer_open(choice == 0 ? "smollm" : "llama-bpe");
    return &opened[choice];
}

static void check_tokens(const struct fuzz_tokenizer *text, const struct chat_prompt *prompt)
{
    static struct tokenizer_ids ids; /* grows once */
    struct error error;
    struct tokenizer_span *spans = calloc(prompt->span_count + 1, sizeof(*spans));
    CHECK(spans != NULL);
    for (size_t i = 0; i < prompt->span_count; i++)
        spans[i] = (struct tokenizer_span){prompt->spans[i].size, prompt->spans[i].trusted};
    struct tokenizer_input input = {
        .text = prompt->text, .size = prompt->size, .spans = spans, .span_count = prompt->span_count, .add_bos = true};
    ids.count = ids.unknown_bytes = 0;
    CHECK(prompt_tokenize(text->tokenizer, text->scratch, prompt, &ids, &error) == STATUS_OK);
    fuzz_check_ids(text, &input, &ids);
    free(spans);
}

static void check_call(const struct api_call *call, const uint8_t head[HEAD])
{
    static struct arena arena; /* keeps its first chunk */
    struct chat_prompt prompt;
    struct error error = {0};
    enum status status = prompt_render(choose_template(head[0]), &call->chat, &arena, &prompt, &error);
    if (status == STATUS_OK) {
        fuzz_check_spans(&prompt, &call->chat);
        check_tokens(choose_tokenizer(head[1]), &prompt);
    } else {
        fuzz_check_refusal(status, &error);
    }
    arena_reset(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *rest, *allow;
    struct api_call *call;
    struct error error = {0};
    if (size < HEAD)
        return 0;
    const struct api_endpoint *endpoint = api_endpoint_find("POST", "/v1/chat/completions", &rest, &allow, &error);
    enum status status = api_call_open(endpoint, (const char *)data + HEAD, size - HEAD, &test_facts, &call, &error);
    if (status == STATUS_OK)
        check_call(call, data);
    else
        fuzz_check_refusal(status, &error);
    api_call_close(call);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t size_max, unsigned seed)
{
    return fuzz_mutate_json(data, size, size_max, seed);
}
