/* The alphabet is one to one with the bytes, and nothing else is in it. */
#include "model/text/byte_level.h"

#include <string.h>

#include "kernels/base/utf8.h"
#include "tests/unit/unit.h"

START_TEST(spells_every_byte_once)
{
    bool seen[256] = {false};
    size_t letters = 0;
    for (uint32_t code_point = 0; code_point < 0x110000; code_point++) {
        if (code_point >= 0xD800 && code_point <= 0xDFFF)
            continue;
        char text[4], byte;
        size_t size;
        if (!byte_level_decode(text, utf8_encode(code_point, text), &byte, &size))
            continue;
        ck_assert_uint_eq(size, 1);
        ck_assert(!seen[(unsigned char)byte]);
        seen[(unsigned char)byte] = true;
        letters++;
    }
    ck_assert_uint_eq(letters, 256);
}
END_TEST

START_TEST(spells_the_bytes_of_gpt2)
{
    static const struct {
        const char *text;
        const char *bytes;
    } cases[] = {
        {"Ġthe", " the"},
        {"Ċ", "\n"},
        {"ĉ", "\t"},
        {"č", "\r"},
        {"Ã©", "\xC3\xA9"},
        {"âĢĻ", "\xE2\x80\x99"},
        {"ð\xC5\x81\xC4\xBA\xC4\xA2", "\xF0\x9F\x98\x80"},
        {"Ń", "\xAD"},
        {"ġ", "\x7F"},
        {"~!", "~!"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char bytes[32];
        size_t size;
        ck_assert_msg(byte_level_decode(cases[i].text, strlen(cases[i].text), bytes, &size), "%s", cases[i].text);
        ck_assert_msg(size == strlen(cases[i].bytes) && memcmp(bytes, cases[i].bytes, size) == 0, "%s", cases[i].text);
    }
}
END_TEST

START_TEST(refuses_what_is_not_in_the_alphabet)
{
    char bytes[8];
    size_t size;
    static const char *const wrong[] = {" ",        "a b",          "\n",   "\x7F", "\xC2\xAD",
                                        "\xC5\x84", "\xE4\xBD\xA0", "\xC4", "\xFF"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        ck_assert_msg(!byte_level_decode(wrong[i], strlen(wrong[i]), bytes, &size), "%s", wrong[i]);
    ck_assert(byte_level_decode("", 0, bytes, &size) && size == 0);
}
END_TEST

Suite *suite(void)
{
    Suite *suite = suite_create("byte_level");
    TCase *all = tcase_create("all");
    tcase_add_test(all, spells_every_byte_once);
    tcase_add_test(all, spells_the_bytes_of_gpt2);
    tcase_add_test(all, refuses_what_is_not_in_the_alphabet);
    suite_add_tcase(suite, all);
    return suite;
}
