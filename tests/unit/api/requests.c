/* See requests.h. */
#include "tests/unit/api/requests.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

const struct api_endpoint *post_endpoint(const char *path)
{
    const char *rest, *allow;
    struct error error;
    const struct api_endpoint *endpoint = api_endpoint_find("POST", path, &rest, &allow, &error);
    ck_assert_ptr_nonnull(endpoint);
    return endpoint;
}

struct api_call *good_call(const char *path, const char *body)
{
    struct api_call *call;
    struct error error = {0};
    enum status status = api_call_open(post_endpoint(path), body, strlen(body), &test_facts, &call, &error);
    ck_assert_msg(status == STATUS_OK, "%s\n%s", body, error.text);
    return call;
}

struct error bad_call(const char *path, const char *body)
{
    struct api_call *call;
    struct error error = {0};
    enum status status = api_call_open(post_endpoint(path), body, strlen(body), &test_facts, &call, &error);
    ck_assert_msg(status != STATUS_OK, "accepted: %s", body);
    ck_assert_ptr_null(call);
    ck_assert_int_eq(status, error.status);
    ck_assert_msg(api_error_status(&error) == 400, "%s\n%s", body, error.text);
    return error;
}

char *body_with(const char *path, const char *field, const char *value)
{
    static const struct {
        const char *path, *needed, *least;
    } rows[] = {
        {"/v1/chat/completions", "messages", "\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]"},
        {"/v1/completions", "prompt", "\"prompt\":\"a\""},
        {"/tokenize", "prompt", "\"prompt\":\"a\""},
        {"/apply-template", "messages", "\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]"},
        {"/detokenize", "tokens", "\"tokens\":[1]"},
    };
    struct buffer body = {0};
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        if (strcmp(rows[i].path, path) != 0)
            continue;
        bool is_needed = strcmp(rows[i].needed, field) == 0 ||
                         (i == 2 && (strcmp(field, "content") == 0 || strcmp(field, "messages") == 0));
        buffer_printf(&body, "{\"%s\":%s%s%s}", field, value, is_needed ? "" : ",", is_needed ? "" : rows[i].least);
    }
    ck_assert_ptr_nonnull(body.data);
    return body.data;
}
