/* CHECK ends the process, and only when it must. */
#include "kernels/base/check.h"

#include <signal.h>

#include "tests/unit/unit.h"

START_TEST(a_check_that_holds_does_nothing_and_looks_once)
{
    int looks = 0;
    CHECK(++looks == 1);
    ck_assert_int_eq(looks, 1);
    CHECK_SLOW(++looks == 2);
    ck_assert_int_eq(looks, 2);
}
END_TEST

START_TEST(a_check_that_fails_aborts)
{
    CHECK(_i == 1);
}
END_TEST

START_TEST(a_slow_check_that_fails_aborts_in_a_checked_build)
{
    CHECK_SLOW(_i == 1);
}
END_TEST

Suite *suite(void)
{
    Suite *check = suite_create("check");
    TCase *cases = tcase_create("check");
    tcase_add_test(cases, a_check_that_holds_does_nothing_and_looks_once);
    tcase_add_test_raise_signal(cases, a_check_that_fails_aborts, SIGABRT);
    tcase_add_test_raise_signal(cases, a_slow_check_that_fails_aborts_in_a_checked_build, SIGABRT);
    suite_add_tcase(check, cases);
    return check;
}
