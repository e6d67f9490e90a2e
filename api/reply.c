/* Life of replies, and the parts that dialects share. */
#include "api/reply.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/sse.h"
#include "api/usage.h"
#include "kernels/base/check.h"
#include "kernels/base/thread.h"

enum status api_reply_open(const struct api_call *call, const struct api_facts *facts, const char *request_id,
                           struct api_reply **out, struct error *error)
{
    struct api_reply *reply = calloc(1, sizeof(*reply));
    *out = NULL;
    if (reply == NULL)
        return error_no_memory(error, "the reply");
    reply->call = call;
    reply->choice_count = api_call_choices(call);
    reply->prompt_count = api_call_prompts(call);
    reply->choices = calloc(reply->choice_count, sizeof(*reply->choices));
    reply->prompt_ids = calloc(reply->prompt_count, sizeof(*reply->prompt_ids));
    if (reply->choices == NULL || reply->prompt_ids == NULL) {
        free(reply->choices);
        free(reply->prompt_ids);
        free(reply);
        return error_no_memory(error, "the reply");
    }
    reply->facts = facts;
    reply->created_unix_s = (int64_t)(clock_unix_ms() / 1000);
    snprintf(reply->id, sizeof(reply->id), "%s", request_id);
    *out = reply;
    return STATUS_OK;
}

void api_reply_close(struct api_reply *reply)
{
    if (reply == NULL)
        return;
    for (uint32_t i = 0; i < reply->choice_count; i++) {
        struct reply_choice *choice = &reply->choices[i];
        buffer_free(&choice->text);
        for (size_t column = 0; column < REPLY_COLUMNS; column++)
            buffer_free(&choice->columns[column]);
        buffer_free(&choice->ids);
    }
    for (uint32_t i = 0; i < reply->prompt_count; i++)
        buffer_free(&reply->prompt_ids[i]);
    buffer_free(&reply->answer);
    buffer_free(&reply->strings);
    free(reply->prompt_ids);
    free(reply->choices);
    free(reply);
}

void api_reply_event(struct api_reply *reply, const struct api_event *event, struct buffer *out)
{
    reply->call->endpoint->event(reply, event, out);
    reply_check_memory(reply, out);
}

void api_reply_keepalive(struct api_reply *reply, struct buffer *out)
{
    if (reply->call->stream)
        sse_comment(out);
}

struct reply_choice *reply_choice(struct api_reply *reply, const struct api_event *event)
{
    CHECK(event->choice < reply->choice_count);
    return &reply->choices[event->choice];
}

struct buffer *reply_prompt_ids(struct api_reply *reply, uint32_t choice)
{
    CHECK(choice < reply->choice_count);
    return &reply->prompt_ids[choice / (reply->choice_count / reply->prompt_count)];
}

void reply_separate(struct buffer *items)
{
    if (items->size > 0)
        buffer_byte(items, ',');
}

void reply_add_ids(struct buffer *ids, const struct api_token *tokens, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        reply_separate(ids);
        buffer_printf(ids, "%" PRId32, tokens[i].id);
    }
}

void reply_write_list(struct json_writer *writer, const struct buffer *items)
{
    json_array_begin(writer);
    if (items->size > 0)
        json_raw(writer, items->data, items->size);
    json_array_end(writer);
}

void reply_write_head(const struct api_reply *reply, struct json_writer *writer, const char *id_prefix,
                      const char *object)
{
    char id[sizeof(reply->id) + 16];
    snprintf(id, sizeof(id), "%s%s", id_prefix, reply->id);
    json_key(writer, "id");
    json_string(writer, id);
    json_key(writer, "object");
    json_string(writer, object);
    json_key(writer, "created");
    json_integer(writer, reply->created_unix_s);
    json_key(writer, "model");
    json_string(writer, reply->call->model);
    json_key(writer, "system_fingerprint");
    json_string(writer, reply->facts->fingerprint);
    if (reply->call->echo_service_tier) {
        json_key(writer, "service_tier");
        json_string(writer, "default");
    }
}

void reply_write_text_or_null(struct json_writer *writer, const char *key, const char *text)
{
    json_key(writer, key);
    if (text == NULL)
        json_null(writer);
    else
        json_string(writer, text);
}

void reply_end_frame(const struct api_reply *reply, struct json_writer *writer, const struct api_usage *usage)
{
    if (reply->call->include_usage) {
        json_key(writer, "usage");
        if (usage == NULL)
            json_null(writer);
        else
            usage_write_openai(writer, usage);
    }
    json_object_end(writer);
    sse_end(writer->out);
}

const char *reply_stop_reason(enum api_stop_reason reason)
{
    return reason == API_STOP_LENGTH ? "length" : "stop";
}

double reply_logprob(float logprob)
{
    return isfinite(logprob) ? (double)logprob : -9999.0;
}

void reply_fail(struct api_reply *reply, const struct api_event *event, struct buffer *out)
{
    if (!reply->call->stream) {
        api_error_body(reply->call->endpoint, &event->error, out);
        return;
    }
    sse_begin(out);
    api_error_body(reply->call->endpoint, &event->error, out);
    sse_end(out);
    sse_done(out);
}

bool reply_take_answer(struct api_reply *reply, const struct api_event *event, struct buffer *out, const char **text,
                       size_t *size)
{
    if (event->type == API_EVENT_ERROR)
        reply_fail(reply, event, out);
    else if (event->type == API_EVENT_TOKENS && event->text_size > 0)
        buffer_append(&reply->answer, event->text, event->text_size);
    *size = reply->answer.size;
    *text = *size > 0 ? reply->answer.data : "";
    return event->type == API_EVENT_END;
}

/* A body begins when all that belongs into it is there. */
static void collect(struct api_reply *reply, const struct reply_shape *shape, const struct api_event *event,
                    struct buffer *out)
{
    if (event->type == API_EVENT_TEXT || event->type == API_EVENT_ECHO) {
        struct reply_choice *choice = reply_choice(reply, event);
        if (event->text_size > 0)
            buffer_append(&choice->text, event->text, event->text_size);
        if (reply->call->logprobs)
            shape->add_tokens(choice, event);
        if (reply->call->return_token_ids && event->type == API_EVENT_TEXT)
            reply_add_ids(&choice->ids, event->tokens, event->token_count);
    } else if (event->type == API_EVENT_STOP) {
        reply_choice(reply, event)->stop_reason = event->stop_reason;
    } else if (event->type == API_EVENT_END) {
        shape->body(reply, &event->usage, out);
    }
}

void reply_take_event(struct api_reply *reply, const struct reply_shape *shape, const struct api_event *event,
                      struct buffer *out)
{
    if (event->type == API_EVENT_ERROR)
        reply_fail(reply, event, out);
    else if (event->type == API_EVENT_PROMPT)
        reply_add_ids(reply_prompt_ids(reply, event->choice), event->tokens, event->token_count);
    else if (reply->call->stream)
        shape->stream(reply, event, out);
    else
        collect(reply, shape, event, out);
}

void reply_check_memory(const struct api_reply *reply, struct buffer *out)
{
    bool failed = reply->answer.failed || reply->strings.failed;
    for (uint32_t i = 0; i < reply->prompt_count; i++)
        failed = failed || reply->prompt_ids[i].failed;
    for (uint32_t i = 0; i < reply->choice_count; i++) {
        const struct reply_choice *choice = &reply->choices[i];
        failed = failed || choice->text.failed || choice->ids.failed;
        for (size_t column = 0; column < REPLY_COLUMNS; column++)
            failed = failed || choice->columns[column].failed;
    }
    out->failed = out->failed || failed;
}
