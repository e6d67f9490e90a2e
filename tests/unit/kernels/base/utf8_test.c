/* UTF-8 against all code points and all short byte strings. */
#include "kernels/base/utf8.h"

#include <string.h>
#include <utf8proc.h>

#include "tests/unit/unit.h"

START_TEST(all_code_points_survive_a_round_trip)
{
    for (uint32_t code = 0; code <= 0x10FFFF; code++) {
        if (code >= 0xD800 && code <= 0xDFFF)
            continue;
        char bytes[4];
        utf8proc_uint8_t expected[4];
        uint32_t back = 0;
        size_t length = utf8_encode(code, bytes);
        size_t expected_length = (size_t)utf8proc_encode_char((utf8proc_int32_t)code, expected);
        if (length != expected_length || memcmp(bytes, expected, length) != 0)
            ck_abort_msg("U+%04X is encoded wrongly", code);
        if (utf8_decode(bytes, length, &back) != length || back != code)
            ck_abort_msg("U+%04X is decoded wrongly", code);
        for (size_t cut = 0; cut < length; cut++) {
            if (utf8_decode(bytes, cut, &back) != 0 || utf8_incomplete_tail(bytes, cut) != cut)
                ck_abort_msg("U+%04X cut to %zu bytes", code, cut);
        }
        if (utf8_incomplete_tail(bytes, length) != 0)
            ck_abort_msg("U+%04X is complete", code);
    }
}
END_TEST

/* Every string of up to 3 bytes, and of 4 bytes with a sample of the last, against utf8proc's decoder. */
START_TEST(all_short_byte_strings_are_judged_as_utf8proc_does)
{
    static const uint8_t last[] = {0x00, 0x7F, 0x80, 0x8F, 0x90, 0xBF, 0xC0, 0xFF};
    for (uint32_t n = 0; n < 1u << 24; n++) {
        uint8_t bytes[4] = {(uint8_t)(n >> 16), (uint8_t)(n >> 8), (uint8_t)n, last[n % 8]};
        /* Only what comes after a lead byte can differ; the rest of the first bytes need not be tried in full. */
        if (bytes[0] < 0xC0 && (n & 0xFFFF) > 0x1FF)
            continue;
        utf8proc_int32_t code;
        uint32_t ours = 0;
        utf8proc_ssize_t length = utf8proc_iterate(bytes, 4, &code);
        size_t our_length = utf8_decode((const char *)bytes, 4, &ours);
        if (our_length != (length > 0 ? (size_t)length : 0) || (length > 0 && ours != (uint32_t)code))
            ck_abort_msg("%02x %02x %02x %02x: length %zu", bytes[0], bytes[1], bytes[2], bytes[3], our_length);
    }
}
END_TEST

START_TEST(the_first_invalid_byte_is_found)
{
    static const struct {
        const char *bytes;
        size_t size, at;
    } rows[] = {
        {"", 0, 0},
        {"abc", 3, 3},
        {"a\xC3\xA9", 3, 3},
        {"a\xC3", 2, 1},
        {"\xFF", 1, 0},
        {"ab\xED\xA0\x80", 5, 2},       /* a surrogate */
        {"\xC0\x80", 2, 0},             /* overlong */
        {"\xE0\x9F\xBF", 3, 0},         /* overlong */
        {"\xF0\x8F\xBF\xBF", 4, 0},     /* overlong */
        {"\xF4\x90\x80\x80", 4, 0},     /* past U+10FFFF */
        {"\xF4\x8F\xBF\xBF", 4, 4},     /* U+10FFFF */
        {"\xE2\x82\xAC\xE2\x82", 5, 3}, /* cut short */
        {"x\0y\x80", 4, 3},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        ck_assert_uint_eq(utf8_invalid_at(rows[i].bytes, rows[i].size), rows[i].at);
}
END_TEST

START_TEST(an_incomplete_tail_is_one_that_more_bytes_could_complete)
{
    static const struct {
        const char *bytes;
        size_t size, tail;
    } rows[] = {
        {"", 0, 0},
        {"abc", 3, 0},
        {"abc\xC3", 4, 1},
        {"abc\xE2\x82", 5, 2},
        {"abc\xF0\x9F\x98", 6, 3},
        {"abc\xF0\x9F\x98\x80", 7, 0},
        {"\x80\x80\x80", 3, 0},
        {"\x80\x80\x80\x80", 4, 0},
        {"\xC0", 1, 0},
        {"\xED\xA0", 2, 0},
        {"\xED\x9F", 2, 2},
        {"\xE0\x80", 2, 0},
        {"\xF4\x90", 2, 0},
        {"\xF0\x90\xC3", 3, 1},
        {"\xF5", 1, 0},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        ck_assert_uint_eq(utf8_incomplete_tail(rows[i].bytes, rows[i].size), rows[i].tail);
}
END_TEST

/* Expected: what Python's bytes.decode(errors="replace") gives. */
START_TEST(each_maximal_invalid_part_becomes_one_replacement_character)
{
    static const struct {
        const char *bytes;
        size_t size;
        const char *text;
    } rows[] = {
        {"", 0, ""},
        {"a\xC3\xA9", 3, "a\xC3\xA9"},
        {"\xE2\x82", 2, "\xEF\xBF\xBD"},
        {"\xF0\x9F\x98z", 4, "\xEF\xBF\xBDz"},
        {"\xF0\x9F\x98\xF0\x9F\x98\x80", 7, "\xEF\xBF\xBD\xF0\x9F\x98\x80"},
        {"\x80\x80", 2, "\xEF\xBF\xBD\xEF\xBF\xBD"},
        {"\xED\xA0\x80", 3, "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},
        {"\xE0\x80x", 3, "\xEF\xBF\xBD\xEF\xBF\xBDx"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct buffer out = {0};
        buffer_text(&out, "");
        utf8_append_valid(&out, rows[i].bytes, rows[i].size);
        ck_assert_str_eq(out.data, rows[i].text);
        buffer_free(&out);
    }
}
END_TEST

Suite *suite(void)
{
    Suite *utf8 = suite_create("utf8");
    TCase *cases = tcase_create("utf8");
    tcase_add_test(cases, all_code_points_survive_a_round_trip);
    tcase_add_test(cases, all_short_byte_strings_are_judged_as_utf8proc_does);
    tcase_add_test(cases, the_first_invalid_byte_is_found);
    tcase_add_test(cases, an_incomplete_tail_is_one_that_more_bytes_could_complete);
    tcase_add_test(cases, each_maximal_invalid_part_becomes_one_replacement_character);
    suite_add_tcase(utf8, cases);
    return utf8;
}
