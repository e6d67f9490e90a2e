/* Bodies: how many bytes of them, in what form; and how the server ends. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "tests/unit/server/net/serving.h"
#include "tests/unit/unit.h"

#define HEAD "POST " CHAT " HTTP/1.1\r\nHost: a\r\n"

static void answer_next(struct http_client *client, uint32_t n)
{
    fake_push_start(engine, n);
    fake_push_end(engine, n);
    struct http_reply reply = http_reply(client, false);
    ck_assert_msg(reply.status == 200, "%s", reply.body.data);
    http_reply_free(&reply);
}

START_TEST(bodies_in_flight_have_a_limit_together)
{
    char body[601];
    snprintf(body, sizeof(body), "%-600s", ASK);
    start_with((struct net_args){.body_max = 1000, .body_memory_max = 1000});
    struct http_client first = connect_here(), second = connect_here();
    http_post(&first, CHAT, NULL, body);
    fake_engine_request(engine, 0); /* its bytes count until it is answered */
    for (int i = 0; i < 3; i++) {
        http_post(&second, CHAT, NULL, body);
        struct http_reply reply = http_reply(&second, false);
        ck_assert_uint_ge(strtoul(http_header(&reply, "Retry-After"), NULL, 10), 1);
        assert_error(reply, 503, "overloaded");
    }
    answer_next(&first, 0);
    http_post(&second, CHAT, NULL, body);
    answer_next(&second, 1);
    http_post(&first, CHAT, NULL, body);
    answer_next(&first, 2);
    http_close(&first);
    http_close(&second);
    stop();
}
END_TEST

START_TEST(bytes_of_one_who_goes_are_free_again)
{
    char body[601];
    snprintf(body, sizeof(body), "%-600s", ASK);
    start_with((struct net_args){.body_max = 1000, .body_memory_max = 1000});
    for (uint32_t i = 0; i < 5; i++) {
        struct http_client gone = connect_here(), client = connect_here();
        http_send(&gone, HEAD "Content-Length: 900\r\n\r\n");
        http_send(&gone, body);
        shutdown(gone.fd, SHUT_WR);
        http_wait_for_end(&gone);
        http_close(&gone);
        http_post(&client, CHAT, NULL, body);
        answer_next(&client, i);
        http_close(&client);
    }
    stop();
}
END_TEST

START_TEST(bodies_in_other_forms_are_a_415)
{
    static const char *const others[] = {
        "Content-Encoding: gzip\r\n",
        "Content-Encoding: identity, gzip\r\n",
        "Content-Type: multipart/form-data; boundary=x\r\n",
        "Content-Type: Multipart/Mixed\r\n",
        "Content-Type: application/json; charset=latin1\r\n",
        "Content-Type: application/json;charset=\"utf-16\"\r\n",
        "Content-Type: text/plain; a=b; Charset=utf-80\r\n",
    };
    static const char *const taken[] = {
        "",
        "Content-Encoding: identity\r\n",
        "Content-Type: application/json\r\n",
        "Content-Type: application/json; charset=utf-8\r\n",
        "Content-Type: application/json;charset=\"UTF-8\"\r\n",
        "Content-Type: text/plain; charset=utf8; x=y\r\n",
        "Content-Type: application/x-www-form-urlencoded\r\n",
        "Content-Type: nonsense;;; charset\r\n",
        "Content-Type:\r\n",
    };
    start();
    struct http_client client = connect_here();
    for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++) {
        http_post(&client, CHAT, others[i], ASK);
        assert_error(http_reply(&client, false), 415, "unsupported_media_type");
    }
    for (uint32_t i = 0; i < sizeof(taken) / sizeof(*taken); i++) {
        http_post(&client, CHAT, taken[i], ASK);
        answer_next(&client, i);
    }
    http_close(&client);
    stop();
}
END_TEST

START_TEST(a_body_that_nobody_wants_does_no_harm)
{
    char body[901];
    snprintf(body, sizeof(body), "%900s", "x");
    start_with((struct net_args){.body_max = 1000, .body_memory_max = 1000});
    struct http_client client = connect_here();
    static const char *const methods[] = {"GET", "HEAD", "OPTIONS"};
    for (int i = 0; i < 9; i++) {
        struct buffer text = {0};
        buffer_printf(&text,
                      "%s /version HTTP/1.1\r\nHost: a\r\nContent-Encoding: gzip\r\nContent-Length: 900\r\n\r\n%s",
                      methods[i % 3], body);
        http_send(&client, text.data);
        struct http_reply reply = http_reply(&client, i % 3 > 0);
        ck_assert_uint_eq(reply.status, i % 3 == 2 ? 204 : 200);
        http_reply_free(&reply);
        buffer_free(&text);
    }
    http_close(&client);
    stop();
}
END_TEST

START_TEST(a_length_beyond_reading_is_refused_at_once)
{
    static const struct {
        const char *request;
        uint32_t status;
        const char *code;
    } cases[] = {
        {"POST " CHAT " HTTP/1.1\r\nContent-Length: 5000", 413, "request_too_large"},
        {"POST " CHAT " HTTP/1.1\r\nContent-Length: 9223372036854775808", 413, "request_too_large"},
        {"POST " CHAT " HTTP/1.1\r\nContent-Length: 18446744073709551615", 413, "request_too_large"},
        {"GET /version HTTP/1.1\r\nContent-Length: 99999999999", 413, "request_too_large"},
        {"POST /nothing HTTP/1.1\r\nContent-Length: 99999999999", 404, "not_found"},
    };
    start_with((struct net_args){.body_max = 1000, .body_memory_max = 1000});
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct http_client client = connect_here();
        http_send(&client, cases[i].request);
        http_send(&client, "\r\nHost: a\r\n\r\n");
        struct http_reply reply = http_reply(&client, false);
        ck_assert_str_eq(http_header(&reply, "Connection"), "close");
        assert_error(reply, cases[i].status, cases[i].code);
        http_wait_for_end(&client);
        http_close(&client);
    }
    stop();
}
END_TEST

START_TEST(head_has_the_headers_of_get)
{
    static const char *const paths[] = {
        "/",        "/health",         "/ping",    "/metrics", "/v1/models", "/v1/models/none",
        "/version", "/tokenizer_info", "/nothing", CHAT};
    start();
    struct http_client client = connect_here();
    for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++) {
        char request[128], type[64];
        snprintf(request, sizeof(request), "GET %s HTTP/1.1\r\nHost: a\r\n\r\n", paths[i]);
        http_send(&client, request);
        struct http_reply get = http_reply(&client, false);
        snprintf(request, sizeof(request), "HEAD %s HTTP/1.1\r\nHost: a\r\n\r\n", paths[i]);
        http_send(&client, request);
        struct http_reply head = http_reply(&client, true);
        ck_assert_msg(get.status == head.status, "%s: %u and %u", paths[i], get.status, head.status);
        snprintf(type, sizeof(type), "%s", http_header(&get, "Content-Type"));
        ck_assert_str_eq(http_header(&head, "Content-Type"), type);
        ck_assert_uint_gt(strtoul(http_header(&head, "Content-Length"), NULL, 10), 0);
        ck_assert_uint_eq(strlen(http_header(&head, "request-id")), 24);
        http_reply_free(&get);
        http_reply_free(&head);
    }
    http_close(&client);
    stop();
}
END_TEST

/* ---- the end ---- */

START_TEST(a_drain_lets_finish_what_was_begun_and_begins_nothing)
{
    start();
    struct http_client whole = connect_here(), stream = connect_here(), half = connect_here(), idle = connect_here();
    http_post(&whole, CHAT, NULL, ASK);
    fake_engine_request(engine, 0);
    http_post(&stream, CHAT, NULL, ASK_STREAM);
    fake_push_start(engine, 1);
    ck_assert(http_wait_for(&stream, "role"));
    http_send(&half, HEAD "Content-Length: 57\r\nExpect: 100-continue\r\n\r\n");
    ck_assert(http_wait_for(&half, "100 Continue\r\n\r\n"));
    ck_assert_uint_eq(net_serving(net), 3);
    net_drain(net);
    http_wait_for_end(&idle);
    struct http_reply reply = ask(HEAD "Content-Length: 0\r\n\r\n");
    ck_assert_str_eq(http_header(&reply, "Connection"), "close");
    ck_assert_uint_ge(strtoul(http_header(&reply, "Retry-After"), NULL, 10), 1);
    assert_error(reply, 503, "draining");
    assert_error(ask("GET /health HTTP/1.1\r\nHost: a\r\n\r\n"), 503, "draining");
    assert_error(ask("GET /v1/models HTTP/1.1\r\nHost: a\r\n\r\n"), 503, "draining");
    reply = ask("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n");
    ck_assert_uint_eq(reply.status, 200);
    http_reply_free(&reply);
    fake_push_end(engine, 1);
    ck_assert(http_wait_for(&stream, "[DONE]"));
    http_wait_for_end(&stream);
    fake_push_start(engine, 0);
    fake_push_text(engine, 0, "all of it");
    fake_push_end(engine, 0);
    reply = http_reply(&whole, false);
    ck_assert_str_eq(http_header(&reply, "Connection"), "close");
    ck_assert_ptr_nonnull(strstr(reply.body.data, "all of it"));
    http_reply_free(&reply);
    http_wait_for_end(&whole);
    ck_assert_uint_eq(net_serving(net), 1);
    http_close(&half);
    stop();
    http_close(&whole);
    http_close(&stream);
    http_close(&idle);
}
END_TEST

Suite *suite(void)
{
    Suite *body_suite = suite_create("server/net/body");
    TCase *test_case = tcase_create("body");
    tcase_add_test(test_case, bodies_in_flight_have_a_limit_together);
    tcase_add_test(test_case, bytes_of_one_who_goes_are_free_again);
    tcase_add_test(test_case, bodies_in_other_forms_are_a_415);
    tcase_add_test(test_case, a_body_that_nobody_wants_does_no_harm);
    tcase_add_test(test_case, a_length_beyond_reading_is_refused_at_once);
    tcase_add_test(test_case, head_has_the_headers_of_get);
    tcase_add_test(test_case, a_drain_lets_finish_what_was_begun_and_begins_nothing);
    suite_add_tcase(body_suite, test_case);
    return body_suite;
}
