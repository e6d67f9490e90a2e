/* Stop strings found at the same place however the text is cut, against a plain search. */
#include "server/engine/stop_text.h"

#include <string.h>

#include "tests/unit/unit.h"

static struct stop_text stop;
static struct api_stop strings[API_STOP_STRINGS_MAX];

static void open_with(uint32_t count, const char *const *texts)
{
    struct error error;
    for (uint32_t i = 0; i < count; i++)
        strings[i] = (struct api_stop){.text = texts[i], .size = strlen(texts[i])};
    ck_assert_int_eq(stop_text_open(strings, count, &stop, &error), STATUS_OK);
}

#define OPEN(...) open_with(sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *), (const char *[]){__VA_ARGS__})

/* Where the first stop string ends, trying each end in turn; 0: nowhere. */
static size_t plain_end(const char *text, size_t size, uint32_t count, size_t *longest)
{
    *longest = 0;
    for (size_t end = 1; end <= size && *longest == 0; end++) {
        for (uint32_t i = 0; i < count; i++) {
            size_t n = strings[i].size;
            if (n <= end && n > *longest && memcmp(text + end - n, strings[i].text, n) == 0)
                *longest = n;
        }
        if (*longest > 0)
            return end;
    }
    return 0;
}

START_TEST(one_over_two_pieces_is_found)
{
    struct stop_text_match match;
    OPEN("User:");
    ck_assert(!stop_text_feed(&stop, "hello Us", 8, &match));
    ck_assert_uint_eq(stop_text_held(&stop), 2);
    ck_assert(stop_text_feed(&stop, "er: more", 8, &match));
    ck_assert_uint_eq(match.end, 3);
    ck_assert_uint_eq(match.size, 5);
    stop_text_close(&stop);
}
END_TEST

START_TEST(a_false_start_inside_another_is_found)
{
    struct stop_text_match match;
    OPEN("aab");
    ck_assert(!stop_text_feed(&stop, "aaaaa", 5, &match));
    ck_assert_uint_eq(stop_text_held(&stop), 2);
    ck_assert(stop_text_feed(&stop, "b", 1, &match));
    ck_assert_uint_eq(match.size, 3);
    stop_text_close(&stop);
}
END_TEST

START_TEST(the_longest_of_those_that_end_together_counts)
{
    struct stop_text_match match;
    OPEN("d", "abcd", "cd");
    ck_assert(stop_text_feed(&stop, "xabcdx", 6, &match));
    ck_assert_uint_eq(match.end, 5);
    ck_assert_uint_eq(match.size, 4);
    stop_text_close(&stop);
}
END_TEST

START_TEST(none_holds_nothing)
{
    struct stop_text_match match;
    struct error error;
    ck_assert_int_eq(stop_text_open(NULL, 0, &stop, &error), STATUS_OK);
    ck_assert(!stop_text_feed(&stop, "text", 4, &match));
    ck_assert_uint_eq(stop_text_held(&stop), 0);
    stop_text_close(&stop);
}
END_TEST

START_TEST(random_cuts_give_what_a_plain_search_gives)
{
    uint64_t random = test_seed() + 1;
    uint32_t found = 0;
    for (int round = 0; round < 20000; round++) {
        char words[3][6] = {{0}}, text[40];
        uint32_t count = 1 + (uint32_t)test_random_below(&random, 3);
        for (uint32_t i = 0; i < count; i++) {
            size_t size = 1 + test_random_below(&random, 5);
            for (size_t j = 0; j < size; j++)
                words[i][j] = (char)('a' + test_random_below(&random, 2));
        }
        size_t size = test_random_below(&random, sizeof(text));
        for (size_t i = 0; i < size; i++)
            text[i] = (char)('a' + test_random_below(&random, 3));
        open_with(count, (const char *[]){words[0], words[1], words[2]});
        size_t longest, expected = plain_end(text, size, count, &longest), at = 0;
        struct stop_text_match match;
        bool stopped = false;
        while (at < size && !stopped) {
            size_t piece = 1 + test_random_below(&random, size - at);
            stopped = stop_text_feed(&stop, text + at, piece, &match);
            at += stopped ? match.end : piece;
        }
        ck_assert(stopped == (expected > 0));
        if (stopped) {
            ck_assert_uint_eq(at, expected);
            ck_assert_uint_eq(match.size, longest);
            found++;
        }
        stop_text_close(&stop);
    }
    ck_assert_uint_gt(found, 1000);
}
END_TEST

Suite *suite(void)
{
    Suite *suite = suite_create("server/engine/stop_text");
    TCase *tests = tcase_create("stop_text");
    tcase_add_test(tests, one_over_two_pieces_is_found);
    tcase_add_test(tests, a_false_start_inside_another_is_found);
    tcase_add_test(tests, the_longest_of_those_that_end_together_counts);
    tcase_add_test(tests, none_holds_nothing);
    tcase_add_test(tests, random_cuts_give_what_a_plain_search_gives);
    suite_add_tcase(suite, tests);
    return suite;
}
