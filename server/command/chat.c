/* incipit chat: a conversation in the terminal. Every turn resends the whole conversation through the same engine that
 * serve uses, so the growing prefix comes from the cache; the line after each reply says how much did.
 *
 * The main thread reads lines and prints; the engine's wake writes an eventfd that it polls. Control-C ends a reply, or
 * the chat when none is running. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "kernels/base/thread.h"
#include "server/command/command.h"
#include "server/engine/engine.h"
#include "server/runtime.h"

enum { TURNS_MAX = 4096 };

struct turn {
    const char *role;
    char *text;
};

struct chat_session {
    const struct options *options;
    struct engine *engine;
    const char *model_id;
    int wake_fd;
    struct turn turns[TURNS_MAX];
    size_t turn_count;
    bool terminal; /* stdin is one: show prompts and figures */
};

static volatile sig_atomic_t interrupted;

static void on_interrupt(int number)
{
    (void)number;
    interrupted = 1;
}

static void wake(void *context)
{
    const struct chat_session *session = context;
    uint64_t one = 1;
    ssize_t written = write(session->wake_fd, &one, sizeof one);
    (void)written; /* a full counter is awake already */
}

static bool add_turn(struct chat_session *session, const char *role, const char *text)
{
    char *copy = session->turn_count < TURNS_MAX ? strdup(text) : NULL;
    if (copy == NULL)
        return false;
    session->turns[session->turn_count++] = (struct turn){role, copy};
    return true;
}

static void drop_turns(struct chat_session *session, size_t keep)
{
    while (session->turn_count > keep)
        free(session->turns[--session->turn_count].text);
}

/* ---- a call ---- */

static bool put_text(struct arena *arena, struct chat_value *message, const char *key, const char *text, int32_t index,
                     bool trusted)
{
    struct chat_value *value = chat_text(arena, text, strlen(text));
    if (value == NULL)
        return false;
    value->message = index;
    value->field = key;
    value->trusted = trusted;
    return chat_object_put(arena, message, key, strlen(key), value);
}

static bool add_messages(const struct chat_session *session, struct api_call *call)
{
    struct arena *arena = &call->arena;
    struct chat_value *messages = chat_list(arena);
    for (size_t i = 0; messages != NULL && i < session->turn_count; i++) {
        struct chat_value *message = chat_object(arena);
        if (message == NULL || !put_text(arena, message, "role", session->turns[i].role, (int32_t)i, true) ||
            !put_text(arena, message, "content", session->turns[i].text, (int32_t)i, false) ||
            !chat_list_add(arena, messages, message))
            return false;
    }
    call->chat.messages = messages;
    return messages != NULL;
}

static struct api_call *make_call(const struct chat_session *session)
{
    const struct options *options = session->options;
    struct api_call *call = api_call_blank(API_CHAT);
    if (call == NULL)
        return NULL;
    call->is_chat = true;
    call->stream = true;
    call->model = session->model_id;
    call->sampling.temperature = (float)options->temperature;
    call->sampling.has_seed = options->seed >= 0;
    call->sampling.seed = options->seed >= 0 ? (uint64_t)options->seed : 0;
    call->has_max_tokens = options->max_tokens > 0;
    call->max_tokens = (uint32_t)options->max_tokens;
    if (add_messages(session, call))
        return call;
    api_call_close(call);
    return NULL;
}

/* ---- a reply ---- */

struct reply {
    struct buffer text;
    struct api_usage usage;
    uint64_t start_ns;
    uint64_t first_ns; /* of the first text; 0: none yet */
    bool ended;
    bool failed; /* for the reason in `error` */
    struct error error;
};

static void take_event(struct reply *reply, const struct api_event *event)
{
    if (event->type == API_EVENT_TEXT && event->text_size > 0) {
        if (reply->first_ns == 0)
            reply->first_ns = clock_ns();
        buffer_append(&reply->text, event->text, event->text_size);
        fwrite(event->text, 1, event->text_size, stdout);
        fflush(stdout);
    } else if (event->type == API_EVENT_END) {
        reply->usage = event->usage;
        reply->ended = true;
    } else if (event->type == API_EVENT_ERROR) {
        reply->ended = true;
        reply->failed = true;
        reply->error = event->error;
    }
}

static void wait_for_events(struct chat_session *session, struct engine_request *request)
{
    struct pollfd watch = {.fd = session->wake_fd, .events = POLLIN};
    uint64_t count;
    if (poll(&watch, 1, -1) > 0 && read(session->wake_fd, &count, sizeof count) < 0)
        return;
    if (interrupted) {
        interrupted = 0;
        engine_request_cancel(request);
    }
}

static void show_figures(const struct reply *reply)
{
    double wait_ms = (double)(reply->first_ns - reply->start_ns) / 1e6;
    double write_s = (double)(clock_ns() - reply->first_ns) / 1e9;
    fprintf(stderr, "[%u prompt tokens, %u from the cache; first token after %.0f ms; %u tokens at %.1f a second]\n",
            reply->usage.prompt_tokens, reply->usage.cached_tokens, reply->first_ns != 0 ? wait_ms : 0.0,
            reply->usage.completion_tokens,
            reply->first_ns != 0 && write_s > 0 ? reply->usage.completion_tokens / write_s : 0.0);
}

/* Asks for the reply to the turns so far and prints it as it comes. */
static enum status answer(struct chat_session *session, struct reply *reply, struct error *error)
{
    struct api_call *call = make_call(session);
    if (call == NULL)
        return error_no_memory(error, "the conversation");
    struct engine_request *request;
    interrupted = 0; /* one that came when the reply before had just ended is not meant for this one */
    reply->start_ns = clock_ns();
    enum status status = engine_submit(session->engine, call, "chat", wake, session, &request, error);
    if (status != STATUS_OK)
        return status;
    while (!reply->ended) {
        struct api_event event;
        if (engine_request_take(request, &event))
            take_event(reply, &event);
        else
            wait_for_events(session, request);
    }
    engine_request_release(request);
    putchar('\n');
    fflush(stdout);
    if (reply->failed && reply->error.status != STATUS_CANCELLED)
        command_fail(&reply->error);
    else if (session->terminal && !reply->failed)
        show_figures(reply);
    return STATUS_OK;
}

/* ---- the conversation ---- */

static size_t first_turns(const struct chat_session *session)
{
    return session->options->system[0] != '\0' ? 1 : 0;
}

/* False: the chat is over. */
static bool take_line(struct chat_session *session, char *line)
{
    line[strcspn(line, "\n")] = '\0';
    if (line[0] == '\0')
        return true;
    if (strcmp(line, "/quit") == 0)
        return false;
    if (strcmp(line, "/clear") == 0) {
        drop_turns(session, first_turns(session));
        return true;
    }
    if (!add_turn(session, "user", line)) {
        fprintf(stderr, "incipit: the conversation is too long; /clear begins a new one\n");
        return true;
    }
    struct reply reply = {0};
    struct error error;
    enum status status = answer(session, &reply, &error);
    if (status != STATUS_OK)
        command_fail(&error);
    if (status != STATUS_OK || reply.failed ||
        !add_turn(session, "assistant", reply.text.data != NULL ? reply.text.data : ""))
        drop_turns(session, session->turn_count - 1);
    buffer_free(&reply.text);
    return true;
}

static void converse(struct chat_session *session)
{
    char *line = NULL;
    size_t capacity = 0;
    if (session->terminal)
        fprintf(stderr, "%s. /clear begins anew, /quit or Control-D ends.\n", session->model_id);
    for (;;) {
        if (session->terminal)
            fputs("> ", stderr);
        if (getline(&line, &capacity, stdin) < 0 || !take_line(session, line))
            break;
    }
    free(line);
}

static enum status open_engine(const struct options *options, const struct runtime *runtime, struct engine **out,
                               struct error *error)
{
    if (runtime->chat_template == NULL)
        return error_set(error, STATUS_UNSUPPORTED, "%s has no chat template", runtime->config.name);
    struct engine_args args = {
        .model = runtime->model,
        .activations = runtime->activations,
        .tokenizer = runtime->tokenizer,
        .chat_template = runtime->chat_template,
        .sequences_max = (uint32_t)options->max_sequences,
        .prefill_chunk = (uint32_t)options->prefill_chunk,
        .step_ms = (uint32_t)options->step_ms,
        .queue_max = 1,
        .prefix_cache = !options->no_prefix_cache,
        .model_id = runtime->model_id,
    };
    return engine_open(&args, out, error);
}

static enum status open_session(struct chat_session *session, struct error *error)
{
    session->terminal = isatty(STDIN_FILENO) != 0;
    session->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (session->wake_fd < 0)
        return error_set(error, STATUS_IO, "cannot wait for replies: %s", strerror(errno));
    const char *system = session->options->system;
    if (system[0] != '\0' && !add_turn(session, "system", system))
        return error_no_memory(error, "the conversation");
    return STATUS_OK;
}

static enum status run_session(const struct options *options, const struct runtime *runtime, struct engine *engine,
                               struct error *error)
{
    struct chat_session *session = calloc(1, sizeof *session);
    if (session == NULL)
        return error_no_memory(error, "the conversation");
    session->options = options;
    session->engine = engine;
    session->model_id = runtime->model_id;
    enum status status = open_session(session, error);
    if (status == STATUS_OK) {
        struct sigaction action = {.sa_handler = on_interrupt};
        sigaction(SIGINT, &action, NULL);
        converse(session);
    }
    drop_turns(session, 0);
    if (session->wake_fd >= 0)
        close(session->wake_fd);
    free(session);
    return status;
}

int command_chat(const struct options *options)
{
    struct runtime runtime;
    struct engine *engine = NULL;
    struct error error;
    struct runtime_limits limits = {.rows_max = (uint32_t)(options->prefill_chunk + options->max_sequences),
                                    .sequences_max = (uint32_t)options->max_sequences,
                                    .draws_max = (uint32_t)options->max_sequences,
                                    .show_progress = true};
    enum status status = runtime_open_text(options, &runtime, &error);
    if (status == STATUS_OK)
        status = runtime_open_model(options, &limits, &runtime, &error);
    if (status == STATUS_OK)
        status = open_engine(options, &runtime, &engine, &error);
    if (status == STATUS_OK)
        status = run_session(options, &runtime, engine, &error);
    if (engine != NULL)
        engine_close(engine);
    runtime_close(&runtime);
    return status == STATUS_OK ? 0 : command_fail(&error);
}
