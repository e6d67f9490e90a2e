/* Routes, errors on the wire, and the endpoints that answer by themselves. */
#include <stdio.h>
#include <string.h>

#include "tests/unit/api/requests.h"
#include "tests/unit/unit.h"

static const struct api_endpoint *find(const char *method, const char *path, const char **rest)
{
    const char *allow;
    struct error error;
    return api_endpoint_find(method, path, rest, &allow, &error);
}

START_TEST(paths_are_found_with_and_without_the_version)
{
    static const char *const get_paths[] = {"/models", "/health", "/ping", "/version", "/tokenizer_info", "/"};
    static const char *const post_paths[] = {"/chat/completions", "/completions", "/tokenize", "/detokenize",
                                             "/apply-template"};
    const char *rest;
    for (size_t i = 0; i < 11; i++) {
        const char *path = i < 6 ? get_paths[i] : post_paths[i - 6], *method = i < 6 ? "GET" : "POST";
        char versioned[64];
        snprintf(versioned, sizeof(versioned), "/v1%s", path);
        ck_assert_ptr_nonnull(find(method, path, &rest));
        ck_assert_ptr_eq(find(method, path, &rest), find(method, versioned, &rest));
        snprintf(versioned, sizeof(versioned), "/v1%s/", path);
        if (strcmp(path, "/") != 0 && strcmp(path, "/models") != 0)
            ck_assert_ptr_eq(find(method, path, &rest), find(method, versioned, &rest));
    }
    ck_assert_ptr_nonnull(find("HEAD", "/v1/models", &rest));
    ck_assert_ptr_nonnull(find("GET", "/v1", &rest));
    ck_assert_ptr_null(find("HEAD", "/v1/completions", &rest));
    ck_assert_ptr_null(find("GET", "/v2/models", &rest));
    ck_assert_ptr_null(find("GET", "/v1models", &rest));
    ck_assert_ptr_null(find("GET", "/health/x", &rest));
}
END_TEST

START_TEST(the_rest_of_a_path_is_an_id)
{
    const char *rest;
    ck_assert_ptr_nonnull(find("GET", "/v1/models/org/model", &rest));
    ck_assert_str_eq(rest, "org/model");
    ck_assert_ptr_nonnull(find("GET", "/models/m", &rest));
    ck_assert_str_eq(rest, "m");
}
END_TEST

START_TEST(wrong_methods_and_paths_are_told_apart)
{
    const char *rest, *allow;
    struct error error;
    ck_assert_ptr_null(api_endpoint_find("GET", "/v1/chat/completions", &rest, &allow, &error));
    ck_assert_int_eq(error.status, STATUS_UNSUPPORTED);
    ck_assert_uint_eq(api_error_status(&error), 405);
    ck_assert_str_eq(allow, "POST, OPTIONS");
    ck_assert_ptr_null(api_endpoint_find("DELETE", "/v1/models/a", &rest, &allow, &error));
    ck_assert_str_eq(allow, "GET, HEAD, OPTIONS");
    ck_assert_ptr_null(api_endpoint_find("POST", "/v1/responses", &rest, &allow, &error));
    ck_assert_int_eq(error.status, STATUS_NOT_FOUND);
    ck_assert_uint_eq(api_error_status(&error), 404);
    ck_assert_ptr_nonnull(strstr(error.text, "/v1/chat/completions"));
    ck_assert_ptr_null(allow);
}
END_TEST

START_TEST(embeddings_are_refused_with_the_reason)
{
    static const char *const paths[] = {"/embeddings", "/v1/embeddings", "/v1/embeddings/"};
    for (size_t i = 0; i < 3; i++) {
        struct error error = bad_call(paths[i], "{\"input\":\"a\",\"model\":\"m\"}");
        ck_assert_str_eq(error.code, "unsupported_model");
        ck_assert_str_eq(error.text, "no embedding model is loaded; tiny only generates text");
    }
}
END_TEST

START_TEST(every_failure_has_its_status_and_type)
{
    static const struct {
        enum status status;
        const char *code;
        uint32_t http;
        const char *type, *wire_code;
    } rows[] = {
        {STATUS_INVALID, "", 400, "invalid_request_error", "invalid_value"},
        {STATUS_INVALID, "invalid_json", 400, "invalid_request_error", "invalid_json"},
        {STATUS_UNSUPPORTED, "", 400, "invalid_request_error", "unsupported_parameter"},
        {STATUS_UNSUPPORTED, "method_not_allowed", 405, "invalid_request_error", "method_not_allowed"},
        {STATUS_NOT_FOUND, "", 404, "invalid_request_error", "not_found"},
        {STATUS_TOO_LARGE, "", 413, "invalid_request_error", "request_too_large"},
        {STATUS_TOO_LARGE, "context_length_exceeded", 400, "invalid_request_error", "context_length_exceeded"},
        {STATUS_BUSY, "", 429, "rate_limit_error", "queue_full"},
        {STATUS_BUSY, "draining", 503, "server_error", "draining"},
        {STATUS_NO_MEMORY, "", 503, "server_error", "overloaded"},
        {STATUS_CANCELLED, "", 503, "server_error", "cancelled"},
        {STATUS_INTERNAL, "", 500, "server_error", "internal_error"},
        {STATUS_IO, "", 500, "server_error", "internal_error"},
        {STATUS_BUSY, "request_timeout", 408, "timeout_error", "request_timeout"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        char wanted[160];
        struct buffer out = {0};
        struct error error;
        error_set(&error, rows[i].status, "m");
        snprintf(error.code, sizeof(error.code), "%s", rows[i].code);
        ck_assert_uint_eq(api_error_status(&error), rows[i].http);
        api_error_body(NULL, &error, &out);
        snprintf(wanted, sizeof(wanted),
                 "{\"error\":{\"message\":\"m\",\"type\":\"%s\",\"param\":null,\"code\":\"%s\"}}", rows[i].type,
                 rows[i].wire_code);
        ck_assert_str_eq(out.data, wanted);
        buffer_free(&out);
    }
}
END_TEST

static void answer(const char *path, enum status wanted, struct buffer *out, struct error *error)
{
    const char *rest;
    const struct api_endpoint *endpoint = find("GET", path, &rest);
    ck_assert_int_eq(endpoint->answer(&test_facts, rest, out, error), wanted);
}

START_TEST(models_are_listed_and_found)
{
#define MODEL                                                                                                      \
    "{\"id\":\"tiny\",\"object\":\"model\",\"created\":1700000000,\"owned_by\":\"incipit\",\"type\":\"model\","    \
    "\"display_name\":\"tiny\",\"created_at\":\"2023-11-14T22:13:20Z\",\"max_model_len\":4096,\"context_length\":" \
    "4096,"                                                                                                        \
    "\"meta\":{\"n_ctx\":4096,\"n_ctx_train\":8192,\"n_vocab\":1000}}"
    struct buffer out = {0};
    struct error error;
    answer("/v1/models", STATUS_OK, &out, &error);
    ck_assert_str_eq(out.data, "{\"object\":\"list\",\"data\":[" MODEL
                               "],\"has_more\":false,\"first_id\":\"tiny\",\"last_id\":\"tiny\"}");
    buffer_clear(&out);
    answer("/v1/models/tiny", STATUS_OK, &out, &error);
    ck_assert_str_eq(out.data, MODEL);
    answer("/v1/models/other", STATUS_NOT_FOUND, &out, &error);
    ck_assert_str_eq(error.code, "model_not_found");
    buffer_free(&out);
}
END_TEST

START_TEST(the_server_says_what_it_is)
{
    struct buffer out = {0};
    struct error error;
    answer("/version", STATUS_OK, &out, &error);
    ck_assert_str_eq(out.data, "{\"server\":\"incipit\",\"version\":\"0.1\"}");
    buffer_clear(&out);
    answer("/tokenizer_info", STATUS_OK, &out, &error);
    ck_assert_ptr_nonnull(strstr(out.data, "\"eos_token\":\"<end>\""));
    buffer_free(&out);
}
END_TEST

Suite *suite(void)
{
    Suite *table_suite = suite_create("api/endpoint_table");
    TCase *test_case = tcase_create("endpoint_table");
    tcase_add_test(test_case, paths_are_found_with_and_without_the_version);
    tcase_add_test(test_case, the_rest_of_a_path_is_an_id);
    tcase_add_test(test_case, wrong_methods_and_paths_are_told_apart);
    tcase_add_test(test_case, embeddings_are_refused_with_the_reason);
    tcase_add_test(test_case, every_failure_has_its_status_and_type);
    tcase_add_test(test_case, models_are_listed_and_found);
    tcase_add_test(test_case, the_server_says_what_it_is);
    suite_add_tcase(table_suite, test_case);
    return table_suite;
}
