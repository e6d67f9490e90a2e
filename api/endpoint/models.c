/* GET /v1/models and /v1/models/{id}: one object that both big dialects' clients read. */
#include <time.h>

#include "api/endpoint/endpoints.h"
#include "api/openai_fields.h"
#include "kernels/base/json_writer.h"

static void write_text(struct json_writer *writer, const char *key, const char *text)
{
    json_key(writer, key);
    json_string(writer, text);
}

static void write_count(struct json_writer *writer, const char *key, int64_t count)
{
    json_key(writer, key);
    json_integer(writer, count);
}

static void write_model(struct json_writer *writer, const struct api_facts *facts)
{
    char created[32] = "";
    time_t seconds = (time_t)facts->created_unix_s;
    struct tm utc;
    if (gmtime_r(&seconds, &utc) != NULL)
        strftime(created, sizeof(created), "%Y-%m-%dT%H:%M:%SZ", &utc);
    json_object_begin(writer);
    write_text(writer, "id", facts->model_id);
    write_text(writer, "object", "model");
    write_count(writer, "created", facts->created_unix_s);
    write_text(writer, "owned_by", "incipit");
    write_text(writer, "type", "model");
    write_text(writer, "display_name", facts->model_id);
    write_text(writer, "created_at", created);
    write_count(writer, "max_model_len", facts->context);
    write_count(writer, "context_length", facts->context);
    json_key(writer, "meta");
    json_object_begin(writer);
    write_count(writer, "n_ctx", facts->context);
    write_count(writer, "n_ctx_train", facts->context_trained);
    write_count(writer, "n_vocab", facts->vocabulary);
    json_object_end(writer);
    json_object_end(writer);
}

enum status models_list(const struct api_facts *facts, const char *rest, struct buffer *out, struct error *error)
{
    (void)rest;
    (void)error;
    struct json_writer writer = json_writer_start(out);
    json_object_begin(&writer);
    write_text(&writer, "object", "list");
    json_key(&writer, "data");
    json_array_begin(&writer);
    write_model(&writer, facts);
    json_array_end(&writer);
    json_key(&writer, "has_more");
    json_bool(&writer, false);
    write_text(&writer, "first_id", facts->model_id);
    write_text(&writer, "last_id", facts->model_id);
    json_object_end(&writer);
    return STATUS_OK;
}

enum status models_one(const struct api_facts *facts, const char *rest, struct buffer *out, struct error *error)
{
    if (openai_model_check(rest, facts, error) != STATUS_OK)
        return error->status;
    struct json_writer writer = json_writer_start(out);
    write_model(&writer, facts);
    return STATUS_OK;
}
