/* The text format, and counting by codes and endpoints. */
#include "server/net/metrics.h"

#include <stdio.h>
#include <string.h>

#include "kernels/base/thread.h"
#include "server/net/exposition.h"
#include "server/net/process.h"
#include "tests/unit/server/net/serving.h"
#include "tests/unit/unit.h"

static struct buffer out;
static struct exposition exposition = {.out = &out};

static void teardown(void)
{
    buffer_free(&out);
}

START_TEST(label_values_are_escaped)
{
    struct exposition_label labels[] = {{"a", "x\"y\\z\n"}, {"b", ""}};
    exposition_family(&exposition, "n_total", "counter", "Help.");
    exposition_integer(&exposition, labels, 2, UINT64_MAX);
    exposition_number(&exposition, NULL, 0, 0.25);
    ck_assert_str_eq(out.data, "# HELP n_total Help.\n# TYPE n_total counter\n"
                               "n_total{a=\"x\\\"y\\\\z\\n\",b=\"\"} 18446744073709551615\n"
                               "n_total 0.25\n");
}
END_TEST

START_TEST(buckets_are_cumulative_and_end_with_all)
{
    struct histogram histogram = {.counts = {1, 0, 2}, .sum = 7.5};
    uint32_t all;
    stats_bounds(STATS_PROMPT_TOKENS, &all);
    histogram.counts[5] = 3;
    histogram.counts[all] = 4;
    exposition_family(&exposition, "n", "histogram", "Help.");
    buffer_clear(&out);
    exposition_histogram(&exposition, &(struct exposition_label){"m", "a"}, 1, &histogram, STATS_PROMPT_TOKENS, 3);
    ck_assert_str_eq(out.data,
                     "n_bucket{m=\"a\",le=\"1\"} 1\nn_bucket{m=\"a\",le=\"2\"} 1\nn_bucket{m=\"a\",le=\"5\"} 3\n"
                     "n_bucket{m=\"a\",le=\"+Inf\"} 10\nn_sum{m=\"a\"} 7.5\nn_count{m=\"a\"} 10\n");
}
END_TEST

START_TEST(what_does_not_fit_the_tables_counts_under_their_last_rows)
{
    struct metrics metrics = {0};
    char code[32];
    metrics_open(&metrics);
    for (int i = 0; i < 2 * METRICS_CODES; i++) {
        snprintf(code, sizeof(code), "code_%d", i);
        metrics_count_refusal(&metrics, code);
        metrics_count_refusal(&metrics, "code_0");
    }
    ck_assert_uint_eq(metrics.refused_count, METRICS_CODES);
    ck_assert_uint_eq(metrics.refused[0].count, 2 * METRICS_CODES + 1);
    ck_assert_uint_eq(metrics.refused[1].count, 1);
    ck_assert_uint_eq(metrics.refused[METRICS_CODES - 1].count, METRICS_CODES + 1);
    static char paths[2 * METRICS_ENDPOINTS][16];
    for (int i = 0; i < 2 * METRICS_ENDPOINTS; i++) {
        snprintf(paths[i], sizeof(paths[i]), "/%d", i);
        metrics_count_response(&metrics, paths[i], 200);
        metrics_count_response(&metrics, paths[i], 999);
    }
    ck_assert_uint_eq(metrics.response_count, METRICS_ENDPOINTS);
    ck_assert_uint_eq(metrics.responses[0].classes[2], 1);
    ck_assert_uint_eq(metrics.responses[METRICS_ENDPOINTS - 1].classes[2], METRICS_ENDPOINTS + 1);
    metrics_close(&metrics);
}
END_TEST

START_TEST(the_process_has_used_something)
{
    struct process_numbers now = process_numbers();
    ck_assert(now.start_unix_s > 1e9 && now.start_unix_s <= (double)clock_unix_ms() / 1e3 + 2);
    ck_assert(now.resident_bytes > 1 << 16 && now.virtual_bytes >= now.resident_bytes);
    ck_assert(now.open_fds >= 3 && now.open_fds <= now.max_fds && now.threads >= 1);
}
END_TEST

/* Every refusal is counted, and every reply, streams and HEAD too. */
START_TEST(replies_are_counted_where_they_are_made)
{
    struct http_client client;
    start();
    client = connect_here();
    http_send(&client, "HEAD /v1/models HTTP/1.1\r\nHost: a\r\n\r\nGET /no HTTP/1.1\r\nHost: a\r\n\r\n"
                       "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n");
    struct http_reply head = http_reply(&client, true), no = http_reply(&client, false);
    struct http_reply page = http_reply(&client, false);
    ck_assert_uint_eq(page.status, 200);
    ck_assert_str_eq(http_header(&page, "Content-Type"), EXPOSITION_TYPE);
    ck_assert(strstr(page.body.data, "\nincipit_requests_refused_total{reason=\"not_found\"} 1\n") != NULL);
    ck_assert(strstr(page.body.data, "\nincipit_http_responses_total{endpoint=\"/models\",status=\"2xx\"} 1\n") !=
              NULL);
    ck_assert(strstr(page.body.data, "\nincipit_http_responses_total{endpoint=\"other\",status=\"4xx\"} 1\n") != NULL);
    ck_assert(strstr(page.body.data, "{model_name=\"org/tiny model\",engine=\"0\"} ") != NULL);
    ck_assert(strstr(page.body.data, "\nvllm:request_prompt_tokens_bucket{model_name=\"org/tiny model\",engine=\"0\","
                                     "le=\"100\"} 0\nvllm:request_prompt_tokens_bucket{model_name=\"org/tiny model\","
                                     "engine=\"0\",le=\"+Inf\"} 0\n") != NULL);
    http_reply_free(&head);
    http_reply_free(&no);
    http_reply_free(&page);
    http_close(&client);
    stop();
}
END_TEST

Suite *suite(void)
{
    Suite *metrics = suite_create("net/metrics");
    TCase *tests = tcase_create("metrics");
    tcase_add_checked_fixture(tests, NULL, teardown);
    tcase_add_test(tests, label_values_are_escaped);
    tcase_add_test(tests, buckets_are_cumulative_and_end_with_all);
    tcase_add_test(tests, what_does_not_fit_the_tables_counts_under_their_last_rows);
    tcase_add_test(tests, the_process_has_used_something);
    tcase_add_test(tests, replies_are_counted_where_they_are_made);
    suite_add_tcase(metrics, tests);
    return metrics;
}
