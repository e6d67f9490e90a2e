/* Who is taken for stuck by GET /health, and what it and /metrics say then. */
#include <string.h>

#include "server/net/net_private.h"
#include "tests/unit/server/net/serving.h"
#include "tests/unit/unit.h"

#define SECOND_NS UINT64_C(1000000000)

/* Seconds since the last progress, of a minute. */
static bool stuck_after(double seconds)
{
    struct engine_heartbeat heartbeat = {.progress_ns = 1000 * SECOND_NS, .thread = "engine"};
    return health_is_stuck(&heartbeat, 60000, 1000 * SECOND_NS + (uint64_t)(seconds * 1e9));
}

START_TEST(work_that_does_not_come_further_for_a_minute_is_stuck)
{
    ck_assert(!stuck_after(0));
    ck_assert(!stuck_after(60));
    ck_assert(stuck_after(60.1));
    ck_assert(stuck_after(1e6));
}
END_TEST

START_TEST(an_engine_without_work_is_never_stuck)
{
    struct engine_heartbeat idle = {.thread = "engine"};
    ck_assert(!health_is_stuck(&idle, 60000, UINT64_MAX));
}
END_TEST

/* The thread moved between the two looks at the clock. */
START_TEST(progress_after_now_is_no_stillness)
{
    struct engine_heartbeat heartbeat = {.progress_ns = 1001 * SECOND_NS, .thread = "engine"};
    ck_assert(!health_is_stuck(&heartbeat, 1, 1000 * SECOND_NS));
}
END_TEST

static void expect(const char *path, uint32_t status, const char *text)
{
    struct http_client client = connect_here();
    struct buffer request = {0};
    buffer_printf(&request, "GET %s HTTP/1.1\r\nHost: a\r\n\r\n", path);
    http_send(&client, request.data);
    struct http_reply reply = http_reply(&client, false);
    ck_assert_msg(reply.status == status && strstr(reply.body.data, text) != NULL, "%u %s", reply.status,
                  reply.body.data);
    http_reply_free(&reply);
    buffer_free(&request);
    http_close(&client);
}

START_TEST(a_stuck_engine_is_a_503_with_the_reason_until_it_moves)
{
    start_with((struct net_args){.watchdog_ms = 1000});
    expect("/health", 200, "\"status\":\"ok\"");
    fake_engine_beat(engine, (struct engine_heartbeat){.progress_ns = 1, .thread = "prepare"});
    expect("/health", 503, "stuck: the prepare thread has work and has not come further for ");
    expect("/v1/ping", 503, "\"overloaded\"");
    expect("/metrics", 200, "\nincipit_engine_stuck 1\n");
    fake_engine_beat(engine, (struct engine_heartbeat){.progress_ns = clock_ns() + SECOND_NS, .thread = "prepare"});
    expect("/health", 200, "\"status\":\"ok\"");
    expect("/metrics", 200, "\nincipit_engine_stuck 0\n");
    stop();
}
END_TEST

Suite *suite(void)
{
    Suite *health = suite_create("net/health");
    TCase *test_case = tcase_create("stuck");
    tcase_add_test(test_case, work_that_does_not_come_further_for_a_minute_is_stuck);
    tcase_add_test(test_case, an_engine_without_work_is_never_stuck);
    tcase_add_test(test_case, progress_after_now_is_no_stillness);
    tcase_add_test(test_case, a_stuck_engine_is_a_503_with_the_reason_until_it_moves);
    suite_add_tcase(health, test_case);
    return health;
}
