/* The worker pool: every worker runs once a run, runs follow each other in order, an idle pool takes no time. */
#include "kernels/cpu/pool.h"

#include <stdatomic.h>
#include <sys/resource.h>
#include <time.h>

#include "kernels/base/thread.h"
#include "tests/unit/unit.h"

struct counts {
    uint32_t runs;                   /* plain: the pool orders the accesses, which the thread sanitizer checks */
    uint32_t seen[POOL_WORKERS_MAX]; /* of each worker: the last run it saw */
    uint32_t times[POOL_WORKERS_MAX];
};

static struct pool *open_pool(uint32_t workers)
{
    struct pool *pool;
    struct error error;
    ck_assert_msg(pool_open(workers, &pool, &error) == STATUS_OK, "%s", error.text);
    ck_assert_uint_eq(pool_workers(pool), workers);
    return pool;
}

static void count(void *context, uint32_t worker)
{
    struct counts *counts = context;
    counts->seen[worker] = counts->runs;
    counts->times[worker]++;
}

START_TEST(every_worker_runs_once_a_run)
{
    for (uint32_t workers = 1; workers <= 9; workers += 2) {
        static struct counts counts;
        counts = (struct counts){0};
        struct pool *pool = open_pool(workers);
        for (counts.runs = 1; counts.runs <= 2000; counts.runs++) {
            pool_run(pool, count, &counts);
            for (uint32_t w = 0; w < workers; w++) {
                ck_assert_uint_eq(counts.seen[w], counts.runs);
                ck_assert_uint_eq(counts.times[w], counts.runs);
            }
        }
        pool_close(pool);
    }
}
END_TEST

static double process_seconds(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
}

START_TEST(workers_sleep_when_nothing_comes_and_wake_again)
{
    static struct counts counts;
    counts = (struct counts){.runs = 1};
    struct pool *pool = open_pool(3);
    for (int round = 0; round < 5; round++) {
        pool_run(pool, count, &counts);
        double before = process_seconds();
        nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL);
        double used = process_seconds() - before;
        ck_assert_msg(used < 0.02, "an idle pool took %.3f s of 0.2 s", used);
    }
    ck_assert_uint_eq(counts.times[2], 5);
    pool_close(pool);
}
END_TEST

START_TEST(a_pool_closes_right_after_it_opened)
{
    for (int i = 0; i < 200; i++)
        pool_close(open_pool(4));
    pool_close(NULL);
}
END_TEST

START_TEST(shares_cover_all_items_and_differ_by_at_most_one)
{
    for (uint32_t workers = 1; workers <= 7; workers++)
        for (uint32_t items = 0; items < 40; items++) {
            ck_assert_uint_eq(pool_share(items, 0, workers), 0);
            ck_assert_uint_eq(pool_share(items, workers, workers), items);
            for (uint32_t w = 0; w < workers; w++) {
                uint32_t size = pool_share(items, w + 1, workers) - pool_share(items, w, workers);
                ck_assert(size == items / workers || size == items / workers + 1);
            }
        }
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("pool");
    TCase *t = tcase_create("pool");
    tcase_add_test(t, every_worker_runs_once_a_run);
    tcase_add_test(t, workers_sleep_when_nothing_comes_and_wake_again);
    tcase_add_test(t, a_pool_closes_right_after_it_opened);
    tcase_add_test(t, shares_cover_all_items_and_differ_by_at_most_one);
    suite_add_tcase(s, t);
    return s;
}
