/* POST /v1/completions: the reply. A stream's frames are the whole body's object with parts of the text; log-
 * probabilities are four parallel lists. A token whose bytes are no text by themselves is written "bytes:\xe2\x80". */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "api/endpoint/endpoints.h"
#include "api/reply.h"
#include "api/sse.h"
#include "api/text.h"
#include "api/usage.h"
#include "kernels/base/utf8.h"

#define ID_PREFIX "cmpl-"

/* ---- log-probabilities ---- */

/* A token's name, in `name`. */
static void name_token(const struct api_token *token, struct buffer *name)
{
    buffer_clear(name);
    buffer_text(name, ""); /* never NULL */
    if (utf8_invalid_at(token->text, token->size) == token->size) {
        buffer_append(name, token->text, token->size);
        return;
    }
    buffer_text(name, "bytes:");
    for (size_t i = 0; i < token->size; i++)
        buffer_printf(name, "\\x%02x", (unsigned)(unsigned char)token->text[i]);
}

static bool same_text(const struct api_token *a, const struct api_token *b)
{
    return a->size == b->size && memcmp(a->text, b->text, a->size) == 0;
}

/* {name: logprob}: the most probable tokens and the drawn one. Two ids may have one text; the first stands for both,
 * since a key must not occur twice. */
static void write_tops(struct json_writer *writer, const struct api_token *token, struct buffer *name)
{
    json_object_begin(writer);
    for (uint32_t i = 0; i <= token->top_count; i++) {
        const struct api_token *one = i < token->top_count ? &token->top[i] : token;
        bool repeated = false;
        for (uint32_t j = 0; j < i; j++)
            repeated = repeated || same_text(&token->top[j], one);
        name_token(one, name);
        if (repeated || name->failed)
            continue;
        json_key(writer, name->data);
        json_number(writer, reply_logprob(one->logprob));
    }
    json_object_end(writer);
}

static void add_token(struct reply_choice *choice, struct buffer *columns, const struct api_token *token,
                      struct buffer *name)
{
    for (size_t column = 0; column < REPLY_COLUMNS; column++)
        reply_separate(&columns[column]);
    name_token(token, name);
    struct json_writer writer = json_writer_start(&columns[REPLY_TOKENS]);
    json_bytes(&writer, name->failed ? "" : name->data, name->failed ? 0 : name->size);
    writer = json_writer_start(&columns[REPLY_LOGPROBS]);
    if (isnan(token->logprob))
        json_null(&writer);
    else
        json_number(&writer, reply_logprob(token->logprob));
    writer = json_writer_start(&columns[REPLY_TOPS]);
    if (isnan(token->logprob))
        json_null(&writer);
    else
        write_tops(&writer, token, name);
    writer = json_writer_start(&columns[REPLY_OFFSETS]);
    json_integer(&writer, (int64_t)choice->characters);
    choice->characters += token->hidden ? 0 : text_characters(token->text, token->size);
}

static void add_tokens(struct reply_choice *choice, struct buffer *columns, const struct api_event *event)
{
    struct buffer name = {0};
    for (uint32_t i = 0; i < event->token_count; i++)
        add_token(choice, columns, &event->tokens[i], &name);
    columns[REPLY_TOKENS].failed = columns[REPLY_TOKENS].failed || name.failed;
    buffer_free(&name);
}

static void write_logprobs(struct json_writer *writer, const struct buffer *columns)
{
    static const char *const keys[REPLY_COLUMNS] = {"tokens", "token_logprobs", "top_logprobs", "text_offset"};
    json_key(writer, "logprobs");
    if (columns == NULL) {
        json_null(writer);
        return;
    }
    json_object_begin(writer);
    for (size_t column = 0; column < REPLY_COLUMNS; column++) {
        json_key(writer, keys[column]);
        reply_write_list(writer, &columns[column]);
    }
    json_object_end(writer);
}

/* ---- the object ---- */

/* What a choice of a frame or of the body says. */
struct part {
    uint32_t choice;
    const char *text; /* (text_size) */
    size_t text_size;
    const struct buffer *columns; /* (REPLY_COLUMNS); NULL: none */
    const struct buffer *ids;
    const char *finish_reason; /* NULL: not yet */
};

/* With a choice where there are several prompts: in the body, or in the choice's first frame. */
static void write_prompt_ids(struct api_reply *reply, struct json_writer *writer, uint32_t index)
{
    struct reply_choice *choice = &reply->choices[index];
    if (reply->prompt_count == 1 || choice->shown)
        return;
    choice->shown = true;
    json_key(writer, "prompt_token_ids");
    reply_write_list(writer, reply_prompt_ids(reply, index));
}

static void write_part(struct api_reply *reply, struct json_writer *writer, const struct part *part)
{
    json_object_begin(writer);
    json_key(writer, "index");
    json_integer(writer, part->choice);
    json_key(writer, "text");
    json_bytes(writer, part->text_size > 0 ? part->text : "", part->text_size);
    write_logprobs(writer, part->columns);
    reply_write_text_or_null(writer, "finish_reason", part->finish_reason);
    if (reply->call->return_token_ids) {
        json_key(writer, "token_ids");
        reply_write_list(writer, part->ids);
        write_prompt_ids(reply, writer, part->choice);
    }
    json_object_end(writer);
}

/* Beside the choices there is room for the ids of one prompt only: in the body, or in the first frame of a stream. */
static void write_only_prompt_ids(struct api_reply *reply, struct json_writer *writer)
{
    if (reply->prompt_count > 1 || reply->prompt_ids[0].size == 0 || reply->started)
        return;
    json_key(writer, "prompt_token_ids");
    reply_write_list(writer, &reply->prompt_ids[0]);
}

static void write_frame(struct api_reply *reply, const struct part *part, const struct api_usage *usage,
                        struct buffer *out)
{
    sse_begin(out);
    struct json_writer writer = json_writer_start(out);
    json_object_begin(&writer);
    reply_write_head(reply, &writer, ID_PREFIX, "text_completion");
    write_only_prompt_ids(reply, &writer);
    reply->started = true;
    json_key(&writer, "choices");
    json_array_begin(&writer);
    if (part != NULL)
        write_part(reply, &writer, part);
    json_array_end(&writer);
    reply_end_frame(reply, &writer, usage);
}

static void write_text_frame(struct api_reply *reply, const struct api_event *event, struct buffer *out)
{
    struct buffer columns[REPLY_COLUMNS] = {{0}};
    struct buffer ids = {0};
    struct part part = {.choice = event->choice, .text = event->text, .text_size = event->text_size, .ids = &ids};
    if (reply->call->logprobs && event->token_count > 0) {
        add_tokens(reply_choice(reply, event), columns, event);
        part.columns = columns;
    }
    if (reply->call->return_token_ids && event->type == API_EVENT_TEXT)
        reply_add_ids(&ids, event->tokens, event->token_count);
    write_frame(reply, &part, NULL, out);
    for (size_t column = 0; column < REPLY_COLUMNS; column++) {
        out->failed = out->failed || columns[column].failed;
        buffer_free(&columns[column]);
    }
    out->failed = out->failed || ids.failed;
    buffer_free(&ids);
}

static void stream_event(struct api_reply *reply, const struct api_event *event, struct buffer *out)
{
    static const struct buffer none = {0};
    if (event->type == API_EVENT_TEXT || event->type == API_EVENT_ECHO) {
        write_text_frame(reply, event, out);
    } else if (event->type == API_EVENT_STOP) {
        struct part part = {.choice = event->choice, .ids = &none};
        part.finish_reason = reply_stop_reason(event->stop_reason);
        write_frame(reply, &part, NULL, out);
    } else if (event->type == API_EVENT_END) {
        if (reply->call->include_usage)
            write_frame(reply, NULL, &event->usage, out);
        sse_done(out);
    }
}

static void write_body(struct api_reply *reply, const struct api_usage *usage, struct buffer *out)
{
    struct json_writer writer = json_writer_start(out);
    json_object_begin(&writer);
    reply_write_head(reply, &writer, ID_PREFIX, "text_completion");
    json_key(&writer, "choices");
    json_array_begin(&writer);
    for (uint32_t i = 0; i < reply->choice_count; i++) {
        const struct reply_choice *choice = &reply->choices[i];
        struct part part = {
            .choice = i, .text = choice->text.data, .text_size = choice->text.size, .ids = &choice->ids};
        part.columns = reply->call->logprobs ? choice->columns : NULL;
        part.finish_reason = reply_stop_reason(choice->stop_reason);
        write_part(reply, &writer, &part);
    }
    json_array_end(&writer);
    write_only_prompt_ids(reply, &writer);
    json_key(&writer, "usage");
    usage_write_openai(&writer, usage);
    json_object_end(&writer);
}

static void collect_tokens(struct reply_choice *choice, const struct api_event *event)
{
    add_tokens(choice, choice->columns, event);
}

void openai_completions_event(struct api_reply *reply, const struct api_event *event, struct buffer *out)
{
    static const struct reply_shape shape = {collect_tokens, stream_event, write_body};
    reply_take_event(reply, &shape, event, out);
}
