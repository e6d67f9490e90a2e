/* JSON text, read back with cJSON. */
#include "kernels/base/json_writer.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/utf8.h"
#include "tests/unit/unit.h"

START_TEST(commas_stand_where_they_belong)
{
    struct buffer out = {0};
    struct json_writer w = json_writer_start(&out);
    json_object_begin(&w);
    json_key(&w, "a");
    json_array_begin(&w);
    json_integer(&w, 1);
    json_array_begin(&w);
    json_array_end(&w);
    json_object_begin(&w);
    json_object_end(&w);
    json_null(&w);
    json_array_end(&w);
    json_key(&w, "b");
    json_object_begin(&w);
    json_key(&w, "c");
    json_bool(&w, true);
    json_key(&w, "d");
    json_raw(&w, "[0]", 3);
    json_object_end(&w);
    json_key(&w, "e");
    json_bool(&w, false);
    json_object_end(&w);
    ck_assert_str_eq(out.data, "{\"a\":[1,[],{},null],\"b\":{\"c\":true,\"d\":[0]},\"e\":false}");
    buffer_free(&out);
}
END_TEST

static void nest(struct json_writer *w, int depth)
{
    for (int i = 0; i < depth; i++)
        json_array_begin(w);
    for (int i = 0; i < depth; i++)
        json_array_end(w);
}

START_TEST(arrays_may_nest_to_the_limit_and_stay_separated)
{
    struct buffer out = {0};
    struct json_writer w = json_writer_start(&out);
    json_array_begin(&w);
    nest(&w, 63);
    nest(&w, 63);
    json_array_end(&w);
    ck_assert_uint_eq(out.size, 2 + 4 * 63 + 1);
    ck_assert_mem_eq(out.data + 1 + 2 * 63, ",[", 2);
    buffer_free(&out);
}
END_TEST

START_TEST(nesting_past_the_limit_is_a_bug)
{
    struct buffer out = {0};
    struct json_writer w = json_writer_start(&out);
    nest(&w, 65);
}
END_TEST

START_TEST(control_characters_quotes_and_line_separators_are_escaped)
{
    struct buffer out = {0};
    struct json_writer w = json_writer_start(&out);
    static const char text[] = "\"\\/\b\f\n\r\t\x01\x1F\x7F\0\xE2\x80\xA7\xE2\x80\xA8\xE2\x80\xA9\xE2\x80\xAA\xC3\xA9";
    json_bytes(&w, text, sizeof(text) - 1);
    ck_assert_str_eq(out.data, "\"\\\"\\\\/\\b\\f\\n\\r\\t\\u0001\\u001f\x7F\\u0000\xE2\x80\xA7\\u2028\\u2029"
                               "\xE2\x80\xAA\xC3\xA9\"");
    buffer_free(&out);
}
END_TEST

START_TEST(text_of_all_code_points_reads_back_equal)
{
    struct buffer text = {0}, out = {0};
    for (uint32_t code = 1; code <= 0x10FFFF; code++) {
        char bytes[4];
        if (code < 0xD800 || code > 0xDFFF)
            buffer_append(&text, bytes, utf8_encode(code, bytes));
    }
    struct json_writer w = json_writer_start(&out);
    json_string(&w, text.data);
    cJSON *back = cJSON_Parse(out.data);
    ck_assert_ptr_nonnull(back);
    ck_assert(strcmp(back->valuestring, text.data) == 0);
    cJSON_Delete(back);
    buffer_free(&out);
    buffer_free(&text);
}
END_TEST

static void number(char text[64], double value)
{
    struct buffer out = {0};
    struct json_writer w = json_writer_start(&out);
    json_number(&w, value);
    ck_assert_uint_lt(out.size, 64);
    memcpy(text, out.data, out.size + 1);
    buffer_free(&out);
}

START_TEST(numbers_have_their_shortest_form)
{
    static const struct {
        double value;
        const char *text;
    } rows[] = {
        {0, "0"},
        {-0.0, "-0"},
        {1, "1"},
        {-1.5, "-1.5"},
        {0.1, "0.1"},
        {1.0 / 3, "0.3333333333333333"},
        {0.1 + 0.2, "0.30000000000000004"},
        {1e100, "1e+100"},
        {5e-324, "5e-324"},
        {1.7976931348623157e308, "1.7976931348623157e+308"},
        {2.2250738585072014e-308, "2.2250738585072014e-308"},
        {9007199254740993.0, "9007199254740992"},
        {NAN, "null"},
        {INFINITY, "null"},
        {-INFINITY, "null"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char text[64];
        number(text, rows[i].value);
        ck_assert_str_eq(text, rows[i].text);
    }
}
END_TEST

/* No shorter number of digits reads back equal. */
static bool is_shortest(const char *text, double value)
{
    char shorter[64];
    int digits = 0;
    for (const char *c = text; *c != '\0' && *c != 'e'; c++)
        digits += *c >= '0' && *c <= '9' && (digits > 0 || *c != '0');
    while (digits > 1) {
        digits--;
        snprintf(shorter, sizeof(shorter), "%.*e", digits - 1, value);
        if (strlen(shorter) < strlen(text) && strtod(shorter, NULL) == value)
            return false;
    }
    return true;
}

START_TEST(random_numbers_read_back_equal)
{
    uint64_t state = test_seed();
    for (int i = 0; i < (test_long() ? 2000000 : 60000); i++) {
        uint64_t bits = test_random(&state);
        double value;
        char text[64];
        if (i % 3 == 0)
            bits &= UINT64_C(0x800FFFFFFFFFFFFF) >> test_random_below(&state, 40); /* subnormal */
        memcpy(&value, &bits, sizeof(value));
        if (i % 3 == 1)
            value = (double)(float)(test_random_unit(&state) * 40 - 30);
        if (!isfinite(value))
            continue;
        number(text, value);
        double back = strtod(text, NULL);
        if (memcmp(&back, &value, sizeof(back)) != 0 || !is_shortest(text, value))
            ck_abort_msg("%a is printed as %s", value, text);
    }
}
END_TEST

START_TEST(integers_reach_both_ends)
{
    struct buffer out = {0};
    struct json_writer w = json_writer_start(&out);
    json_array_begin(&w);
    json_integer(&w, INT64_MIN);
    json_integer(&w, INT64_MAX);
    json_array_end(&w);
    ck_assert_str_eq(out.data, "[-9223372036854775808,9223372036854775807]");
    buffer_free(&out);
}
END_TEST

/* A random document, written and described at once: cJSON must print the same after reading it. */
static void random_value(struct json_writer *w, uint64_t *state, int depth)
{
    switch (test_random_below(state, depth > 6 ? 4 : 6)) {
    case 0:
        json_integer(w, (int64_t)test_random_below(state, 2001) - 1000);
        return;
    case 1:
        json_string(w, "a\"b\\c\n");
        return;
    case 2:
        json_bool(w, test_random_below(state, 2));
        return;
    case 3:
        json_null(w);
        return;
    case 4:
        json_array_begin(w);
        for (uint64_t i = test_random_below(state, 4); i > 0; i--)
            random_value(w, state, depth + 1);
        json_array_end(w);
        return;
    default:
        json_object_begin(w);
        for (uint64_t i = test_random_below(state, 4); i > 0; i--) {
            json_key(w, "k");
            random_value(w, state, depth + 1);
        }
        json_object_end(w);
    }
}

START_TEST(random_documents_read_back_equal)
{
    uint64_t state = test_seed();
    for (int i = 0; i < 5000; i++) {
        struct buffer out = {0};
        struct json_writer w = json_writer_start(&out);
        random_value(&w, &state, 0);
        cJSON *back = cJSON_ParseWithOpts(out.data, NULL, true);
        if (back == NULL)
            ck_abort_msg("not JSON: %s", out.data);
        char *printed = cJSON_PrintUnformatted(back);
        ck_assert_str_eq(printed, out.data);
        free(printed);
        cJSON_Delete(back);
        buffer_free(&out);
    }
}
END_TEST

Suite *suite(void)
{
    Suite *json = suite_create("json_writer");
    TCase *cases = tcase_create("json_writer");
    tcase_add_test(cases, commas_stand_where_they_belong);
    tcase_add_test(cases, arrays_may_nest_to_the_limit_and_stay_separated);
    tcase_add_test_raise_signal(cases, nesting_past_the_limit_is_a_bug, SIGABRT);
    tcase_add_test(cases, control_characters_quotes_and_line_separators_are_escaped);
    tcase_add_test(cases, text_of_all_code_points_reads_back_equal);
    tcase_add_test(cases, numbers_have_their_shortest_form);
    tcase_add_test(cases, random_numbers_read_back_equal);
    tcase_add_test(cases, integers_reach_both_ends);
    tcase_add_test(cases, random_documents_read_back_equal);
    suite_add_tcase(json, cases);
    return json;
}
