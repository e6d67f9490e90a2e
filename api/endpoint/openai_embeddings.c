/* POST /v1/embeddings: clients look for it, so that they are told why there is none. */
#include "api/endpoint/endpoints.h"

enum status openai_embeddings_parse(struct api_call *call, const char *body, size_t size, const struct api_facts *facts,
                                    struct error *error)
{
    (void)call;
    (void)body;
    (void)size;
    error_field(error, STATUS_UNSUPPORTED, "model", "no embedding model is loaded; %.120s only generates text",
                facts->model_id);
    return error_code(error, "unsupported_model");
}
