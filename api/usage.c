/* See usage.h. */
#include "api/usage.h"

#include "kernels/base/check.h"

void usage_write_openai(struct json_writer *writer, const struct api_usage *usage)
{
    CHECK_SLOW(usage->cached_tokens == 0 || usage->cached_tokens < usage->prompt_tokens);
    CHECK_SLOW(usage->reasoning_tokens <= usage->completion_tokens);
    json_object_begin(writer);
    json_key(writer, "prompt_tokens");
    json_integer(writer, usage->prompt_tokens);
    json_key(writer, "completion_tokens");
    json_integer(writer, usage->completion_tokens);
    json_key(writer, "total_tokens");
    json_integer(writer, (int64_t)usage->prompt_tokens + usage->completion_tokens);
    json_key(writer, "prompt_tokens_details");
    json_object_begin(writer);
    json_key(writer, "cached_tokens");
    json_integer(writer, usage->cached_tokens);
    json_key(writer, "cache_write_tokens");
    json_integer(writer, usage->written_tokens);
    json_object_end(writer);
    json_key(writer, "completion_tokens_details");
    json_object_begin(writer);
    json_key(writer, "reasoning_tokens");
    json_integer(writer, usage->reasoning_tokens);
    json_object_end(writer);
    json_object_end(writer);
}
