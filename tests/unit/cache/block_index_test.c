#include "cache/block_index.h"

#include <string.h>

#include "tests/unit/unit.h"

#define BLOCK_TOKENS 4

struct fixture {
    struct block_pool pool;
    struct block_index index;
};

static void open_fixture(struct fixture *f, uint32_t key_bits)
{
    struct error error;
    struct block_pool_args args = {.block_tokens = BLOCK_TOKENS, .group_count = 1, .pages = 200};
    ck_assert_int_eq(block_pool_open(&f->pool, &args, &error), STATUS_OK);
    ck_assert(block_index_open(&f->index, &f->pool, key_bits));
}

static void close_fixture(struct fixture *f)
{
    block_index_close(&f->index);
    block_pool_close(&f->pool);
}

static const struct block_key root = {.low = 11, .high = 12};

/* A full block of ids first, first+1, ... after the root. */
static uint32_t add_block(struct fixture *f, struct block_key previous, int32_t first, int32_t last, uint32_t fill)
{
    uint32_t node = block_pool_take(&f->pool);
    int32_t ids[BLOCK_TOKENS] = {first, 1, 2, last};
    memcpy(block_pool_ids(&f->pool, node), ids, sizeof(ids));
    f->pool.nodes[node].previous = previous;
    f->pool.nodes[node].planned = BLOCK_TOKENS;
    f->pool.nodes[node].fill = fill;
    block_index_add(&f->index, node);
    block_index_name(&f->index, node);
    return node;
}

static struct block_probe probe_for(const struct fixture *f, struct block_key previous, const int32_t *ids)
{
    return (struct block_probe){
        .previous = previous,
        .key = block_index_key(&f->index, previous, ids),
        .parent = NODE_NONE,
        .ids = ids,
    };
}

START_TEST(planned_and_committed_blocks_are_told_apart)
{
    struct fixture f;
    open_fixture(&f, 0);
    int32_t ids[BLOCK_TOKENS] = {9, 1, 2, 3};
    struct block_probe probe = probe_for(&f, root, ids);
    uint64_t collisions = 0;
    ck_assert_uint_eq(block_index_committed(&f.index, &probe, &collisions), NODE_NONE);
    uint32_t planned = add_block(&f, root, 9, 3, 2);
    ck_assert_uint_eq(block_index_committed(&f.index, &probe, &collisions), NODE_NONE);
    ck_assert_uint_eq(block_index_planned(&f.index, &probe), planned);
    uint32_t committed = add_block(&f, root, 9, 3, BLOCK_TOKENS);
    ck_assert_uint_eq(block_index_committed(&f.index, &probe, &collisions), committed);
    ck_assert_uint_eq(block_index_planned(&f.index, &probe), planned);
    block_index_remove(&f.index, planned);
    ck_assert_uint_eq(block_index_planned(&f.index, &probe), NODE_NONE);
    ck_assert_uint_eq(collisions, 0);
    close_fixture(&f);
}
END_TEST

/* One bit of key: nearly everything collides, and nothing is confused. */
START_TEST(a_collision_is_a_miss_and_is_counted)
{
    struct fixture f;
    open_fixture(&f, 1);
    uint32_t nodes[100];
    for (int32_t i = 0; i < 100; i++)
        nodes[i] = add_block(&f, root, i % 10, i / 10, BLOCK_TOKENS);
    uint64_t collisions = 0;
    for (int32_t i = 0; i < 100; i++) {
        int32_t ids[BLOCK_TOKENS] = {i % 10, 1, 2, i / 10};
        struct block_probe probe = probe_for(&f, root, ids);
        ck_assert_uint_eq(block_index_committed(&f.index, &probe, &collisions), nodes[i]);
    }
    ck_assert_uint_gt(collisions, 1000);
    int32_t ids[BLOCK_TOKENS] = {0, 1, 2, 0};
    struct block_probe probe = probe_for(&f, root, ids);
    for (struct block_key other = root; other.low < root.low + 64; other.low++) {
        probe.previous = other;
        ck_assert((block_index_committed(&f.index, &probe, &collisions) != NODE_NONE) == (other.low == root.low));
    }
    probe.previous = root;
    probe.parent = 7;
    ck_assert_uint_eq(block_index_committed(&f.index, &probe, &collisions), NODE_NONE);
    close_fixture(&f);
}
END_TEST

static void expect_siblings(const struct fixture *f, int32_t first, const uint32_t *nodes, uint32_t count)
{
    uint32_t node = block_index_first(&f->index, root, first);
    for (uint32_t i = 0; i < count; i++) {
        ck_assert_uint_eq(node, nodes[i]);
        node = f->pool.nodes[node].sibling_older;
    }
    ck_assert_uint_eq(node, NODE_NONE);
}

START_TEST(siblings_stand_in_the_order_of_their_last_use)
{
    struct fixture f;
    open_fixture(&f, 0);
    uint32_t a = add_block(&f, root, 5, 1, 4), b = add_block(&f, root, 5, 2, 4), c = add_block(&f, root, 5, 3, 4);
    uint32_t other = add_block(&f, root, 6, 1, 4);
    add_block(&f, (struct block_key){.low = 11, .high = 13}, 5, 1, 4);
    expect_siblings(&f, 5, (uint32_t[]){c, b, a}, 3);
    expect_siblings(&f, 6, (uint32_t[]){other}, 1);
    block_index_touch(&f.index, b);
    expect_siblings(&f, 5, (uint32_t[]){b, c, a}, 3);
    block_index_touch(&f.index, b);
    expect_siblings(&f, 5, (uint32_t[]){b, c, a}, 3);
    block_index_touch(&f.index, a);
    expect_siblings(&f, 5, (uint32_t[]){a, b, c}, 3);
    block_index_remove(&f.index, a);
    expect_siblings(&f, 5, (uint32_t[]){b, c}, 2);
    block_index_remove(&f.index, c);
    expect_siblings(&f, 5, (uint32_t[]){b}, 1);
    block_index_remove(&f.index, b);
    expect_siblings(&f, 5, NULL, 0);
    expect_siblings(&f, 6, (uint32_t[]){other}, 1);
    close_fixture(&f);
}
END_TEST

START_TEST(keys_keep_as_many_bits_as_asked_for)
{
    static const uint32_t bits[] = {1, 8, 63, 64, 65, 127, 128, 0};
    for (uint32_t i = 0; i < sizeof(bits) / sizeof(*bits); i++) {
        struct fixture f;
        open_fixture(&f, bits[i]);
        struct block_key seen = {0};
        for (int32_t id = 0; id < 100; id++) {
            int32_t ids[BLOCK_TOKENS] = {id, id, id, id};
            struct block_key key = block_index_key(&f.index, root, ids);
            seen.low |= key.low;
            seen.high |= key.high;
        }
        uint32_t kept = (uint32_t)(__builtin_popcountll(seen.low) + __builtin_popcountll(seen.high));
        ck_assert_uint_eq(kept, bits[i] == 0 ? 128 : bits[i]);
        close_fixture(&f);
    }
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("cache/block_index");
    TCase *tc = tcase_create("index");
    tcase_add_test(tc, planned_and_committed_blocks_are_told_apart);
    tcase_add_test(tc, a_collision_is_a_miss_and_is_counted);
    tcase_add_test(tc, siblings_stand_in_the_order_of_their_last_use);
    tcase_add_test(tc, keys_keep_as_many_bits_as_asked_for);
    suite_add_tcase(s, tc);
    return s;
}
