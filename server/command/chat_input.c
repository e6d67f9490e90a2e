/* Signals are blocked and read from a signalfd, beside the keys or the engine's eventfd: nothing runs in a handler, and
 * none is lost between a check and a wait. */
#include "server/command/chat_input.h"

#include <errno.h>
#include <histedit.h>
#include <langinfo.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

enum { HISTORY_LINES = 1000 };

struct chat_input {
    EditLine *editor; /* NULL: stdin is no terminal, and only `line` is used */
    History *history;
    int signal_fd;
    sigset_t signals_before;
    bool editing; /* a prompt is on the screen */
    bool interrupted;
    int end_signal; /* 0: none */
    char *line;
    size_t capacity;
};

/* ---- signals ---- */

/* Draws the prompt and the line again, over what is there. */
static void redraw(struct chat_input *input)
{
    if (!input->editing)
        return;
    fputc('\r', stderr);
    el_set(input->editor, EL_REFRESH);
}

/* Control-Z: the shell gets the terminal as it was. */
static void suspend(struct chat_input *input)
{
    el_set(input->editor, EL_PREP_TERM, 0);
    raise(SIGSTOP);
    el_set(input->editor, EL_PREP_TERM, 1);
    redraw(input);
}

static void resize(struct chat_input *input)
{
    el_resize(input->editor);
    redraw(input);
}

static void take_signals(struct chat_input *input)
{
    struct signalfd_siginfo info;
    while (read(input->signal_fd, &info, sizeof info) == (ssize_t)sizeof info) {
        if (info.ssi_signo == SIGINT)
            input->interrupted = true;
        else if (info.ssi_signo == SIGTSTP)
            suspend(input);
        else if (info.ssi_signo == SIGWINCH)
            resize(input);
        else
            input->end_signal = (int)info.ssi_signo;
    }
}

static bool open_signals(struct chat_input *input)
{
    static const int taken[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGWINCH};
    sigset_t signals;
    sigemptyset(&signals);
    for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++)
        sigaddset(&signals, taken[i]);
    input->signal_fd = signalfd(-1, &signals, SFD_NONBLOCK | SFD_CLOEXEC);
    if (input->signal_fd < 0)
        return false;
    pthread_sigmask(SIG_BLOCK, &signals, &input->signals_before);
    return true;
}

/* Waits for `fd` or a signal; false: one that ends what is being done. */
static bool wait_for(struct chat_input *input, int fd)
{
    struct pollfd watch[2] = {{.fd = fd, .events = POLLIN}, {.fd = input->signal_fd, .events = POLLIN}};
    do {
        watch[0].revents = watch[1].revents = 0;
        if (poll(watch, 2, -1) > 0 && watch[1].revents != 0)
            take_signals(input);
    } while (watch[0].revents == 0 && !input->interrupted && input->end_signal == 0);
    return !input->interrupted && input->end_signal == 0;
}

/* ---- the editor ---- */

static char *prompt(EditLine *editor)
{
    static char text[] = "> ";
    (void)editor;
    return text;
}

/* libedit's own one would block in read(), out of reach of the signalfd. 1: a character; 0: the end; -1: no more. */
static int read_character(EditLine *editor, wchar_t *character)
{
    struct chat_input *input;
    el_get(editor, EL_CLIENTDATA, &input);
    mbstate_t state = {0};
    while (wait_for(input, STDIN_FILENO)) {
        char byte;
        ssize_t got = read(STDIN_FILENO, &byte, 1);
        if (got < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (got <= 0)
            return 0; /* a terminal that is gone gives EIO */
        size_t size = mbrtowc(character, &byte, 1, &state);
        if (size == (size_t)-1)
            state = (mbstate_t){0};                         /* not UTF-8: left out */
        else if (size != (size_t)-2 && *character != L'\0') /* NUL: a Control-D from before the editor was there */
            return 1;
    }
    errno = EINTR;
    return -1;
}

static void bind_keys(EditLine *editor)
{
    static const char *const keys[][2] = {
        {"^R", "em-inc-search-prev"}, {"^W", "ed-delete-prev-word"}, {"\\e[3~", "ed-delete-next-char"},
        {"\\e[H", "ed-move-to-beg"},  {"\\e[F", "ed-move-to-end"},   {"\\e[1~", "ed-move-to-beg"},
        {"\\e[4~", "ed-move-to-end"}, {"\\e[1;5D", "ed-prev-word"},  {"\\e[1;5C", "em-next-word"},
    };
    el_set(editor, EL_EDITOR, "emacs");
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        el_set(editor, EL_BIND, keys[i][0], keys[i][1], NULL);
}

/* Lines are UTF-8 whatever the locale is: models know nothing else. */
static void use_utf8(void)
{
    setlocale(LC_CTYPE, "");
    if (strcmp(nl_langinfo(CODESET), "UTF-8") != 0)
        setlocale(LC_CTYPE, "C.UTF-8");
}

static bool open_editor(struct chat_input *input)
{
    HistEvent event;
    use_utf8();
    input->history = history_init();
    input->editor = el_init("incipit", stdin, stderr, stderr);
    if (input->history == NULL || input->editor == NULL)
        return false;
    history(input->history, &event, H_SETSIZE, HISTORY_LINES);
    history(input->history, &event, H_SETUNIQUE, 1);
    el_set(input->editor, EL_CLIENTDATA, input);
    el_set(input->editor, EL_GETCFN, read_character);
    el_set(input->editor, EL_PROMPT, prompt);
    el_set(input->editor, EL_HIST, history, input->history);
    bind_keys(input->editor);
    el_set(input->editor, EL_PREP_TERM, 1);
    el_source(input->editor, NULL); /* the user's ~/.editrc */
    return true;
}

static enum chat_input_result edit_line(struct chat_input *input, struct error *error)
{
    int count = 0;
    take_signals(input);
    input->interrupted = false; /* one that came when a reply had just ended was not meant for this line */
    input->editing = true;
    const char *line = input->end_signal == 0 ? el_gets(input->editor, &count) : NULL;
    input->editing = false;
    el_set(input->editor, EL_PREP_TERM, 1); /* keys during a reply are not shown, and wait for the next prompt */
    if (line == NULL) {
        fputc('\n', stderr);
        return input->interrupted && input->end_signal == 0 ? CHAT_INPUT_INTERRUPTED : CHAT_INPUT_END;
    }
    free(input->line);
    input->line = strndup(line, strcspn(line, "\n"));
    if (input->line == NULL) {
        error_no_memory(error, "a line");
        return CHAT_INPUT_FAILED;
    }
    HistEvent event;
    if (input->line[0] != '\0')
        history(input->history, &event, H_ENTER, input->line);
    return CHAT_INPUT_LINE;
}

static enum chat_input_result read_line(struct chat_input *input, struct error *error)
{
    if (getline(&input->line, &input->capacity, stdin) >= 0) {
        input->line[strcspn(input->line, "\n")] = '\0';
        return CHAT_INPUT_LINE;
    }
    if (feof(stdin))
        return CHAT_INPUT_END;
    error_set(error, STATUS_IO, "cannot read standard input: %s", strerror(errno));
    return CHAT_INPUT_FAILED;
}

/* ---- life ---- */

enum status chat_input_open(struct chat_input **out, struct error *error)
{
    struct chat_input *input = calloc(1, sizeof *input);
    if (input == NULL)
        return error_no_memory(error, "the input");
    input->signal_fd = -1;
    *out = input;
    if (!isatty(STDIN_FILENO) || !isatty(STDERR_FILENO))
        return STATUS_OK;
    if (open_signals(input) && open_editor(input))
        return STATUS_OK;
    chat_input_close(input);
    *out = NULL;
    return error_set(error, STATUS_IO, "cannot read from the terminal: %s", strerror(errno));
}

void chat_input_close(struct chat_input *input)
{
    if (input == NULL)
        return;
    if (input->editor != NULL) {
        el_set(input->editor, EL_PREP_TERM, 0);
        el_end(input->editor);
    }
    if (input->history != NULL)
        history_end(input->history);
    if (input->signal_fd >= 0) {
        struct signalfd_siginfo info;
        while (read(input->signal_fd, &info, sizeof info) > 0)
            continue; /* what came late must not strike now */
        close(input->signal_fd);
        pthread_sigmask(SIG_SETMASK, &input->signals_before, NULL);
    }
    free(input->line);
    free(input);
}

bool chat_input_is_terminal(const struct chat_input *input)
{
    return input->editor != NULL;
}

int chat_input_signal(const struct chat_input *input)
{
    return input->end_signal;
}

enum chat_input_result chat_input_line(struct chat_input *input, const char **line, struct error *error)
{
    enum chat_input_result result = input->editor != NULL ? edit_line(input, error) : read_line(input, error);
    *line = input->line;
    return result;
}

bool chat_input_wait(struct chat_input *input, int fd)
{
    bool ready = wait_for(input, fd);
    input->interrupted = false;
    return !ready;
}
