/* Clients that go, at every stage of their request, and clients that do not read: the engine's work for them ends. */
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "tests/unit/server/net/serving.h"
#include "tests/unit/unit.h"

#define HANG_UP_MS 200.0

/* Stages a request can be in when its client goes. */
enum stage { STAGE_QUEUED, STAGE_ACCEPTED, STAGE_STARTED, STAGE_TEXT, STAGES };

START_TEST(a_client_that_goes_ends_its_request)
{
    bool stream = _i & 1, reset = _i & 2;
    enum stage stage = (enum stage)(_i >> 2);
    start();
    struct http_client client = connect_here();
    http_post(&client, CHAT, NULL, stream ? ASK_STREAM : ASK);
    fake_engine_request(engine, 0);
    if (stage >= STAGE_ACCEPTED)
        fake_push(engine, 0, &(struct api_event){.type = API_EVENT_ACCEPTED});
    if (stage >= STAGE_STARTED)
        fake_push(engine, 0, &(struct api_event){.type = API_EVENT_STARTED});
    if (stage >= STAGE_TEXT)
        fake_push_text(engine, 0, "word");
    if (stream && stage >= STAGE_ACCEPTED)
        ck_assert(http_wait_for(&client, stage == STAGE_TEXT ? "word" : stage == STAGE_STARTED ? "role" : "200"));
    ck_assert(!fake_engine_is_released(engine, 0));
    if (reset)
        http_reset(&client);
    else
        http_close(&client);
    double ms = fake_engine_wait_release(engine, 0);
    ck_assert_msg(ms < HANG_UP_MS, "it took %.1f ms", ms);
    ck_assert(fake_engine_was_cancelled(engine, 0));
    stop();
}
END_TEST

static bool was_reset(const struct http_client *client)
{
    struct pollfd poll_fd = {.fd = client->fd};
    return poll(&poll_fd, 1, 0) > 0 && (poll_fd.revents & POLLERR) != 0;
}

START_TEST(a_half_closed_connection_counts_as_gone)
{
    start();
    struct http_client client = connect_here();
    http_post(&client, CHAT, NULL, ASK);
    fake_engine_request(engine, 0);
    shutdown(client.fd, SHUT_WR);
    ck_assert(fake_engine_wait_release(engine, 0) < HANG_UP_MS);
    http_close(&client);
    stop();
}
END_TEST

START_TEST(a_client_that_goes_while_it_does_not_read_ends_its_request)
{
    start();
    struct http_client client = connect_here();
    http_post(&client, CHAT, NULL, ASK_STREAM);
    fake_push_start(engine, 0);
    block_the_stream();
    http_close(&client);
    ck_assert(fake_engine_wait_release(engine, 0) < HANG_UP_MS);
    ck_assert(!fake_engine_was_dropped(engine, 0));
    stop();
}
END_TEST

START_TEST(a_client_that_does_not_read_is_dropped)
{
    start_with((struct net_args){.stall_timeout_ms = 1000});
    struct http_client client = connect_here();
    http_post(&client, CHAT, NULL, ASK_STREAM);
    fake_push_start(engine, 0);
    block_the_stream();
    fake_engine_wait_release(engine, 0);
    ck_assert(fake_engine_was_dropped(engine, 0));
    http_close(&client);
    stop();
}
END_TEST

/* A byte now and then shows that it is there, not that it keeps up. */
START_TEST(a_client_that_reads_byte_by_byte_is_dropped)
{
    start_with((struct net_args){.stall_timeout_ms = 300});
    struct http_client client = connect_here();
    http_post(&client, CHAT, NULL, ASK_STREAM);
    fake_push_start(engine, 0);
    block_the_stream();
    char byte;
    for (int i = 0; i < 2000 && !was_reset(&client) && recv(client.fd, &byte, 1, 0) == 1; i++)
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL); /* its pace: not to wait for anything */
    ck_assert(was_reset(&client));
    fake_engine_wait_release(engine, 0);
    http_close(&client);
    stop();
}
END_TEST

/* Its place is another's again, long before the time that a slow client has. */
START_TEST(a_client_that_goes_before_its_request_is_whole_leaves_no_place_taken)
{
    static const char *const parts[] = {
        "",
        "POST " CHAT " HTTP/1.1\r\nHost:",
        "POST " CHAT " HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n",
        "POST " CHAT " HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{",
        "GET /health HTTP/1.1\r\nHost: a\r\n\r\nGET /hea",
    };
    struct http_client clients[sizeof(parts) / sizeof(*parts)];
    start();
    for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++) {
        clients[i] = connect_here();
        http_send(&clients[i], parts[i]);
        shutdown(clients[i].fd, SHUT_WR); /* as of a close, but the server's own can be seen */
    }
    for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++) {
        http_wait_for_end(&clients[i]);
        http_close(&clients[i]);
    }
    stop();
}
END_TEST

START_TEST(a_half_closed_connection_still_gets_what_is_answered_at_once)
{
    start();
    for (int i = 0; i < 50; i++) {
        struct http_client client = connect_here();
        http_send(&client, "GET /health HTTP/1.1\r\nHost: a\r\n\r\n");
        shutdown(client.fd, SHUT_WR);
        struct http_reply reply = http_reply(&client, false);
        ck_assert_uint_eq(reply.status, 200);
        http_reply_free(&reply);
        http_close(&client);
    }
    stop();
}
END_TEST

START_TEST(a_hang_up_touches_no_other_request_of_the_same_place)
{
    start();
    for (uint32_t i = 0; i < 50; i++) {
        struct http_client client = connect_here();
        http_post(&client, CHAT, NULL, i % 2 ? ASK : ASK_STREAM);
        fake_engine_request(engine, i);
        if (i % 5 == 4) {
            fake_push_start(engine, i);
            fake_push_end(engine, i);
            struct http_reply reply = http_reply(&client, false);
            ck_assert_uint_eq(reply.status, 200);
            http_reply_free(&reply);
        }
        if (i % 3 == 0)
            http_reset(&client);
        else
            http_close(&client);
        fake_engine_wait_release(engine, i);
        ck_assert_int_eq(fake_engine_was_cancelled(engine, i), i % 5 != 4);
    }
    stop();
}
END_TEST

#define CROWD 200

/* Streams that all run at once; at each step one, drawn at random, gets text, its end, or loses its client. */
START_TEST(many_streams_are_cut_at_random_and_nothing_stays)
{
    uint64_t random = test_seed() + 11;
    struct http_client clients[CROWD];
    bool open[CROWD];
    uint32_t left = CROWD;
    start();
    for (uint32_t i = 0; i < CROWD; i++) {
        clients[i] = connect_here();
        open[i] = true;
        http_post(&clients[i], CHAT, NULL, i % 4 ? ASK_STREAM : ASK);
        fake_engine_request(engine, i);
    }
    while (left > 0) {
        uint32_t i = (uint32_t)test_random_below(&random, CROWD), what = (uint32_t)test_random_below(&random, 12);
        if (!open[i])
            continue;
        if (what > 1) {
            fake_push_text(engine, i, "some text");
            continue;
        }
        open[i] = false;
        left--;
        if (what == 0) {
            fake_push_end(engine, i);
            struct http_reply reply = http_reply(&clients[i], false);
            ck_assert_ptr_nonnull(strstr(reply.body.data, i % 4 ? "[DONE]" : "\"finish_reason\":\"stop\""));
            http_reply_free(&reply);
            http_close(&clients[i]);
        } else if (test_random_below(&random, 2)) {
            http_reset(&clients[i]);
        } else {
            http_close(&clients[i]);
        }
    }
    for (uint32_t i = 0; i < CROWD; i++)
        fake_engine_wait_release(engine, i);
    stop();
}
END_TEST

Suite *suite(void)
{
    Suite *hang_up_suite = suite_create("server/net/hang_up");
    TCase *test_case = tcase_create("hang_up");
    tcase_add_loop_test(test_case, a_client_that_goes_ends_its_request, 0, STAGES * 4);
    tcase_add_test(test_case, a_half_closed_connection_counts_as_gone);
    tcase_add_test(test_case, a_client_that_goes_while_it_does_not_read_ends_its_request);
    tcase_add_test(test_case, a_client_that_does_not_read_is_dropped);
    tcase_add_test(test_case, a_client_that_reads_byte_by_byte_is_dropped);
    tcase_add_test(test_case, a_client_that_goes_before_its_request_is_whole_leaves_no_place_taken);
    tcase_add_test(test_case, a_half_closed_connection_still_gets_what_is_answered_at_once);
    tcase_add_test(test_case, a_hang_up_touches_no_other_request_of_the_same_place);
    tcase_add_test(test_case, many_streams_are_cut_at_random_and_nothing_stays);
    suite_add_tcase(hang_up_suite, test_case);
    return hang_up_suite;
}
