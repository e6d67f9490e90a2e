/* Our engine against what jinja2 made of the same templates (tests/golden/make_chat_template.py). */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "model/text/chat_template.h"
#include "tests/support/chat_json.h"
#include "tests/unit/unit.h"

#define CORPUS_NOW 1753531200

static const struct chat_template_tokens tokens = {.bos_token = "<s>", .eos_token = "</s>"};

static uint64_t fnv(const char *text, size_t size)
{
    uint64_t value = UINT64_C(0xCBF29CE484222325);
    for (size_t i = 0; i < size; i++)
        value = (value ^ (unsigned char)text[i]) * UINT64_C(0x100000001B3);
    return value;
}

static const char *text_of(const struct chat_value *object, const char *key)
{
    const struct chat_value *value = chat_object_get(object, key);
    return value == NULL ? "" : value->text;
}

/* Spans cover the text without gaps, and where one says where it came from, the bytes there are the same. */
static void check_spans(const struct chat_prompt *prompt, const struct chat_value *messages, const char *name)
{
    size_t at = 0;
    for (size_t i = 0; i < prompt->span_count; i++) {
        const struct chat_span *span = &prompt->spans[i];
        ck_assert_msg(span->offset == at && span->size > 0, "%s: span %zu leaves a gap", name, i);
        at += span->size;
        if (span->message < 0 || span->source_offset == CHAT_SPAN_UNKNOWN || span->field == NULL ||
            strchr(span->field, '.') != NULL)
            continue;
        const struct chat_value *field = chat_object_get(messages->items[span->message], span->field);
        ck_assert_msg(field != NULL && field->kind == CHAT_TEXT &&
                          span->source_offset + span->size <= field->text_size &&
                          memcmp(field->text + span->source_offset, prompt->text + span->offset, span->size) == 0,
                      "%s: span %zu names another place than its text", name, i);
    }
    ck_assert_msg(at == prompt->size, "%s: the spans end at %zu of %zu", name, at, prompt->size);
}

START_TEST(renders_every_construct_as_jinja2_does)
{
    struct arena golden_arena = {0}, arena = {0};
    struct chat_value *golden = chat_json_file(&golden_arena, "tests/golden/chat_template_constructs.json");
    const struct chat_value *variables = chat_object_get(golden, "variables"),
                            *cases = chat_object_get(golden, "cases");
    size_t wrong = 0;
    for (size_t i = 0; i < cases->count; i++) {
        const struct chat_value *source = chat_object_get(cases->items[i], "source");
        const struct chat_value *text = chat_object_get(cases->items[i], "text");
        struct chat_template *chat_template = NULL;
        struct chat_prompt prompt = {0};
        struct error error = {0};
        enum status status = chat_template_open(source->text, source->text_size, &tokens, &chat_template, &error);
        if (status == STATUS_OK)
            status = chat_template_render_value(chat_template, variables, NULL, &arena, &prompt, &error);
        bool right = text == NULL ? status == STATUS_INVALID
                                  : status == STATUS_OK && prompt.size == text->text_size &&
                                        memcmp(prompt.text, text->text, prompt.size) == 0;
        if (!right)
            printf("%s: %s\n  wants %s\n  got %s\n", text_of(cases->items[i], "file"), source->text,
                   text == NULL ? text_of(cases->items[i], "raises") : text->text,
                   status == STATUS_OK ? prompt.text : error.text);
        wrong += !right;
        if (status == STATUS_OK)
            check_spans(&prompt, NULL, source->text);
        chat_template_close(chat_template);
        arena_reset(&arena);
    }
    ck_assert_uint_ge(cases->count, 300);
    ck_assert_msg(wrong == 0, "%zu of %zu snippets differ", wrong, cases->count);
    arena_free(&arena);
    arena_free(&golden_arena);
}
END_TEST

static bool is_as_recorded(const struct chat_value *want, enum status status, const struct chat_prompt *prompt)
{
    if (want->kind == CHAT_NULL)
        return status == STATUS_INVALID;
    if (status != STATUS_OK)
        return false;
    if (want->kind == CHAT_TEXT)
        return prompt->size == want->text_size && memcmp(prompt->text, want->text, prompt->size) == 0;
    return prompt->size == (size_t)want->items[0]->integer &&
           fnv(prompt->text, prompt->size) == strtoull(want->items[1]->text, NULL, 16);
}

static struct chat chat_of(const struct chat_value *conversation)
{
    const struct chat_value *generate = chat_object_get(conversation, "agp");
    const struct chat_value *go_on = chat_object_get(conversation, "cont");
    return (struct chat){.messages = chat_object_get(conversation, "messages"),
                         .tools = chat_object_get(conversation, "tools"),
                         .kwargs = chat_object_get(conversation, "kwargs"),
                         .add_generation_prompt = generate != NULL && generate->boolean,
                         .continue_final_message = go_on != NULL && go_on->boolean,
                         .now_unix_s = CORPUS_NOW};
}

START_TEST(renders_templates_of_published_models_as_jinja2_does)
{
    struct arena golden_arena = {0}, arena = {0};
    struct chat_value *golden = chat_json_file(&golden_arena, "tests/golden/chat_template_corpus.json");
    const struct chat_value *list = chat_object_get(golden, "templates");
    const struct chat_value *conversations = chat_object_get(golden, "conversations");
    size_t wrong = 0;
    for (size_t c = 0; c < conversations->count; c++)
        chat_json_mark(&golden_arena, chat_object_get(conversations->items[c], "messages"));
    for (size_t t = 0; t < list->count; t++) {
        const struct chat_value *source = chat_object_get(list->items[t], "source");
        const struct chat_value *renders = chat_object_get(list->items[t], "renders");
        const char *name = text_of(list->items[t], "name");
        struct chat_template *chat_template = NULL;
        struct error error = {0};
        ck_assert_msg(chat_template_open(source->text, source->text_size, &tokens, &chat_template, &error) == STATUS_OK,
                      "%s: %s", name, error.text);
        ck_assert_uint_eq(renders->count, conversations->count);
        for (size_t c = 0; c < conversations->count; c++) {
            struct chat chat = chat_of(conversations->items[c]);
            struct chat_prompt prompt = {0};
            enum status status = chat_template_render(chat_template, &chat, NULL, &arena, &prompt, &error);
            bool right = is_as_recorded(renders->items[c], status, &prompt);
            if (!right)
                printf("%s, %s: got %s\n", name, text_of(conversations->items[c], "name"),
                       status == STATUS_OK ? prompt.text : error.text);
            wrong += !right;
            if (status == STATUS_OK)
                check_spans(&prompt, chat.messages, name);
            arena_reset(&arena);
        }
        chat_template_close(chat_template);
    }
    ck_assert_uint_ge(list->count, 31);
    ck_assert_msg(wrong == 0, "%zu renders differ", wrong);
    arena_free(&arena);
    arena_free(&golden_arena);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("chat_template_golden");
    TCase *t = tcase_create("golden");
    setenv("TZ", "UTC", 1); /* strftime_now is local time; the goldens are of UTC */
    tzset();
    tcase_add_test(t, renders_every_construct_as_jinja2_does);
    tcase_add_test(t, renders_templates_of_published_models_as_jinja2_does);
    suite_add_tcase(s, t);
    return s;
}
