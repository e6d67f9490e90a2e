#include "cache/block_pool.h"

#include <string.h>

#include "tests/unit/unit.h"

struct freed {
    uint32_t pages[16];
    uint32_t count;
};

static void page_freed(void *context, uint32_t page)
{
    struct freed *freed = context;
    ck_assert_uint_lt(freed->count, 16);
    freed->pages[freed->count++] = page;
}

START_TEST(every_node_has_pages_of_its_own)
{
    struct block_pool pool;
    struct error error;
    struct block_pool_args args = {.block_tokens = 4, .group_count = 3, .pages = 11};
    ck_assert_int_eq(block_pool_open(&pool, &args, &error), STATUS_OK);
    ck_assert_uint_eq(pool.nodes_total, 3);
    bool owned[11] = {false};
    for (uint32_t i = 0; i < 3; i++) {
        uint32_t node = block_pool_take(&pool);
        for (uint32_t g = 0; g < 3; g++) {
            uint32_t page = block_pool_pages(&pool, node)[g];
            ck_assert_uint_lt(page, 11);
            ck_assert(!owned[page]);
            owned[page] = true;
        }
    }
    ck_assert_uint_eq(pool.nodes_free, 0);
    ck_assert_uint_eq(pool.pages_free, 2);
    block_pool_close(&pool);
}
END_TEST

START_TEST(a_node_given_back_comes_again_clean)
{
    struct block_pool pool;
    struct error error;
    struct freed freed = {.count = 0};
    struct block_pool_args args = {
        .block_tokens = 4, .group_count = 2, .pages = 4, .page_freed = page_freed, .page_freed_context = &freed};
    ck_assert_int_eq(block_pool_open(&pool, &args, &error), STATUS_OK);
    uint32_t first = block_pool_take(&pool);
    uint32_t second = block_pool_take(&pool);
    ck_assert_uint_ne(first, second);
    uint32_t pages[2];
    memcpy(pages, block_pool_pages(&pool, first), sizeof(pages));
    pool.nodes[first].fill = pool.nodes[first].planned = 3;
    pool.nodes[first].parent = second;
    block_pool_give(&pool, first);
    ck_assert_uint_eq(freed.count, 2);
    ck_assert_mem_eq(freed.pages, pages, sizeof(pages));
    ck_assert_uint_eq(block_pool_take(&pool), first);
    const uint32_t *again = block_pool_pages(&pool, first);
    ck_assert((again[0] == pages[0] && again[1] == pages[1]) || (again[0] == pages[1] && again[1] == pages[0]));
    ck_assert_uint_eq(pool.nodes[first].fill, 0);
    ck_assert_uint_eq(pool.nodes[first].planned, 0);
    ck_assert_uint_eq(pool.nodes[first].parent, NODE_NONE);
    ck_assert_uint_eq(pool.nodes[first].sibling_older, NODE_NONE);
    block_pool_close(&pool);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("cache/block_pool");
    TCase *tc = tcase_create("pool");
    tcase_add_test(tc, every_node_has_pages_of_its_own);
    tcase_add_test(tc, a_node_given_back_comes_again_clean);
    suite_add_tcase(s, tc);
    return s;
}
