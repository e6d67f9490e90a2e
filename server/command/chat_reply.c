#include "server/command/chat_reply.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "kernels/base/thread.h"
#include "server/command/command.h"
#include "server/engine/prompt.h"

struct reply {
    struct buffer *text;
    struct api_usage usage;
    enum api_stop_reason stop_reason;
    uint64_t start_ns;
    uint64_t first_ns; /* of the first text; 0: none yet */
    bool ended;
    bool failed; /* for the reason in `error` */
    struct error error;
};

static void wake(void *context)
{
    const struct chat_source *source = context;
    uint64_t one = 1;
    ssize_t written = write(source->wake_fd, &one, sizeof one);
    (void)written; /* a full counter is awake already */
}

static void take_event(struct reply *reply, const struct api_event *event)
{
    if (event->type == API_EVENT_TEXT && event->text_size > 0) {
        if (reply->first_ns == 0)
            reply->first_ns = clock_ns();
        buffer_append(reply->text, event->text, event->text_size);
        fwrite(event->text, 1, event->text_size, stdout);
        fflush(stdout);
    } else if (event->type == API_EVENT_STOP) {
        reply->stop_reason = event->stop_reason;
    } else if (event->type == API_EVENT_END) {
        reply->usage = event->usage;
        reply->ended = true;
    } else if (event->type == API_EVENT_ERROR) {
        reply->usage = event->usage;
        reply->ended = true;
        reply->failed = true;
        reply->error = event->error;
    }
}

static void take_events(struct chat_source *source, struct engine_request *request, struct reply *reply)
{
    while (!reply->ended) {
        struct api_event event;
        uint64_t count;
        bool stop = false;
        if (engine_request_take(request, &event))
            take_event(reply, &event);
        else if (read(source->wake_fd, &count, sizeof count) < 0)
            stop = chat_input_wait(source->input, source->wake_fd);
        if (stop || ferror(stdout)) /* nobody reads on */
            engine_request_cancel(request);
    }
}

/* ---- what is said about it ---- */

/* The engine refused to take it, so it has no figures; 0: cannot be told. */
static size_t count_prompt(const struct chat_source *source, const struct chat_conversation *conversation)
{
    const struct runtime *runtime = source->runtime;
    struct api_call *call = chat_conversation_call(conversation, source->options, runtime->model_id);
    struct arena arena = {0};
    struct chat_prompt prompt;
    struct tokenizer_ids ids = {0};
    struct tokenizer_scratch *scratch = NULL;
    struct error error;
    size_t count = 0;
    if (call != NULL && tokenizer_scratch_open(runtime->tokenizer, &scratch, &error) == STATUS_OK &&
        prompt_render(runtime->chat_template, &call->chat, &arena, &prompt, &error) == STATUS_OK &&
        prompt_tokenize(runtime->tokenizer, scratch, &prompt, &ids, &error) == STATUS_OK)
        count = ids.count;
    tokenizer_ids_free(&ids);
    tokenizer_scratch_close(scratch);
    arena_free(&arena);
    api_call_close(call);
    return count;
}

/* The engine's sentence is for clients, who can change what they send; here the way out is another one. */
static void show_failure(const struct chat_source *source, const struct chat_conversation *conversation,
                         const struct error *error)
{
    size_t first = source->options->system[0] != '\0' ? 2 : 1;
    size_t count = strcmp(error->code, "context_length_exceeded") == 0 ? count_prompt(source, conversation) : 0;
    if (count < source->context)
        command_fail(error);
    else if (conversation->count <= first)
        fprintf(stderr, "incipit: this line is too long (%zu of %u tokens)\n", count, source->context);
    else
        fprintf(stderr, "incipit: the conversation is full (%zu of %u tokens); /clear begins a new one\n", count,
                source->context);
}

static void show_figures(const struct chat_source *source, const struct reply *reply)
{
    const struct api_usage *usage = &reply->usage;
    const struct options *options = source->options;
    double wait_ms = reply->first_ns != 0 ? (double)(reply->first_ns - reply->start_ns) / 1e6 : 0;
    double write_s = reply->first_ns != 0 ? (double)(clock_ns() - reply->first_ns) / 1e9 : 0;
    if (!reply->failed && reply->stop_reason == API_STOP_LENGTH) {
        bool wanted = options->max_tokens > 0 && usage->completion_tokens >= (uint64_t)options->max_tokens;
        fprintf(stderr, "[cut at %s]\n", wanted ? "--max-tokens" : "the context limit");
    }
    fprintf(stderr, "[%u prompt tokens, %u from the cache; first token after %.0f ms; %u tokens at %.1f a second]\n",
            usage->prompt_tokens, usage->cached_tokens, wait_ms, usage->completion_tokens,
            write_s > 0 ? usage->completion_tokens / write_s : 0.0);
}

enum chat_reply_result chat_reply_take(struct chat_source *source, const struct chat_conversation *conversation,
                                       struct buffer *text)
{
    struct reply reply = {.text = text, .start_ns = clock_ns()};
    struct engine_request *request;
    struct error error;
    struct api_call *call = chat_conversation_call(conversation, source->options, source->runtime->model_id);
    enum status status = call != NULL ? STATUS_OK : error_no_memory(&error, "the conversation");
    if (status == STATUS_OK)
        status = engine_submit(
            source->engine,
            &(struct engine_submission){.call = call, .request_id = "chat", .wake = wake, .wake_context = source},
            &request, &error);
    if (status != STATUS_OK) {
        command_fail(&error);
        return CHAT_REPLY_FAILED;
    }
    take_events(source, request, &reply);
    bool stopped = reply.failed && reply.error.status == STATUS_CANCELLED;
    if (!reply.failed || text->size > 0)
        putchar('\n');
    fflush(stdout);
    if (reply.failed && !stopped)
        show_failure(source, conversation, &reply.error);
    else if (chat_input_is_terminal(source->input))
        show_figures(source, &reply);
    engine_request_release(request);
    if (reply.failed)
        return stopped ? CHAT_REPLY_STOPPED : CHAT_REPLY_FAILED;
    return CHAT_REPLY_DONE;
}
