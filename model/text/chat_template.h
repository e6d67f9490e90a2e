/* Chat templates: a Jinja engine of our own, exact to the byte against jinja2 in the environment that transformers sets
 * up (trim_blocks, lstrip_blocks, loop controls, `generation`, Python's str, repr and json rules).
 *
 * chat_template_open compiles once; the result is constant and may be rendered from several threads at once, each with
 * an arena of its own. A template and its input are not trusted: steps, depth, output and memory are bounded, and
 * nothing but the given data can be reached.
 *
 * The rendered text comes with spans: every output byte lies in exactly one, in order. Literal text of the template is
 * trusted; text that came out of the messages is not (unless its chat_value says so), through every filter and method.
 * Where an operation mixes or changes text so that offsets no longer map, source_offset is CHAT_SPAN_UNKNOWN: never
 * wrong. */
#ifndef MODEL_TEXT_CHAT_TEMPLATE_H
#define MODEL_TEXT_CHAT_TEMPLATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/base/arena.h"
#include "kernels/base/status.h"
#include "model/text/chat.h"

#define CHAT_SPAN_UNKNOWN SIZE_MAX

struct chat_span {
    size_t offset;        /* in the output */
    size_t size;          /* > 0 */
    int32_t message;      /* index of the message it came from; -1: the template itself, or unknown */
    const char *field;    /* the chat_value's field; NULL: none */
    size_t source_offset; /* in the field's text; or CHAT_SPAN_UNKNOWN */
    bool trusted;         /* may become control tokens */
};

struct chat_prompt {
    const char *text; /* UTF-8, in the arena given to render */
    size_t size;
    const struct chat_span *spans; /* (span_count): cover the text without gaps */
    size_t span_count;
};

struct chat_template;

/* Special-token texts a template may name (bos_token, eos_token, ...). Any may be NULL: then it is "". */
struct chat_template_tokens {
    const char *bos_token;
    const char *eos_token;
    const char *unk_token;
    const char *pad_token;
};

struct chat_template_limits {
    uint64_t steps_max; /* expressions evaluated; 0: the default, 20 million */
    uint32_t depth_max; /* nesting of calls and blocks; 0: 128 */
    size_t output_max;  /* bytes; 0: 256 MiB */
    size_t memory_max;  /* bytes of arena; 0: 512 MiB */
};

/* Syntax errors and constructs that are not supported name the line. `source` need not outlive the call. */
enum status chat_template_open(const char *source, size_t size, const struct chat_template_tokens *tokens,
                               struct chat_template **out, struct error *error);
void chat_template_close(struct chat_template *chat_template);

/* STATUS_INVALID with the template's own words when it raises; STATUS_TOO_LARGE when a limit is passed. */
enum status chat_template_render(const struct chat_template *chat_template, const struct chat *chat,
                                 const struct chat_template_limits *limits, struct arena *arena,
                                 struct chat_prompt *out, struct error *error);

/* The general entry, for tests: any variables, no chat. `variables` is an object. */
enum status chat_template_render_value(const struct chat_template *chat_template, const struct chat_value *variables,
                                       const struct chat_template_limits *limits, struct arena *arena,
                                       struct chat_prompt *out, struct error *error);

#endif
