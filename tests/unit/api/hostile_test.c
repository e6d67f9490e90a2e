/* Requests that nobody should send: mutated, huge, or more than there is memory for. Each is a call or a 400 (503 where
 * memory ran out), in time that grows with its size only. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/json_scan.h"
#include "kernels/base/thread.h"
#include "tests/unit/api/requests.h"
#include "tests/unit/unit.h"

#define CHAT "/v1/chat/completions"

static const char rich[] =
    "{\"model\":\"m\",\"messages\":[{\"role\":\"system\",\"content\":\"s\"},{\"role\":\"user\",\"content\":[{\"type\":"
    "\"text\","
    "\"text\":\"a\\u00e9\\ud83d\\ude00\"},{\"type\":\"text\",\"text\":\"b\"}]},{\"role\":\"assistant\",\"content\":"
    "null,"
    "\"tool_calls\":[{\"id\":\"c\",\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"x\\\":[1,2."
    "5,{}]}\"}}]},"
    "{\"role\":\"tool\",\"tool_call_id\":\"c\",\"content\":\"r\"}],\"temperature\":0.5,\"top_k\":3,\"n\":2,\"seed\":7,"
    "\"logit_bias\":{\"5\":1,\"6\":-1},\"stop\":[\"x\",\"y\"],\"stop_token_ids\":[1,2],\"max_tokens\":10,\"logprobs\":"
    "true,"
    "\"top_logprobs\":2,\"stream\":true,\"stream_options\":{\"include_usage\":true},\"chat_template_kwargs\":{\"a\":{"
    "\"b\":[1]}},"
    "\"reasoning_effort\":\"low\",\"tools\":[],\"user\":\"u\",\"unknown\":[{},null]}";

static enum status parse(const char *path, const char *body, size_t size, struct error *error)
{
    struct api_call *call;
    memset(error, 0, sizeof(*error));
    enum status status = api_call_open(post_endpoint(path), body, size, &test_facts, &call, error);
    api_call_close(call);
    return status;
}

/* Swaps, drops, doubles or overwrites bytes, or puts a word of JSON in. */
static size_t mutate(char *text, size_t size, uint64_t *random)
{
    static const char *const words[] = {"null", "-1",  "1e99",  "\"\"", "[]", "{}",
                                        "true", "0.5", "\"a\"", ",",    ":",  "\\ud800"};
    size_t at = test_random_below(random, size), more = test_random_below(random, 12);
    const char *word = words[test_random_below(random, sizeof(words) / sizeof(*words))];
    switch (test_random_below(random, 4)) {
    case 0:
        text[at] = (char)test_random_below(random, 256);
        return size;
    case 1:
        more = more < size - at ? more : size - at;
        memmove(text + at, text + at + more, size - at - more);
        return size - more > 0 ? size - more : 1;
    case 2:
        memmove(text + at + strlen(word), text + at, size - at);
        memcpy(text + at, word, strlen(word));
        return size + strlen(word);
    default:
        if (strlen(word) <= size - at)
            memcpy(text + at, word, strlen(word));
        return size;
    }
}

START_TEST(mutated_requests_are_calls_or_a_400)
{
    static const char *const paths[] = {CHAT, "/v1/completions", "/tokenize", "/detokenize"};
    uint64_t random = test_seed() + 3;
    uint32_t good = 0, rounds = test_long() ? 1000000 : 40000;
    for (uint32_t round = 0; round < rounds; round++) {
        char text[sizeof(rich) + 64];
        struct error error;
        size_t size = sizeof(rich) - 1;
        memcpy(text, rich, size);
        for (uint64_t i = test_random_below(&random, 4); i > 0; i--)
            size = mutate(text, size, &random);
        if (parse(paths[round % 8 < 5 ? 0 : round % 4], text, size, &error) == STATUS_OK)
            good++;
        else
            ck_assert_msg(api_error_status(&error) == 400 && error.text[0] != '\0', "%.*s: %s", (int)size, text,
                          error.text);
    }
    ck_assert_uint_gt(good, rounds / 20);
}
END_TEST

START_TEST(memory_may_end_anywhere)
{
    size_t used = 0;
    for (size_t limit = 0; used == 0; limit += 16) {
        struct error error = {0};
        const struct api_endpoint *endpoint = post_endpoint(CHAT);
        struct api_call *call = api_call_blank(API_CHAT);
        call->endpoint = endpoint;
        call->arena.limit_bytes = limit == 0 ? 1 : limit;
        enum status status = endpoint->parse(call, rich, sizeof(rich) - 1, &test_facts, &error);
        if (status == STATUS_OK)
            used = limit;
        else
            ck_assert_msg(status == STATUS_NO_MEMORY, "at %zu: %s", limit, error.text);
        api_call_close(call);
    }
    ck_assert_uint_gt(used, 1000);
}
END_TEST

static struct buffer repeat(const char *before, const char *text, size_t count, const char *after)
{
    struct buffer out = {0};
    buffer_text(&out, before);
    for (size_t i = 0; i < count; i++)
        buffer_text(&out, text);
    buffer_text(&out, after);
    return out;
}

struct huge {
    const char *name, *before, *text, *after;
    size_t count;
};

/* Shapes that cost quadratic time somewhere, if anything does. */
static const struct huge huge[] = {
    {"messages", "{\"messages\":[{\"role\":\"user\",\"content\":\"\"}", ",{\"role\":\"user\",\"content\":\"\"}", "]}",
     99999},
    {"parts", "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"\"}",
     ",{\"type\":\"text\",\"text\":\"ab\"}", "]}]}", 300000},
    {"one long text", "{\"messages\":[{\"role\":\"user\",\"content\":\"", "\\n\\u00e9", "\"}]}", 2000000},
    {"halves", "{\"messages\":[{\"role\":\"user\",\"content\":\"", "\\ud800", "\"}]}", 2000000},
    {"tool calls",
     "{\"messages\":[{\"role\":\"assistant\",\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}}",
     ",{\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"a\\\":1}\"}}", "]}]}", 100000},
    {"nested arguments",
     "{\"messages\":[{\"role\":\"assistant\",\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":{\"k\":[0",
     ",[[{\"key\":1}]]", "]}}}]}]}", 300000},
    {"top-level fields", "{\"a\":0", ",\"a\":0", "}", 500000},
    {"numbers", "{\"prompt\":[0", ",1", "]}", JSON_VALUES_MAX - 3},
    {"open brackets", "", "[", "", 5000000},
    {"open objects", "", "{\"a\":", "", 5000000},
};

START_TEST(huge_requests_take_linear_time)
{
    const struct huge *shape = &huge[_i];
    const char *path = strcmp(shape->name, "numbers") == 0 ? "/v1/completions" : CHAT;
    struct error error;
    struct buffer body = repeat(shape->before, shape->text, shape->count, shape->after);
    uint64_t began = clock_ns();
    enum status status = parse(path, body.data, body.size, &error);
    double seconds = (double)(clock_ns() - began) / 1e9;
    printf("%s: %.1f MB, %.2f s, %s\n", shape->name, (double)body.size / 1e6, seconds, status_name(status));
    ck_assert_msg(status == STATUS_OK || api_error_status(&error) == 400, "%s", error.text);
    ck_assert_msg(seconds < 60, "%s took %.1f s", shape->name, seconds); /* quadratic would be hours */
    buffer_free(&body);
}
END_TEST

Suite *suite(void)
{
    Suite *hostile_suite = suite_create("api/hostile");
    TCase *test_case = tcase_create("hostile");
    tcase_add_test(test_case, mutated_requests_are_calls_or_a_400);
    tcase_add_test(test_case, memory_may_end_anywhere);
    tcase_add_loop_test(test_case, huge_requests_take_linear_time, 0, (int)(sizeof(huge) / sizeof(*huge)));
    suite_add_tcase(hostile_suite, test_case);
    return hostile_suite;
}
