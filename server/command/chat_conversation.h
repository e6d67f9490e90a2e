/* What was said in a chat, and the call that asks for the next reply: it carries all of it, every time. Owned by the
 * main thread. */
#ifndef SERVER_COMMAND_CHAT_CONVERSATION_H
#define SERVER_COMMAND_CHAT_CONVERSATION_H

#include <stdbool.h>
#include <stddef.h>

#include "api/api.h"
#include "server/options.h"

enum { CHAT_TURNS_MAX = 4096 };

struct chat_turn {
    const char *role;
    char *text;
};

/* Begins as {0}; ends with chat_conversation_cut(.., 0). */
struct chat_conversation {
    struct chat_turn turns[CHAT_TURNS_MAX];
    size_t count;
};

/* Copies the text. False: it is full, or memory is. */
bool chat_conversation_add(struct chat_conversation *conversation, const char *role, const char *text);
/* Forgets all but the first `keep` turns. */
void chat_conversation_cut(struct chat_conversation *conversation, size_t keep);
/* The caller owns it; the conversation's texts are copied. NULL: no memory. */
struct api_call *chat_conversation_call(const struct chat_conversation *conversation, const struct options *options,
                                        const char *model_id);

#endif
