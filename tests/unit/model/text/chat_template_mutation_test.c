/* Templates nobody meant: pieces of the collection deleted, doubled and mixed at random must open or fail, render or
 * fail, and leave nothing behind (run it with SAN=address). */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/text/chat_template.h"
#include "tests/support/chat_json.h"
#include "tests/unit/unit.h"

static const struct chat_template_tokens tokens = {.bos_token = "<s>", .eos_token = "</s>"};
/* Small, so that a template that runs away is stopped in milliseconds. */
static const struct chat_template_limits limits = {.steps_max = 200000, .output_max = 4 << 20, .memory_max = 32 << 20};

struct text {
    char *bytes;
    size_t size;
};

static void splice(struct text *text, size_t at, size_t removed, const char *bytes, size_t size)
{
    char *fresh = malloc(text->size - removed + size + 1);
    ck_assert_ptr_nonnull(fresh);
    memcpy(fresh, text->bytes, at);
    memcpy(fresh + at, bytes, size);
    memcpy(fresh + at + size, text->bytes + at + removed, text->size - at - removed);
    text->size = text->size - removed + size;
    fresh[text->size] = '\0';
    free(text->bytes);
    text->bytes = fresh;
}

static void mutate(uint64_t *random, struct text *text, const struct chat_value *templates)
{
    static const char *const bits[] = {"{%",
                                       "%}",
                                       "{{",
                                       "}}",
                                       "-",
                                       "(",
                                       ")",
                                       "[",
                                       "]",
                                       "{",
                                       "}",
                                       "|",
                                       ".",
                                       ",",
                                       "'",
                                       "\"",
                                       "\\",
                                       "if ",
                                       "else",
                                       "endif",
                                       "{% for x in messages %}",
                                       "{% endfor %}",
                                       "{% set x = x %}",
                                       "| tojson",
                                       "| list",
                                       "[::-1]",
                                       "[-9223372036854775808:]",
                                       "* 99999999",
                                       "~ messages",
                                       "loop.length",
                                       "{% break %}",
                                       "is ",
                                       "not ",
                                       "in ",
                                       "\n",
                                       "{#",
                                       "#}",
                                       "{% macro m(a) %}",
                                       "{% endmacro %}",
                                       "m(m)",
                                       "namespace()",
                                       "\xC3\xA9",
                                       "\xE2\x80\xA8",
                                       "%s",
                                       ".format(",
                                       ".split(",
                                       "range(99999)",
                                       "0",
                                       "1e999"};
    const struct chat_value *other =
        chat_object_get(templates->items[test_random_below(random, templates->count)], "source");
    size_t at = text->size == 0 ? 0 : test_random_below(random, text->size);
    size_t span = 1 + test_random_below(random, 12);
    const char *bit = bits[test_random_below(random, sizeof(bits) / sizeof(bits[0]))];
    size_t from = test_random_below(random, other->text_size), some = 1 + test_random_below(random, 60);
    span = span > text->size - at ? text->size - at : span;
    some = some > other->text_size - from ? other->text_size - from : some;
    switch (test_random_below(random, 4)) {
    case 0:
        splice(text, at, span, "", 0);
        break;
    case 1:
        splice(text, at, 0, bit, strlen(bit));
        break;
    case 2:
        splice(text, at, span, bit, strlen(bit));
        break;
    default:
        splice(text, at, test_random_below(random, 2) ? span : 0, other->text + from, some);
    }
}

static void try_template(struct arena *arena, const struct text *text, const struct chat_value *conversations,
                         uint64_t *random, size_t *rendered)
{
    struct chat_template *chat_template = NULL;
    struct error error = {0};
    enum status status = chat_template_open(text->bytes, text->size, &tokens, &chat_template, &error);
    if (status != STATUS_OK) {
        ck_assert_ptr_null(chat_template);
        ck_assert_msg(error.text[0] != '\0', "no reason given for: %s", text->bytes);
        return;
    }
    const struct chat_value *conversation = conversations->items[test_random_below(random, conversations->count)];
    struct chat chat = {.messages = chat_object_get(conversation, "messages"),
                        .tools = chat_object_get(conversation, "tools"),
                        .kwargs = chat_object_get(conversation, "kwargs")};
    struct chat_prompt prompt = {0};
    status = chat_template_render(chat_template, &chat, &limits, arena, &prompt, &error);
    ck_assert_msg(status != STATUS_INTERNAL, "%s: %s", error.text, text->bytes);
    if (status == STATUS_OK) {
        size_t at = 0;
        for (size_t i = 0; i < prompt.span_count; i++) {
            ck_assert_uint_eq(prompt.spans[i].offset, at);
            at += prompt.spans[i].size;
        }
        ck_assert_uint_eq(at, prompt.size);
        (*rendered)++;
    }
    chat_template_close(chat_template);
    arena_reset(arena);
}

START_TEST(survives_templates_that_are_damaged_at_random)
{
    struct arena golden_arena = {0}, arena = {0};
    struct chat_value *golden = chat_json_file(&golden_arena, "tests/golden/chat_template_corpus.json");
    struct chat_value *constructs = chat_json_file(&golden_arena, "tests/golden/chat_template_constructs.json");
    const struct chat_value *templates = chat_object_get(golden, "templates");
    const struct chat_value *snippets = chat_object_get(constructs, "cases");
    const struct chat_value *conversations = chat_object_get(golden, "conversations");
    uint64_t random = test_seed() * 77 + 5;
    size_t rounds = test_long() ? 200000 : 6000, rendered = 0;
    for (size_t i = 0; i < rounds; i++) {
        const struct chat_value *from = test_random_below(&random, 2) ? templates : snippets;
        const struct chat_value *source =
            chat_object_get(from->items[test_random_below(&random, from->count)], "source");
        struct text text = {.bytes = malloc(source->text_size + 1), .size = source->text_size};
        ck_assert_ptr_nonnull(text.bytes);
        memcpy(text.bytes, source->text, source->text_size + 1);
        for (size_t n = 1 + test_random_below(&random, 4); n > 0; n--)
            mutate(&random, &text, templates);
        try_template(&arena, &text, conversations, &random, &rendered);
        free(text.bytes);
    }
    ck_assert_uint_gt(rendered, rounds / 50);
    arena_free(&arena);
    arena_free(&golden_arena);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("chat_template_mutation");
    TCase *t = tcase_create("mutation");
    tcase_add_test(t, survives_templates_that_are_damaged_at_random);
    suite_add_tcase(s, t);
    return s;
}
