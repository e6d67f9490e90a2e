/* When to come again, and which refusals are told. */
#include "server/net/pace.h"
#include "server/net/refusal.h"
#include "tests/unit/unit.h"

#define SECOND_NS UINT64_C(1000000000)

/* Requests that ended `step_ns` apart, the last one at 1000 s. */
static struct pace ended(uint64_t step_ns)
{
    struct pace pace = {0};
    for (uint64_t i = 20; i-- > 0;)
        pace_note_end(&pace, 1000 * SECOND_NS - i * step_ns);
    return pace;
}

START_TEST(the_time_to_come_again_is_what_the_queue_takes)
{
    struct pace none = {0}, fast = ended(SECOND_NS / 10), slow = ended(2 * SECOND_NS);
    uint64_t now = 1000 * SECOND_NS;
    ck_assert_uint_eq(pace_retry_after_s(&none, 256, now), 1);
    ck_assert_uint_eq(pace_retry_after_s(&fast, 0, now), 1);
    ck_assert_uint_eq(pace_retry_after_s(&fast, 5, now), 1);
    ck_assert_uint_eq(pace_retry_after_s(&fast, 101, now), 11);
    ck_assert_uint_eq(pace_retry_after_s(&slow, 4, now), 8);
    ck_assert_uint_eq(pace_retry_after_s(&slow, 256, now), 30);
}
END_TEST

START_TEST(a_standstill_makes_it_longer_and_a_rest_not_for_ever)
{
    struct pace pace = ended(SECOND_NS / 10);
    ck_assert_uint_eq(pace_retry_after_s(&pace, 4, 1003 * SECOND_NS), 12);
    pace_note_end(&pace, 9000 * SECOND_NS);
    for (uint64_t i = 1; i <= 20; i++)
        pace_note_end(&pace, 9000 * SECOND_NS + i * SECOND_NS / 10);
    ck_assert_uint_eq(pace_retry_after_s(&pace, 10, 9002 * SECOND_NS), 2);
}
END_TEST

START_TEST(refusals_beyond_some_a_second_are_told_by_number)
{
    struct refusals refusals = {0};
    uint32_t written = 0, left_out;
    for (int i = 0; i < 500; i++) {
        written += refusals_count(&refusals, 7, &left_out);
        ck_assert_uint_eq(left_out, 0);
    }
    ck_assert_uint_eq(written, REFUSALS_PER_S);
    ck_assert(refusals_count(&refusals, 8, &left_out));
    ck_assert_uint_eq(left_out, 500 - REFUSALS_PER_S);
    ck_assert(refusals_count(&refusals, 9, &left_out));
    ck_assert_uint_eq(left_out, 0);
}
END_TEST

Suite *suite(void)
{
    Suite *pace_suite = suite_create("server/net/pace");
    TCase *test_case = tcase_create("pace");
    tcase_add_test(test_case, the_time_to_come_again_is_what_the_queue_takes);
    tcase_add_test(test_case, a_standstill_makes_it_longer_and_a_rest_not_for_ever);
    tcase_add_test(test_case, refusals_beyond_some_a_second_are_told_by_number);
    suite_add_tcase(pace_suite, test_case);
    return pace_suite;
}
