/* What the server sees of the cache: whole requests, one behaviour each. */
#include <string.h>

#include "tests/unit/cache/kv_world.h"
#include "tests/unit/unit.h"

#define BLOCK 32

static struct world world; /* too large for a stack; tests run in processes of their own */

static void open_default(uint32_t pages)
{
    struct world_args args = {.block_tokens = BLOCK, .pages = pages};
    world_open(&world, &args);
}

START_TEST(a_resent_prompt_of_any_length_hits_all_but_its_last_token)
{
    open_default(2000);
    for (uint32_t count = 1; count <= 3 * BLOCK + 1; count++) {
        int32_t ids[3 * BLOCK + 1];
        world_count_up(ids, count, (int32_t)count * 1000);
        ck_assert_uint_eq(world_request(&world, 0, ids, count), 0);
        for (uint32_t again = 0; again < 3; again++)
            ck_assert_uint_eq(world_request(&world, 0, ids, count), count - 1);
    }
    ck_assert_uint_eq(cache_stats(world.cache).evicted_blocks, 0);
    world_close(&world);
}
END_TEST

START_TEST(prefixes_of_one_prompt_hit_token_by_token)
{
    open_default(2000);
    int32_t ids[200];
    world_count_up(ids, 200, 0);
    world_request(&world, 0, ids, 200);
    for (uint32_t count = 1; count <= 200; count++)
        ck_assert_uint_eq(world_request(&world, 0, ids, count), count - 1);
    for (uint32_t at = 0; at < 200; at++) { /* one id edited */
        ids[at] = -1;
        ck_assert_uint_eq(world_request(&world, 0, ids, 200), at);
        ids[at] = (int32_t)at;
    }
    world_close(&world);
}
END_TEST

START_TEST(no_ids_are_no_hit)
{
    open_default(10);
    struct cache_lookup found = cache_peek(world.cache, world_root(0), NULL, 0);
    ck_assert_uint_eq(found.hit, 0);
    ck_assert_uint_eq(found.pending, 0);
    int32_t id = 1;
    struct sequence *sequence = world_acquire(&world, 0, &id, 0);
    ck_assert_ptr_nonnull(sequence);
    ck_assert(world_extend(&world, sequence, &id, 0));
    world_commit(&world, sequence, 0);
    world_close(&world);
}
END_TEST

START_TEST(namespaces_never_share)
{
    open_default(100);
    int32_t ids[100];
    world_count_up(ids, 100, 0);
    for (uint64_t name = 0; name < 5; name++)
        ck_assert_uint_eq(world_request(&world, name, ids, 100), 0);
    for (uint64_t name = 0; name < 5; name++)
        ck_assert_uint_eq(world_request(&world, name, ids, 100), 99);
    world_close(&world);
}
END_TEST

START_TEST(namespaces_never_share_even_where_all_keys_collide)
{
    struct world_args args = {.block_tokens = 4, .pages = 200, .key_bits = 1, .shorter_hits_allowed = true};
    world_open(&world, &args);
    int32_t ids[42];
    world_count_up(ids, 42, 0);
    for (uint64_t name = 0; name < 10; name++)
        ck_assert_uint_eq(world_request(&world, name, ids, 42), 0);
    for (uint64_t name = 0; name < 10; name++)
        ck_assert_uint_eq(world_request(&world, name, ids, 42), 41);
    world_close(&world);
}
END_TEST

START_TEST(a_disabled_cache_finds_nothing_and_keeps_nothing)
{
    struct world_args args = {.block_tokens = BLOCK, .pages = 20, .disabled = true};
    world_open(&world, &args);
    int32_t ids[10 * BLOCK];
    world_count_up(ids, 10 * BLOCK, 0);
    for (uint32_t i = 0; i < 10; i++) {
        struct sequence *sequence = world_start(&world, 0, ids, 300);
        ck_assert_uint_eq(sequence->hit, 0);
        struct cache_lookup found = world_peek(&world, 0, ids, 300);
        ck_assert_uint_eq(found.hit + found.pending, 0);
        struct sequence *beside = world_acquire(&world, 0, ids, 300);
        ck_assert(world_extend(&world, beside, ids, 10 * BLOCK));
        world_commit(&world, beside, 77);
        world_release(&world, sequence);
        world_release(&world, beside);
        ck_assert_uint_eq(cache_stats(world.cache).pages_free, 20);
    }
    world_close(&world);
}
END_TEST

START_TEST(five_hundred_requests_return_to_the_baseline)
{
    open_default(64);
    int32_t ids[300];
    world_count_up(ids, 300, 0);
    world_request(&world, 0, ids, 300);
    uint32_t cached = cache_stats(world.cache).pages_cached;
    ck_assert_uint_eq(cached, 10);
    for (uint32_t i = 0; i < 500; i++) {
        ck_assert_uint_eq(world_request(&world, 0, ids, 300), 299);
        struct cache_stats stats = cache_stats(world.cache);
        ck_assert_uint_eq(stats.pages_leased, 0);
        ck_assert_uint_eq(stats.pages_cached, cached);
    }
    ck_assert_uint_eq(cache_stats(world.cache).evicted_blocks, 0);
    world_close(&world);
}
END_TEST

/* Each turn resends all that was said, the model's own words included. */
START_TEST(a_growing_conversation_computes_only_what_is_new)
{
    open_default(64);
    int32_t ids[800];
    world_count_up(ids, 800, 0);
    uint32_t known = 0, count = 37;
    for (uint32_t turn = 0; turn < 10; turn++) {
        struct sequence *sequence = world_start(&world, 0, ids, count);
        ck_assert_uint_eq(sequence->hit, known);
        for (uint32_t i = 0; i < 23; i++) { /* the last sampled id is never computed */
            ck_assert(world_extend(&world, sequence, ids + count + i, 1));
            world_commit(&world, sequence, 1);
        }
        world_release(&world, sequence);
        known = count + 23;
        count = known + 1 + 17;
    }
    struct cache_stats stats = cache_stats(world.cache);
    ck_assert_uint_eq(stats.copied_tokens, 0); /* the tail nobody holds is taken over */
    ck_assert_uint_eq(stats.pages_cached, (known + BLOCK - 1) / BLOCK);
    world_close(&world);
}
END_TEST

START_TEST(sixteen_requests_wait_for_one_leader)
{
    open_default(100);
    int32_t ids[512];
    world_count_up(ids, 512, 0);
    struct sequence *leader = world_acquire(&world, 0, ids, 512);
    for (uint32_t done = 0; done < 512; done += 128) {
        ck_assert(world_extend(&world, leader, ids + done, 128));
        for (uint32_t i = 0; i < 16; i++) {
            struct cache_lookup found = world_peek(&world, 0, ids, 512);
            ck_assert_uint_eq(found.hit, done);
            ck_assert_uint_eq(found.pending, done + 128 == 512 ? 511 : done + 128);
        }
        world_commit(&world, leader, 128);
    }
    uint32_t computed = 512;
    struct sequence *followers[16];
    for (uint32_t i = 0; i < 16; i++) {
        followers[i] = world_start(&world, 0, ids, 512);
        computed += 512 - followers[i]->hit;
    }
    ck_assert_uint_eq(computed, 512 + 16);
    ck_assert_uint_le(cache_stats(world.cache).pages_leased, 16 + 16);
    for (uint32_t i = 0; i < 16; i++)
        world_release(&world, followers[i]);
    world_close(&world);
}
END_TEST

START_TEST(a_waiter_takes_over_where_a_cancelled_leader_stopped)
{
    for (uint32_t committed = 0; committed <= 300; committed += 25) {
        open_default(100);
        int32_t ids[400];
        world_count_up(ids, 400, 0);
        struct sequence *leader = world_acquire(&world, 0, ids, 400);
        ck_assert(world_extend(&world, leader, ids, 300));
        world_commit(&world, leader, committed);
        ck_assert_uint_eq(world_peek(&world, 0, ids, 400).pending, 300);
        world_compute(&world, leader, 300 - committed); /* rows that nobody may trust */
        world_release(&world, leader);
        struct cache_lookup found = world_peek(&world, 0, ids, 400);
        ck_assert_uint_eq(found.hit, committed);
        ck_assert_uint_eq(found.pending, committed);
        struct sequence *waiter = world_start(&world, 0, ids, 400);
        ck_assert_uint_eq(waiter->hit, committed);
        world_close(&world);
    }
}
END_TEST

START_TEST(what_two_leaders_plan_together_is_pending)
{
    open_default(100);
    int32_t ids[200];
    world_count_up(ids, 200, 0);
    struct sequence *first = world_acquire(&world, 0, ids, 200), *second = world_acquire(&world, 0, ids, 200);
    ck_assert(world_extend(&world, first, ids, 50));
    ck_assert(world_extend(&world, second, ids, 150));
    ck_assert_uint_eq(world_peek(&world, 0, ids, 200).pending, 150);
    world_commit(&world, first, 50);
    ck_assert_uint_eq(world_peek(&world, 0, ids, 200).pending, 150);
    world_release(&world, second);
    ck_assert_uint_eq(world_peek(&world, 0, ids, 200).pending, 50);
    world_close(&world);
}
END_TEST

START_TEST(choices_share_the_partial_tail_of_their_prompt)
{
    open_default(100);
    int32_t ids[50];
    world_count_up(ids, 50, 0);
    struct sequence *choices[8];
    for (uint32_t i = 0; i < 8; i++) {
        choices[i] = world_start(&world, 0, ids, 50);
        ck_assert_uint_eq(choices[i]->hit, i == 0 ? 0 : 49);
    }
    for (uint32_t step = 0; step < 40; step++) {
        for (uint32_t i = 0; i < 8; i++) {
            int32_t id = (int32_t)(1000 * (i + 1) + step);
            ck_assert(world_extend(&world, choices[i], &id, 1));
            world_commit(&world, choices[i], 1);
        }
    }
    ck_assert_uint_eq(cache_stats(world.cache).copied_tokens, 7 * 17);
    for (uint32_t i = 0; i < 8; i++)
        world_release(&world, choices[i]);
    world_close(&world);
}
END_TEST

START_TEST(extend_is_all_or_nothing)
{
    open_default(10);
    int32_t ids[400];
    world_count_up(ids, 400, 0);
    struct sequence *first = world_start(&world, 0, ids, 5 * BLOCK);
    struct sequence *second = world_acquire(&world, 1, ids, 400);
    ck_assert(!world_extend(&world, second, ids, 5 * BLOCK + 1));
    ck_assert(world_extend(&world, second, ids, 5 * BLOCK));
    ck_assert(!world_extend(&world, second, ids, 1));
    ck_assert_uint_eq(cache_pages_available(world.cache), 0);
    world_release(&world, first);
    ck_assert_uint_eq(cache_pages_available(world.cache), 5);
    ck_assert(world_extend(&world, second, ids, 1));
    world_close(&world);
}
END_TEST

START_TEST(no_lease_to_be_had_is_busy)
{
    struct world_args args = {.block_tokens = BLOCK, .pages = 10, .leases = 2};
    world_open(&world, &args);
    int32_t ids[2] = {1, 2};
    struct sequence *first = world_acquire(&world, 0, ids, 2);
    ck_assert_ptr_nonnull(world_acquire(&world, 0, ids, 2));
    ck_assert_ptr_null(world_acquire(&world, 0, ids, 2));
    world_release(&world, first);
    ck_assert_ptr_nonnull(world_acquire(&world, 0, ids, 2));
    world_close(&world);
}
END_TEST

/* The pool holds one such request and nothing else, so its tail cannot be copied: it must be taken, or nobody could ever
 * serve the request again. */
START_TEST(a_request_as_large_as_the_pool_is_served_again_and_again)
{
    for (uint32_t count = 9 * BLOCK + 1; count <= 10 * BLOCK; count++) {
        open_default(10);
        int32_t ids[10 * BLOCK];
        world_count_up(ids, count, 0);
        world_request(&world, 0, ids, count);
        for (uint32_t i = 0; i < 3; i++)
            ck_assert_uint_eq(world_request(&world, 0, ids, count), count - 1);
        ids[count - 3] = -5;
        ck_assert_uint_eq(world_request(&world, 0, ids, count), count - 3);
        ids[0] = -5;
        ck_assert_uint_eq(world_request(&world, 0, ids, count), 0);
        world_close(&world);
    }
}
END_TEST

START_TEST(pages_for_counts_blocks_in_every_group)
{
    struct world_args args = {.block_tokens = BLOCK, .groups = 3, .pages = 100};
    world_open(&world, &args);
    ck_assert_uint_eq(cache_pages_for(world.cache, 0), 0);
    ck_assert_uint_eq(cache_pages_for(world.cache, 1), 3);
    ck_assert_uint_eq(cache_pages_for(world.cache, BLOCK), 3);
    ck_assert_uint_eq(cache_pages_for(world.cache, BLOCK + 1), 6);
    ck_assert_uint_eq(cache_pages_for(world.cache, UINT32_MAX), UINT32_MAX / BLOCK * 3 + 3);
    ck_assert_uint_eq(cache_pages_available(world.cache), 99);
    ck_assert_uint_eq(cache_stats(world.cache).pages_free, 100);
    world_close(&world);
}
END_TEST

static enum status try_open(uint32_t pages, uint32_t page_tokens, struct error *error)
{
    struct kv_layout layout = {.block_tokens = BLOCK, .group_count = 2};
    layout.groups[0].page_tokens = BLOCK;
    layout.groups[1].page_tokens = page_tokens;
    struct cache_args args = {.layout = &layout, .pages = pages, .leases_max = 1, .lease_tokens_max = 100};
    struct cache *cache = NULL;
    enum status status = cache_open(&args, &cache, error);
    ck_assert((status == STATUS_OK) == (cache != NULL));
    cache_close(cache);
    return status;
}

START_TEST(a_layout_or_pool_that_cannot_work_is_refused)
{
    struct error error;
    ck_assert_int_eq(try_open(2, BLOCK, &error), STATUS_OK);
    ck_assert_int_eq(try_open(1, BLOCK, &error), STATUS_INVALID);
    ck_assert_str_eq(error.text, "the KV pool has 1 pages; one block alone needs 2");
    ck_assert_int_eq(try_open(2, 2 * BLOCK, &error), STATUS_UNSUPPORTED);
    ck_assert_str_eq(error.text, "KV group 1 has pages of 64 tokens; the prefix cache needs pages of one block, 32");
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("cache/cache");
    TCase *tc = tcase_create("requests");
    tcase_add_test(tc, a_resent_prompt_of_any_length_hits_all_but_its_last_token);
    tcase_add_test(tc, prefixes_of_one_prompt_hit_token_by_token);
    tcase_add_test(tc, no_ids_are_no_hit);
    tcase_add_test(tc, namespaces_never_share);
    tcase_add_test(tc, namespaces_never_share_even_where_all_keys_collide);
    tcase_add_test(tc, a_disabled_cache_finds_nothing_and_keeps_nothing);
    tcase_add_test(tc, five_hundred_requests_return_to_the_baseline);
    tcase_add_test(tc, a_growing_conversation_computes_only_what_is_new);
    tcase_add_test(tc, sixteen_requests_wait_for_one_leader);
    tcase_add_test(tc, a_waiter_takes_over_where_a_cancelled_leader_stopped);
    tcase_add_test(tc, what_two_leaders_plan_together_is_pending);
    tcase_add_test(tc, choices_share_the_partial_tail_of_their_prompt);
    tcase_add_test(tc, extend_is_all_or_nothing);
    tcase_add_test(tc, no_lease_to_be_had_is_busy);
    tcase_add_test(tc, a_request_as_large_as_the_pool_is_served_again_and_again);
    tcase_add_test(tc, pages_for_counts_blocks_in_every_group);
    tcase_add_test(tc, a_layout_or_pool_that_cannot_work_is_refused);
    suite_add_tcase(s, tc);
    return s;
}
