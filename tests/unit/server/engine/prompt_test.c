/* Rendering: turns are merged where, and only where, the template would raise. */
#include "server/engine/prompt.h"

#include <string.h>

#include "tests/unit/unit.h"

#define SHOW "<{{ m.role }}>{{ m.content }}"

static const char lenient[] = "{% for m in messages %}" SHOW "{% endfor %}";
/* Gemma's and Mistral's rule. */
static const char strict[] =
    "{% for m in messages %}"
    "{% if m.role == 'system' or (m.role == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('roles must alternate, message ' ~ loop.index0) }}{% endif %}" SHOW "{% endfor %}";

static void add(struct arena *arena, struct chat_value *messages, const char *role, const char *content)
{
    struct chat_value *message = chat_object(arena);
    chat_object_put(arena, message, "role", 4, chat_text(arena, role, strlen(role)));
    chat_object_put(arena, message, "content", 7, chat_text(arena, content, strlen(content)));
    chat_list_add(arena, messages, message);
}

/* `roles`: a letter a message, whose content is its place. */
static enum status render(const char *source, const char *roles, struct chat chat, char out[128], struct error *error)
{
    struct chat_template_tokens tokens = {0};
    struct chat_template *chat_template;
    struct arena arena = {0};
    struct chat_prompt prompt;
    chat.messages = chat_list(&arena);
    for (size_t i = 0; roles[i] != '\0'; i++)
        add(&arena, chat.messages,
            roles[i] == 'u'   ? "user"
            : roles[i] == 's' ? "system"
                              : "assistant",
            (char[]){(char)('0' + i), '\0'});
    ck_assert_int_eq(chat_template_open(source, strlen(source), &tokens, &chat_template, error), STATUS_OK);
    enum status status = prompt_render(chat_template, &chat, &arena, &prompt, error);
    out[0] = '\0';
    if (status == STATUS_OK) {
        ck_assert_uint_lt(prompt.size, 128);
        memcpy(out, prompt.text, prompt.size);
        out[prompt.size] = '\0';
    }
    chat_template_close(chat_template);
    arena_free(&arena);
    return status;
}

START_TEST(turns_are_merged_only_where_the_template_raises)
{
    static const struct {
        const char *source, *roles, *wanted; /* NULL: it raises whatever is done */
    } rows[] = {
        {lenient, "uusaa", "<user>0<user>1<system>2<assistant>3<assistant>4"},
        {strict, "uau", "<user>0<assistant>1<user>2"},
        {strict, "uuaau", "<user>0\n\n1<assistant>2\n\n3<user>4"},
        {strict, "uasu", "<user>0<assistant>1<user>2\n\n3"},
        {strict, "usu", "<user>0\n\n1\n\n2"},
        {strict, "suau", NULL}, /* no place for a system prompt at all */
        {strict, "au", NULL},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        char text[128];
        struct error error = {0};
        enum status status = render(rows[i].source, rows[i].roles, (struct chat){0}, text, &error);
        ck_assert_int_eq(status, rows[i].wanted == NULL ? STATUS_INVALID : STATUS_OK);
        if (rows[i].wanted != NULL)
            ck_assert_str_eq(text, rows[i].wanted);
    }
}
END_TEST

START_TEST(the_error_is_that_of_the_messages_as_they_came)
{
    char text[128];
    struct error error = {0};
    ck_assert_int_eq(render(strict, "uuaas", (struct chat){0}, text, &error), STATUS_OK);
    ck_assert_int_eq(render(strict, "uaasuus", (struct chat){0}, text, &error), STATUS_OK);
    ck_assert_int_eq(render(strict, "auu", (struct chat){0}, text, &error), STATUS_INVALID);
    ck_assert_msg(strstr(error.text, "message 0") != NULL, "%s", error.text);
    ck_assert_int_eq(render(strict, "uuss", (struct chat){.continue_final_message = true}, text, &error), STATUS_OK);
    ck_assert_str_eq(text, "<user>0\n\n1\n\n2\n\n3");
}
END_TEST

Suite *suite(void)
{
    Suite *prompt_suite = suite_create("server/engine/prompt");
    TCase *test_case = tcase_create("prompt");
    tcase_add_test(test_case, turns_are_merged_only_where_the_template_raises);
    tcase_add_test(test_case, the_error_is_that_of_the_messages_as_they_came);
    suite_add_tcase(prompt_suite, test_case);
    return prompt_suite;
}
