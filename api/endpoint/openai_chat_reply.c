/* POST /v1/chat/completions: the reply. A stream's frames, in order: a role frame for each choice, content frames, a
 * frame with finish_reason and an empty delta for each choice, the usage if it was asked for, [DONE]. The role stands
 * in the first frame only: clients' helpers join the strings of all deltas. */
#include "api/endpoint/endpoints.h"
#include "api/reply.h"
#include "api/sse.h"
#include "api/text.h"
#include "api/usage.h"

#define ID_PREFIX "chatcmpl-"

/* ---- log-probabilities ---- */

static void write_token_members(struct json_writer *writer, const struct api_token *token)
{
    json_key(writer, "token");
    text_write_lossy(writer, token->text, token->size);
    json_key(writer, "logprob");
    json_number(writer, reply_logprob(token->logprob));
    json_key(writer, "bytes");
    text_write_bytes(writer, token->text, token->size);
}

static void write_token(struct json_writer *writer, const struct api_token *token)
{
    json_object_begin(writer);
    write_token_members(writer, token);
    json_key(writer, "top_logprobs");
    json_array_begin(writer);
    for (uint32_t i = 0; i < token->top_count; i++) {
        json_object_begin(writer);
        write_token_members(writer, &token->top[i]);
        json_object_end(writer);
    }
    json_array_end(writer);
    json_object_end(writer);
}

static void add_tokens(struct buffer *items, const struct api_token *tokens, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        reply_separate(items);
        struct json_writer writer = json_writer_start(items);
        write_token(&writer, &tokens[i]);
    }
}

static void write_logprobs(struct json_writer *writer, bool wanted, const struct buffer *items)
{
    json_key(writer, "logprobs");
    if (!wanted) {
        json_null(writer);
        return;
    }
    json_object_begin(writer);
    json_key(writer, "content");
    reply_write_list(writer, items);
    json_key(writer, "refusal");
    json_null(writer);
    json_object_end(writer);
}

/* ---- streams ---- */

/* What one frame says of its choice. */
struct delta {
    uint32_t choice;
    bool role;
    const char *text; /* NULL: no content */
    size_t text_size;
    const struct api_token *tokens; /* (token_count) */
    uint32_t token_count;
    const char *finish_reason; /* NULL: not yet */
};

static void write_delta(struct json_writer *writer, const struct delta *delta)
{
    json_key(writer, "delta");
    json_object_begin(writer);
    if (delta->role) {
        json_key(writer, "role");
        json_string(writer, "assistant");
    }
    if (delta->text != NULL) {
        json_key(writer, "content");
        json_bytes(writer, delta->text, delta->text_size);
    }
    json_object_end(writer);
}

static void write_choice_chunk(struct api_reply *reply, struct json_writer *writer, const struct delta *delta)
{
    const struct api_call *call = reply->call;
    struct buffer items = {0};
    if (call->logprobs)
        add_tokens(&items, delta->tokens, delta->token_count);
    json_object_begin(writer);
    json_key(writer, "index");
    json_integer(writer, delta->choice);
    write_delta(writer, delta);
    write_logprobs(writer, call->logprobs && delta->token_count > 0, &items);
    reply_write_text_or_null(writer, "finish_reason", delta->finish_reason);
    if (call->return_token_ids) {
        struct buffer ids = {0};
        reply_add_ids(&ids, delta->tokens, delta->token_count);
        json_key(writer, "token_ids");
        reply_write_list(writer, &ids);
        writer->out->failed = writer->out->failed || ids.failed;
        buffer_free(&ids);
    }
    json_object_end(writer);
    writer->out->failed = writer->out->failed || items.failed;
    buffer_free(&items);
}

/* `delta` NULL and `usage` set: the frame of the usage. */
static void write_chunk(struct api_reply *reply, const struct delta *delta, const struct api_usage *usage,
                        struct buffer *out)
{
    sse_begin(out);
    struct json_writer writer = json_writer_start(out);
    json_object_begin(&writer);
    reply_write_head(reply, &writer, ID_PREFIX, "chat.completion.chunk");
    if (delta != NULL && delta->role && delta->choice == 0 && reply->prompt_ids[0].size > 0) {
        json_key(&writer, "prompt_token_ids");
        reply_write_list(&writer, &reply->prompt_ids[0]);
    }
    json_key(&writer, "choices");
    json_array_begin(&writer);
    if (delta != NULL)
        write_choice_chunk(reply, &writer, delta);
    json_array_end(&writer);
    reply_end_frame(reply, &writer, usage);
}

static void start(struct api_reply *reply, struct buffer *out)
{
    if (reply->started)
        return;
    reply->started = true;
    for (uint32_t i = 0; i < reply->call->choices; i++)
        write_chunk(reply, &(struct delta){.choice = i, .role = true, .text = "", .text_size = 0}, NULL, out);
}

static void stream_event(struct api_reply *reply, const struct api_event *event, struct buffer *out)
{
    struct delta delta = {.choice = event->choice};
    switch (event->type) {
    case API_EVENT_STARTED:
        start(reply, out);
        return;
    case API_EVENT_TEXT:
        start(reply, out);
        delta.text = event->text_size > 0 ? event->text : "";
        delta.text_size = event->text_size;
        delta.tokens = event->tokens;
        delta.token_count = event->token_count;
        write_chunk(reply, &delta, NULL, out);
        return;
    case API_EVENT_STOP:
        start(reply, out);
        delta.finish_reason = reply_stop_reason(event->stop_reason);
        write_chunk(reply, &delta, NULL, out);
        return;
    case API_EVENT_END:
        start(reply, out);
        if (reply->call->include_usage)
            write_chunk(reply, NULL, &event->usage, out);
        sse_done(out);
        return;
    default:
        return;
    }
}

/* ---- whole bodies ---- */

static void write_choice(struct api_reply *reply, struct json_writer *writer, uint32_t index)
{
    const struct reply_choice *choice = &reply->choices[index];
    json_object_begin(writer);
    json_key(writer, "index");
    json_integer(writer, index);
    json_key(writer, "message");
    json_object_begin(writer);
    json_key(writer, "role");
    json_string(writer, "assistant");
    json_key(writer, "content");
    json_bytes(writer, choice->text.size > 0 ? choice->text.data : "", choice->text.size);
    json_key(writer, "refusal");
    json_null(writer);
    json_object_end(writer);
    write_logprobs(writer, reply->call->logprobs, &choice->columns[REPLY_TOKENS]);
    json_key(writer, "finish_reason");
    json_string(writer, reply_stop_reason(choice->stop_reason));
    if (reply->call->return_token_ids) {
        json_key(writer, "token_ids");
        reply_write_list(writer, &choice->ids);
    }
    json_object_end(writer);
}

static void write_body(struct api_reply *reply, const struct api_usage *usage, struct buffer *out)
{
    struct json_writer writer = json_writer_start(out);
    json_object_begin(&writer);
    reply_write_head(reply, &writer, ID_PREFIX, "chat.completion");
    json_key(&writer, "choices");
    json_array_begin(&writer);
    for (uint32_t i = 0; i < reply->call->choices; i++)
        write_choice(reply, &writer, i);
    json_array_end(&writer);
    if (reply->prompt_ids[0].size > 0) {
        json_key(&writer, "prompt_token_ids");
        reply_write_list(&writer, &reply->prompt_ids[0]);
    }
    json_key(&writer, "usage");
    usage_write_openai(&writer, usage);
    json_object_end(&writer);
}

static void collect_tokens(struct reply_choice *choice, const struct api_event *event)
{
    add_tokens(&choice->columns[REPLY_TOKENS], event->tokens, event->token_count);
}

void openai_chat_event(struct api_reply *reply, const struct api_event *event, struct buffer *out)
{
    static const struct reply_shape shape = {collect_tokens, stream_event, write_body};
    reply_take_event(reply, &shape, event, out);
}
