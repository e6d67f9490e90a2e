/* Arenas: alignment, zeroing, no overlap, limits, reuse. */
#include "kernels/base/arena.h"

#include <stdint.h>
#include <string.h>

#include "tests/unit/unit.h"

START_TEST(allocations_are_aligned_zeroed_and_apart)
{
    enum { COUNT = 3000 };
    static uint8_t *blocks[COUNT];
    static size_t sizes[COUNT];
    struct arena arena = {0};
    uint64_t state = test_seed();
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < COUNT; i++) {
            sizes[i] =
                test_random_below(&state, 50) == 0 ? test_random_below(&state, 100000) : test_random_below(&state, 200);
            blocks[i] = arena_take(&arena, sizes[i]);
            ck_assert_ptr_nonnull(blocks[i]);
            ck_assert_uint_eq((uintptr_t)blocks[i] % 16, 0);
            for (size_t at = 0; at < sizes[i]; at++) {
                if (blocks[i][at] != 0)
                    ck_abort_msg("byte %zu of block %zu is not zero", at, i);
            }
            memset(blocks[i], (int)(i % 255) + 1, sizes[i]);
        }
        for (size_t i = 0; i < COUNT; i++) {
            for (size_t at = 0; at < sizes[i]; at++) {
                if (blocks[i][at] != i % 255 + 1)
                    ck_abort_msg("byte %zu of block %zu was overwritten", at, i);
            }
        }
        arena_reset(&arena);
        ck_assert_uint_eq(arena.used_bytes, 0);
    }
    arena_free(&arena);
    ck_assert_ptr_null(arena.chunks);
    arena_free(&arena);
}
END_TEST

START_TEST(nothing_is_still_a_place_of_its_own)
{
    struct arena arena = {0};
    void *a = arena_take(&arena, 0), *b = arena_take(&arena, 0);
    ck_assert_ptr_nonnull(a);
    ck_assert_ptr_nonnull(b);
    ck_assert_ptr_ne(a, b);
    arena_free(&arena);
}
END_TEST

START_TEST(the_limit_holds_and_exhaustion_stays_until_the_reset)
{
    struct arena arena = {.limit_bytes = 1024};
    ck_assert_ptr_nonnull(arena_take(&arena, 512));
    ck_assert_ptr_nonnull(arena_take(&arena, 500)); /* 512 with padding */
    ck_assert(!arena.exhausted);
    ck_assert_ptr_null(arena_take(&arena, 1));
    ck_assert(arena.exhausted);
    ck_assert_uint_eq(arena.used_bytes, 1024);
    ck_assert_ptr_null(arena_copy(&arena, "", 0));
    arena_reset(&arena);
    ck_assert(!arena.exhausted);
    ck_assert_ptr_nonnull(arena_take(&arena, 1024));
    ck_assert_ptr_null(arena_take(&arena, 1));
    arena_free(&arena);
    ck_assert(!arena.exhausted);
    ck_assert_uint_eq(arena.limit_bytes, 1024);
}
END_TEST

START_TEST(a_size_that_cannot_be_is_refused)
{
    static const size_t sizes[] = {SIZE_MAX, SIZE_MAX - 15, SIZE_MAX - 16, SIZE_MAX - 40, SIZE_MAX / 2};
    struct arena arena = {0};
    ck_assert_ptr_nonnull(arena_take(&arena, 10));
    ck_assert_ptr_null(arena_take(&arena, sizes[_i]));
    ck_assert(arena.exhausted);
    arena_reset(&arena);
    ck_assert_ptr_null(arena_array(&arena, SIZE_MAX / 4, 5));
    ck_assert(arena.exhausted);
    arena_reset(&arena);
    ck_assert_ptr_null(arena_copy(&arena, "", SIZE_MAX));
    ck_assert(arena.exhausted);
    arena_free(&arena);
}
END_TEST

START_TEST(a_copy_ends_in_a_nul_and_keeps_inner_ones)
{
    struct arena arena = {0};
    char *copy = arena_copy(&arena, "a\0b", 3);
    ck_assert_mem_eq(copy, "a\0b\0", 4);
    ck_assert_str_eq(arena_copy(&arena, NULL, 0), "");
    arena_free(&arena);
}
END_TEST

START_TEST(a_reset_arena_serves_again_from_the_memory_it_kept)
{
    struct arena arena = {0};
    for (int i = 0; i < 100; i++)
        arena_take(&arena, 1000);
    arena_reset(&arena);
    struct arena_chunk *kept = arena.chunks;
    ck_assert_ptr_nonnull(kept);
    arena_take(&arena, 1000);
    ck_assert_ptr_eq(arena.chunks, kept);
    arena_free(&arena);
}
END_TEST

Suite *suite(void)
{
    Suite *arena = suite_create("arena");
    TCase *cases = tcase_create("arena");
    tcase_add_test(cases, allocations_are_aligned_zeroed_and_apart);
    tcase_add_test(cases, nothing_is_still_a_place_of_its_own);
    tcase_add_test(cases, the_limit_holds_and_exhaustion_stays_until_the_reset);
    tcase_add_loop_test(cases, a_size_that_cannot_be_is_refused, 0, 5);
    tcase_add_test(cases, a_copy_ends_in_a_nul_and_keeps_inner_ones);
    tcase_add_test(cases, a_reset_arena_serves_again_from_the_memory_it_kept);
    suite_add_tcase(arena, cases);
    return arena;
}
