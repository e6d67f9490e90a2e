/* Where a chat's lines come from. From a terminal they are edited (libedit: arrow keys, history of this run) and the
 * signals of a terminal become return values, so that every way out restores it; from anything else they are plain
 * lines of any length, and signals do what they do to any process.
 *
 *     chat_input_open, after the engine's threads run (their signals are blocked, ours become readable)
 *     chat_input_line -> a line, borrowed until the next one
 *     chat_input_wait, while a reply comes: keys are not shown; they stay for the next line
 *     chat_input_close: the terminal and the signals are as before
 *
 * Used by the main thread alone. */
#ifndef SERVER_COMMAND_CHAT_INPUT_H
#define SERVER_COMMAND_CHAT_INPUT_H

#include <stdbool.h>

#include "kernels/base/status.h"

struct chat_input;

enum chat_input_result {
    CHAT_INPUT_LINE,
    CHAT_INPUT_INTERRUPTED, /* Control-C: the line is dropped */
    CHAT_INPUT_END,         /* Control-D, the end of the file, or a signal: chat_input_signal */
    CHAT_INPUT_FAILED,      /* stdin cannot be read; error is set */
};

enum status chat_input_open(struct chat_input **out, struct error *error);
void chat_input_close(struct chat_input *input); /* NULL is fine */

bool chat_input_is_terminal(const struct chat_input *input);
/* The line comes without its newline; it is text up to the first NUL. */
enum chat_input_result chat_input_line(struct chat_input *input, const char **line, struct error *error);
/* The signal that asked for the end; 0: none did. */
int chat_input_signal(const struct chat_input *input);

/* Waits until `fd` can be read. True: rather, the reply is to end (Control-C, or a signal that ends the chat). */
bool chat_input_wait(struct chat_input *input, int fd);

#endif
