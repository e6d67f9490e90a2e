/* Messages and template variables. What a template sees of a message: its role, its content as one string, and every
 * other member as sent (a tool's name, say), except those that mean nothing for a prompt. */
#include "api/openai_messages.h"

#include <stdio.h>
#include <string.h>

#define MESSAGES_MAX 100000

struct role {
    const char *name;
    const char *template_name;
    bool content_optional; /* assistants that only called tools, tools that returned nothing */
};

static const struct role roles[] = {
    {"system", "system", false},      {"developer", "system", false}, {"user", "user", false},
    {"assistant", "assistant", true}, {"tool", "tool", true},         {"function", "tool", true},
};

/* "messages[3].content": where an error is. */
struct place {
    char text[64];
};

static struct place place_of(size_t message, const char *member)
{
    struct place place;
    snprintf(place.text, sizeof(place.text), "messages[%zu]%s%s", message, *member == '\0' ? "" : ".", member);
    return place;
}

static const struct role *find_role(const char *name)
{
    for (size_t i = 0; i < sizeof(roles) / sizeof(*roles); i++)
        if (strcmp(roles[i].name, name) == 0)
            return &roles[i];
    return NULL;
}

static enum status parse_role(const cJSON *message, size_t index, const struct role **role, struct error *error)
{
    struct place place = place_of(index, "role");
    const cJSON *value = json_get(message, "role");
    if (value == NULL)
        return field_missing(error, place.text, "system, developer, user, assistant or tool");
    if (!cJSON_IsString(value))
        return field_wrong_type(error, place.text, "a string", value);
    *role = find_role(value->valuestring);
    if (*role == NULL)
        return field_invalid(error, place.text,
                             "%s is \"%.60s\"; it must be system, developer, user, assistant or tool", place.text,
                             value->valuestring);
    return STATUS_OK;
}

/* ---- content ---- */

static bool is_media(const char *type)
{
    static const char *const names[] = {"image_url", "input_image", "image",      "input_audio", "audio_url",
                                        "audio",     "video_url",   "input_file", "file"};
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        if (strcmp(names[i], type) == 0)
            return true;
    return false;
}

static enum status refuse_part(size_t message, size_t index, const char *type, struct error *error)
{
    char member[40];
    snprintf(member, sizeof(member), "content[%zu]%s", index, is_media(type) ? "" : ".type");
    struct place place = place_of(message, member);
    if (!is_media(type))
        return field_invalid(error, place.text, "%s is \"%.40s\"; it must be \"text\"", place.text, type);
    field_unsupported(error, place.text, "%s has the type \"%.40s\"; this model reads only text", place.text, type);
    return error_code(error, "unsupported_content");
}

/* The text of a content part; parts that are not text need another model. */
static enum status part_text(const cJSON *part, size_t message, size_t index, const char **text, struct error *error)
{
    char member[40];
    snprintf(member, sizeof(member), "content[%zu]", index);
    if (!cJSON_IsObject(part))
        return field_wrong_type(error, place_of(message, member).text, "an object", part);
    const cJSON *type = json_get(part, "type");
    snprintf(member, sizeof(member), "content[%zu].type", index);
    struct place place = place_of(message, member);
    if (type == NULL)
        return field_missing(error, place.text, "\"text\"");
    if (!cJSON_IsString(type))
        return field_wrong_type(error, place.text, "a string", type);
    bool refusal = strcmp(type->valuestring, "refusal") == 0;
    if (!refusal && strcmp(type->valuestring, "text") != 0)
        return refuse_part(message, index, type->valuestring, error);
    const char *key = refusal ? "refusal" : "text";
    const cJSON *value = json_get(part, key);
    snprintf(member, sizeof(member), "content[%zu].%s", index, key);
    place = place_of(message, member);
    if (value == NULL)
        return field_missing(error, place.text, "a string");
    if (!cJSON_IsString(value))
        return field_wrong_type(error, place.text, "a string", value);
    *text = value->valuestring;
    return STATUS_OK;
}

/* Parts are one text without anything between them. */
static enum status join_parts(struct api_call *call, const cJSON *parts, size_t message, struct chat_value **out,
                              struct error *error)
{
    struct buffer text = {0};
    size_t index = 0;
    enum status status = STATUS_OK;
    for (const cJSON *part = parts->child; part != NULL && status == STATUS_OK; part = part->next) {
        const char *one = "";
        status = part_text(part, message, index++, &one, error);
        buffer_text(&text, one);
    }
    if (status == STATUS_OK && text.failed)
        status = field_no_memory(error);
    if (status == STATUS_OK) {
        *out = chat_text(&call->arena, text.size == 0 ? "" : text.data, text.size);
        if (*out != NULL && index == 1)
            (*out)->field = "content.0.text";
    }
    buffer_free(&text);
    return status;
}

static enum status parse_content(struct api_call *call, const cJSON *message, const struct role *role, size_t index,
                                 struct chat_value **out, struct error *error)
{
    struct place place = place_of(index, "content");
    const cJSON *content = json_get(message, "content");
    enum status status = STATUS_OK;
    if (content == NULL && !role->content_optional)
        return field_missing(error, place.text, "a string or an array of parts");
    if (content == NULL)
        *out = chat_text(&call->arena, "", 0);
    else if (cJSON_IsString(content))
        *out = chat_text(&call->arena, content->valuestring, strlen(content->valuestring));
    else if (cJSON_IsArray(content))
        status = join_parts(call, content, index, out, error);
    else
        return field_wrong_type(error, place.text, "a string or an array of parts", content);
    if (status != STATUS_OK)
        return status;
    if (*out == NULL)
        return field_no_memory(error);
    (*out)->message = (int32_t)index;
    if ((*out)->field == NULL)
        (*out)->field = "content";
    return STATUS_OK;
}

/* ---- tool calls ---- */

/* Templates expect a mapping; clients send its JSON text. What does not parse stays the text it is. */
static struct chat_value *arguments_value(struct arena *arena, const cJSON *arguments, int32_t message,
                                          const char *field)
{
    struct json_tree tree;
    struct error ignored;
    if (!cJSON_IsString(arguments))
        return json_chat_value(arena, arguments, message, field);
    if (json_tree_open(arguments->valuestring, strlen(arguments->valuestring), &tree, &ignored) != STATUS_OK)
        return json_chat_value(arena, arguments, message, field);
    struct chat_value *value =
        json_chat_value(arena, cJSON_IsObject(tree.root) ? tree.root : arguments, message, field);
    json_tree_close(&tree);
    return value;
}

static struct chat_value *copy_member(struct arena *arena, const cJSON *value, int32_t message, const char *call_path,
                                      const char *name)
{
    char path[96];
    snprintf(path, sizeof(path), "%s.%.40s", call_path, name);
    const char *field = arena_copy(arena, path, strlen(path));
    if (strcmp(name, "arguments") == 0)
        return arguments_value(arena, value, message, field);
    return json_chat_value(arena, value, message, field);
}

static struct chat_value *copy_object(struct arena *arena, const cJSON *object, int32_t message, const char *path)
{
    struct chat_value *out = chat_object(arena);
    for (const cJSON *member = object->child; out != NULL && member != NULL; member = member->next)
        if (!json_chat_append(arena, out, member->string, copy_member(arena, member, message, path, member->string)))
            return NULL;
    return out;
}

static struct chat_value *convert_call(struct arena *arena, const cJSON *tool_call, int32_t message, size_t index)
{
    char path[48];
    struct chat_value *out = chat_object(arena);
    for (const cJSON *member = tool_call->child; out != NULL && member != NULL; member = member->next) {
        bool function = strcmp(member->string, "function") == 0;
        snprintf(path, sizeof(path), "tool_calls.%zu%s", index, function ? ".function" : "");
        struct chat_value *value = function ? copy_object(arena, member, message, path)
                                            : copy_member(arena, member, message, path, member->string);
        if (!json_chat_append(arena, out, member->string, value))
            return NULL;
    }
    return out;
}

static enum status parse_tool_calls(struct api_call *call, const cJSON *calls, size_t message, struct chat_value **out,
                                    struct error *error)
{
    struct place place = place_of(message, "tool_calls");
    size_t index = 0;
    if (!cJSON_IsArray(calls))
        return field_wrong_type(error, place.text, "an array", calls);
    *out = chat_list(&call->arena);
    if (*out == NULL)
        return field_no_memory(error);
    for (const cJSON *one = calls->child; one != NULL; one = one->next, index++) {
        char member[40];
        snprintf(member, sizeof(member), "tool_calls[%zu]", index);
        place = place_of(message, member);
        const cJSON *function = cJSON_IsObject(one) ? json_get(one, "function") : NULL;
        if (!cJSON_IsObject(function) || !cJSON_IsString(json_get(function, "name")))
            return field_invalid(error, place.text, "%s must be an object with a function that has a name", place.text);
        if (!json_chat_append(&call->arena, *out, NULL, convert_call(&call->arena, one, (int32_t)message, index)))
            return field_no_memory(error);
    }
    return STATUS_OK;
}

/* ---- messages ---- */

/* Nothing that belongs into a prompt, or put there by this file. */
static bool is_left_out(const cJSON *member)
{
    static const char *const names[] = {"role", "content", "refusal", "annotations", "audio", "function_call"};
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        if (strcmp(member->string, names[i]) == 0)
            return true;
    return cJSON_IsNull(member);
}

static enum status parse_members(struct api_call *call, const cJSON *message, size_t index, struct chat_value *out,
                                 struct error *error)
{
    for (const cJSON *member = message->child; member != NULL; member = member->next) {
        struct chat_value *value = NULL;
        enum status status = STATUS_OK;
        if (is_left_out(member) || (strcmp(member->string, "tool_calls") == 0 && field_is_empty(member)))
            continue;
        if (strcmp(member->string, "tool_calls") == 0)
            status = parse_tool_calls(call, member, index, &value, error);
        else
            value = json_chat_value(&call->arena, member, (int32_t)index,
                                    arena_copy(&call->arena, member->string, strlen(member->string)));
        if (status != STATUS_OK)
            return status;
        if (!json_chat_append(&call->arena, out, member->string, value))
            return field_no_memory(error);
    }
    return STATUS_OK;
}

static enum status parse_message(struct api_call *call, const cJSON *message, size_t index, struct error *error)
{
    struct arena *arena = &call->arena;
    const struct role *role;
    struct chat_value *content = NULL;
    if (!cJSON_IsObject(message))
        return field_wrong_type(error, place_of(index, "").text, "an object", message);
    if (json_get(message, "function_call") != NULL)
        return field_unsupported(error, place_of(index, "function_call").text,
                                 "function_call is not supported; use tool_calls");
    enum status status = parse_role(message, index, &role, error);
    if (status == STATUS_OK)
        status = parse_content(call, message, role, index, &content, error);
    if (status != STATUS_OK)
        return status;
    struct chat_value *out = chat_object(arena);
    struct chat_value *name = chat_text(arena, role->template_name, strlen(role->template_name));
    if (out == NULL || name == NULL)
        return field_no_memory(error);
    out->message = name->message = (int32_t)index;
    name->field = "role";
    name->trusted = true; /* a word of the closed list, not the client's */
    if (!json_chat_append(arena, out, "role", name) || !json_chat_append(arena, out, "content", content))
        return field_no_memory(error);
    status = parse_members(call, message, index, out, error);
    if (status != STATUS_OK)
        return status;
    if (!json_chat_append(arena, call->chat.messages, NULL, out))
        return field_no_memory(error);
    return STATUS_OK;
}

enum status openai_messages_parse(const struct field_context *context, const cJSON *value, struct error *error)
{
    struct api_call *call = context->call;
    size_t index = 0;
    if (value->child == NULL)
        return field_invalid(error, "messages", "messages is empty; it must have at least one message");
    call->is_chat = true;
    call->chat.messages = chat_list(&call->arena);
    if (call->chat.messages == NULL)
        return field_no_memory(error);
    for (const cJSON *message = value->child; message != NULL; message = message->next, index++) {
        if (index == MESSAGES_MAX)
            return field_invalid(error, "messages", "messages has more than %d messages", MESSAGES_MAX);
        enum status status = parse_message(call, message, index, error);
        if (status != STATUS_OK)
            return status;
    }
    return STATUS_OK;
}

enum status openai_prompt_end_finish(const struct field_context *context, struct error *error)
{
    struct chat *chat = &context->call->chat;
    if (!chat->continue_final_message)
        return STATUS_OK;
    if (json_get(context->body, "add_generation_prompt") != NULL && chat->add_generation_prompt)
        return field_invalid(error, "continue_final_message",
                             "continue_final_message and add_generation_prompt cannot both be true");
    chat->add_generation_prompt = false;
    return STATUS_OK;
}

/* ---- template variables ---- */

enum status openai_kwargs_add(struct api_call *call, const char *key, struct chat_value *value, bool weak,
                              struct error *error)
{
    if (value != NULL && call->chat.kwargs == NULL)
        call->chat.kwargs = chat_object(&call->arena);
    if (value == NULL || call->chat.kwargs == NULL)
        return field_no_memory(error);
    if (weak && chat_object_get(call->chat.kwargs, key) != NULL)
        return STATUS_OK;
    return chat_object_put(&call->arena, call->chat.kwargs, key, strlen(key), value) ? STATUS_OK
                                                                                     : field_no_memory(error);
}

/* Variables that the request has fields of its own for. */
static bool is_reserved(const char *name)
{
    static const char *const names[] = {"messages", "tools", "chat_template", "add_generation_prompt",
                                        "continue_final_message"};
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

enum status openai_kwargs_parse(const struct field_context *context, const cJSON *value, struct error *error)
{
    struct arena *arena = &context->call->arena;
    for (const cJSON *member = value->child; member != NULL; member = member->next) {
        if (is_reserved(member->string))
            return field_invalid(error, "chat_template_kwargs",
                                 "chat_template_kwargs has \"%s\"; it cannot be set there", member->string);
        enum status status = openai_kwargs_add(
            context->call, member->string, json_chat_value(arena, member, -1, "chat_template_kwargs"), false, error);
        if (status != STATUS_OK)
            return status;
    }
    return STATUS_OK;
}

enum status openai_reasoning_effort_parse(const struct field_context *context, const cJSON *value, struct error *error)
{
    static const char *const efforts[] = {"none", "minimal", "low", "medium", "high", "xhigh", "max"};
    struct api_call *call = context->call;
    bool known = false;
    for (size_t i = 0; i < sizeof(efforts) / sizeof(*efforts); i++)
        known = known || strcmp(efforts[i], value->valuestring) == 0;
    if (!known)
        return field_invalid(error, "reasoning_effort",
                             "reasoning_effort is \"%.40s\"; it must be none, minimal, low, medium, high, xhigh or max",
                             value->valuestring);
    struct chat_value *effort = json_chat_value(&call->arena, value, -1, "reasoning_effort");
    enum status status = openai_kwargs_add(call, "reasoning_effort", effort, true, error);
    if (status != STATUS_OK || strcmp(value->valuestring, "none") != 0)
        return status;
    return openai_kwargs_add(call, "enable_thinking", chat_bool(&call->arena, false), true, error);
}
