/* Requests that two readers could take for different ones: one refusal, the end of the connection, and no answer to
 * what was hidden behind. */
#include <string.h>

#include "server/net/net_private.h"
#include "tests/unit/server/net/serving.h"
#include "tests/unit/unit.h"

#define HIDDEN "GET /version HTTP/1.1\r\nHost: a\r\n\r\n"

struct shape {
    const char *bytes;
    size_t size;
    uint32_t status; /* 0: any 4xx, or closed without a word */
};

#define SHAPE(text, expected)                                           \
    {                                                                   \
        .bytes = (text), .size = sizeof(text) - 1, .status = (expected) \
    }
/* Header lines of a POST, the blank line and a body in which the hidden request may begin. */
#define POST(lines, expected) SHAPE("POST " CHAT " HTTP/1.1\r\nHost: a\r\n" lines "\r\n0\r\n\r\n" HIDDEN, expected)

static const struct shape shapes[] = {
    /* the length twice, or neither a length nor chunks */
    POST("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", 400),
    POST("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", 400),
    POST("Content-Length: 5\r\nContent-Length: 5\r\n", 400),
    POST("Content-Length: 5\r\nContent-Length: 6\r\n", 400),
    POST("content-length: 5\r\nCONTENT-LENGTH: 0\r\n", 400),
    POST("Transfer-Encoding: gzip\r\n", 400),
    POST("Transfer-Encoding: identity\r\n", 400),
    POST("Transfer-Encoding: chunked, chunked\r\n", 400),
    POST("Transfer-Encoding: gzip, chunked\r\n", 400),
    POST("Transfer-Encoding: chunked, identity\r\n", 400),
    POST("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", 400),
    POST("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", 400),
    POST("Transfer-Encoding: \"chunked\"\r\n", 400),
    POST("Transfer-Encoding: xchunked\r\n", 400),
    POST("Transfer-Encoding:\r\n", 400),
    POST("Transfer-Encoding: \x0b"
         "chunked\r\n",
         400),
    /* libmicrohttpd's own refusals; those of a length it heads twice */
    POST("Content-Length: +5\r\n", 400),
    POST("Content-Length: -5\r\n", 400),
    POST("Content-Length: 5,5\r\n", 400),
    POST("Content-Length: 5, 5\r\n", 400),
    POST("Content-Length: 0x5\r\n", 400),
    POST("Content-Length: 5 5\r\n", 400),
    POST("Content-Length:\r\n", 400),
    POST("Content-Length: five\r\n", 400),
    POST("Content-Length: 99999999999999999999999\r\n", 413),
    POST("no colon\r\n", 400),
    /* names and lines */
    POST("Content-Length : 5\r\n", 400),
    POST("Content-Length\t: 5\r\n", 400),
    POST("Content-Length\x0b: 5\r\n", 400),
    POST("Transfer-Encoding : chunked\r\n", 400),
    POST(" Transfer-Encoding: chunked\r\n", 400),
    POST("X: a\r\n Transfer-Encoding: chunked\r\n", 400),
    POST("X: a\r\n\tb\r\n", 400),
    POST("Content-Lengt: 5\r\n h\r\n", 400), /* libmicrohttpd takes this for "Content-Length: 5" */
    POST("X: a\r\n \r\n", 400),
    POST(": a\r\n", 400),
    POST("X: a\nContent-Length: 5\r\n", 400),
    POST("X: a\n", 400),
    POST("X: a\rContent-Length: 5\r\n", 400),
    POST("X: a\r\r\n", 400),
    POST("X: a\0b\r\n", 400),
    POST("X: a\0\r\n", 400),
    POST("X: \0\r\n", 400),
    POST("Content-Length: 5\0\r\n", 400),
    POST("X\0: a\r\n", 400),
    POST("X: \x01\r\n", 400),
    POST("X: \x7f\r\n", 400),
    POST("X: a\r\n\n", 400),
    SHAPE("POST " CHAT " HTTP/1.1\nHost: a\r\nContent-Length: 0\r\n\r\n" HIDDEN, 400),
    SHAPE("POST " CHAT " HTTP/1.1\r\nHost: a\nContent-Length: 0\n\n" HIDDEN, 400),
    SHAPE("GET /version HTTP/1.1\r\nHost: a\r\nX: y\r\n\n" HIDDEN, 400),
    SHAPE("GET /version HTTP/1.1\n\n" HIDDEN, 400),
    /* versions and hosts */
    SHAPE("POST " CHAT " HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n"
          "0\r\n\r\n" HIDDEN,
          400),
    SHAPE("GET /version HTTP/1.1\r\n\r\n" HIDDEN, 400),
    SHAPE("GET /version HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n" HIDDEN, 400),
    SHAPE("GET /version\r\n" HIDDEN, 0),
    SHAPE("GET /version HTTP/3.0\r\nHost: a\r\n\r\n" HIDDEN, 0),
    SHAPE("GET /version HTTP/1.1x\r\nHost: a\r\n\r\n" HIDDEN, 0),
    SHAPE("GET\r\n\r\n" HIDDEN, 0),
    SHAPE("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0" HIDDEN, 0),
    SHAPE("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 hello\r\n\r\n" HIDDEN, 0),
    SHAPE("}{][ \xff\xfe\r\n\r\n" HIDDEN, 0),
    /* chunks */
    POST("Transfer-Encoding: chunked\r\n\r\n+5\r\n", 400),
    POST("Transfer-Encoding: chunked\r\n\r\n0x5\r\nabcde\r\n", 400),
    POST("Transfer-Encoding: chunked\r\n\r\n-1\r\n", 400),
    POST("Transfer-Encoding: chunked\r\n\r\nffffffffffffffffffff\r\n", 413),
    POST("Transfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n", 400),
};

static uint32_t count(const struct buffer *text, const char *what)
{
    uint32_t found = 0;
    size_t size = strlen(what);
    for (size_t i = 0; i + size <= text->size; i++)
        found += memcmp(text->data + i, what, size) == 0;
    return found;
}

START_TEST(what_two_readers_could_take_for_different_requests_is_refused)
{
    const struct shape *shape = &shapes[_i];
    start();
    struct http_client client = connect_here();
    http_send_bytes(&client, shape->bytes, shape->size);
    http_wait_for_end(&client);
    uint32_t replies = count(&client.in, "HTTP/1.1 ") > 0;
    uint32_t status = client.in.size > 12 ? (uint32_t)strtoul(client.in.data + 9, NULL, 10) : 0;
    ck_assert_msg(count(&client.in, "HTTP/1.1 200") == 0, "shape %d: %s", _i, client.in.data);
    if (shape->status != 0)
        ck_assert_msg(replies == 1 && status == shape->status, "shape %d: %s", _i,
                      client.in.size == 0 ? "nothing" : client.in.data);
    else
        ck_assert_msg(replies == 0 || (status >= 400 && status < 600), "shape %d: %s", _i, client.in.data);
    if (count(&client.in, "application/json") > 0)
        ck_assert_uint_eq(count(&client.in, "HTTP/1.1 "), 1);
    ck_assert_uint_eq(fake_engine_submitted(engine), 0);
    http_close(&client);
    stop();
}
END_TEST

/* The same bytes one at a time: the verdict does not hang on what a read happens to bring. */
START_TEST(the_verdict_is_the_same_byte_by_byte)
{
    start();
    for (size_t i = 0; i < sizeof(shapes) / sizeof(*shapes); i += 3) {
        struct http_client client = connect_here();
        for (size_t at = 0; at < shapes[i].size; at++)
            http_send_bytes(&client, shapes[i].bytes + at, 1);
        http_wait_for_end(&client);
        ck_assert_msg(count(&client.in, "HTTP/1.1 200") == 0, "shape %zu: %s", i, client.in.data);
        http_close(&client);
    }
    ck_assert_uint_eq(fake_engine_submitted(engine), 0);
    stop();
}
END_TEST

START_TEST(what_is_unusual_but_clear_is_taken)
{
    static const char *const requests[] = {
        "GET /version HTTP/1.1\r\nhost:a\r\n\r\n",
        "GET /version HTTP/1.1\r\nHost:  \t a\r\nX:\r\nY: \r\n\r\n",
        "GET /version HTTP/1.1\r\nHost: a\r\nX: caf\xc3\xa9 \t \xff\r\n\r\n",
        "GET /version HTTP/1.1\r\nHost: a\r\nX: a:b:c\r\n!#$%&'*+-.^_`|~: 1\r\n\r\n",
        "\r\n\r\nGET /version HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /version?a=b&c=%20&d HTTP/1.1\r\nHost: a\r\nCookie: a=b; c=d\r\n\r\n",
        "GET /version HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc",
        "GET /version HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: Chunked\r\n\r\n3;x=y\r\nabc\r\n0\r\nTrailer: 1\r\n\r\n",
        "GET /version HTTP/1.1\r\nHost: a\r\nExpect: the-unexpected\r\n\r\n",
    };
    start();
    struct http_client client = connect_here();
    for (size_t i = 0; i < sizeof(requests) / sizeof(*requests); i++) {
        http_send(&client, requests[i]);
        struct http_reply reply = http_reply(&client, false);
        ck_assert_msg(reply.status == 200 && strstr(reply.body.data, "\"version\"") != NULL, "%zu: %s", i,
                      reply.body.data);
        http_reply_free(&reply);
    }
    http_send(&client, "GET /version HTTP/1.0\r\n\r\n");
    struct http_reply reply = http_reply(&client, false);
    ck_assert_uint_eq(reply.status, 200);
    http_reply_free(&reply);
    http_wait_for_end(&client);
    http_close(&client);
    stop();
}
END_TEST

START_TEST(long_headers_are_taken_and_too_long_ones_refused)
{
    static const struct {
        size_t headers, size; /* how many, of how many bytes each */
        uint32_t status;
    } cases[] = {{1, 31000, 200}, {300, 90, 200}, {1, 70000, 431}, {2000, 40, 431}};
    start();
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct http_client client = connect_here();
        struct buffer text = {0};
        buffer_text(&text, "GET /version HTTP/1.1\r\nHost: a\r\n");
        for (size_t n = 0; n < cases[i].headers; n++)
            buffer_printf(&text, "X-%zu: %0*d\r\n", n, (int)cases[i].size - 10, 1);
        buffer_text(&text, "\r\n");
        http_send(&client, text.data);
        struct http_reply reply = http_reply(&client, false);
        ck_assert_msg(reply.status == cases[i].status, "%zu: %s", i, reply.head);
        http_reply_free(&reply);
        buffer_free(&text);
        http_close(&client);
    }
    struct http_client client = connect_here();
    struct buffer text = {0};
    buffer_printf(&text, "GET /%080000d HTTP/1.1\r\nHost: a\r\n\r\n", 1);
    http_send(&client, text.data);
    struct http_reply reply = http_reply(&client, false);
    ck_assert_uint_eq(reply.status, 414);
    http_reply_free(&reply);
    buffer_free(&text);
    http_close(&client);
    stop();
}
END_TEST

/* ---- the walk ---- */

static bool clear(const char *block, size_t size)
{
    return framing_block_is_clear(block, size, block + strlen("GET") + 1 + strlen("/") + 1);
}

#define CLEAR(text) clear((text), sizeof(text) - 1)
#define LINE "GET\0/\0HTTP/1.1\0\0"

START_TEST(the_walk_knows_every_byte)
{
    ck_assert(CLEAR(LINE "\0\0"));
    ck_assert(CLEAR(LINE "A\0 b\0\0\0\0"));
    ck_assert(CLEAR(LINE "A\0\0\0B\0 c\0\0\0\0"));
    ck_assert(!CLEAR(LINE));
    ck_assert(!CLEAR(LINE "\0"));
    ck_assert(!CLEAR(LINE "\0\0\0"));
    ck_assert(!CLEAR(LINE "A"));
    ck_assert(!CLEAR(LINE "A\0"));
    ck_assert(!CLEAR(LINE "A\0 b\0\0"));
    ck_assert(!CLEAR(LINE "A\0 b\0\0\0"));
    ck_assert(!CLEAR(LINE "A\0 b\0B\0 c\0\0\0\0"));
    ck_assert(!CLEAR(LINE "A\0 b\0\0 c\0\0\0\0"));
    ck_assert(!CLEAR("GET\0/\0HTTP/1.1\0A\0 b\0\0\0\0"));
    ck_assert(!framing_block_is_clear(LINE, sizeof(LINE), "elsewhere"));
}
END_TEST

Suite *suite(void)
{
    Suite *framing_suite = suite_create("server/net/framing");
    TCase *test_case = tcase_create("framing");
    tcase_add_loop_test(test_case, what_two_readers_could_take_for_different_requests_is_refused, 0,
                        (int)(sizeof(shapes) / sizeof(*shapes)));
    tcase_add_test(test_case, the_verdict_is_the_same_byte_by_byte);
    tcase_add_test(test_case, what_is_unusual_but_clear_is_taken);
    tcase_add_test(test_case, long_headers_are_taken_and_too_long_ones_refused);
    tcase_add_test(test_case, the_walk_knows_every_byte);
    suite_add_tcase(framing_suite, test_case);
    return framing_suite;
}
