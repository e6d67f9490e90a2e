#include "cache/block_pool.h"
#include "cache/policy.h"

#include "tests/unit/unit.h"

static void expect_order(const struct policy *policy, const uint32_t *nodes, uint32_t count)
{
    uint32_t node = policy_lru.first(policy);
    for (uint32_t i = 0; i < count; i++) {
        ck_assert_uint_eq(node, nodes[i]);
        node = policy_lru.next(policy, node);
    }
    ck_assert_uint_eq(node, NODE_NONE);
}

START_TEST(what_was_added_first_goes_first)
{
    struct policy *policy = policy_lru.open(8);
    ck_assert_ptr_nonnull(policy);
    expect_order(policy, NULL, 0);
    policy_lru.add(policy, 5);
    policy_lru.add(policy, 0);
    policy_lru.add(policy, 7);
    expect_order(policy, (uint32_t[]){5, 0, 7}, 3);
    policy_lru.close(policy);
}
END_TEST

START_TEST(a_node_may_leave_from_anywhere_and_come_back_as_the_newest)
{
    struct policy *policy = policy_lru.open(4);
    ck_assert_ptr_nonnull(policy);
    for (uint32_t i = 0; i < 4; i++)
        policy_lru.add(policy, i);
    policy_lru.remove(policy, 1);
    expect_order(policy, (uint32_t[]){0, 2, 3}, 3);
    policy_lru.remove(policy, 0);
    expect_order(policy, (uint32_t[]){2, 3}, 2);
    policy_lru.remove(policy, 3);
    policy_lru.add(policy, 1);
    expect_order(policy, (uint32_t[]){2, 1}, 2);
    policy_lru.remove(policy, 2);
    policy_lru.remove(policy, 1);
    expect_order(policy, NULL, 0);
    policy_lru.add(policy, 3);
    expect_order(policy, (uint32_t[]){3}, 1);
    policy_lru.close(policy);
    policy_lru.close(NULL);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("cache/policy_lru");
    TCase *tc = tcase_create("lru");
    tcase_add_test(tc, what_was_added_first_goes_first);
    tcase_add_test(tc, a_node_may_leave_from_anywhere_and_come_back_as_the_newest);
    suite_add_tcase(s, tc);
    return s;
}
