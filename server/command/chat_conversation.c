#include "server/command/chat_conversation.h"

#include <stdlib.h>
#include <string.h>

bool chat_conversation_add(struct chat_conversation *conversation, const char *role, const char *text)
{
    char *copy = conversation->count < CHAT_TURNS_MAX ? strdup(text) : NULL;
    if (copy == NULL)
        return false;
    conversation->turns[conversation->count++] = (struct chat_turn){role, copy};
    return true;
}

void chat_conversation_cut(struct chat_conversation *conversation, size_t keep)
{
    while (conversation->count > keep)
        free(conversation->turns[--conversation->count].text);
}

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

static bool add_messages(const struct chat_conversation *conversation, struct api_call *call)
{
    struct arena *arena = &call->arena;
    struct chat_value *messages = chat_list(arena);
    for (size_t i = 0; messages != NULL && i < conversation->count; i++) {
        const struct chat_turn *turn = &conversation->turns[i];
        struct chat_value *message = chat_object(arena);
        if (message == NULL || !put_text(arena, message, "role", turn->role, (int32_t)i, true) ||
            !put_text(arena, message, "content", turn->text, (int32_t)i, false) ||
            !chat_list_add(arena, messages, message))
            return false;
    }
    call->chat.messages = messages;
    return messages != NULL;
}

struct api_call *chat_conversation_call(const struct chat_conversation *conversation, const struct options *options,
                                        const char *model_id)
{
    struct api_call *call = api_call_blank(API_CHAT);
    if (call == NULL)
        return NULL;
    call->is_chat = true;
    call->stream = true;
    call->model = model_id;
    call->sampling.temperature = (float)options->temperature;
    call->sampling.has_seed = options->seed >= 0;
    call->sampling.seed = options->seed >= 0 ? (uint64_t)options->seed : 0;
    call->has_max_tokens = options->max_tokens > 0;
    call->max_tokens = (uint32_t)options->max_tokens;
    if (add_messages(conversation, call))
        return call;
    api_call_close(call);
    return NULL;
}
