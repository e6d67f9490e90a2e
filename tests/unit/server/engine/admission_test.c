/* What is refused at the door, with which words, and how max_tokens is cut to what fits. */
#include "server/engine/admission.h"

#include "tests/unit/unit.h"

static const struct admission_limits limits = {.context = 8192, .pool_tokens_max = 10000, .sequences_max = 4};
static struct error error;

static enum status check(size_t prompt, bool has_max, uint32_t max, uint32_t *tokens_max)
{
    struct api_call call = {.is_chat = true, .has_max_tokens = has_max, .max_tokens = max};
    return admission_check_prompt(&limits, &call, prompt, tokens_max, &error);
}

START_TEST(a_full_context_is_refused_in_the_words_that_clients_know)
{
    uint32_t tokens_max;
    ck_assert_int_eq(check(9000, true, 216, &tokens_max), STATUS_INVALID);
    ck_assert_str_eq(error.text,
                     "This model's maximum context length is 8192 tokens. However, you requested 9216 tokens (9000 in "
                     "the messages, 216 in the completion). Please reduce the length of the messages or completion.");
    ck_assert_str_eq(error.code, "context_length_exceeded");
    ck_assert_str_eq(error.field, "messages");
    ck_assert_int_eq(check(8192, false, 0, &tokens_max), STATUS_INVALID);
    ck_assert_str_eq(error.code, "context_length_exceeded");
}
END_TEST

START_TEST(a_text_prompt_is_named_as_such)
{
    uint32_t tokens_max;
    struct api_call call = {.kind = API_COMPLETION};
    ck_assert_int_eq(admission_check_prompt(&limits, &call, 8192, &tokens_max, &error), STATUS_INVALID);
    ck_assert_str_eq(error.field, "prompt");
    ck_assert_ptr_nonnull(strstr(error.text, "(8192 in the prompt, 0 in the completion)"));
}
END_TEST

START_TEST(max_tokens_is_cut_to_what_fits)
{
    uint32_t tokens_max;
    ck_assert_int_eq(check(8191, true, 32000, &tokens_max), STATUS_OK);
    ck_assert_uint_eq(tokens_max, 1);
    ck_assert_int_eq(check(8000, false, 0, &tokens_max), STATUS_OK);
    ck_assert_uint_eq(tokens_max, 192);
    ck_assert_int_eq(check(8000, true, 5, &tokens_max), STATUS_OK);
    ck_assert_uint_eq(tokens_max, 5);
    ck_assert_int_eq(check(8000, true, 0, &tokens_max), STATUS_OK);
    ck_assert_uint_eq(tokens_max, 0);
}
END_TEST

START_TEST(a_pool_that_never_fits_it_is_named)
{
    struct admission_limits small = limits;
    struct api_call call = {.is_chat = true};
    uint32_t tokens_max;
    small.pool_tokens_max = 64;
    ck_assert_int_eq(admission_check_prompt(&small, &call, 64, &tokens_max, &error), STATUS_INVALID);
    ck_assert_str_eq(error.code, "context_length_exceeded");
    ck_assert_ptr_nonnull(strstr(error.text, "--kv-memory"));
    ck_assert_ptr_nonnull(strstr(error.text, "only 64 tokens"));
    ck_assert_int_eq(admission_check_prompt(&small, &call, 60, &tokens_max, &error), STATUS_OK);
    ck_assert_uint_eq(tokens_max, 4);
}
END_TEST

START_TEST(an_empty_prompt_is_refused)
{
    uint32_t tokens_max;
    ck_assert_int_eq(check(0, false, 0, &tokens_max), STATUS_INVALID);
    ck_assert_str_eq(error.field, "messages");
}
END_TEST

START_TEST(more_choices_than_sequences_are_refused)
{
    ck_assert_int_eq(admission_check_choices(&limits, 4, &error), STATUS_OK);
    ck_assert_int_eq(admission_check_choices(&limits, 5, &error), STATUS_INVALID);
    ck_assert_str_eq(error.field, "n");
}
END_TEST

Suite *suite(void)
{
    Suite *suite = suite_create("server/engine/admission");
    TCase *tests = tcase_create("admission");
    tcase_add_test(tests, a_full_context_is_refused_in_the_words_that_clients_know);
    tcase_add_test(tests, a_text_prompt_is_named_as_such);
    tcase_add_test(tests, max_tokens_is_cut_to_what_fits);
    tcase_add_test(tests, a_pool_that_never_fits_it_is_named);
    tcase_add_test(tests, an_empty_prompt_is_refused);
    tcase_add_test(tests, more_choices_than_sequences_are_refused);
    suite_add_tcase(suite, tests);
    return suite;
}
