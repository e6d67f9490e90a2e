/* Merged turns: what is joined, what stays, and where each part of a joined text says that it came from. */
#include <stdio.h>
#include <string.h>

#include "model/text/chat.h"
#include "model/text/chat_template.h"
#include "tests/unit/unit.h"

/* "u:a u:b s:c": a message each; a role in capitals has tool calls too. */
static struct chat_value *conversation(struct arena *arena, const char *text)
{
    struct chat_value *list = chat_list(arena);
    int32_t index = 0;
    for (const char *at = text; *at != '\0'; index++) {
        size_t size = strcspn(at, " ");
        static const char letters[] = "usatUSAT";
        static const char *const roles[] = {"user", "system", "assistant", "tool"};
        size_t which = (size_t)(strchr(letters, at[0]) - letters);
        const char *name = roles[which % 4];
        struct chat_value *message = chat_object(arena), *role = chat_text(arena, name, strlen(name));
        struct chat_value *content = chat_text(arena, at + 2, size - 2);
        role->trusted = true;
        message->message = role->message = content->message = index;
        content->field = "content";
        chat_object_put(arena, message, "role", 4, role);
        chat_object_put(arena, message, "content", 7, content);
        if (which > 3 || which == 3)
            chat_object_put(arena, message, "tool_calls", 10, chat_list(arena));
        chat_list_add(arena, list, message);
        at += size + (at[size] == ' ');
    }
    return list;
}

static const char *shape(const struct chat_value *messages)
{
    static char text[256];
    size_t size = 0;
    text[0] = '\0';
    for (size_t i = 0; i < messages->count; i++)
        size += (size_t)snprintf(text + size, sizeof(text) - size, "%s%c:%s", i == 0 ? "" : " ",
                                 chat_object_get(messages->items[i], "role")->text[0],
                                 chat_object_get(messages->items[i], "content")->text);
    return text;
}

START_TEST(neighbours_of_one_role_become_one)
{
    static const struct {
        const char *before, *merged, *folded; /* NULL: as it was */
    } rows[] = {
        {"u:a a:b u:c", NULL, NULL},
        {"s:x u:a a:b u:c", NULL, NULL},
        {"u:a u:b u:c", "u:a\n\nb\n\nc", "u:a\n\nb\n\nc"},
        {"u:a a:b a:c u:d u:e", "u:a a:b\n\nc u:d\n\ne", "u:a a:b\n\nc u:d\n\ne"},
        {"s:x s:y u:a", "s:x\n\ny u:a", "s:x\n\ny u:a"},
        {"u:a a:b s:x u:c", NULL, "u:a a:b u:x\n\nc"},
        {"u:a s:x a:b", NULL, "u:a\n\nx a:b"},
        {"u:a a:b s:x a:c", NULL, "u:a a:b u:x a:c"},
        {"s:x u:a s:y", NULL, "s:x u:a\n\ny"},
        {"u:a A:b A:c t:d t:e u:f", NULL, NULL},
        {"u:a A:b a:c a:d", "u:a a:b a:c\n\nd", "u:a a:b a:c\n\nd"},
        {"", NULL, NULL},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct arena arena = {0};
        struct chat_value *messages = conversation(&arena, rows[i].before);
        for (int fold = 0; fold < 2; fold++) {
            const char *wanted = fold ? rows[i].folded : rows[i].merged;
            struct chat_value *merged = chat_merge_turns(&arena, messages, fold == 1);
            ck_assert_msg((merged == messages) == (wanted == NULL), "%s", rows[i].before);
            if (wanted != NULL)
                ck_assert_str_eq(shape(merged), wanted);
        }
        arena_free(&arena);
    }
}
END_TEST

START_TEST(each_part_keeps_its_place_through_a_template)
{
    static const char source[] = "{% for m in messages %}<{{ m.role }}>{{ m.content | trim }}{% endfor %}";
    struct chat_template_tokens tokens = {0};
    struct chat_template *chat_template;
    struct arena arena = {0};
    struct error error;
    struct chat_prompt prompt;
    struct chat chat = {.messages = chat_merge_turns(&arena, conversation(&arena, "u:hello u:wide s:world"), true)};
    ck_assert_int_eq(chat_template_open(source, sizeof(source) - 1, &tokens, &chat_template, &error), STATUS_OK);
    ck_assert_int_eq(chat_template_render(chat_template, &chat, NULL, &arena, &prompt, &error), STATUS_OK);
    ck_assert_str_eq(prompt.text, "<user>hello\n\nwide\n\nworld");
    static const struct {
        const char *text;
        int32_t message;
    } parts[] = {{"<", -1},    {"user", 0}, {">", -1},    {"hello", 0},
                 {"\n\n", -1}, {"wide", 1}, {"\n\n", -1}, {"world", 2}};
    ck_assert_uint_eq(prompt.span_count, 8);
    for (size_t i = 0; i < 8; i++) {
        const struct chat_span *span = &prompt.spans[i];
        ck_assert_int_eq(memcmp(prompt.text + span->offset, parts[i].text, span->size), 0);
        ck_assert_int_eq(span->message, parts[i].message);
        ck_assert_int_eq(span->trusted, i < 3);
        if (i == 3 || i == 5 || i == 7)
            ck_assert(span->source_offset == 0 && strcmp(span->field, "content") == 0);
    }
    chat_template_close(chat_template);
    arena_free(&arena);
}
END_TEST

/* A system message that became a turn of the user says "system": its place would show another word. */
START_TEST(the_role_of_a_folded_message_has_no_place)
{
    struct arena arena = {0};
    struct chat_value *merged = chat_merge_turns(&arena, conversation(&arena, "u:a a:b s:x u:c u:d"), true);
    ck_assert_str_eq(shape(merged), "u:a a:b u:x\n\nc\n\nd");
    const struct chat_value *folded = chat_object_get(merged->items[2], "role");
    ck_assert(folded->trusted && folded->message == -1 && folded->field == NULL);
    ck_assert_int_eq(merged->items[2]->message, 2);
    arena_free(&arena);
}
END_TEST

START_TEST(an_exhausted_arena_gives_none)
{
    struct arena arena = {0};
    struct chat_value *messages = conversation(&arena, "u:a u:b s:c u:d a:e a:f");
    struct arena other = {0};
    ck_assert_ptr_nonnull(chat_merge_turns(&other, messages, true));
    size_t used = other.used_bytes;
    arena_free(&other);
    for (size_t limit = 16; limit < used; limit += 16) {
        struct arena tight = {.limit_bytes = limit};
        ck_assert_ptr_null(chat_merge_turns(&tight, messages, true));
        arena_free(&tight);
    }
    arena_free(&arena);
}
END_TEST

Suite *suite(void)
{
    Suite *turns_suite = suite_create("model/text/chat_turns");
    TCase *test_case = tcase_create("chat_turns");
    tcase_add_test(test_case, neighbours_of_one_role_become_one);
    tcase_add_test(test_case, each_part_keeps_its_place_through_a_template);
    tcase_add_test(test_case, the_role_of_a_folded_message_has_no_place);
    tcase_add_test(test_case, an_exhausted_arena_gives_none);
    suite_add_tcase(turns_suite, test_case);
    return turns_suite;
}
