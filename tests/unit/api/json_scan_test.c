/* The strict scan: everything that cJSON lets through, and where. */
#include "api/json_scan.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/buffer.h"
#include "tests/unit/unit.h"

static enum status scan(const char *text, size_t size, struct error *error)
{
    char *copy = malloc(size + 1);
    memcpy(copy, text, size);
    copy[size] = '\0';
    enum status status = json_scan(copy, size, error);
    free(copy);
    return status;
}

START_TEST(accepts_what_the_grammar_allows)
{
    static const char *const texts[] = {
        "{}",
        "[]",
        " \t\r\n[ 1 , 2 ]\n",
        "null",
        "true",
        "false",
        "0",
        "-0",
        "-1.5e+10",
        "1E400",
        "0.25",
        "\"\"",
        "{\"a\":{\"b\":[[],{}]}}",
        "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u20AC\"",
        "\"\\ud83d\\ude00\"",
        "\"\xF0\x9F\x98\x80\x7F\"",
        "[123456789012345678901234567890123456789012345678901234567890]",
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
        struct error error = {0};
        ck_assert_msg(scan(texts[i], strlen(texts[i]), &error) == STATUS_OK, "%s: %s", texts[i], error.text);
    }
}
END_TEST

struct bad {
    const char *text;
    size_t size; /* 0: strlen */
    size_t offset;
};

static const struct bad bads[] = {
    {"", 0, 0},
    {"   ", 0, 3},
    {"\xEF\xBB\xBF{}", 0, 0}, /* a byte order mark */
    {"{} x", 0, 3},           /* trailing bytes */
    {"[1] [2]", 0, 4},
    {"[1]\0", 4, 3},            /* NUL behind it */
    {"\"a\0b\"", 5, 2},         /* NUL inside */
    {"\"a\\u0000\"", 0, 2},     /* NUL as an escape */
    {"{\"k\\u0000\":1}", 0, 3}, /* in a key */
    {"\"a\nb\"", 0, 2},         /* raw control bytes */
    {"\"\x1F\"", 0, 1},
    {"\"\xC3\"", 0, 1}, /* UTF-8: cut, overlong, surrogate, too large, stray */
    {"\"\xC0\xAF\"", 0, 1},
    {"\"\xED\xA0\x80\"", 0, 1},
    {"\"\xF4\x90\x80\x80\"", 0, 1},
    {"[\"ab\x80\"]", 0, 4},
    {"01", 0, 0}, /* numbers */
    {"-01", 0, 0},
    {"1.", 0, 2},
    {".5", 0, 0},
    {"+1", 0, 0},
    {"1e", 0, 2},
    {"1e+", 0, 3},
    {"-", 0, 1},
    {"0x10", 0, 1},
    {"NaN", 0, 0},
    {"Infinity", 0, 0},
    {"-Infinity", 0, 1},
    {"[1234567890123456789012345678901234567890123456789012345678901]", 0, 1},
    {"tru", 0, 0}, /* words */
    {"True", 0, 0},
    {"nullx", 0, 4},
    {"'a'", 0, 0}, /* strings */
    {"\"abc", 0, 0},
    {"\"\\x41\"", 0, 1},
    {"\"\\u12G4\"", 0, 1},
    {"\"\\u12", 0, 1},
    {"\"\\", 0, 1},
    {"[1,]", 0, 3}, /* structure */
    {"[,1]", 0, 1},
    {"[1 2]", 0, 3},
    {"{\"a\":1,}", 0, 7},
    {"{\"a\" 1}", 0, 5},
    {"{a:1}", 0, 1},
    {"{1:1}", 0, 1},
    {"{\"a\":}", 0, 5},
    {"[1}", 0, 2},
    {"{\"a\":1]", 0, 6},
    {"[1", 0, 2},
    {"{", 0, 1},
    {"]", 0, 0},
    {"// a\n1", 0, 0},
};

START_TEST(refuses_with_the_offset)
{
    const struct bad *bad = &bads[_i];
    char where[32];
    struct error error = {0};
    size_t size = bad->size == 0 ? strlen(bad->text) : bad->size;
    ck_assert_msg(scan(bad->text, size, &error) == STATUS_INVALID, "accepted: %s", bad->text);
    ck_assert_str_eq(error.code, "invalid_json");
    snprintf(where, sizeof(where), "at byte %zu", bad->offset);
    const char *end = error.text + strlen(error.text) - strlen(where);
    ck_assert_msg(strcmp(end, where) == 0, "%s: \"%s\" instead of %s", bad->text, error.text, where);
}
END_TEST

START_TEST(half_pairs_become_replacement_characters_in_place)
{
    static const char *const pairs[][2] = {
        {"\"\\ud83d\"", "\"\\ufffd\""},
        {"\"\\ude00a\"", "\"\\ufffda\""},
        {"\"\\uD83Dx\\uDE00\"", "\"\\ufffdx\\ufffd\""},
        {"\"\\ud83d\\ud83d\\ude00\"", "\"\\ufffd\\ud83d\\ude00\""},
        {"{\"\\udfff\":1}", "{\"\\ufffd\":1}"},
        {"\"\\ud83d\\n\"", "\"\\ufffd\\n\""},
        {"\"\\\\ud83d\"", "\"\\\\ud83d\""},
    };
    for (size_t i = 0; i < sizeof(pairs) / sizeof(*pairs); i++) {
        char text[64];
        struct error error;
        snprintf(text, sizeof(text), "%s", pairs[i][0]);
        ck_assert_int_eq(json_scan(text, strlen(text), &error), STATUS_OK);
        ck_assert_str_eq(text, pairs[i][1]);
    }
}
END_TEST

/* `count` times `text`. */
static struct buffer repeat(const char *text, size_t count)
{
    struct buffer out = {0};
    for (size_t i = 0; i < count; i++)
        buffer_text(&out, text);
    return out;
}

START_TEST(depth_is_limited)
{
    for (size_t depth = JSON_DEPTH_MAX; depth <= JSON_DEPTH_MAX + 1; depth++) {
        struct error error;
        struct buffer text = repeat("[", depth);
        struct buffer close = repeat("]", depth);
        buffer_append(&text, close.data, close.size);
        ck_assert_int_eq(json_scan(text.data, text.size, &error) == STATUS_OK, depth == JSON_DEPTH_MAX);
        buffer_free(&text);
        buffer_free(&close);
    }
    struct error error;
    struct buffer text = repeat("{\"a\":", 1000000);
    ck_assert_int_eq(json_scan(text.data, text.size, &error), STATUS_INVALID);
    buffer_free(&text);
}
END_TEST

START_TEST(values_are_limited)
{
    struct error error;
    struct buffer text = {0};
    struct buffer items = repeat("1,", JSON_VALUES_MAX - 1);
    buffer_printf(&text, "[");
    buffer_append(&text, items.data, items.size - 1); /* and the array itself: exactly the limit */
    buffer_text(&text, "]");
    ck_assert_int_eq(json_scan(text.data, text.size, &error), STATUS_OK);
    text.data[text.size - 1] = ',';
    buffer_text(&text, "1]");
    ck_assert_int_eq(json_scan(text.data, text.size, &error), STATUS_INVALID);
    ck_assert_ptr_nonnull(strstr(error.text, "more than 2000000 values"));
    buffer_free(&text);
    buffer_free(&items);
}
END_TEST

/* Mutations of a real body: the scan never accepts what cJSON, given the exact size, does not. */
START_TEST(what_passes_is_read_by_cjson_too)
{
    static const char seed_text[] = "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":"
                                    "\"h\\u00e9\\ud83d\\ude00 \xC3\xA9\"}]}],"
                                    "\"temperature\":0.5e-1,\"n\":-0,\"stop\":[\"a\\n\",null,true,false],\"x\":{}}";
    static const char bytes[] = "{}[]\":,\\u0d8f19.-+eE \n\t\x01\x80\xC3truefalsn";
    uint64_t random = test_seed();
    uint32_t accepted = 0, rounds = test_long() ? 2000000 : 100000;
    for (uint32_t round = 0; round < rounds; round++) {
        char text[sizeof(seed_text)];
        struct error error;
        memcpy(text, seed_text, sizeof(text));
        size_t size = sizeof(text) - 1;
        if (test_random_below(&random, 8) == 0)
            size = test_random_below(&random, size + 1);
        for (uint64_t i = test_random_below(&random, 3); i > 0 && size > 0; i--)
            text[test_random_below(&random, size)] = bytes[test_random_below(&random, sizeof(bytes) - 1)];
        text[size] = '\0';
        if (json_scan(text, size, &error) != STATUS_OK)
            continue;
        accepted++;
        cJSON *tree = cJSON_ParseWithLengthOpts(text, size + 1, NULL, true);
        ck_assert_msg(tree != NULL, "cJSON refuses: %s", text);
        cJSON_Delete(tree);
    }
    ck_assert_uint_gt(accepted, rounds / 10);
    ck_assert_uint_lt(accepted, rounds);
}
END_TEST

START_TEST(finds_numbers_outside_of_strings)
{
    static const char text[] = "{\"a1\":-12.5e3,\"2\":[0,\"3\\\"4\",7]}";
    static const char *const numbers[] = {"-12.5e3", "0", "7"};
    const char *at = text, *end = text + strlen(text);
    for (size_t i = 0; i < 3; i++) {
        at = json_scan_number(at, end);
        size_t size = json_scan_number_size(at, end);
        ck_assert_uint_eq(size, strlen(numbers[i]));
        ck_assert_int_eq(memcmp(at, numbers[i], size), 0);
        at += size;
    }
    ck_assert_ptr_null(json_scan_number(at, end));
}
END_TEST

Suite *suite(void)
{
    Suite *scan_suite = suite_create("api/json_scan");
    TCase *test_case = tcase_create("json_scan");
    tcase_add_test(test_case, accepts_what_the_grammar_allows);
    tcase_add_loop_test(test_case, refuses_with_the_offset, 0, (int)(sizeof(bads) / sizeof(*bads)));
    tcase_add_test(test_case, half_pairs_become_replacement_characters_in_place);
    tcase_add_test(test_case, depth_is_limited);
    tcase_add_test(test_case, values_are_limited);
    tcase_add_test(test_case, what_passes_is_read_by_cjson_too);
    tcase_add_test(test_case, finds_numbers_outside_of_strings);
    suite_add_tcase(scan_suite, test_case);
    return scan_suite;
}
