/* Threads, processors, memory and clocks. */
#include "kernels/base/thread.h"

#include <sched.h>
#include <signal.h>
#include <string.h>

#include "tests/unit/unit.h"

struct seen {
    char name[16];
    bool signals_blocked;
    bool ran;
};

static void look(void *context)
{
    struct seen *seen = context;
    sigset_t mask;
    pthread_getname_np(pthread_self(), seen->name, sizeof(seen->name));
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    seen->signals_blocked = sigismember(&mask, SIGTERM) && sigismember(&mask, SIGINT) && sigismember(&mask, SIGUSR1);
    seen->ran = true;
}

START_TEST(a_thread_has_its_name_and_takes_no_signals)
{
    struct seen seen = {0};
    struct thread thread;
    struct error error;
    ck_assert_int_eq(thread_start("a name too long to keep", look, &seen, &thread, &error), STATUS_OK);
    thread_join(&thread);
    ck_assert(seen.ran);
    ck_assert_str_eq(seen.name, "a name too long");
    ck_assert(seen.signals_blocked);
}
END_TEST

START_TEST(starting_a_thread_leaves_our_own_mask_alone)
{
    static struct seen seen[20];
    struct thread threads[20];
    struct error error;
    sigset_t before, after;
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    for (int i = 0; i < 20; i++)
        ck_assert_int_eq(thread_start("worker", look, &seen[i], &threads[i], &error), STATUS_OK);
    for (int i = 0; i < 20; i++) {
        thread_join(&threads[i]);
        ck_assert(seen[i].ran);
    }
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    for (int number = 1; number < NSIG; number++)
        ck_assert_int_eq(sigismember(&before, number), sigismember(&after, number));
}
END_TEST

START_TEST(the_affinity_mask_limits_the_processors)
{
    cpu_set_t one, all;
    ck_assert_int_eq(sched_getaffinity(0, sizeof(all), &all), 0);
    ck_assert_uint_ge(thread_processors(), 1);
    ck_assert_uint_le(thread_processors(), (uint32_t)CPU_COUNT(&all));
    CPU_ZERO(&one);
    for (int i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; i++) {
        if (CPU_ISSET(i, &all))
            CPU_SET(i, &one);
    }
    ck_assert_int_eq(sched_setaffinity(0, sizeof(one), &one), 0);
    ck_assert_uint_eq(thread_processors(), 1);
}
END_TEST

START_TEST(memory_and_clocks_are_plausible)
{
    ck_assert_uint_gt(thread_memory_available(), (uint64_t)1 << 20);
    uint64_t first = clock_ns(), wall = clock_unix_ms();
    for (int i = 0; i < 1000; i++) {
        uint64_t next = clock_ns();
        ck_assert_uint_ge(next, first);
        first = next;
    }
    ck_assert_uint_gt(wall, UINT64_C(1700000000000));
    ck_assert_uint_lt(wall, UINT64_C(4100000000000));
}
END_TEST

Suite *suite(void)
{
    Suite *thread = suite_create("thread");
    TCase *cases = tcase_create("thread");
    tcase_add_test(cases, a_thread_has_its_name_and_takes_no_signals);
    tcase_add_test(cases, starting_a_thread_leaves_our_own_mask_alone);
    tcase_add_test(cases, the_affinity_mask_limits_the_processors);
    tcase_add_test(cases, memory_and_clocks_are_plausible);
    suite_add_tcase(thread, cases);
    return thread;
}
