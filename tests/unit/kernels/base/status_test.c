/* Filling errors: truncation, aliasing, names. */
#include "kernels/base/status.h"

#include <string.h>

#include "kernels/base/utf8.h"
#include "tests/unit/unit.h"

START_TEST(a_set_error_replaces_all_that_was_there)
{
    struct error error;
    memset(&error, 'x', sizeof(error));
    ck_assert_int_eq(error_set(&error, STATUS_BUSY, "%d of %d", 3, 4), STATUS_BUSY);
    ck_assert_int_eq(error.status, STATUS_BUSY);
    ck_assert_str_eq(error.text, "3 of 4");
    ck_assert_str_eq(error.field, "");
    ck_assert_str_eq(error.code, "");
}
END_TEST

START_TEST(a_field_is_named)
{
    struct error error;
    ck_assert_int_eq(error_field(&error, STATUS_INVALID, "top_p", "top_p is %g", 2.5), STATUS_INVALID);
    ck_assert_str_eq(error.field, "top_p");
    ck_assert_str_eq(error.text, "top_p is 2.5");
}
END_TEST

START_TEST(a_code_is_added_to_what_was_set)
{
    struct error error;
    char longer[sizeof(error.code) + 8];
    error_field(&error, STATUS_NOT_FOUND, "model", "there is none");
    ck_assert_int_eq(error_code(&error, "model_not_found"), STATUS_NOT_FOUND);
    ck_assert_str_eq(error.code, "model_not_found");
    ck_assert_str_eq(error.field, "model");
    ck_assert_str_eq(error.text, "there is none");
    memset(longer, 'c', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    error_code(&error, longer);
    ck_assert_uint_eq(strlen(error.code), sizeof(error.code) - 1);
}
END_TEST

START_TEST(an_error_may_be_wrapped_in_itself)
{
    struct error error;
    error_field(&error, STATUS_IO, "a.gguf", "no such file");
    error_field(&error, error.status, error.field, "cannot load: %s", error.text);
    ck_assert_str_eq(error.text, "cannot load: no such file");
    ck_assert_str_eq(error.field, "a.gguf");
}
END_TEST

/* Long text of 1- to 4-byte characters is cut between characters, and as late as possible. */
START_TEST(a_long_text_is_cut_between_characters)
{
    static const char *const characters[] = {"a", "\xC3\xA9", "\xE2\x82\xAC", "\xF0\x9F\x98\x80"};
    struct error error;
    for (size_t shift = 0; shift < 4; shift++) {
        char text[2000] = "---";
        size_t length = strlen(characters[_i]);
        for (size_t i = 0; i < 480; i++)
            memcpy(text + shift + i * length, characters[_i], length + 1);
        error_field(&error, STATUS_INVALID, text, "%s", text);
        size_t size = strlen(error.text), field = strlen(error.field);
        ck_assert_uint_eq(utf8_invalid_at(error.text, size), size);
        ck_assert_uint_eq(utf8_invalid_at(error.field, field), field);
        ck_assert_uint_ge(size, sizeof(error.text) - 4);
        ck_assert_uint_ge(field, sizeof(error.field) - 4);
    }
}
END_TEST

START_TEST(each_status_has_a_name_of_its_own)
{
    for (int a = STATUS_OK; a <= STATUS_INTERNAL; a++) {
        ck_assert_str_ne(status_name((enum status)a), "unknown");
        for (int b = STATUS_OK; b < a; b++)
            ck_assert_str_ne(status_name((enum status)a), status_name((enum status)b));
    }
    struct error error;
    ck_assert_int_eq(error_no_memory(&error, "the page pool"), STATUS_NO_MEMORY);
    ck_assert_str_eq(error.text, "not enough memory for the page pool");
}
END_TEST

Suite *suite(void)
{
    Suite *status = suite_create("status");
    TCase *cases = tcase_create("status");
    tcase_add_test(cases, a_set_error_replaces_all_that_was_there);
    tcase_add_test(cases, a_field_is_named);
    tcase_add_test(cases, a_code_is_added_to_what_was_set);
    tcase_add_test(cases, an_error_may_be_wrapped_in_itself);
    tcase_add_loop_test(cases, a_long_text_is_cut_between_characters, 0, 4);
    tcase_add_test(cases, each_status_has_a_name_of_its_own);
    suite_add_tcase(status, cases);
    return status;
}
