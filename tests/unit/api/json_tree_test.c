/* Trees: exact numbers, keys, and values for templates. */
#include "api/json_tree.h"

#include <string.h>

#include "kernels/base/buffer.h"
#include "tests/unit/unit.h"

static struct json_tree open_tree(const char *text)
{
    struct json_tree tree;
    struct error error = {0};
    ck_assert_msg(json_tree_open(text, strlen(text), &tree, &error) == STATUS_OK, "%s", error.text);
    return tree;
}

START_TEST(numbers_keep_their_text)
{
    struct json_tree tree = open_tree("[1.0, 9007199254740993, {\"a\":[1e400]}, \"5\", -0]");
    static const char *const texts[] = {"1.0", "9007199254740993", "1e400", NULL, "-0"};
    const cJSON *nodes[] = {cJSON_GetArrayItem(tree.root, 0), cJSON_GetArrayItem(tree.root, 1),
                            json_get(cJSON_GetArrayItem(tree.root, 2), "a")->child, NULL,
                            cJSON_GetArrayItem(tree.root, 4)};
    for (size_t i = 0; i < 5; i++) {
        size_t size;
        if (texts[i] == NULL)
            continue;
        const char *text = json_number_text(nodes[i], &size);
        ck_assert_uint_eq(size, strlen(texts[i]));
        ck_assert_int_eq(memcmp(text, texts[i], size), 0);
    }
    json_tree_close(&tree);
}
END_TEST

START_TEST(whole_numbers_are_exact_or_refused)
{
    static const struct {
        const char *text;
        bool whole;
        int64_t value;
    } rows[] = {
        {"0", true, 0},
        {"-0", true, 0},
        {"1.0", true, 1},
        {"1e2", true, 100},
        {"-2.50e1", true, -25},
        {"9007199254740993", true, 9007199254740993},
        {"9223372036854775807", true, INT64_MAX},
        {"-9223372036854775808", true, INT64_MIN},
        {"9223372036854775808", false, 0},
        {"-9223372036854775809", false, 0},
        {"1.5", false, 0},
        {"1e400", false, 0},
        {"1e16", false, 0}, /* above what a double holds exactly */
        {"\"1\"", false, 0},
        {"true", false, 0},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct json_tree tree = open_tree(rows[i].text);
        int64_t value = 0;
        ck_assert_msg(json_whole(tree.root, &value) == rows[i].whole, "%s", rows[i].text);
        if (rows[i].whole)
            ck_assert_int_eq(value, rows[i].value);
        json_tree_close(&tree);
    }
}
END_TEST

/* What Python makes of the same text: json.dumps(json.loads(text), separators=(",", ":")). */
START_TEST(of_a_key_that_is_there_twice_the_last_value_counts)
{
    static const char *const rows[][2] = {
        {"{\"a\":1,\"a\":2}", "{\"a\":2}"},
        {"{\"a\":1,\"b\":2,\"\\u0061\":3}", "{\"a\":3,\"b\":2}"},
        {"[[{\"x\":{\"k\":1,\"j\":{},\"k\":null}}]]", "[[{\"x\":{\"k\":null,\"j\":{}}}]]"},
        {"{\"a\":{\"b\":1,\"b\":2},\"c\":0,\"a\":{\"d\":[3,4],\"d\":[5]},\"a\":{\"e\":6,\"e\":7}}",
         "{\"a\":{\"e\":7},\"c\":0}"},
        {"{\"b\":1,\"a\":2,\"a\":3,\"b\":4,\"a\":5,\"b\":6}", "{\"b\":6,\"a\":5}"},
        {"{\"a\":1,\"A\":2,\"b\":{\"a\":3}}", "{\"a\":1,\"A\":2,\"b\":{\"a\":3}}"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct json_tree tree = open_tree(rows[i][0]);
        char *text = cJSON_PrintUnformatted(tree.root);
        ck_assert_str_eq(text, rows[i][1]);
        cJSON_free(text);
        json_tree_close(&tree);
    }
    struct json_tree tree = open_tree("{\"a\":1.0,\"b\":2.00,\"a\":3.000,\"c\":[4.0]}");
    size_t size;
    ck_assert_int_eq(memcmp(json_number_text(json_get(tree.root, "a"), &size), "3.000,", 6), 0);
    ck_assert_int_eq(memcmp(json_number_text(json_get(tree.root, "b"), &size), "2.00,", 5), 0);
    ck_assert_int_eq(memcmp(json_number_text(json_get(tree.root, "c")->child, &size), "4.0]", 4), 0);
    json_tree_close(&tree);
}
END_TEST

START_TEST(many_members_are_looked_at_in_little_time)
{
    struct buffer text = {0};
    buffer_text(&text, "{");
    for (int i = 0; i < 300000; i++)
        buffer_printf(&text, "\"key%d\":0,", i / 3);
    buffer_text(&text, "\"key99999\":1}");
    struct json_tree tree = open_tree(text.data);
    ck_assert_int_eq(cJSON_GetArraySize(tree.root), 100000);
    ck_assert_double_eq(json_get(tree.root, "key99999")->valuedouble, 1);
    json_tree_close(&tree);
    buffer_free(&text);
}
END_TEST

START_TEST(null_is_absent)
{
    struct json_tree tree = open_tree("{\"a\":null,\"b\":false}");
    ck_assert_ptr_null(json_get(tree.root, "a"));
    ck_assert_ptr_null(json_get(tree.root, "c"));
    ck_assert_ptr_nonnull(json_get(tree.root, "b"));
    json_tree_close(&tree);
}
END_TEST

START_TEST(chat_values_keep_order_text_and_place)
{
    struct json_tree tree = open_tree("{\"z\":[1.0,true,null,\"t\"],\"a\":{\"b\":12345678901234567890}}");
    struct arena arena = {0};
    struct chat_value *value = json_chat_value(&arena, tree.root, 4, "args");
    json_tree_close(&tree); /* the value does not lean on it */
    ck_assert_int_eq(value->kind, CHAT_OBJECT);
    ck_assert_uint_eq(value->count, 2);
    ck_assert_str_eq(value->keys[0]->text, "z");
    ck_assert_str_eq(value->keys[1]->text, "a");
    struct chat_value *list = value->items[0];
    ck_assert_uint_eq(list->count, 4);
    ck_assert_str_eq(list->items[0]->text, "1.0");
    ck_assert_int_eq(list->items[0]->kind, CHAT_FLOAT);
    ck_assert_int_eq(list->items[1]->kind, CHAT_BOOL);
    ck_assert_int_eq(list->items[2]->kind, CHAT_NULL);
    ck_assert_str_eq(list->items[3]->field, "args.z.3");
    ck_assert_int_eq(list->items[3]->message, 4);
    ck_assert(!list->items[3]->trusted);
    struct chat_value *number = value->items[1]->items[0];
    ck_assert_str_eq(number->text, "12345678901234567890");
    ck_assert_str_eq(number->field, "args.a.b");
    arena_free(&arena);
}
END_TEST

START_TEST(an_exhausted_arena_gives_no_value)
{
    struct json_tree tree = open_tree("[[1,2,3],{\"a\":\"bbbbbbbbbbbbbbbb\",\"c\":[{},{},{}]}]");
    struct arena whole = {0};
    ck_assert_ptr_nonnull(json_chat_value(&whole, tree.root, 0, "f"));
    for (size_t limit = 16; limit < whole.used_bytes; limit += 16) {
        struct arena arena = {.limit_bytes = limit};
        ck_assert_ptr_null(json_chat_value(&arena, tree.root, 0, "f"));
        arena_free(&arena);
    }
    arena_free(&whole);
    json_tree_close(&tree);
}
END_TEST

Suite *suite(void)
{
    Suite *tree_suite = suite_create("api/json_tree");
    TCase *test_case = tcase_create("json_tree");
    tcase_add_test(test_case, numbers_keep_their_text);
    tcase_add_test(test_case, whole_numbers_are_exact_or_refused);
    tcase_add_test(test_case, of_a_key_that_is_there_twice_the_last_value_counts);
    tcase_add_test(test_case, many_members_are_looked_at_in_little_time);
    tcase_add_test(test_case, null_is_absent);
    tcase_add_test(test_case, chat_values_keep_order_text_and_place);
    tcase_add_test(test_case, an_exhausted_arena_gives_no_value);
    suite_add_tcase(tree_suite, test_case);
    return tree_suite;
}
