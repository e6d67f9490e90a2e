/* Leftmost and longest, as the reference finds them; and never over the edge of trust. */
#include "model/text/special_tokens.h"

#include "kernels/base/check.h"
#include "tests/unit/model/text/golden.h"
#include "tests/unit/unit.h"

/* Control tokens, numbered in order. */
static struct special_token *control_tokens(const char *const *texts, size_t count)
{
    struct special_token *tokens = malloc((count > 0 ? count : 1) * sizeof(*tokens));
    CHECK(tokens != NULL);
    for (size_t i = 0; i < count; i++)
        tokens[i] = (struct special_token){texts[i], strlen(texts[i]), (int32_t)i, true};
    return tokens;
}

static void check_text(const struct special_tokens *special, const char *text, char *expected)
{
    struct tokenizer_span span = {strlen(text), true};
    struct tokenizer_input input = {.text = text, .size = span.size, .spans = &span, .span_count = 1};
    struct special_cursor cursor = special_cursor_start(&input);
    struct special_match match;
    long offset = 0, size = 0, token = 0;
    while (special_tokens_next(special, &cursor, &match)) {
        bool more =
            golden_number(&expected, &offset) && golden_number(&expected, &size) && golden_number(&expected, &token);
        ck_assert_msg(more, "\"%s\": nothing is at %zu", text, match.offset);
        ck_assert_msg(match.offset == (size_t)offset && match.size == (size_t)size && match.id == token,
                      "\"%s\": token %d at %zu, not %ld at %ld", text, match.id, match.offset, token, offset);
    }
    ck_assert_msg(!golden_number(&expected, &offset), "\"%s\": not found at %ld", text, offset);
}

START_TEST(finds_what_the_reference_finds)
{
    struct golden golden = golden_open("tests/golden/special_tokens.txt");
    struct special_tokens special = {0};
    struct error error;
    size_t texts = 0;
    while (golden_next(&golden)) {
        if (strcmp(golden.fields[0], "tokens") == 0) {
            special_tokens_close(&special);
            size_t count = golden.field_count - 1;
            ck_assert_int_eq(special_tokens_open(control_tokens((const char *const *)golden.fields + 1, count), count,
                                                 &special, &error),
                             STATUS_OK);
        } else {
            check_text(&special, golden.fields[1], golden.fields[2]);
            texts++;
        }
    }
    special_tokens_close(&special);
    golden_close(&golden);
    ck_assert_uint_ge(texts, 200);
}
END_TEST

struct place {
    size_t offset;
    int32_t id;
};

static void check_places(const struct special_tokens *special, const struct tokenizer_input *input,
                         const struct place *places, size_t count)
{
    struct special_cursor cursor = special_cursor_start(input);
    struct special_match match;
    size_t found = 0;
    for (; special_tokens_next(special, &cursor, &match); found++) {
        ck_assert_uint_lt(found, count);
        ck_assert_uint_eq(match.offset, places[found].offset);
        ck_assert_int_eq(match.id, places[found].id);
    }
    ck_assert_uint_eq(found, count);
}

/* Three control tokens, and a plain one that overlaps two of them. */
enum { OPEN, CLOSE, OPEN_CLOSE, PLAIN };

static struct special_tokens open_mixed(void)
{
    static const char *const texts[] = {"<a>", "<b>", "<a><b>", "a>x"};
    struct special_tokens special;
    struct error error;
    struct special_token *tokens = control_tokens(texts, 4);
    tokens[PLAIN].control = false;
    ck_assert_int_eq(special_tokens_open(tokens, 4, &special, &error), STATUS_OK);
    return special;
}

START_TEST(falls_back_to_a_shorter_token_at_the_edge_of_trust)
{
    struct special_tokens special = open_mixed();
    struct tokenizer_span spans[] = {{4, true}, {2, false}, {6, true}};
    struct tokenizer_input input = {.text = "<a><b><a><b>", .size = 12, .spans = spans, .span_count = 3};
    check_places(&special, &input, (struct place[]){{0, OPEN}, {6, OPEN_CLOSE}}, 2);
    special_tokens_close(&special);
}
END_TEST

START_TEST(lets_no_untrusted_byte_take_part_in_a_control_token)
{
    struct special_tokens special = open_mixed();
    for (size_t byte = 0; byte < 3; byte++) {
        struct tokenizer_span spans[] = {{byte, true}, {1, false}, {2 - byte, true}};
        struct tokenizer_input input = {.text = "<a>", .size = 3, .spans = spans, .span_count = 3};
        check_places(&special, &input, NULL, 0);
    }
    special_tokens_close(&special);
}
END_TEST

START_TEST(joins_trusted_spans_around_an_empty_one)
{
    struct special_tokens special = open_mixed();
    struct tokenizer_span spans[] = {{0, false}, {1, true}, {0, false}, {1, true}, {1, true}, {0, false}};
    struct tokenizer_input input = {.text = "<a>", .size = 3, .spans = spans, .span_count = 6};
    check_places(&special, &input, (struct place[]){{0, OPEN}}, 1);
    special_tokens_close(&special);
}
END_TEST

START_TEST(finds_plain_tokens_anywhere)
{
    struct special_tokens special = open_mixed();
    struct tokenizer_input untrusted = {.text = "<a>x<b>", .size = 7};
    check_places(&special, &untrusted, (struct place[]){{1, PLAIN}}, 1);
    struct tokenizer_span spans[] = {{2, false}, {1, true}, {1, false}, {3, true}};
    struct tokenizer_input mixed = {.text = "<a>x<b>", .size = 7, .spans = spans, .span_count = 4};
    check_places(&special, &mixed, (struct place[]){{1, PLAIN}, {4, CLOSE}}, 2);
    special_tokens_close(&special);
}
END_TEST

START_TEST(finds_nothing_where_there_are_no_tokens)
{
    struct special_tokens special;
    struct error error;
    ck_assert_int_eq(special_tokens_open(control_tokens(NULL, 0), 0, &special, &error), STATUS_OK);
    struct tokenizer_span span = {3, true};
    struct tokenizer_input input = {.text = "<a>", .size = 3, .spans = &span, .span_count = 1};
    check_places(&special, &input, NULL, 0);
    input = (struct tokenizer_input){.text = "", .size = 0};
    check_places(&special, &input, NULL, 0);
    special_tokens_close(&special);
}
END_TEST

START_TEST(refuses_tokens_that_are_equal_empty_or_too_long)
{
    struct special_tokens special;
    struct error error;
    ck_assert_int_eq(special_tokens_open(control_tokens((const char *const[]){"a", "b", "a"}, 3), 3, &special, &error),
                     STATUS_INVALID);
    ck_assert_ptr_nonnull(strstr(error.text, "have the same text"));
    ck_assert_int_eq(special_tokens_open(control_tokens((const char *const[]){""}, 1), 1, &special, &error),
                     STATUS_INVALID);
    static char text[SPECIAL_TOKEN_BYTES_MAX + 2];
    memset(text, 'x', SPECIAL_TOKEN_BYTES_MAX + 1);
    ck_assert_int_eq(special_tokens_open(control_tokens((const char *const[]){text}, 1), 1, &special, &error),
                     STATUS_INVALID);
    ck_assert_ptr_nonnull(strstr(error.text, "has 1025 bytes"));
}
END_TEST

Suite *suite(void)
{
    Suite *suite = suite_create("special_tokens");
    TCase *all = tcase_create("all");
    tcase_add_test(all, finds_what_the_reference_finds);
    tcase_add_test(all, falls_back_to_a_shorter_token_at_the_edge_of_trust);
    tcase_add_test(all, lets_no_untrusted_byte_take_part_in_a_control_token);
    tcase_add_test(all, joins_trusted_spans_around_an_empty_one);
    tcase_add_test(all, finds_plain_tokens_anywhere);
    tcase_add_test(all, finds_nothing_where_there_are_no_tokens);
    tcase_add_test(all, refuses_tokens_that_are_equal_empty_or_too_long);
    suite_add_tcase(suite, all);
    return suite;
}
