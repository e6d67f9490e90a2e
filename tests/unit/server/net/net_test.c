/* The HTTP front against a scripted engine: what goes over the wire, and who notices what when. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/server/net/serving.h"
#include "tests/unit/unit.h"

/* ---- replies ---- */

START_TEST(answers_with_a_whole_body)
{
    start();
    struct http_client client = connect_here();
    http_post(&client, CHAT, NULL, ASK);
    fake_push_start(engine, 0);
    fake_push_text(engine, 0, "Hello ");
    fake_push_text(engine, 0, "you");
    fake_push_end(engine, 0);
    struct http_reply reply = http_reply(&client, false);
    ck_assert_uint_eq(reply.status, 200);
    ck_assert_str_eq(http_header(&reply, "x-request-id"), fake_request_id(engine, 0));
    ck_assert_ptr_nonnull(strstr(reply.body.data, "\"content\":\"Hello you\""));
    ck_assert_ptr_nonnull(strstr(reply.body.data, "\"completion_tokens\":3"));
    http_reply_free(&reply);
    http_close(&client);
    stop();
}
END_TEST

START_TEST(sends_each_event_of_a_stream_when_it_comes)
{
    start();
    struct http_client client = connect_here();
    http_post(&client, CHAT, NULL, ASK_STREAM);
    fake_push(engine, 0, &(struct api_event){.type = API_EVENT_ACCEPTED});
    ck_assert(http_wait_for(&client, "text/event-stream"));
    fake_push(engine, 0, &(struct api_event){.type = API_EVENT_STARTED});
    ck_assert(http_wait_for(&client, "\"role\":\"assistant\""));
    for (int i = 0; i < 20; i++) {
        char text[16], frame[40];
        snprintf(text, sizeof(text), "t%d-", i);
        snprintf(frame, sizeof(frame), "{\"content\":\"%s\"}", text);
        fake_push_text(engine, 0, text);
        ck_assert(http_wait_for(&client, frame));
    }
    fake_push_end(engine, 0);
    struct http_reply reply = http_reply(&client, false);
    ck_assert_ptr_nonnull(strstr(reply.body.data, "data: [DONE]\n\n"));
    ck_assert_str_eq(http_header(&reply, "Transfer-Encoding"), "chunked");
    ck_assert_str_eq(http_header(&reply, "Cache-Control"), "no-cache");
    http_reply_free(&reply);
    http_close(&client);
    stop();
}
END_TEST

START_TEST(an_error_before_the_first_event_is_a_status)
{
    static const char *const bodies[] = {ASK, ASK_STREAM};
    start();
    for (uint32_t i = 0; i < 2; i++) {
        struct http_client client = connect_here();
        http_post(&client, CHAT, NULL, bodies[i]);
        fake_push_error(engine, i, STATUS_TOO_LARGE, "context_length_exceeded", "too long");
        assert_error(http_reply(&client, false), 400, "context_length_exceeded");
        http_close(&client);
    }
    stop();
}
END_TEST

START_TEST(an_error_in_a_stream_is_a_frame_before_done)
{
    start();
    struct http_client client = connect_here();
    http_post(&client, CHAT, NULL, ASK_STREAM);
    fake_push_start(engine, 0);
    fake_push_text(engine, 0, "abc");
    fake_push_error(engine, 0, STATUS_INTERNAL, "", "broken");
    struct http_reply reply = http_reply(&client, false);
    ck_assert_uint_eq(reply.status, 200);
    ck_assert_ptr_nonnull(strstr(reply.body.data, "data: {\"error\":{\"message\":\"broken\",\"type\":\"server_error\","
                                                  "\"param\":null,\"code\":\"internal_error\"}}\n\ndata: [DONE]\n\n"));
    http_reply_free(&reply);
    http_close(&client);
    stop();
}
END_TEST

START_TEST(a_refusal_by_the_engine_says_when_to_come_again)
{
    start();
    fake_engine_refuse(engine, STATUS_BUSY, "the queue is full");
    struct http_client client = connect_here();
    http_post(&client, CHAT, NULL, ASK);
    struct http_reply reply = http_reply(&client, false);
    ck_assert_str_eq(http_header(&reply, "Retry-After"), "1");
    assert_error(reply, 429, "queue_full");
    http_close(&client);
    stop();
}
END_TEST

START_TEST(a_connection_serves_one_request_after_the_other)
{
    start();
    struct http_client client = connect_here();
    char id[64] = "";
    for (uint32_t i = 0; i < 6; i++) {
        http_post(&client, CHAT, NULL, i % 2 ? ASK_STREAM : ASK);
        fake_push_start(engine, i);
        fake_push_text(engine, i, "x");
        fake_push_end(engine, i);
        struct http_reply reply = http_reply(&client, false);
        ck_assert_uint_eq(reply.status, 200);
        ck_assert_str_ne(http_header(&reply, "x-request-id"), id);
        snprintf(id, sizeof(id), "%s", http_header(&reply, "x-request-id"));
        http_reply_free(&reply);
    }
    http_close(&client);
    stop();
}
END_TEST

START_TEST(requests_sent_without_waiting_are_answered_in_order)
{
    start();
    struct http_client client = connect_here();
    http_post(&client, CHAT, NULL, ASK_STREAM);
    http_send(&client, "GET /version HTTP/1.1\r\nHost: a\r\n\r\n");
    fake_push_start(engine, 0);
    fake_push_end(engine, 0);
    struct http_reply reply = http_reply(&client, false);
    ck_assert_ptr_nonnull(strstr(reply.body.data, "[DONE]"));
    http_reply_free(&reply);
    reply = http_reply(&client, false);
    ck_assert_ptr_nonnull(strstr(reply.body.data, "\"version\":\"0.1\""));
    http_reply_free(&reply);
    http_close(&client);
    stop();
}
END_TEST

START_TEST(a_waiting_stream_gets_comments)
{
    start_with((struct net_args){.keepalive_ms = 20});
    struct http_client client = connect_here();
    http_post(&client, CHAT, NULL, ASK_STREAM);
    fake_push(engine, 0, &(struct api_event){.type = API_EVENT_ACCEPTED});
    ck_assert(http_wait_for(&client, ": ping\n\n"));
    fake_push(engine, 0, &(struct api_event){.type = API_EVENT_STARTED});
    fake_push_end(engine, 0);
    struct http_reply reply = http_reply(&client, false);
    ck_assert_uint_eq((unsigned char)reply.body.data[0], ':');
    ck_assert_ptr_nonnull(strstr(reply.body.data, "[DONE]"));
    http_reply_free(&reply);
    http_close(&client);
    stop();
}
END_TEST

/* ---- what is refused ---- */

START_TEST(a_body_over_the_limit_is_a_413_that_the_client_can_read)
{
    start_with((struct net_args){.body_max = 100000});
    char *body = malloc(200001);
    memset(body, ' ', 200000);
    body[200000] = '\0';
    struct http_client client = connect_here();
    http_post(&client, CHAT, NULL, body);
    assert_error(http_reply(&client, false), 413, "request_too_large");
    http_send(&client, "POST " CHAT " HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n30D40\r\n");
    http_send(&client, body);
    http_send(&client, "\r\n0\r\n\r\n");
    assert_error(http_reply(&client, false), 413, "request_too_large");
    ck_assert_uint_eq(fake_engine_submitted(engine), 0);
    http_close(&client);
    free(body);
    stop();
}
END_TEST

START_TEST(a_client_that_asks_first_is_refused_before_it_sends)
{
    start_with((struct net_args){.body_max = 1000});
    struct http_client client = connect_here();
    http_send(&client, "POST " CHAT " HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5000\r\n\r\n");
    assert_error(http_reply(&client, false), 413, "request_too_large");
    http_close(&client);
    client = connect_here();
    http_send(&client, "POST " CHAT " HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
    ck_assert(http_wait_for(&client, "HTTP/1.1 100 Continue\r\n\r\n"));
    http_close(&client);
    stop();
}
END_TEST

START_TEST(a_body_without_an_end_is_cut_off_with_a_413)
{
    start_with((struct net_args){.body_max = 1000});
    struct http_client client = connect_here();
    http_send(&client, "POST " CHAT " HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (int i = 0; i < 2000 && !client.at_end; i++)
        http_send(&client, "10\r\n0123456789abcdef\r\n");
    assert_error(http_reply(&client, false), 413, "request_too_large");
    http_wait_for_end(&client);
    http_close(&client);
    stop();
}
END_TEST

START_TEST(unknown_paths_and_methods_are_told_in_json)
{
    start();
    assert_error(ask("GET /v1/nothing HTTP/1.1\r\nHost: a\r\n\r\n"), 404, "not_found");
    assert_error(ask("GET /%00 HTTP/1.1\r\nHost: a\r\n\r\n"), 400, "invalid_value");
    assert_error(ask("GET /%ff HTTP/1.1\r\nHost: a\r\n\r\n"), 400, "invalid_value");
    struct http_reply reply = ask("GET " CHAT " HTTP/1.1\r\nHost: a\r\n\r\n");
    ck_assert_str_eq(http_header(&reply, "Allow"), "POST, OPTIONS");
    assert_error(reply, 405, "method_not_allowed");
    reply = ask("BREW /health HTTP/1.1\r\nHost: a\r\n\r\n");
    ck_assert_str_eq(http_header(&reply, "Allow"), "GET, HEAD, OPTIONS");
    assert_error(reply, 405, "method_not_allowed");
    assert_error(ask("POST " CHAT " HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n{"), 400, "invalid_json");
    stop();
}
END_TEST

START_TEST(paths_are_decoded_and_queries_ignored)
{
    static const char *const paths[] = {"/v1/models/org%2Ftiny%20model", "/models/org/tiny%20model?a=b",
                                        "http://a:1/v1/models/org%2ftiny%20model"};
    start();
    for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++) {
        char request[256];
        snprintf(request, sizeof(request), "GET %s HTTP/1.1\r\nHost: a\r\n\r\n", paths[i]);
        struct http_reply reply = ask(request);
        ck_assert_msg(reply.status == 200, "%s: %s", paths[i], reply.body.data);
        ck_assert_ptr_nonnull(strstr(reply.body.data, "\"id\":\"org/tiny model\""));
        http_reply_free(&reply);
    }
    stop();
}
END_TEST

START_TEST(head_has_the_headers_and_no_body)
{
    start();
    struct http_client client = connect_here();
    http_send(&client, "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n");
    struct http_reply reply = http_reply(&client, true);
    ck_assert_uint_eq(reply.status, 200);
    http_reply_free(&reply);
    http_send(&client, "HEAD /nothing HTTP/1.1\r\nHost: a\r\n\r\n");
    reply = http_reply(&client, true);
    ck_assert_uint_eq(reply.status, 404);
    http_reply_free(&reply);
    http_send(&client, "GET /health HTTP/1.1\r\nHost: a\r\n\r\n");
    reply = http_reply(&client, false);
    ck_assert_ptr_nonnull(strstr(reply.body.data, "\"status\":\"ok\""));
    http_reply_free(&reply);
    http_close(&client);
    stop();
}
END_TEST

START_TEST(options_allow_what_the_path_takes)
{
    struct error error;
    struct net_args args = {0};
    ck_assert_int_eq(auth_open(&(struct auth_args){.cors_origins = "http://page"}, &args.auth, &error), STATUS_OK);
    start_with(args);
    struct http_reply reply = ask("OPTIONS " CHAT " HTTP/1.1\r\nHost: a\r\nOrigin: http://page\r\n"
                                  "Access-Control-Request-Headers: authorization, x-a\r\n\r\n");
    ck_assert_uint_eq(reply.status, 204);
    ck_assert_str_eq(http_header(&reply, "Access-Control-Allow-Headers"), "authorization, x-a");
    ck_assert_str_eq(http_header(&reply, "Allow"), "POST, OPTIONS");
    ck_assert_str_eq(http_header(&reply, "Access-Control-Allow-Methods"), "GET, POST, OPTIONS, DELETE, HEAD");
    ck_assert_str_eq(http_header(&reply, "Access-Control-Allow-Origin"), "http://page");
    http_reply_free(&reply);
    reply = ask("OPTIONS /v1/models HTTP/1.1\r\nHost: a\r\nOrigin: http://other\r\n\r\n");
    ck_assert_uint_eq(reply.status, 204);
    ck_assert_str_eq(http_header(&reply, "Access-Control-Allow-Origin"), "");
    http_reply_free(&reply);
    assert_error(ask("OPTIONS /nothing HTTP/1.1\r\nHost: a\r\n\r\n"), 404, "not_found");
    stop();
    auth_close(args.auth);
}
END_TEST

/* ---- limits and the end ---- */

START_TEST(headers_and_bodies_have_their_time)
{
    start_with((struct net_args){.header_timeout_ms = 50, .body_timeout_ms = 80});
    struct http_client slow_head = connect_here(), slow_body = connect_here(), silent = connect_here();
    http_send(&slow_head, "GET /health HTTP/1.1\r\nHost:");
    http_send(&slow_body, "POST " CHAT " HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{");
    http_wait_for_end(&slow_head);
    http_wait_for_end(&slow_body);
    http_wait_for_end(&silent);
    ck_assert_uint_eq(slow_head.in.size + silent.in.size, 0);
    struct http_reply reply = http_reply(&slow_body, false);
    ck_assert_str_eq(http_header(&reply, "Connection"), "close");
    assert_error(reply, 408, "request_timeout");
    http_close(&slow_head);
    http_close(&slow_body);
    http_close(&silent);
    stop();
}
END_TEST

/* Each byte would start the time again, were it the connection's and not the body's. */
START_TEST(a_byte_now_and_then_keeps_nothing_alive)
{
    start_with((struct net_args){.header_timeout_ms = 100, .body_timeout_ms = 100, .keepalive_ms = 20});
    struct http_client head = connect_here(), body = connect_here(), clock = connect_here();
    http_send(&head, "GET /health HTTP/1.1\r\nHost: ");
    http_send(&body, "POST " CHAT " HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n{");
    http_post(&clock, CHAT, NULL, ASK_STREAM);
    fake_push_start(engine, 0);
    for (int i = 0; i < 20; i++) { /* 20 ms each */
        ck_assert(http_wait_for(&clock, ": ping\n\n"));
        memcpy(strstr(clock.in.data, ": ping"), ": seen", 6);
        http_send(&head, "a");
        http_send(&body, " ");
    }
    http_wait_for_end(&head);
    http_wait_for_end(&body);
    ck_assert_uint_eq(head.in.size, 0);
    ck_assert_ptr_nonnull(strstr(body.in.data, "HTTP/1.1 408"));
    http_close(&head);
    http_close(&body);
    http_close(&clock);
    stop();
}
END_TEST

START_TEST(a_request_that_waits_long_is_not_timed_out)
{
    start_with((struct net_args){.header_timeout_ms = 300, .body_timeout_ms = 300, .keepalive_ms = 100});
    struct http_client whole = connect_here(), other = connect_here();
    http_post(&whole, CHAT, NULL, ASK);
    fake_engine_request(engine, 0);
    http_post(&other, CHAT, NULL, ASK_STREAM);
    fake_push_start(engine, 1);
    for (int i = 0; i < 4; i++) { /* the other's comments are the clock */
        ck_assert(http_wait_for(&other, ": ping\n\n"));
        memcpy(strstr(other.in.data, ": ping"), ": seen", 6);
    }
    fake_push_start(engine, 0);
    fake_push_end(engine, 0);
    struct http_reply reply = http_reply(&whole, false);
    ck_assert_uint_eq(reply.status, 200);
    http_reply_free(&reply);
    http_close(&whole);
    http_close(&other);
    stop();
}
END_TEST

START_TEST(connections_over_the_limit_are_told_and_health_still_answers)
{
    start_with((struct net_args){.connections_max = 2});
    struct http_client first = connect_here(), second = connect_here();
    http_post(&first, CHAT, NULL, ASK);
    fake_engine_request(engine, 0);
    http_post(&second, CHAT, NULL, ASK);
    fake_engine_request(engine, 1);
    struct http_client third = connect_here();
    http_post(&third, CHAT, NULL, ASK);
    assert_error(http_reply(&third, false), 503, "overloaded");
    http_close(&third);
    struct http_reply reply = ask("GET /health HTTP/1.1\r\nHost: a\r\n\r\n");
    ck_assert_uint_eq(reply.status, 200);
    http_reply_free(&reply);
    http_close(&first);
    http_close(&second);
    stop();
}
END_TEST

/* However many they are and whatever they have sent, short of a request. */
START_TEST(connections_without_a_request_give_way)
{
    static const char *const parts[] = {"", "G",
                                        "GET /health HTTP/1.1\r\nHost:", "GET /version HTTP/1.1\r\nHost: a\r\n\r\n"};
    struct http_client crowd[300];
    start_with((struct net_args){.connections_max = 8});
    for (size_t i = 0; i < 300; i++) {
        crowd[i] = connect_here();
        http_send(&crowd[i], parts[i % 4]);
        if (i % 10 != 0)
            continue;
        struct http_client client = connect_here();
        http_send(&client, "GET /health HTTP/1.1\r\nHost: a\r\n\r\n");
        struct http_reply reply = http_reply(&client, false);
        ck_assert_uint_eq(reply.status, 200);
        http_reply_free(&reply);
        http_post(&client, CHAT, NULL, ASK);
        fake_push_start(engine, (uint32_t)i / 10);
        fake_push_end(engine, (uint32_t)i / 10);
        reply = http_reply(&client, false);
        ck_assert_msg(reply.status == 200, "%s", reply.body.data);
        http_reply_free(&reply);
        http_close(&client);
    }
    http_wait_for_end(&crowd[0]);
    for (size_t i = 0; i < 300; i++)
        http_close(&crowd[i]);
    stop();
}
END_TEST

START_TEST(a_running_request_is_never_evicted)
{
    struct http_client runs[4], crowd[200];
    start_with((struct net_args){.connections_max = 4});
    for (uint32_t i = 0; i < 4; i++) {
        runs[i] = connect_here();
        http_post(&runs[i], CHAT, NULL, i % 2 ? ASK : ASK_STREAM);
        fake_engine_request(engine, i);
    }
    for (size_t i = 0; i < 200; i++)
        crowd[i] = connect_here();
    struct http_client client = connect_here();
    http_post(&client, CHAT, NULL, ASK);
    struct http_reply reply = http_reply(&client, false);
    ck_assert_uint_ge(strtoul(http_header(&reply, "Retry-After"), NULL, 10), 1);
    assert_error(reply, 503, "overloaded");
    http_close(&client);
    for (uint32_t i = 0; i < 4; i++) {
        fake_push_start(engine, i);
        fake_push_end(engine, i);
        reply = http_reply(&runs[i], false);
        ck_assert_uint_eq(reply.status, 200);
        http_reply_free(&reply);
        http_close(&runs[i]);
    }
    for (size_t i = 0; i < 200; i++)
        http_close(&crowd[i]);
    stop();
}
END_TEST

START_TEST(closing_tells_every_waiting_client)
{
    start();
    struct http_client whole = connect_here(), stream = connect_here(), queued = connect_here(), idle = connect_here();
    http_post(&whole, CHAT, NULL, ASK);
    fake_engine_request(engine, 0);
    http_post(&stream, CHAT, NULL, ASK_STREAM);
    fake_push_start(engine, 1);
    ck_assert(http_wait_for(&stream, "role"));
    http_post(&queued, CHAT, NULL, ASK_STREAM);
    fake_engine_request(engine, 2);
    stop();
    assert_error(http_reply(&whole, false), 503, "draining");
    assert_error(http_reply(&queued, false), 503, "draining");
    struct http_reply reply = http_reply(&stream, false);
    ck_assert_ptr_nonnull(strstr(reply.body.data, "\"code\":\"draining\""));
    ck_assert_ptr_nonnull(strstr(reply.body.data, "[DONE]"));
    http_reply_free(&reply);
    http_wait_for_end(&idle);
    http_close(&whole);
    http_close(&stream);
    http_close(&queued);
    http_close(&idle);
}
END_TEST

START_TEST(closing_does_not_wait_for_who_does_not_read)
{
    start();
    struct http_client client = connect_here();
    http_post(&client, CHAT, NULL, ASK_STREAM);
    fake_push_start(engine, 0);
    block_the_stream();
    stop();
    http_close(&client);
}
END_TEST

START_TEST(an_address_that_cannot_be_had_is_one_sentence_with_a_way_out)
{
    struct net_listener listener;
    struct error error;
    start();
    ck_assert_int_eq(net_listener_open("127.0.0.1", net_port(net), &listener, &error), STATUS_IO);
    ck_assert_ptr_nonnull(strstr(error.text, "cannot listen on 127.0.0.1 port"));
    ck_assert_ptr_nonnull(strstr(error.text, "choose another with --port"));
    ck_assert_int_eq(net_listener_open("192.0.2.1", 0, &listener, &error), STATUS_IO);
    ck_assert_ptr_nonnull(strstr(error.text, "no such address"));
    ck_assert_str_eq(error.field, "host");
    ck_assert_int_eq(net_listener_open("not a host", 0, &listener, &error), STATUS_INVALID);
    ck_assert_ptr_nonnull(strstr(error.text, "--host takes 127.0.0.1"));
    stop();
}
END_TEST

/* Two that start at once may both have bound the address. */
START_TEST(only_one_of_two_gets_to_listen)
{
    struct net *second;
    struct error error;
    struct net_args args = {.facts = &facts};
    struct net_listener first;
    ck_assert_int_eq(net_listener_open("127.0.0.1", 0, &first, &error), STATUS_OK);
    ck_assert_int_eq(net_listener_open("127.0.0.1", first.port, &args.listener, &error), STATUS_OK);
    start_with((struct net_args){.listener = first});
    args.engine = engine;
    ck_assert_int_eq(net_open(&args, &second, &error), STATUS_IO);
    ck_assert_ptr_nonnull(strstr(error.text, "choose another with --port"));
    stop();
}
END_TEST

Suite *suite(void)
{
    Suite *net_suite = suite_create("server/net");
    TCase *test_case = tcase_create("net");
    tcase_add_test(test_case, answers_with_a_whole_body);
    tcase_add_test(test_case, sends_each_event_of_a_stream_when_it_comes);
    tcase_add_test(test_case, an_error_before_the_first_event_is_a_status);
    tcase_add_test(test_case, an_error_in_a_stream_is_a_frame_before_done);
    tcase_add_test(test_case, a_refusal_by_the_engine_says_when_to_come_again);
    tcase_add_test(test_case, a_connection_serves_one_request_after_the_other);
    tcase_add_test(test_case, requests_sent_without_waiting_are_answered_in_order);
    tcase_add_test(test_case, a_waiting_stream_gets_comments);
    tcase_add_test(test_case, a_body_over_the_limit_is_a_413_that_the_client_can_read);
    tcase_add_test(test_case, a_client_that_asks_first_is_refused_before_it_sends);
    tcase_add_test(test_case, a_body_without_an_end_is_cut_off_with_a_413);
    tcase_add_test(test_case, unknown_paths_and_methods_are_told_in_json);
    tcase_add_test(test_case, paths_are_decoded_and_queries_ignored);
    tcase_add_test(test_case, head_has_the_headers_and_no_body);
    tcase_add_test(test_case, options_allow_what_the_path_takes);
    tcase_add_test(test_case, headers_and_bodies_have_their_time);
    tcase_add_test(test_case, a_byte_now_and_then_keeps_nothing_alive);
    tcase_add_test(test_case, a_request_that_waits_long_is_not_timed_out);
    tcase_add_test(test_case, connections_over_the_limit_are_told_and_health_still_answers);
    tcase_add_test(test_case, connections_without_a_request_give_way);
    tcase_add_test(test_case, a_running_request_is_never_evicted);
    tcase_add_test(test_case, closing_tells_every_waiting_client);
    tcase_add_test(test_case, closing_does_not_wait_for_who_does_not_read);
    tcase_add_test(test_case, an_address_that_cannot_be_had_is_one_sentence_with_a_way_out);
    tcase_add_test(test_case, only_one_of_two_gets_to_listen);
    suite_add_tcase(net_suite, test_case);
    return net_suite;
}
