/* Who is taken for stuck by GET /health. */
#include "server/net/net_private.h"
#include "tests/unit/unit.h"

#define SECOND_NS UINT64_C(1000000000)

static bool look(struct health *health, uint32_t running, uint32_t waiting, uint64_t steps, uint64_t at_s)
{
    struct engine_status status = {.running = running, .waiting = waiting, .steps = steps};
    return health_is_stuck(health, &status, (1000 + at_s) * SECOND_NS);
}

START_TEST(an_engine_that_works_and_does_not_move_for_a_minute_is_stuck)
{
    struct health health = {0};
    ck_assert(!look(&health, 1, 0, 7, 0));
    ck_assert(!look(&health, 1, 0, 7, 60));
    ck_assert(look(&health, 1, 0, 7, 61));
    ck_assert(look(&health, 1, 0, 7, 62));
    ck_assert(!look(&health, 1, 0, 8, 63));
    ck_assert(!look(&health, 1, 0, 8, 123));
    ck_assert(look(&health, 1, 0, 8, 124));
}
END_TEST

START_TEST(requests_that_nobody_takes_up_show_it_too)
{
    struct health health = {0};
    ck_assert(!look(&health, 0, 3, 7, 0));
    ck_assert(look(&health, 0, 3, 7, 61));
    ck_assert(!look(&health, 0, 0, 7, 62));
}
END_TEST

START_TEST(an_engine_without_work_is_never_stuck)
{
    struct health health = {0};
    ck_assert(!look(&health, 0, 0, 7, 0));
    ck_assert(!look(&health, 0, 0, 7, 10000));
}
END_TEST

START_TEST(work_that_began_long_after_the_last_look_is_not_stuck)
{
    struct health health = {0};
    ck_assert(!look(&health, 0, 0, 7, 0));
    ck_assert(!look(&health, 1, 0, 7, 10000));
    ck_assert(!look(&health, 1, 0, 7, 10060));
    ck_assert(look(&health, 1, 0, 7, 10061));
}
END_TEST

Suite *suite(void)
{
    Suite *health = suite_create("net/health");
    TCase *test_case = tcase_create("stuck");
    tcase_add_test(test_case, an_engine_that_works_and_does_not_move_for_a_minute_is_stuck);
    tcase_add_test(test_case, requests_that_nobody_takes_up_show_it_too);
    tcase_add_test(test_case, an_engine_without_work_is_never_stuck);
    tcase_add_test(test_case, work_that_began_long_after_the_last_look_is_not_stuck);
    suite_add_tcase(health, test_case);
    return health;
}
