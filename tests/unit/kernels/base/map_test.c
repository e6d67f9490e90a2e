/* The map against a plain list of pairs. */
#include "kernels/base/map.h"

#include <stdlib.h>

#include "tests/unit/unit.h"

#define PAIRS_MAX 4096

struct pair {
    uint64_t hash;
    uint32_t value;
};

static bool equals_wanted(void *context, uint32_t value)
{
    return *(uint32_t *)context == value;
}

static bool accepts_all(void *context, uint32_t value)
{
    (void)context;
    (void)value;
    return true;
}

static bool accepts_none(void *context, uint32_t value)
{
    (void)context;
    (void)value;
    return false;
}

static uint32_t find_value(const struct map *map, uint64_t hash, uint32_t value)
{
    return map_find(map, hash, equals_wanted, &value);
}

START_TEST(an_empty_map_finds_and_removes_nothing)
{
    struct map map = {0};
    ck_assert_uint_eq(map_find(&map, 0, accepts_all, NULL), MAP_NONE);
    ck_assert(!map_remove(&map, 0, 0));
    map_free(&map);
    map_free(&map);
}
END_TEST

START_TEST(equal_hashes_coexist_and_equality_decides)
{
    struct map map = {0};
    for (uint32_t value = 0; value < 1000; value++)
        ck_assert(map_insert(&map, 7, value));
    ck_assert_uint_eq(map.count, 1000);
    for (uint32_t value = 0; value < 1000; value++)
        ck_assert_uint_eq(find_value(&map, 7, value), value);
    ck_assert_uint_eq(map_find(&map, 7, accepts_none, NULL), MAP_NONE);
    ck_assert_uint_eq(find_value(&map, 8, 3), MAP_NONE);
    ck_assert(map_remove(&map, 7, 500));
    ck_assert(!map_remove(&map, 7, 500));
    ck_assert_uint_eq(find_value(&map, 7, 500), MAP_NONE);
    ck_assert_uint_eq(find_value(&map, 7, 999), 999);
    map_free(&map);
}
END_TEST

START_TEST(a_reserved_map_does_not_move_while_it_fills)
{
    struct map map = {0};
    ck_assert(map_reserve(&map, 3000));
    struct map_slot *slots = map.slots;
    for (uint32_t value = 0; value < 3000; value++)
        ck_assert(map_insert(&map, value, value));
    ck_assert_ptr_eq(map.slots, slots);
    ck_assert(map_reserve(&map, 10));
    ck_assert_ptr_eq(map.slots, slots);
    map_free(&map);
}
END_TEST

START_TEST(a_size_that_cannot_be_is_refused)
{
    struct map map = {0};
    ck_assert(!map_reserve(&map, SIZE_MAX));
    ck_assert(!map_reserve(&map, SIZE_MAX / 16));
    ck_assert(map_insert(&map, 1, 1));
    ck_assert(!map_reserve(&map, SIZE_MAX));
    ck_assert_uint_eq(find_value(&map, 1, 1), 1);
    map_free(&map);
}
END_TEST

/* Random inserts and removals; `hash_bits` few enough makes long runs and wraps around the end. */
static void run_against_pairs(uint64_t hash_mask, uint64_t seed)
{
    struct pair *pairs = calloc(PAIRS_MAX, sizeof(*pairs));
    struct map map = {0};
    size_t count = 0;
    uint32_t next = 0;
    ck_assert_ptr_nonnull(pairs);
    for (uint32_t step = 0; step < 25000; step++) {
        bool good, grow = test_random_below(&seed, PAIRS_MAX) >= count;
        if (grow) {
            struct pair pair = {test_random(&seed) & hash_mask, next++};
            good = map_insert(&map, pair.hash, pair.value);
            pairs[count++] = pair;
        } else {
            size_t at = test_random_below(&seed, count);
            good =
                map_remove(&map, pairs[at].hash, pairs[at].value) && !map_remove(&map, pairs[at].hash, pairs[at].value);
            pairs[at] = pairs[--count];
        }
        if (!good || map.count != count)
            ck_abort_msg("step %u", step);
        if (step % 500 == 0) {
            size_t found = 0;
            for (size_t i = 0; i < count; i++)
                found += find_value(&map, pairs[i].hash, pairs[i].value) == pairs[i].value;
            ck_assert_uint_eq(found, count);
        }
    }
    while (count > 0) {
        count--;
        ck_assert(map_remove(&map, pairs[count].hash, pairs[count].value));
    }
    for (size_t i = 0; i < map.capacity; i++)
        ck_assert_uint_eq(map.slots[i].value, MAP_NONE);
    map_free(&map);
    free(pairs);
}

START_TEST(random_steps_agree_with_a_list_of_pairs)
{
    static const uint64_t masks[] = {UINT64_MAX, 0xFF, 0, 0xFFFF000000000000, 0xFFF};
    run_against_pairs(masks[_i], test_seed() + (uint64_t)_i);
}
END_TEST

Suite *suite(void)
{
    Suite *map = suite_create("map");
    TCase *cases = tcase_create("map");
    tcase_add_test(cases, an_empty_map_finds_and_removes_nothing);
    tcase_add_test(cases, equal_hashes_coexist_and_equality_decides);
    tcase_add_test(cases, a_reserved_map_does_not_move_while_it_fills);
    tcase_add_test(cases, a_size_that_cannot_be_is_refused);
    tcase_add_loop_test(cases, random_steps_agree_with_a_list_of_pairs, 0, 5);
    suite_add_tcase(map, cases);
    return map;
}
