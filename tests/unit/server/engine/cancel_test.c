/* Requests that end before their time: cancelled, given up, or because the engine closes. Nobody else notices. */
#include "server/engine/engine.h"

#include <sched.h>
#include <stdio.h>

#include "kernels/base/thread.h"
#include "tests/unit/server/engine/bed.h"
#include "tests/unit/unit.h"

static struct bed bed, reference;

static void teardown(void)
{
    bed_end(&bed);
    bed_end(&reference);
}

static struct bed_reply *run(const int32_t *ids, uint32_t count, uint32_t max_tokens)
{
    return bed_run(&bed, bed_call(ids, count, max_tokens));
}

static struct bed_reply *run_alone(const int32_t *ids, uint32_t count, uint32_t max_tokens)
{
    return bed_run(&reference, bed_call(ids, count, max_tokens));
}

struct late_arrival {
    struct bed *bed;
    struct bed_reply *other; /* what runs to its end between the cancel and the arrival */
    struct engine_request *request;
    pthread_mutex_t lock;
    pthread_cond_t known;
    uint32_t wakes;
};

/* Called by the prepare thread for ACCEPTED, before it hands the request over to the engine thread: the request is
 * cancelled, and the engine thread looks at the cancel and finds nothing, since another request passes through. */
static void cancel_before_arrival(void *context)
{
    struct late_arrival *late = context;
    pthread_mutex_lock(&late->lock);
    while (late->request == NULL)
        pthread_cond_wait(&late->known, &late->lock);
    bool first = late->wakes++ == 0;
    pthread_mutex_unlock(&late->lock);
    if (!first)
        return;
    int32_t ids[10];
    engine_request_cancel(late->request);
    bed_prompt(2, ids, 10);
    late->other = bed_run(late->bed, bed_call(ids, 10, 3));
}

START_TEST(a_cancel_between_preparing_and_arriving_is_not_lost)
{
    int32_t ids[10];
    struct error error;
    struct engine_request *request;
    struct api_event event;
    struct late_arrival late = {.bed = &bed, .lock = PTHREAD_MUTEX_INITIALIZER, .known = PTHREAD_COND_INITIALIZER};
    bed_open(&bed, &(struct bed_args){0});
    bed_prompt(1, ids, 10);
    struct engine_submission submission = {
        .call = bed_call(ids, 10, 1500),
        .request_id = "late",
        .wake = cancel_before_arrival,
        .wake_context = &late,
    };
    ck_assert_int_eq(engine_submit(bed.engine, &submission, &request, &error), STATUS_OK);
    pthread_mutex_lock(&late.lock);
    late.request = request;
    pthread_cond_signal(&late.known);
    pthread_mutex_unlock(&late.lock);
    do {
        while (!engine_request_take(request, &event))
            sched_yield();
    } while (event.type != API_EVENT_END && event.type != API_EVENT_ERROR);
    ck_assert_int_eq(event.type, API_EVENT_ERROR);
    ck_assert_int_eq(event.error.status, STATUS_CANCELLED);
    ck_assert_str_eq(event.error.text, "the request was cancelled");
    ck_assert_uint_eq(engine_status(bed.engine).generated_tokens, 3);
    engine_request_release(request);
    bed_release(late.other);
}
END_TEST

START_TEST(one_that_the_stopping_server_ends_is_told_so)
{
    int32_t ids[10];
    bed_open(&bed, &(struct bed_args){0});
    bed_prompt(1, ids, 10);
    struct bed_reply *reply = bed_submit(&bed, bed_call(ids, 10, 1500));
    while (!reply->started)
        bed_next(reply);
    engine_request_stop(reply->request);
    engine_request_cancel(reply->request);
    bed_finish(reply);
    ck_assert_int_eq(reply->error.status, STATUS_CANCELLED);
    ck_assert_str_eq(reply->error.text, "the server is stopping");
    bed_release(reply);
}
END_TEST

START_TEST(cancels_at_any_point_leave_nothing_and_harm_nobody)
{
    uint64_t random = test_seed() + 9, slowest_ns = 0;
    int32_t ids[600];
    bed_open(&bed, &(struct bed_args){.pages = 80, .sequences_max = 4, .prefill_chunk = 32});
    bed_open_reference(&reference);
    for (int round = 0; round < 40; round++) {
        struct bed_reply *replies[6];
        uint32_t counts[6];
        for (uint32_t i = 0; i < 6; i++) {
            counts[i] = 1 + (uint32_t)test_random_below(&random, 500);
            bed_prompt(test_random_below(&random, 3), ids, counts[i]);
            replies[i] = bed_submit(&bed, bed_call(ids, counts[i], 1 + (uint32_t)test_random_below(&random, 80)));
        }
        for (uint32_t i = 0; i < 5; i++) {
            uint64_t events = test_random_below(&random, 3) == 0 ? 0 : test_random_below(&random, 40);
            while (replies[i]->events < events && bed_next(replies[i]))
                ;
            if (i == 4) {
                engine_request_cancel(replies[i]->request);
                bed_finish(replies[i]);
                ck_assert(!replies[i]->failed || replies[i]->error.status == STATUS_CANCELLED);
            }
            bed_release(replies[i]);
        }
        uint64_t start = clock_ns();
        bed_release(replies[5]);
        bed_expect_baseline(&bed);
        uint64_t took = clock_ns() - start;
        slowest_ns = took > slowest_ns ? took : slowest_ns;
    }
    printf("slowest way back to the baseline: %.1f ms\n", (double)slowest_ns / 1e6);
    for (uint32_t which = 0; which < 3; which++) {
        bed_prompt(which, ids, 500);
        struct bed_reply *reply = run(ids, 500, 20), *alone = run_alone(ids, 500, 20);
        bed_expect_equal(reply, 0, alone, 0);
        bed_release(reply);
        bed_release(alone);
    }
}
END_TEST

START_TEST(a_long_step_that_is_ended_early_harms_nobody)
{
    static int32_t ids[1900];
    bed_open(&bed, &(struct bed_args){.prefill_chunk = 8000});
    bed_open_reference(&reference);
    for (uint32_t round = 0; round < 3; round++) {
        struct bed_reply *replies[4];
        for (uint32_t i = 0; i < 4; i++) {
            bed_prompt(4 * round + i, ids, 1900);
            replies[i] = bed_submit(&bed, bed_call(ids, 1900, 20));
        }
        while (!replies[0]->started)
            bed_next(replies[0]);
        for (uint32_t i = 1; i < 4; i++)
            bed_release(replies[i]);
        bed_finish(replies[0]);
        bed_prompt(4 * round, ids, 1900);
        struct bed_reply *alone = run_alone(ids, 1900, 20);
        bed_expect_equal(replies[0], 0, alone, 0);
        bed_release(replies[0]);
        bed_release(alone);
    }
}
END_TEST

START_TEST(five_hundred_requests_return_to_the_baseline)
{
    uint64_t random = test_seed() + 10;
    int32_t ids[100];
    struct bed_reply *replies[50];
    bed_open(&bed, &(struct bed_args){.pages = 64});
    for (int round = 0; round < 10; round++) {
        for (uint32_t i = 0; i < 50; i++) {
            uint32_t count = 1 + (uint32_t)test_random_below(&random, 100);
            bed_prompt(test_random_below(&random, 40), ids, count);
            replies[i] = bed_submit(&bed, bed_call(ids, count, (uint32_t)test_random_below(&random, 12)));
        }
        for (uint32_t i = 0; i < 50; i++) {
            bed_finish(replies[i]);
            ck_assert_msg(!replies[i]->failed, "%s", replies[i]->error.text);
            bed_release(replies[i]);
        }
        bed_expect_baseline(&bed);
    }
    ck_assert_uint_eq(engine_status(bed.engine).requests, 500);
}
END_TEST

START_TEST(a_reader_that_stays_away_is_given_up)
{
    int32_t ids[20];
    bed_open(&bed, &(struct bed_args){0});
    bed_prompt(1, ids, 20);
    struct api_call *call = bed_choices_call(ids, 20, 8);
    call->max_tokens = 1500;
    call->top_logprobs = 20;
    struct bed_reply *reply = bed_submit(&bed, call);
    while (!reply->started)
        bed_next(reply);
    bed_expect_baseline(&bed);
    bed_finish(reply);
    ck_assert(reply->failed);
    ck_assert_int_eq(reply->error.status, STATUS_CANCELLED);
    ck_assert_uint_lt(engine_status(bed.engine).generated_tokens, 8 * 1500);
    bed_release(reply);
}
END_TEST

START_TEST(closing_ends_what_runs_and_what_waits)
{
    int32_t ids[800];
    struct bed_reply *replies[6];
    bed_open(&bed, &(struct bed_args){.sequences_max = 2, .prefill_chunk = 16});
    for (uint32_t i = 0; i < 6; i++) {
        bed_prompt(i, ids, 800);
        replies[i] = bed_submit(&bed, bed_call(ids, 800, 1000));
    }
    while (!replies[0]->started)
        bed_next(replies[0]);
    engine_close(bed.engine);
    bed.engine = NULL;
    for (uint32_t i = 0; i < 6; i++) {
        bed_finish(replies[i]);
        ck_assert(replies[i]->failed);
        ck_assert_str_eq(replies[i]->error.code, "draining");
        bed_release(replies[i]);
    }
}
END_TEST

Suite *suite(void)
{
    Suite *suite = suite_create("server/engine");
    TCase *tests = tcase_create("cancel");
    tcase_add_checked_fixture(tests, NULL, teardown);
    tcase_add_test(tests, a_cancel_between_preparing_and_arriving_is_not_lost);
    tcase_add_test(tests, one_that_the_stopping_server_ends_is_told_so);
    tcase_add_test(tests, cancels_at_any_point_leave_nothing_and_harm_nobody);
    tcase_add_test(tests, a_long_step_that_is_ended_early_harms_nobody);
    tcase_add_test(tests, five_hundred_requests_return_to_the_baseline);
    tcase_add_test(tests, a_reader_that_stays_away_is_given_up);
    tcase_add_test(tests, closing_ends_what_runs_and_what_waits);
    suite_add_tcase(suite, tests);
    return suite;
}
