/* The one builder of usage objects: all endpoints, stream or not. */
#ifndef API_USAGE_H
#define API_USAGE_H

#include "api/api.h"
#include "kernels/base/json_writer.h"

/* OpenAI's chat and completions shape. cached_tokens is always an integer. */
void usage_write_openai(struct json_writer *writer, const struct api_usage *usage);

#endif
