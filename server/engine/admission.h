/* Whether a request can ever be served, before any work is done for it. Pure. */
#ifndef SERVER_ENGINE_ADMISSION_H
#define SERVER_ENGINE_ADMISSION_H

#include <stddef.h>
#include <stdint.h>

#include "api/api.h"

struct admission_limits {
    uint32_t context;         /* tokens a sequence may have */
    uint32_t pool_tokens_max; /* tokens of one sequence that fit the KV pool */
    uint32_t sequences_max;
};

enum status admission_check_choices(const struct admission_limits *limits, uint32_t choices, struct error *error);

/* *tokens_max: how many tokens may be drawn, max_tokens cut down to what fits behind the prompt. A prompt behind which
 * nothing fits is refused. */
enum status admission_check_prompt(const struct admission_limits *limits, const struct api_call *call, size_t prompt,
                                   uint32_t *tokens_max, struct error *error);

/* Memory for all choices together, beside their KV. */
enum status admission_check_memory(size_t bytes_max, size_t bytes, const struct api_call *call, struct error *error);

#endif
