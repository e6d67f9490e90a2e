/* Every endpoint, and finding one. */
#include <string.h>

#include "api/api.h"
#include "api/endpoint/endpoints.h"

static const struct api_endpoint endpoints[] = {
    {"POST", "/chat/completions", openai_chat_parse, openai_chat_event, NULL},
    {"POST", "/completions", openai_completions_parse, openai_completions_event, NULL},
    {"POST", "/embeddings", openai_embeddings_parse, NULL, NULL}, /* always a failure */
    {"GET", "/models", NULL, NULL, models_list},
    {"GET", "/models/*", NULL, NULL, models_one},
    {"POST", "/tokenize", tokenize_parse, tokenize_event, NULL},
    {"POST", "/detokenize", detokenize_parse, detokenize_event, NULL},
    {"POST", "/apply-template", apply_template_parse, apply_template_event, NULL},
    {"GET", "/tokenizer_info", NULL, NULL, tokenizer_info_answer},
    {"GET", "/health", NULL, NULL, NULL},
    {"GET", "/ping", NULL, NULL, NULL},
    {"GET", "/metrics", NULL, NULL, NULL},
    {"GET", "/version", NULL, NULL, version_answer},
    {"GET", "/", NULL, NULL, version_answer},
};

#define ENDPOINTS (sizeof(endpoints) / sizeof(*endpoints))

static bool matches(const char *pattern, const char *path, const char **rest)
{
    size_t pattern_size = strlen(pattern), path_size = strlen(path);
    if (pattern[pattern_size - 1] == '*') {
        if (path_size < pattern_size || memcmp(pattern, path, pattern_size - 1) != 0)
            return false;
        *rest = path + pattern_size - 1;
        return true;
    }
    if (path_size == pattern_size + 1 && path_size > 2 && path[path_size - 1] == '/')
        path_size--;
    return path_size == pattern_size && memcmp(pattern, path, path_size) == 0;
}

static bool allows(const struct api_endpoint *endpoint, const char *method)
{
    return strcmp(endpoint->method, method) == 0 ||
           (strcmp(method, "HEAD") == 0 && strcmp(endpoint->method, "GET") == 0);
}

const struct api_endpoint *api_endpoint_find(const char *method, const char *path, const char **rest,
                                             const char **allow, struct error *error)
{
    const struct api_endpoint *other = NULL;
    const char *inner = strncmp(path, "/v1", 3) == 0 && (path[3] == '/' || path[3] == '\0') ? path + 3 : path;
    inner = *inner == '\0' ? "/" : inner;
    *rest = "";
    *allow = NULL;
    for (size_t i = 0; i < ENDPOINTS; i++) {
        if (!matches(endpoints[i].path, inner, rest))
            continue;
        if (allows(&endpoints[i], method))
            return &endpoints[i];
        other = &endpoints[i];
    }
    if (other == NULL) {
        error_set(error, STATUS_NOT_FOUND,
                  "there is no %.200s on this server; it has /v1/chat/completions, /v1/completions, /v1/models, "
                  "/tokenize, /detokenize, /apply-template and /health",
                  path);
        return NULL;
    }
    *allow = strcmp(other->method, "GET") == 0 ? "GET, HEAD, OPTIONS" : "POST, OPTIONS";
    error_set(error, STATUS_UNSUPPORTED, "%.200s does not take %.20s; it takes %s", path, method, *allow);
    error_code(error, "method_not_allowed");
    return NULL;
}
