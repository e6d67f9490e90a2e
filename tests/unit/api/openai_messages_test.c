/* Messages: roles, contents, tool calls, and where each text says it came from. */
#include "api/openai_messages.h"

#include <string.h>

#include "tests/unit/api/requests.h"
#include "tests/unit/unit.h"

#define CHAT "/v1/chat/completions"

static struct api_call *chat(const char *messages)
{
    struct buffer body = {0};
    buffer_printf(&body, "{\"messages\":%s}", messages);
    struct api_call *call = good_call(CHAT, body.data);
    buffer_free(&body);
    return call;
}

static struct error bad_chat(const char *messages)
{
    struct buffer body = {0};
    buffer_printf(&body, "{\"messages\":%s}", messages);
    struct error error = bad_call(CHAT, body.data);
    buffer_free(&body);
    return error;
}

static const struct chat_value *member(const struct api_call *call, size_t message, const char *key)
{
    return chat_object_get(call->chat.messages->items[message], key);
}

START_TEST(roles_are_trusted_words_and_nothing_else_is)
{
    static const char *const expected[] = {"system", "system", "user", "assistant", "tool", "tool"};
    struct api_call *call = chat("[{\"role\":\"system\",\"content\":\"a\"},{\"role\":\"developer\",\"content\":\"a\"},"
                                 "{\"role\":\"user\",\"content\":\"a\",\"name\":\"n\"},{\"role\":\"assistant\"},"
                                 "{\"role\":\"tool\",\"content\":\"a\",\"tool_call_id\":\"i\"},"
                                 "{\"role\":\"function\",\"content\":\"a\"}]");
    ck_assert(call->is_chat);
    ck_assert_uint_eq(call->chat.messages->count, 6);
    for (size_t i = 0; i < 6; i++) {
        const struct chat_value *message = call->chat.messages->items[i];
        ck_assert_str_eq(member(call, i, "role")->text, expected[i]);
        for (size_t k = 0; k < message->count; k++) {
            ck_assert_int_eq(message->items[k]->trusted, strcmp(message->keys[k]->text, "role") == 0);
            ck_assert(!message->keys[k]->trusted);
            ck_assert_int_eq(message->items[k]->message, (int)i);
            ck_assert_str_eq(message->items[k]->field, message->keys[k]->text);
        }
    }
    ck_assert_str_eq(member(call, 2, "name")->text, "n");
    ck_assert_str_eq(member(call, 4, "tool_call_id")->text, "i");
    ck_assert_str_eq(member(call, 3, "content")->text, "");
    api_call_close(call);
}
END_TEST

START_TEST(parts_are_joined_without_a_separator)
{
    struct api_call *call = chat("[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},"
                                 "{\"type\":\"text\",\"text\":\"\"},{\"type\":\"text\",\"text\":\"b\\n\"}]},"
                                 "{\"role\":\"tool\",\"content\":[{\"type\":\"text\",\"text\":\"one\","
                                 "\"prompt_cache_breakpoint\":{\"mode\":\"explicit\"}}]},"
                                 "{\"role\":\"user\",\"content\":[]}]");
    ck_assert_str_eq(member(call, 0, "content")->text, "ab\n");
    ck_assert_str_eq(member(call, 0, "content")->field, "content");
    ck_assert_str_eq(member(call, 1, "content")->text, "one");
    ck_assert_str_eq(member(call, 1, "content")->field, "content.0.text");
    ck_assert_uint_eq(member(call, 2, "content")->text_size, 0);
    api_call_close(call);
}
END_TEST

START_TEST(tool_calls_have_their_arguments_as_an_object)
{
    struct api_call *call =
        chat("[{\"role\":\"assistant\",\"content\":null,\"tool_calls\":["
             "{\"id\":\"c1\",\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"x\\\":1.0,"
             "\\\"y\\\":[\\\"z\\\"]}\"}},"
             "{\"id\":\"c2\",\"type\":\"function\",\"function\":{\"name\":\"g\",\"arguments\":\"not json\"}},"
             "{\"id\":\"c3\",\"type\":\"function\",\"function\":{\"name\":\"h\",\"arguments\":{\"k\":true}}}]}]");
    const struct chat_value *calls = member(call, 0, "tool_calls");
    ck_assert_uint_eq(calls->count, 3);
    const struct chat_value *function = chat_object_get(calls->items[0], "function");
    const struct chat_value *arguments = chat_object_get(function, "arguments");
    ck_assert_str_eq(chat_object_get(function, "name")->field, "tool_calls.0.function.name");
    ck_assert_int_eq(arguments->kind, CHAT_OBJECT);
    ck_assert_str_eq(chat_object_get(arguments, "x")->text, "1.0");
    ck_assert_str_eq(chat_object_get(arguments, "y")->items[0]->field, "tool_calls.0.function.arguments.y.0");
    ck_assert_str_eq(chat_object_get(calls->items[0], "id")->text, "c1");
    arguments = chat_object_get(chat_object_get(calls->items[1], "function"), "arguments");
    ck_assert_int_eq(arguments->kind, CHAT_TEXT);
    ck_assert_str_eq(arguments->text, "not json");
    arguments = chat_object_get(chat_object_get(calls->items[2], "function"), "arguments");
    ck_assert(chat_object_get(arguments, "k")->boolean);
    ck_assert_str_eq(member(call, 0, "content")->text, "");
    api_call_close(call);
}
END_TEST

START_TEST(members_that_mean_nothing_for_a_prompt_are_left_out)
{
    struct api_call *call = chat("[{\"role\":\"assistant\",\"content\":\"a\",\"refusal\":null,\"annotations\":[],"
                                 "\"audio\":{\"id\":\"x\"},\"function_call\":null,\"tool_calls\":[],\"name\":null,"
                                 "\"reasoning_content\":\"r\"}]");
    ck_assert_uint_eq(call->chat.messages->items[0]->count, 3);
    ck_assert_str_eq(member(call, 0, "reasoning_content")->text, "r");
    api_call_close(call);
}
END_TEST

START_TEST(bad_messages_are_named)
{
    static const struct {
        const char *messages, *field, *code;
    } rows[] = {
        {"[{\"role\":\"user\",\"content\":\"a\"},{\"content\":\"a\"}]", "messages[1].role",
         "missing_required_parameter"},
        {"[{\"role\":\"king\",\"content\":\"a\"}]", "messages[0].role", "invalid_value"},
        {"[{\"role\":\"User\",\"content\":\"a\"}]", "messages[0].role", "invalid_value"},
        {"[{\"role\":5,\"content\":\"a\"}]", "messages[0].role", "invalid_type"},
        {"[{\"role\":\"user\"}]", "messages[0].content", "missing_required_parameter"},
        {"[{\"role\":\"user\",\"content\":null}]", "messages[0].content", "missing_required_parameter"},
        {"[{\"role\":\"user\",\"content\":5}]", "messages[0].content", "invalid_type"},
        {"[{\"role\":\"user\",\"content\":{}}]", "messages[0].content", "invalid_type"},
        {"[{\"role\":\"user\",\"content\":[\"a\"]}]", "messages[0].content[0]", "invalid_type"},
        {"[{\"role\":\"user\",\"content\":[{\"text\":\"a\"}]}]", "messages[0].content[0].type",
         "missing_required_parameter"},
        {"[{\"role\":\"user\",\"content\":[{\"type\":1}]}]", "messages[0].content[0].type", "invalid_type"},
        {"[{\"role\":\"user\",\"content\":[{\"type\":\"poem\"}]}]", "messages[0].content[0].type", "invalid_value"},
        {"[{\"role\":\"user\",\"content\":[{\"type\":\"text\"}]}]", "messages[0].content[0].text",
         "missing_required_parameter"},
        {"[{\"role\":\"tool\",\"content\":[{\"type\":\"text\",\"text\":1}]}]", "messages[0].content[0].text",
         "invalid_type"},
        {"[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"image_url\",\"image_url\":{}}"
         "]}]",
         "messages[0].content[1]", "unsupported_content"},
        {"[{\"role\":\"user\",\"content\":[{\"type\":\"input_audio\"}]}]", "messages[0].content[0]",
         "unsupported_content"},
        {"[{\"role\":\"user\",\"content\":[{\"type\":\"file\"}]}]", "messages[0].content[0]", "unsupported_content"},
        {"[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"user\",\"content\":\"a\"},5]", "messages[2]",
         "invalid_type"},
        {"[null]", "messages[0]", "invalid_type"},
        {"[{\"role\":\"assistant\",\"tool_calls\":{}}]", "messages[0].tool_calls", ""},
        {"[{\"role\":\"assistant\",\"tool_calls\":[{\"id\":\"a\"}]}]", "messages[0].tool_calls[0]", "invalid_value"},
        {"[{\"role\":\"assistant\",\"tool_calls\":[{\"function\":{}}]}]", "messages[0].tool_calls[0]", "invalid_value"},
        {"[{\"role\":\"assistant\",\"tool_calls\":5}]", "messages[0].tool_calls", "invalid_type"},
        {"[{\"role\":\"assistant\",\"function_call\":{\"name\":\"f\"}}]", "messages[0].function_call",
         "unsupported_parameter"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        if (rows[i].code[0] == '\0') { /* an empty object is as good as an empty list */
            api_call_close(chat(rows[i].messages));
            continue;
        }
        struct error error = bad_chat(rows[i].messages);
        ck_assert_str_eq(error.field, rows[i].field);
        ck_assert_str_eq(error.code, rows[i].code);
    }
}
END_TEST

START_TEST(many_members_take_little_time)
{
    struct buffer body = {0};
    buffer_text(&body, "[{\"role\":\"user\",\"content\":\"a\"");
    for (int i = 0; i < 200000; i++)
        buffer_printf(&body, ",\"m%d\":\"x\"", i);
    buffer_text(&body, "}]");
    struct api_call *call = chat(body.data);
    ck_assert_uint_eq(call->chat.messages->items[0]->count, 200002);
    api_call_close(call);
    buffer_free(&body);
}
END_TEST

Suite *suite(void)
{
    Suite *messages_suite = suite_create("api/openai_messages");
    TCase *test_case = tcase_create("openai_messages");
    tcase_add_test(test_case, roles_are_trusted_words_and_nothing_else_is);
    tcase_add_test(test_case, parts_are_joined_without_a_separator);
    tcase_add_test(test_case, tool_calls_have_their_arguments_as_an_object);
    tcase_add_test(test_case, members_that_mean_nothing_for_a_prompt_are_left_out);
    tcase_add_test(test_case, bad_messages_are_named);
    tcase_add_test(test_case, many_members_take_little_time);
    suite_add_tcase(messages_suite, test_case);
    return messages_suite;
}
