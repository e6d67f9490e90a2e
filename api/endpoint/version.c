/* GET /version, and GET / for who asks what this is. */
#include "api/endpoint/endpoints.h"
#include "kernels/base/json_writer.h"

enum status version_answer(const struct api_facts *facts, const char *rest, struct buffer *out, struct error *error)
{
    (void)rest;
    (void)error;
    struct json_writer writer = json_writer_start(out);
    json_object_begin(&writer);
    json_key(&writer, "server");
    json_string(&writer, "incipit");
    json_key(&writer, "version");
    json_string(&writer, facts->version);
    json_object_end(&writer);
    return STATUS_OK;
}
