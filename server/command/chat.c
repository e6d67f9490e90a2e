/* incipit chat: a conversation in the terminal. Every turn resends the whole conversation through the same engine that
 * serve uses, so the growing prefix comes from the cache; the line after each reply says how much did.
 *
 * The main thread reads lines and prints; the engine's wake writes an eventfd that it polls. */
#include <errno.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "server/command/chat_reply.h"
#include "server/command/command.h"

struct chat_session {
    struct chat_source source;
    struct chat_conversation conversation;
    bool over;
    bool failed; /* a line had no reply */
};

/* ---- lines that are commands ---- */

static void clear(struct chat_session *session)
{
    chat_conversation_cut(&session->conversation, session->source.options->system[0] != '\0' ? 1 : 0);
}

static void quit(struct chat_session *session)
{
    session->over = true;
}

static void help(struct chat_session *session);

static const struct {
    const char *name;
    const char *summary;
    void (*run)(struct chat_session *session);
} slash_commands[] = {
    {"/clear", "begins a new conversation", clear},
    {"/quit", "ends the chat, as Control-D does", quit},
    {"/help", "shows this", help},
};

static void help(struct chat_session *session)
{
    (void)session;
    for (size_t i = 0; i < sizeof slash_commands / sizeof slash_commands[0]; i++)
        fprintf(stderr, "%-8s %s\n", slash_commands[i].name, slash_commands[i].summary);
    fputs("A line that begins with a space and a slash goes to the model.\n", stderr);
}

static void run_slash(struct chat_session *session, const char *line)
{
    size_t size = strcspn(line, " \t\r");
    bool alone = line[size + strspn(line + size, " \t\r")] == '\0';
    for (size_t i = 0; alone && i < sizeof slash_commands / sizeof slash_commands[0]; i++) {
        if (strlen(slash_commands[i].name) == size && strncmp(slash_commands[i].name, line, size) == 0) {
            slash_commands[i].run(session);
            return;
        }
    }
    fprintf(stderr, "incipit: there is no \"%.60s\" here; /help says what there is\n", line);
    session->failed = true;
}

/* ---- lines for the model ---- */

static void say(struct chat_session *session, const char *line)
{
    struct chat_conversation *conversation = &session->conversation;
    size_t before = conversation->count;
    if (!chat_conversation_add(conversation, "user", line)) {
        fprintf(stderr, "incipit: the conversation has too many turns; /clear begins a new one\n");
        session->failed = true;
        return;
    }
    struct buffer text = {0};
    enum chat_reply_result result = chat_reply_take(&session->source, conversation, &text);
    /* What came before Control-C stays, so that "continue" means something. */
    bool keep = result == CHAT_REPLY_DONE || (result == CHAT_REPLY_STOPPED && text.size > 0);
    if (!keep || text.failed || !chat_conversation_add(conversation, "assistant", text.size > 0 ? text.data : ""))
        chat_conversation_cut(conversation, before);
    session->failed |= result == CHAT_REPLY_FAILED;
    buffer_free(&text);
    if (ferror(stdout)) {
        fprintf(stderr, "incipit: cannot write the reply: %s\n", strerror(errno));
        session->failed = session->over = true;
    }
}

static void take_line(struct chat_session *session, const char *line)
{
    if (line[strspn(line, " \t\r")] == '\0')
        return;
    if (line[0] == '/')
        run_slash(session, line);
    else
        say(session, line[0] == ' ' && line[1] == '/' ? line + 1 : line);
}

static enum status converse(struct chat_session *session, struct error *error)
{
    struct chat_input *input = session->source.input;
    if (chat_input_is_terminal(input))
        fprintf(stderr,
                "%s. Control-C ends a reply, Control-D the chat.\n"
                "/clear begins a new conversation, /help shows all commands.\n",
                session->source.runtime->model_id);
    while (!session->over) {
        const char *line;
        enum chat_input_result result = chat_input_line(input, &line, error);
        if (result == CHAT_INPUT_FAILED)
            return error->status;
        if (result == CHAT_INPUT_LINE)
            take_line(session, line);
        session->over |= result == CHAT_INPUT_END;
    }
    return STATUS_OK;
}

/* ---- life ---- */

static enum status open_engine(const struct options *options, const struct runtime *runtime, struct engine **out,
                               struct error *error)
{
    if (runtime->chat_template == NULL)
        return error_set(error, STATUS_UNSUPPORTED, "%s has no chat template", runtime->config.name);
    return runtime_open_engine(options, runtime, 1, out, error);
}

static enum status open_session(struct chat_session *session, struct error *error)
{
    struct chat_source *source = &session->source;
    source->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (source->wake_fd < 0)
        return error_set(error, STATUS_IO, "cannot wait for replies: %s", strerror(errno));
    const char *system = source->options->system;
    if (system[0] != '\0' && !chat_conversation_add(&session->conversation, "system", system))
        return error_no_memory(error, "the conversation");
    return chat_input_open(&source->input, error);
}

static void close_session(struct chat_session *session)
{
    chat_input_close(session->source.input);
    chat_conversation_cut(&session->conversation, 0);
    if (session->source.wake_fd >= 0)
        close(session->source.wake_fd);
    free(session);
}

/* What the process is to end with: 0, 1, or -N for the signal N. */
static enum status run_session(const struct chat_source *source, int *result, struct error *error)
{
    struct chat_session *session = calloc(1, sizeof *session);
    if (session == NULL)
        return error_no_memory(error, "the conversation");
    session->source = *source;
    enum status status = open_session(session, error);
    if (status == STATUS_OK) {
        bool terminal = chat_input_is_terminal(session->source.input);
        status = converse(session, error);
        *result = session->failed && !terminal;
        if (chat_input_signal(session->source.input) != 0)
            *result = -chat_input_signal(session->source.input);
    }
    close_session(session);
    return status;
}

int command_chat(const struct options *options)
{
    struct runtime runtime;
    struct chat_source source = {.options = options, .runtime = &runtime, .wake_fd = -1};
    struct error error;
    struct runtime_limits limits = runtime_engine_limits(options);
    int result = 0;
    enum status status = runtime_open_text(options, &runtime, &error);
    if (status == STATUS_OK)
        status = runtime_open_model(options, &limits, &runtime, &error);
    if (status == STATUS_OK) {
        source.context = model_context(runtime.model);
        status = open_engine(options, &runtime, &source.engine, &error);
    }
    if (status == STATUS_OK)
        status = run_session(&source, &result, &error);
    if (source.engine != NULL)
        engine_close(source.engine);
    runtime_close(&runtime);
    if (status != STATUS_OK)
        return command_fail(&error);
    if (result < 0)
        raise(-result); /* the terminal is as it was; whoever waits for us learns what ended us */
    return result > 0 ? 1 : 0;
}
