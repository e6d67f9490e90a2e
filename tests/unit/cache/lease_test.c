/* The life of blocks: who holds them, what is merged, what goes first, and that nothing is allocated meanwhile. */
#include <malloc.h>
#include <string.h>

#include "cache/cache_state.h"
#include "kernels/base/check.h"
#include "tests/unit/cache/kv_world.h"
#include "tests/unit/unit.h"

#define BLOCK 4

static struct world world; /* too large for a stack; tests run in processes of their own */

static void open_default(uint32_t pages)
{
    struct world_args args = {.block_tokens = BLOCK, .pages = pages};
    world_open(&world, &args);
}

static void copy_pages(uint32_t *pages, const struct sequence *sequence)
{
    memcpy(pages, cache_lease_pages(sequence->lease, 0), (sequence->tokens + BLOCK - 1) / BLOCK * sizeof(*pages));
}

/* Leaves a sequence of `count` tokens in the cache and says which pages it is in. */
static void leave(uint64_t name, const int32_t *ids, uint32_t count, uint32_t *pages)
{
    struct sequence *sequence = world_start(&world, name, ids, count);
    copy_pages(pages, sequence);
    world_release(&world, sequence);
}

/* Takes `count` pages for something new and expects those to go, in this order. */
static void expect_evicted(const uint32_t *pages, uint32_t count)
{
    static const int32_t ids[64] = {0};
    uint32_t freed[16];
    world.freed = freed;
    world.freed_count = 0;
    world.freed_max = count;
    ck_assert_uint_eq(cache_stats(world.cache).pages_free, 0);
    struct sequence *sequence = world_acquire(&world, 999, ids, 1);
    ck_assert_ptr_nonnull(sequence);
    ck_assert(world_extend(&world, sequence, ids, count * BLOCK));
    ck_assert_uint_eq(world.freed_count, count);
    ck_assert_mem_eq(freed, pages, count * sizeof(*pages));
    world.freed_max = 0;
}

START_TEST(the_sequence_used_least_recently_goes_first_from_its_tail)
{
    open_default(9);
    int32_t ids[12];
    world_count_up(ids, 12, 0);
    uint32_t a[3], b[3], c[3];
    leave(1, ids, 12, a);
    leave(2, ids, 12, b);
    leave(3, ids, 12, c);
    expect_evicted((uint32_t[]){a[2], a[1], a[0], b[2]}, 4);
    expect_evicted((uint32_t[]){b[1], b[0], c[2], c[1], c[0]}, 5);
    world_close(&world);
}
END_TEST

START_TEST(a_hit_makes_its_blocks_new_and_no_others)
{
    open_default(6);
    int32_t ids[12];
    world_count_up(ids, 12, 0);
    uint32_t a[3], b[3];
    leave(1, ids, 12, a);
    leave(2, ids, 12, b);
    struct sequence *again = world_acquire(&world, 1, ids, 5); /* the first block of a */
    ck_assert_uint_eq(again->hit, 4);
    world_release(&world, again);
    expect_evicted((uint32_t[]){a[2], a[1], b[2], b[1], b[0], a[0]}, 6);
    world_close(&world);
}
END_TEST

START_TEST(a_block_that_was_copied_from_is_new)
{
    open_default(6);
    int32_t ids[12];
    world_count_up(ids, 12, 0);
    uint32_t a[2], b[3];
    leave(1, ids, 8, a);
    leave(2, ids, 12, b);
    struct sequence *again = world_acquire(&world, 1, ids, 7); /* 4 tokens shared, 2 copied */
    ck_assert_uint_eq(again->hit, 6);
    world_release(&world, again); /* a[1] has the two rows as well: the copy goes */
    ck_assert_uint_eq(cache_stats(world.cache).pages_free, 1);
    ck_assert(world_extend(&world, world_acquire(&world, 5, ids, 1), ids, 1));
    expect_evicted((uint32_t[]){b[2], b[1], b[0], a[1], a[0]}, 5);
    world_close(&world);
}
END_TEST

START_TEST(a_block_that_stands_for_a_released_copy_is_new)
{
    open_default(6);
    int32_t ids[12];
    world_count_up(ids, 12, 0);
    uint32_t a[2], b[3];
    leave(1, ids, 8, a);
    struct sequence *copy = world_acquire(&world, 1, ids, 7);
    leave(2, ids, 12, b);
    world_release(&world, copy); /* its tail is in a[1] */
    ck_assert(world_extend(&world, world_acquire(&world, 5, ids, 1), ids, 1));
    expect_evicted((uint32_t[]){b[2], b[1], b[0], a[1], a[0]}, 5);
    world_close(&world);
}
END_TEST

START_TEST(a_parent_outlives_its_children_whatever_is_used)
{
    open_default(8);
    int32_t ids[12], other[12];
    world_count_up(ids, 12, 0);
    world_count_up(other, 12, 0);
    memset(other + 4, -1, 8 * sizeof(*other));
    uint32_t a[3], b[3];
    leave(1, ids, 12, a);
    leave(1, other, 12, b); /* shares the first block */
    ck_assert_uint_eq(a[0], b[0]);
    uint32_t c[3];
    leave(2, ids, 12, c);
    world_release(&world, world_acquire(&world, 1, ids, 9)); /* uses a[0], a[1] */
    expect_evicted((uint32_t[]){a[2], b[2], b[1], c[2], c[1], c[0], a[1], a[0]}, 8);
    world_close(&world);
}
END_TEST

START_TEST(a_leased_block_stays_under_pressure)
{
    open_default(6);
    int32_t ids[24];
    world_count_up(ids, 24, 0);
    uint32_t a[4];
    leave(1, ids, 16, a);
    struct sequence *holder = world_acquire(&world, 1, ids, 9);
    ck_assert_uint_eq(holder->hit, 8);
    struct sequence *other = world_acquire(&world, 2, ids, 24);
    ck_assert(!world_extend(&world, other, ids, 5 * BLOCK));
    ck_assert(world_extend(&world, other, ids, 4 * BLOCK));
    ck_assert_uint_eq(cache_stats(world.cache).evicted_blocks, 2);
    ck_assert(!world_extend(&world, other, ids, 1));
    world_close(&world); /* reads all rows of what is live before it ends */
}
END_TEST

START_TEST(equal_blocks_computed_side_by_side_become_one)
{
    open_default(20);
    int32_t ids[14];
    world_count_up(ids, 14, 0);
    struct sequence *first = world_acquire(&world, 0, ids, 14), *second = world_acquire(&world, 0, ids, 14);
    ck_assert(world_extend(&world, first, ids, 14));
    ck_assert(world_extend(&world, second, ids, 14));
    ck_assert_uint_eq(cache_stats(world.cache).pages_leased, 8);
    world_commit(&world, first, 5);
    world_commit(&world, second, 14); /* one block is there already */
    ck_assert_uint_eq(cache_stats(world.cache).merged_blocks, 1);
    world_commit(&world, first, 9);
    ck_assert_uint_eq(cache_stats(world.cache).merged_blocks, 3);
    ck_assert_uint_eq(cache_stats(world.cache).pages_leased, 5);
    ck_assert_mem_eq(cache_lease_pages(first->lease, 0), cache_lease_pages(second->lease, 0), 3 * sizeof(uint32_t));
    world_release(&world, first);
    world_release(&world, second); /* and the tails */
    ck_assert_uint_eq(cache_stats(world.cache).pages_cached, 4);
    ck_assert_uint_eq(cache_stats(world.cache).merged_blocks, 4);
    world_close(&world);
}
END_TEST

START_TEST(a_tail_taken_over_still_serves_others)
{
    open_default(20);
    int32_t ids[8], other[8] = {0, 1, 2, 3, 4, 5, 77, 78};
    world_count_up(ids, 8, 0);
    uint32_t pages[2];
    leave(0, ids, 6, pages);
    struct sequence *owner = world_start(&world, 0, ids, 7);
    ck_assert_uint_eq(owner->hit, 6);
    ck_assert_uint_eq(cache_lease_pages(owner->lease, 0)[1], pages[1]);
    struct sequence *beside = world_start(&world, 0, other, 8);
    ck_assert_uint_eq(beside->hit, 6);
    ck_assert_uint_ne(cache_lease_pages(beside->lease, 0)[1], pages[1]);
    ck_assert_uint_eq(cache_stats(world.cache).copied_tokens, 2);
    world_close(&world);
}
END_TEST

START_TEST(a_tail_taken_over_and_cancelled_is_what_it_was)
{
    open_default(20);
    int32_t ids[30];
    world_count_up(ids, 30, 0);
    uint32_t pages[2];
    leave(0, ids, 6, pages);
    struct sequence *owner = world_acquire(&world, 0, ids, 30);
    ck_assert(world_extend(&world, owner, ids + 6, 24));
    world_compute(&world, owner, 20);
    ck_assert_uint_eq(world_peek(&world, 0, ids, 30).pending, 29);
    world_release(&world, owner);
    struct cache_lookup found = world_peek(&world, 0, ids, 30);
    ck_assert_uint_eq(found.hit, 6);
    ck_assert_uint_eq(found.pending, 6);
    ck_assert_uint_eq(cache_stats(world.cache).pages_cached, 2);
    world_close(&world);
}
END_TEST

START_TEST(of_equal_matches_the_one_without_a_copy_is_taken)
{
    open_default(20);
    uint32_t pages[1];
    leave(0, (int32_t[]){7, 1}, 2, pages);
    struct sequence *longer = world_start(&world, 0, (int32_t[]){7, 1}, 2); /* one row copied, one computed */
    ck_assert(world_extend(&world, longer, (int32_t[]){5}, 1));
    world_commit(&world, longer, 1);
    struct sequence *other = world_acquire(&world, 0, (int32_t[]){7, 1, 9}, 3);
    ck_assert_uint_eq(other->hit, 2);
    ck_assert_uint_eq(cache_lease_pages(other->lease, 0)[0], pages[0]);
    ck_assert_uint_eq(cache_stats(world.cache).copied_tokens, 1);
    world_close(&world);
}
END_TEST

START_TEST(a_tail_that_others_cover_is_not_kept)
{
    open_default(20);
    int32_t ids[12];
    world_count_up(ids, 12, 0);
    uint32_t pages[3];
    leave(0, ids, 6, pages);
    struct sequence *longer = world_start(&world, 0, ids, 6); /* 5 hit, the last computed again: a copy of the tail */
    ck_assert_uint_eq(cache_stats(world.cache).pages_cached + cache_stats(world.cache).pages_leased, 3);
    ck_assert(world_extend(&world, longer, ids + 6, 2));
    world_commit(&world, longer, 2); /* full: the kept tail of 2 rows is in it */
    ck_assert_uint_eq(cache_stats(world.cache).pages_cached, 0);
    ck_assert_uint_eq(cache_stats(world.cache).pages_leased, 2);
    world_close(&world);
}
END_TEST

START_TEST(cancelling_two_hundred_times_keeps_only_what_was_committed)
{
    open_default(40);
    uint64_t random = test_seed();
    for (uint32_t i = 0; i < 200; i++) {
        int32_t ids[60];
        world_count_up(ids, 60, (int32_t)(i % 7) * 1000);
        uint32_t count = 2 + (uint32_t)test_random_below(&random, 58);
        struct sequence *sequence = world_acquire(&world, 0, ids, count);
        ck_assert(world_extend(&world, sequence, ids + sequence->hit, count - sequence->hit));
        world_commit(&world, sequence, (uint32_t)test_random_below(&random, count - sequence->hit + 1));
        uint32_t left = sequence->tokens - sequence->committed;
        world_compute(&world, sequence, (uint32_t)test_random_below(&random, left + 1));
        world_release(&world, sequence);
        world_peek(&world, 0, ids, 60);
    }
    world_close(&world);
}
END_TEST

/* A lookup compares a bounded number of siblings: those used last. */
START_TEST(the_siblings_used_last_are_the_ones_compared)
{
    struct world_args args = {.block_tokens = BLOCK, .pages = 400, .shorter_hits_allowed = true};
    world_open(&world, &args);
    for (int32_t i = 0; i < 2 * BLOCK_INDEX_CANDIDATES_MAX; i++)
        world_request(&world, 0, (int32_t[]){7, i, i}, 3);
    int32_t old[4] = {7, 0, 0, 0}, recent[4] = {7, BLOCK_INDEX_CANDIDATES_MAX, BLOCK_INDEX_CANDIDATES_MAX, 0};
    ck_assert_uint_eq(world_peek(&world, 0, recent, 4).hit, 3);
    ck_assert_uint_eq(world_peek(&world, 0, old, 4).hit, 1);
    world_close(&world);
}
END_TEST

START_TEST(a_lease_makes_its_tail_the_sibling_used_last)
{
    struct world_args args = {.block_tokens = BLOCK, .pages = 400, .shorter_hits_allowed = true};
    world_open(&world, &args);
    int32_t first[4] = {7, 0, 0, 9};
    for (int32_t i = 0; i < BLOCK_INDEX_CANDIDATES_MAX; i++)
        world_request(&world, 0, (int32_t[]){7, i, i}, 3);
    struct sequence *sequence = world_acquire(&world, 0, first, 4);
    ck_assert_uint_eq(sequence->hit, 3);
    world_release(&world, sequence);
    for (int32_t i = 1; i < BLOCK_INDEX_CANDIDATES_MAX; i++)
        world_request(&world, 0, (int32_t[]){7, 1000 + i, i}, 3);
    ck_assert_uint_eq(world_peek(&world, 0, first, 4).hit, 3);
    world_request(&world, 0, (int32_t[]){7, 2000, 0}, 3);
    ck_assert_uint_eq(world_peek(&world, 0, first, 4).hit, 1);
    world_close(&world);
}
END_TEST

/* Present where a sanitizer replaces the allocator: then every allocation is seen, otherwise only what stays. */
extern int __sanitizer_install_malloc_and_free_hooks(void (*malloc_hook)(const volatile void *, size_t),
                                                     void (*free_hook)(const volatile void *)) __attribute__((weak));

static uint64_t allocations;

static void on_malloc(const volatile void *memory, size_t bytes)
{
    (void)memory;
    (void)bytes;
    allocations++;
}

static void on_free(const volatile void *memory)
{
    (void)memory;
}

static void use_cache(struct cache *cache, uint64_t *random, uint32_t requests)
{
    for (uint32_t i = 0; i < requests; i++) {
        int32_t ids[100];
        uint32_t count = 1 + (uint32_t)test_random_below(random, 100), hit;
        for (uint32_t j = 0; j < count; j++)
            ids[j] = (int32_t)test_random_below(random, 2);
        struct cache_lease *lease;
        struct cache_copy copy;
        cache_peek(cache, world_root(0), ids, count);
        CHECK(cache_acquire(cache, world_root(0), ids, count, &lease, &hit, &copy) == STATUS_OK);
        CHECK(cache_extend(cache, lease, ids + hit, count - hit) == STATUS_OK);
        cache_commit(cache, lease, count);
        cache_verify(cache);
        cache_release(cache, lease);
    }
}

START_TEST(nothing_is_allocated_after_open)
{
    open_default(60);
    uint64_t random = test_seed();
    if (__sanitizer_install_malloc_and_free_hooks != NULL)
        ck_assert_int_ne(__sanitizer_install_malloc_and_free_hooks(on_malloc, on_free), 0);
    allocations = 0;
    size_t before = mallinfo2().uordblks + mallinfo2().hblkhd;
    use_cache(world.cache, &random, 5000);
    uint64_t seen = allocations; /* Check itself allocates */
    ck_assert_uint_eq(mallinfo2().uordblks + mallinfo2().hblkhd, before);
    ck_assert_uint_eq(seen, 0);
    ck_assert_uint_gt(cache_stats(world.cache).evicted_blocks, 0);
    cache_close(world.cache);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("cache/lease");
    TCase *tc = tcase_create("leases");
    tcase_add_test(tc, the_sequence_used_least_recently_goes_first_from_its_tail);
    tcase_add_test(tc, a_hit_makes_its_blocks_new_and_no_others);
    tcase_add_test(tc, a_block_that_was_copied_from_is_new);
    tcase_add_test(tc, a_block_that_stands_for_a_released_copy_is_new);
    tcase_add_test(tc, a_parent_outlives_its_children_whatever_is_used);
    tcase_add_test(tc, a_leased_block_stays_under_pressure);
    tcase_add_test(tc, equal_blocks_computed_side_by_side_become_one);
    tcase_add_test(tc, a_tail_taken_over_still_serves_others);
    tcase_add_test(tc, a_tail_taken_over_and_cancelled_is_what_it_was);
    tcase_add_test(tc, of_equal_matches_the_one_without_a_copy_is_taken);
    tcase_add_test(tc, a_tail_that_others_cover_is_not_kept);
    tcase_add_test(tc, cancelling_two_hundred_times_keeps_only_what_was_committed);
    tcase_add_test(tc, the_siblings_used_last_are_the_ones_compared);
    tcase_add_test(tc, a_lease_makes_its_tail_the_sibling_used_last);
    tcase_add_test(tc, nothing_is_allocated_after_open);
    suite_add_tcase(s, tc);
    return s;
}
