/* Buffers: what is in them after every kind of append, and after a failure. */
#include "kernels/base/buffer.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/unit.h"

START_TEST(appends_of_every_kind_end_in_a_nul)
{
    struct buffer buffer = {0};
    buffer_append(&buffer, NULL, 0);
    ck_assert_str_eq(buffer.data, "");
    buffer_text(&buffer, "ab");
    buffer_byte(&buffer, '\0');
    buffer_printf(&buffer, "%s-%03d", "cd", 7);
    buffer_append(&buffer, "xyz", 2);
    ck_assert_uint_eq(buffer.size, 11);
    ck_assert_mem_eq(buffer.data, "ab\0cd-007xy\0", 12);
    buffer_clear(&buffer);
    ck_assert_uint_eq(buffer.size, 0);
    ck_assert_str_eq(buffer.data, "");
    buffer_free(&buffer);
    ck_assert_ptr_null(buffer.data);
    buffer_free(&buffer);
}
END_TEST

START_TEST(random_appends_keep_every_byte)
{
    enum { BYTES = 1 << 20 };
    char *expected = malloc(BYTES), piece[3000];
    struct buffer buffer = {0};
    uint64_t state = test_seed();
    size_t size = 0;
    ck_assert_ptr_nonnull(expected);
    while (size + sizeof(piece) <= BYTES) {
        size_t length = test_random_below(&state, 8) == 0 ? test_random_below(&state, sizeof(piece))
                                                          : test_random_below(&state, 40);
        for (size_t i = 0; i < length; i++)
            piece[i] = (char)('a' + test_random_below(&state, 26));
        if (test_random_below(&state, 2) == 0)
            buffer_append(&buffer, piece, length);
        else
            buffer_printf(&buffer, "%.*s", (int)length, piece);
        memcpy(expected + size, piece, length);
        size += length;
    }
    ck_assert(!buffer.failed);
    ck_assert_uint_eq(buffer.size, size);
    ck_assert(memcmp(buffer.data, expected, size) == 0);
    ck_assert_int_eq(buffer.data[size], '\0');
    buffer_free(&buffer);
    free(expected);
}
END_TEST

START_TEST(the_limit_is_reached_exactly_and_never_passed)
{
    struct buffer buffer = {.limit = 100};
    for (int i = 0; i < 100; i++)
        buffer_byte(&buffer, 'a');
    ck_assert(!buffer.failed);
    buffer_append(&buffer, "", 0);
    ck_assert(!buffer.failed);
    buffer_byte(&buffer, 'b');
    ck_assert(buffer.failed);
    ck_assert_uint_eq(buffer.size, 100);
    ck_assert_uint_eq(strlen(buffer.data), 100);
    buffer_free(&buffer);
    ck_assert_uint_eq(buffer.limit, 100);
    ck_assert(!buffer.failed);
}
END_TEST

START_TEST(an_append_that_fails_leaves_nothing_and_stops_the_later_ones)
{
    struct buffer buffer = {.limit = 10};
    buffer_text(&buffer, "12345678");
    buffer_printf(&buffer, "%d", 901);
    ck_assert(buffer.failed);
    ck_assert_str_eq(buffer.data, "12345678");
    buffer_byte(&buffer, '9');
    buffer_printf(&buffer, "9");
    ck_assert(!buffer_reserve(&buffer, 0));
    ck_assert_str_eq(buffer.data, "12345678");
    buffer_clear(&buffer);
    buffer_text(&buffer, "1234567890");
    ck_assert(!buffer.failed);
    ck_assert_str_eq(buffer.data, "1234567890");
    buffer_free(&buffer);
}
END_TEST

START_TEST(a_size_that_cannot_be_fails)
{
    static const size_t sizes[] = {SIZE_MAX, SIZE_MAX - 1, SIZE_MAX - 4, SIZE_MAX / 2 + 1};
    struct buffer buffer = {0};
    buffer_text(&buffer, "abcd");
    ck_assert(!buffer_reserve(&buffer, sizes[_i]));
    ck_assert(buffer.failed);
    ck_assert_str_eq(buffer.data, "abcd");
    buffer_free(&buffer);
}
END_TEST

START_TEST(a_reserved_buffer_does_not_move)
{
    struct buffer buffer = {0};
    ck_assert(buffer_reserve(&buffer, 5000));
    char *data = buffer.data;
    for (int i = 0; i < 5000; i++)
        buffer_byte(&buffer, 'x');
    ck_assert_ptr_eq(buffer.data, data);
    buffer_free(&buffer);
}
END_TEST

Suite *suite(void)
{
    Suite *buffer = suite_create("buffer");
    TCase *cases = tcase_create("buffer");
    tcase_add_test(cases, appends_of_every_kind_end_in_a_nul);
    tcase_add_test(cases, random_appends_keep_every_byte);
    tcase_add_test(cases, the_limit_is_reached_exactly_and_never_passed);
    tcase_add_test(cases, an_append_that_fails_leaves_nothing_and_stops_the_later_ones);
    tcase_add_loop_test(cases, a_size_that_cannot_be_fails, 0, 4);
    tcase_add_test(cases, a_reserved_buffer_does_not_move);
    suite_add_tcase(buffer, cases);
    return buffer;
}
