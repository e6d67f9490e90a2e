/* How failures look on the wire. A code that has an HTTP status of its own decides; otherwise the status does. */
#include "api/openai_error.h"

#include <stdint.h>
#include <string.h>

#include "api/api.h"
#include "api/text.h"

struct http_code {
    const char *code;
    uint32_t http;
};

static const struct http_code codes[] = {
    {"context_length_exceeded", 400},
    {"invalid_api_key", 401},
    {"permission_denied", 403},
    {"model_not_found", 404},
    {"method_not_allowed", 405},
    {"request_timeout", 408},
    {"request_too_large", 413},
    {"unsupported_media_type", 415},
    {"queue_full", 429},
    {"rate_limit_exceeded", 429},
    {"loading", 503},
    {"draining", 503},
    {"overloaded", 503},
    {"timeout", 504},
};

struct status_row {
    enum status status;
    uint32_t http;
    const char *code; /* where the error has none of its own */
};

static const struct status_row statuses[] = {
    {STATUS_INVALID, 400, "invalid_value"},   {STATUS_UNSUPPORTED, 400, "unsupported_parameter"},
    {STATUS_NOT_FOUND, 404, "not_found"},     {STATUS_TOO_LARGE, 413, "request_too_large"},
    {STATUS_NO_MEMORY, 503, "overloaded"},    {STATUS_BUSY, 429, "queue_full"},
    {STATUS_CANCELLED, 503, "cancelled"},     {STATUS_IO, 500, "internal_error"},
    {STATUS_INTERNAL, 500, "internal_error"},
};

static const struct status_row *find_status(enum status status)
{
    size_t count = sizeof(statuses) / sizeof(*statuses);
    for (size_t i = 0; i < count; i++)
        if (statuses[i].status == status)
            return &statuses[i];
    return &statuses[count - 1];
}

uint32_t api_error_status(const struct error *error)
{
    for (size_t i = 0; i < sizeof(codes) / sizeof(*codes); i++)
        if (strcmp(codes[i].code, error->code) == 0)
            return codes[i].http;
    return find_status(error->status)->http;
}

const char *api_error_code(const struct error *error)
{
    return error->code[0] != '\0' ? error->code : find_status(error->status)->code;
}

static const char *error_type(uint32_t http)
{
    return http == 401   ? "authentication_error"
           : http == 403 ? "permission_error"
           : http == 408 ? "timeout_error"
           : http == 429 ? "rate_limit_error"
           : http >= 500 ? "server_error"
                         : "invalid_request_error";
}

static void write_or_null(struct json_writer *writer, const char *text)
{
    if (text == NULL || *text == '\0')
        json_null(writer);
    else
        text_write_lossy(writer, text, strlen(text));
}

void openai_error_write(const struct error *error, struct buffer *out)
{
    struct json_writer writer = json_writer_start(out);
    json_object_begin(&writer);
    json_key(&writer, "error");
    json_object_begin(&writer);
    json_key(&writer, "message");
    text_write_lossy(&writer, error->text, strlen(error->text));
    json_key(&writer, "type");
    json_string(&writer, error_type(api_error_status(error)));
    json_key(&writer, "param");
    write_or_null(&writer, error->field);
    json_key(&writer, "code");
    json_string(&writer, api_error_code(error));
    json_object_end(&writer);
    json_object_end(&writer);
}

/* All endpoints speak this dialect so far. */
void api_error_body(const struct api_endpoint *endpoint, const struct error *error, struct buffer *out)
{
    (void)endpoint;
    openai_error_write(error, out);
}
