/* Conversations as turns: what clients send (two users in a row, a system message in the middle) for templates that
 * raise on anything but user and assistant in turn. */
#include <string.h>

#include "model/text/chat.h"

#define BETWEEN "\n\n"

static bool is_role(const struct chat_value *role, const char *name)
{
    return role != NULL && role->kind == CHAT_TEXT && strcmp(role->text, name) == 0;
}

/* Only a role and a text: what a message has besides (tool calls, the call it answers) is its own. */
static bool is_plain(const struct chat_value *message)
{
    const struct chat_value *content = chat_object_get(message, "content");
    for (size_t i = 0; i < message->count; i++)
        if (strcmp(message->keys[i]->text, "role") != 0 && strcmp(message->keys[i]->text, "content") != 0 &&
            strcmp(message->keys[i]->text, "name") != 0)
            return false;
    return content != NULL && content->kind == CHAT_TEXT;
}

static const char *turn_of(const struct chat_value *message, bool fold_system, bool first)
{
    static const char *const names[] = {"user", "assistant", "system"};
    const struct chat_value *role = chat_object_get(message, "role");
    if (!is_plain(message))
        return NULL;
    if (fold_system && !first && is_role(role, "system"))
        return "user";
    for (size_t i = 0; i < 3; i++)
        if (is_role(role, names[i]))
            return names[i];
    return NULL;
}

/* The role of a turn that begins with `first`: its own, or a word of this file, which no message says. */
static struct chat_value *role_of(struct arena *arena, const struct chat_value *first, const char *turn)
{
    struct chat_value *role = chat_object_get(first, "role");
    if (is_role(role, turn))
        return role;
    role = chat_text(arena, turn, strlen(turn));
    if (role != NULL)
        role->trusted = true;
    return role;
}

static struct chat_value *make_message(struct arena *arena, const struct chat_value *first, const char *turn,
                                       struct chat_value *content)
{
    struct chat_value *message = chat_object(arena), *role = role_of(arena, first, turn);
    if (message == NULL || role == NULL)
        return NULL;
    message->message = first->message;
    if (!chat_object_put(arena, message, "role", 4, role) || !chat_object_put(arena, message, "content", 7, content))
        return NULL;
    return message;
}

/* One message of the messages [begin, end), all of one turn. */
static struct chat_value *join(struct arena *arena, const struct chat_value *messages, size_t begin, size_t end,
                               const char *turn)
{
    struct chat_value **texts = arena_array(arena, 2 * (end - begin), sizeof(*texts));
    struct chat_value *between = chat_text(arena, BETWEEN, strlen(BETWEEN));
    size_t count = 0;
    if (texts == NULL || between == NULL)
        return NULL;
    for (size_t i = begin; i < end; i++) {
        if (i > begin)
            texts[count++] = between;
        texts[count++] = chat_object_get(messages->items[i], "content");
    }
    struct chat_value *content = count == 1 ? texts[0] : chat_text_join(arena, texts, count);
    return content == NULL ? NULL : make_message(arena, messages->items[begin], turn, content);
}

struct chat_value *chat_merge_turns(struct arena *arena, struct chat_value *messages, bool fold_system)
{
    struct chat_value *out = chat_list(arena);
    bool changed = false, first = true; /* still before the first turn: system messages there are the system prompt */
    if (out == NULL)
        return NULL;
    for (size_t i = 0, end; i < messages->count; i = end) {
        struct chat_value *message = messages->items[i];
        first = first && is_role(chat_object_get(message, "role"), "system");
        const char *turn = turn_of(message, fold_system, first);
        for (end = i + 1; turn != NULL && end < messages->count; end++) {
            bool still_first = first && is_role(chat_object_get(messages->items[end], "role"), "system");
            const char *next = turn_of(messages->items[end], fold_system, still_first);
            if (next == NULL || strcmp(next, turn) != 0)
                break;
        }
        bool folded = turn != NULL && !is_role(chat_object_get(message, "role"), turn);
        if (end - i > 1 || folded) {
            message = join(arena, messages, i, end, turn);
            changed = true;
        }
        if (!chat_list_add(arena, out, message))
            return NULL;
    }
    return changed ? out : messages;
}
