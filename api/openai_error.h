/* OpenAI's error object: {"error": {message, type, param, code}}, all four keys always present. */
#ifndef API_OPENAI_ERROR_H
#define API_OPENAI_ERROR_H

#include "kernels/base/buffer.h"
#include "kernels/base/status.h"

void openai_error_write(const struct error *error, struct buffer *out);

#endif
