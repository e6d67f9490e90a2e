/* One reply of a chat: asks the engine, prints the text to stdout as it comes, then says on stderr what a person wants
 * to know of it (figures and cuts on a terminal only, failures always). */
#ifndef SERVER_COMMAND_CHAT_REPLY_H
#define SERVER_COMMAND_CHAT_REPLY_H

#include "server/command/chat_conversation.h"
#include "server/command/chat_input.h"
#include "server/engine/engine.h"
#include "server/runtime.h"

/* Whom to ask and how; all borrowed. */
struct chat_source {
    const struct options *options;
    const struct runtime *runtime;
    struct engine *engine;
    struct chat_input *input;
    int wake_fd;      /* an eventfd, not blocking */
    uint32_t context; /* tokens */
};

enum chat_reply_result {
    CHAT_REPLY_DONE,
    CHAT_REPLY_STOPPED, /* by Control-C or a signal; `text` holds what came before */
    CHAT_REPLY_FAILED,  /* and the reason is printed */
};

/* The reply to the turns so far, the last of which is the user's. Appends it to `text`. */
enum chat_reply_result chat_reply_take(struct chat_source *source, const struct chat_conversation *conversation,
                                       struct buffer *text);

#endif
