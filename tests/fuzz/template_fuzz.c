/* A chat template as a model file may hold it: the first byte chooses a conversation, the rest is the template. It
 * fails with a reason, also when it runs away, or renders; then the spans are right and nothing of the conversation
 * became trusted. */
#include <string.h>

#include "tests/fuzz/fuzz.h"
#include "tests/support/chat_json.h"

static const struct chat_template_tokens tokens = {.bos_token = "<s>", .eos_token = "</s>"};
/* Small, so that a template that runs away is stopped in milliseconds. */
static const struct chat_template_limits limits = {.steps_max = 100000, .output_max = 1 << 20, .memory_max = 8 << 20};

/* Every text of the messages has the character U+E123; no template has it unless it writes it itself. */
#define MARK "\xEE\x84\xA3"

static const char *const conversations[] = {
    "{\"messages\":[{\"role\":\"user\",\"content\":\"" MARK "\"}]}",
    "{\"messages\":[{\"role\":\"system\",\"content\":\" s" MARK "\\n\"},{\"role\":\"user\",\"content\":\"a," MARK
    ",\\u00e9\"},{\"role\":\"assistant\",\"content\":\"<think>" MARK "</think>b" MARK "\"},{\"role\":\"user\","
    "\"content\":\"" MARK MARK "\"}],\"kwargs\":{\"enable_thinking\":true}}",
    "{\"messages\":[{\"role\":\"user\",\"content\":\"" MARK "x\"},{\"role\":\"assistant\",\"content\":null,"
    "\"tool_calls\":[{\"id\":\"c" MARK "\",\"type\":\"function\",\"function\":{\"name\":\"f" MARK
    "\",\"arguments\":{\"" MARK "k\":[1,2.50,null,\"v" MARK "\"]}}}]},{\"role\":\"tool\",\"tool_call_id\":\"c" MARK
    "\",\"content\":\"<r>&'" MARK "\"}],\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\","
    "\"description\":\"d" MARK "\",\"parameters\":{\"type\":\"object\",\"properties\":{}}}}]}",
};

static const struct chat_value *conversation(uint8_t byte)
{
    static struct arena arena;
    static struct chat_value *parsed[sizeof(conversations) / sizeof(conversations[0])];
    size_t choice = fuzz_choice(byte, sizeof(parsed) / sizeof(parsed[0]));
    if (parsed[choice] == NULL) {
        parsed[choice] = chat_json_parse(&arena, conversations[choice], strlen(conversations[choice]));
        CHECK(parsed[choice] != NULL);
        chat_json_mark(&arena, chat_object_get(parsed[choice], "messages"));
    }
    return parsed[choice];
}

static bool has(const char *text, size_t size, const char *part)
{
    return memmem(text, size, part, strlen(part)) != NULL;
}

static void check_trust(const struct chat_prompt *prompt)
{
    for (size_t i = 0; i < prompt->span_count; i++)
        if (prompt->spans[i].trusted)
            CHECK(!has(prompt->text + prompt->spans[i].offset, prompt->spans[i].size, MARK));
}

static void render(const struct chat_template *chat_template, const char *source, size_t size, uint8_t byte)
{
    static struct arena arena; /* keeps its first chunk */
    const struct chat_value *from = conversation(byte);
    struct chat chat = {.messages = chat_object_get(from, "messages"),
                        .tools = chat_object_get(from, "tools"),
                        .kwargs = chat_object_get(from, "kwargs"),
                        .add_generation_prompt = true,
                        .now_unix_s = 1753531200};
    struct chat_prompt prompt;
    struct error error = {0};
    enum status status = chat_template_render(chat_template, &chat, &limits, &arena, &prompt, &error);
    if (status == STATUS_OK) {
        fuzz_check_spans(&prompt, &chat);
        if (!has(source, size, "\xEE") && !has(source, size, "123") && !has(source, size, "57635"))
            check_trust(&prompt);
    } else {
        CHECK(status == STATUS_INVALID || status == STATUS_TOO_LARGE || status == STATUS_UNSUPPORTED);
        CHECK(status == error.status && error.text[0] != '\0');
    }
    CHECK(arena.used_bytes <= limits.memory_max);
    arena_reset(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct chat_template *chat_template = NULL;
    struct error error = {0};
    if (size < 1)
        return 0;
    const char *source = (const char *)data + 1;
    enum status status = chat_template_open(source, size - 1, &tokens, &chat_template, &error);
    if (status == STATUS_OK)
        render(chat_template, source, size - 1, data[0]);
    else
        CHECK(chat_template == NULL && status == error.status && error.text[0] != '\0');
    chat_template_close(chat_template);
    return 0;
}
