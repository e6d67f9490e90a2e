/* What a chat is to a template: messages as transformers passes them, variables, the open end of a continued message;
 * and the rendered pieces as text with spans. The language itself is in jinja/. */
#include "model/text/chat_template.h"

#include <string.h>

#include "kernels/base/size.h"
#include "model/text/jinja/run.h"
#include "model/text/jinja/unicode.h"

#define STEPS_MAX_DEFAULT 20000000u
#define DEPTH_MAX_DEFAULT 128u
#define OUTPUT_MAX_DEFAULT ((size_t)256 << 20)
#define MEMORY_MAX_DEFAULT ((size_t)512 << 20)

/* transformers' mark; its trailing space tells whether the template trims. */
static const char continue_mark[] = "CONTINUE_FINAL_MESSAGE_TAG ";

enum { TOKEN_BOS, TOKEN_EOS, TOKEN_UNK, TOKEN_PAD, TOKEN_COUNT };
static const char *const token_names[TOKEN_COUNT] = {"bos_token", "eos_token", "unk_token", "pad_token"};

struct chat_template {
    struct jinja_program *program;
    struct jinja_string tokens[TOKEN_COUNT];
};

enum status chat_template_open(const char *source, size_t size, const struct chat_template_tokens *tokens,
                               struct chat_template **out, struct error *error)
{
    const char *texts[TOKEN_COUNT] = {tokens->bos_token, tokens->eos_token, tokens->unk_token, tokens->pad_token};
    struct jinja_program *program = NULL;
    *out = NULL;
    enum status status = jinja_program_open(source, size, &program, error);
    if (status != STATUS_OK)
        return status;
    struct chat_template *chat_template = arena_take(&program->arena, sizeof(*chat_template));
    if (chat_template == NULL)
        goto fail;
    chat_template->program = program;
    for (int i = 0; i < TOKEN_COUNT; i++) {
        const char *text = texts[i] == NULL ? "" : texts[i];
        const char *copy = arena_copy(&program->arena, text, strlen(text));
        if (copy == NULL)
            goto fail;
        jinja_string_constant(&chat_template->tokens[i], copy, strlen(text));
    }
    *out = chat_template;
    return STATUS_OK;
fail:
    jinja_program_close(program);
    return error_no_memory(error, "a chat template");
}

void chat_template_close(struct chat_template *chat_template)
{
    if (chat_template != NULL)
        jinja_program_close(chat_template->program);
}

/* ---- the run ---- */

/* Everything one render needs besides its variables; restores the arena's limit at the end. */
struct render {
    struct jinja_run run;
    size_t arena_limit_before;
};

static bool run_start(struct render *render, const struct chat_template *chat_template,
                      const struct chat_template_limits *limits, struct arena *arena, struct error *error)
{
    struct jinja_run *run = &render->run;
    static const struct chat_template_limits defaults = {0};
    limits = limits == NULL ? &defaults : limits;
    size_t memory_max = limits->memory_max != 0 ? limits->memory_max : MEMORY_MAX_DEFAULT, limit;
    memset(run, 0, sizeof(*run));
    run->program = chat_template->program;
    run->arena = arena;
    run->error = error;
    run->steps_left = limits->steps_max != 0 ? limits->steps_max : STEPS_MAX_DEFAULT;
    run->calls_left = limits->depth_max != 0 ? limits->depth_max : DEPTH_MAX_DEFAULT;
    run->recursion_left = JINJA_RECURSION_MAX;
    run->output_max = limits->output_max != 0 ? limits->output_max : OUTPUT_MAX_DEFAULT;
    render->arena_limit_before = arena->limit_bytes;
    if (!size_add(arena->used_bytes, memory_max, &limit))
        limit = SIZE_MAX;
    if (arena->limit_bytes == 0 || limit < arena->limit_bytes)
        arena->limit_bytes = limit;
    run->resolved = jinja_take_array(run, run->program->name_count, sizeof(*run->resolved));
    run->variables = jinja_dict_make(run, 16);
    run->out = jinja_take(run, sizeof(*run->out));
    run->activation = jinja_take(run, sizeof(*run->activation));
    if (run->activation != NULL)
        run->activation->slots = jinja_take_array(run, run->program->root.slot_count, sizeof(*run->activation->slots));
    return run->status == STATUS_OK;
}

static bool put(struct jinja_run *run, const char *name, struct jinja_value value)
{
    struct jinja_string *key = jinja_string_of(run, name, strlen(name), JINJA_TEMPLATE_ORIGIN);
    return key != NULL && jinja_dict_put(run, run->variables, jinja_from_string(key), value);
}

static bool put_chat(struct jinja_run *run, const char *name, const struct chat_value *chat)
{
    struct jinja_value value = jinja_none();
    return (chat == NULL || jinja_from_chat(run, chat, &value)) && put(run, name, value);
}

static bool put_all(struct jinja_run *run, const struct chat_value *object)
{
    for (size_t i = 0; object != NULL && i < object->count; i++) {
        struct jinja_value key, value;
        if (!jinja_from_chat(run, object->keys[i], &key) || !jinja_from_chat(run, object->items[i], &value) ||
            !jinja_dict_put(run, run->variables, key, value))
            return false;
    }
    return true;
}

/* Copies the token strings: evaluation may keep what it finds out about a string in it. */
static bool put_tokens(struct jinja_run *run, const struct chat_template *chat_template)
{
    for (int i = 0; i < TOKEN_COUNT; i++) {
        const struct jinja_string *token = &chat_template->tokens[i];
        struct jinja_string *copy = jinja_string_of(run, token->bytes, token->size, JINJA_TEMPLATE_ORIGIN);
        if (copy == NULL || !put(run, token_names[i], jinja_from_string(copy)))
            return false;
    }
    return true;
}

static bool same_origin(const struct chat_span *span, const struct jinja_piece *piece)
{
    if (span->trusted != piece->origin.trusted || span->message != piece->origin.message ||
        span->field != piece->origin.field)
        return false;
    if (span->source_offset == CHAT_SPAN_UNKNOWN || piece->origin.offset == JINJA_UNKNOWN)
        return span->source_offset == piece->origin.offset;
    return span->source_offset + span->size == piece->origin.offset;
}

/* Pieces to one text; neighbours of one origin become one span. */
static bool assemble(struct jinja_run *run, const struct jinja_pieces *pieces, size_t size, struct chat_prompt *out)
{
    char *text = jinja_take(run, size + 1);
    struct chat_span *spans = jinja_take_array(run, pieces->count, sizeof(*spans));
    size_t count = 0, at = 0;
    if (text == NULL || spans == NULL)
        return false;
    for (uint32_t i = 0; i < pieces->count && at < size; i++) {
        const struct jinja_piece *piece = &pieces->items[i];
        size_t n = size_min(piece->size, size - at);
        memcpy(text + at, piece->bytes, n);
        if (count > 0 && same_origin(&spans[count - 1], piece)) {
            spans[count - 1].size += n;
        } else {
            spans[count++] = (struct chat_span){.offset = at,
                                                .size = n,
                                                .message = piece->origin.message,
                                                .field = piece->origin.field,
                                                .source_offset = piece->origin.offset,
                                                .trusted = piece->origin.trusted};
        }
        at += n;
    }
    *out = (struct chat_prompt){.text = text, .size = size, .spans = spans, .span_count = count};
    return true;
}

static bool run_template(struct jinja_run *run)
{
    const struct jinja_function *root = &run->program->root;
    return jinja_scope_enter(run, &root->scope) && jinja_execute(run, &root->body) == JINJA_NEXT;
}

static enum status run_end(struct render *render, bool done)
{
    struct jinja_run *run = &render->run;
    run->arena->limit_bytes = render->arena_limit_before;
    if (done)
        return STATUS_OK;
    if (run->status == STATUS_OK)
        return error_set(run->error, STATUS_INTERNAL, "rendering the chat template failed without a reason");
    return run->status;
}

/* ---- messages ---- */

static const char *const reasoning_fields[] = {"reasoning_content", "thinking", "reasoning"};
#define REASONING_COUNT (sizeof(reasoning_fields) / sizeof(reasoning_fields[0]))

static struct chat_value *reasoning_of(const struct chat_value *message)
{
    for (size_t i = 0; i < REASONING_COUNT; i++) {
        struct chat_value *found = chat_object_get(message, reasoning_fields[i]);
        if (found != NULL && found->kind != CHAT_NULL)
            return found;
    }
    return NULL;
}

/* transformers: keys whose value is None are dropped, and reasoning goes by all of its names. The message itself where
 * neither applies. */
static struct chat_value *prepare_message(struct arena *arena, struct chat_value *message)
{
    struct chat_value *reasoning = reasoning_of(message);
    bool has_null = false;
    for (size_t i = 0; i < message->count; i++)
        has_null |= message->items[i]->kind == CHAT_NULL;
    if (reasoning == NULL && !has_null)
        return message;
    struct chat_value *copy = chat_object(arena);
    if (copy == NULL)
        return NULL;
    copy->message = message->message;
    copy->field = message->field;
    if (reasoning != NULL && !chat_object_put(arena, copy, "thinking", 8, reasoning))
        return NULL;
    for (size_t i = 0; i < message->count; i++) {
        if (message->items[i]->kind == CHAT_NULL)
            continue;
        if (reasoning != NULL && strcmp(message->keys[i]->text, "thinking") == 0)
            copy->items[0] = message->items[i];
        else if (!chat_object_add(arena, copy, message->keys[i], message->items[i]))
            return NULL;
    }
    if (reasoning != NULL && !chat_object_put(arena, copy, "reasoning_content", 17, reasoning))
        return NULL;
    return copy;
}

static struct chat_value *prepare_messages(struct jinja_run *run, const struct chat_value *messages)
{
    struct chat_value *list = chat_list(run->arena);
    if (messages == NULL || messages->kind != CHAT_LIST) {
        jinja_fail_status(run, STATUS_INVALID, "messages must be a list");
        return NULL;
    }
    for (size_t i = 0; list != NULL && i < messages->count; i++) {
        if (messages->items[i]->kind != CHAT_OBJECT) {
            jinja_fail_status(run, STATUS_INVALID, "messages[%zu] must be an object", i);
            return NULL;
        }
        if (!chat_list_add(run->arena, list, prepare_message(run->arena, messages->items[i])))
            list = NULL;
    }
    if (list == NULL)
        jinja_fail_status(run, STATUS_TOO_LARGE, "rendering the chat template needs more memory than its limit");
    else
        list->message = -1;
    return list;
}

/* ---- a final message that goes on ---- */

static struct chat_value *marked_text(struct arena *arena, struct chat_value *text)
{
    if (text->count > 0) {
        struct chat_value *end = chat_text(arena, continue_mark, sizeof(continue_mark) - 1);
        return end == NULL ? NULL : chat_text_join(arena, (struct chat_value *[]){text, end}, 2);
    }
    size_t mark = sizeof(continue_mark) - 1;
    char *bytes = arena_take(arena, text->text_size + mark + 1);
    struct chat_value *copy = arena_take(arena, sizeof(*copy));
    if (bytes == NULL || copy == NULL)
        return NULL;
    *copy = *text;
    memcpy(bytes, text->text, text->text_size);
    memcpy(bytes + text->text_size, continue_mark, mark);
    copy->text = bytes;
    copy->text_size = text->text_size + mark;
    return copy;
}

static struct chat_value *copy_shallow(struct arena *arena, const struct chat_value *value)
{
    struct chat_value *copy = arena_take(arena, sizeof(*copy));
    if (copy == NULL)
        return NULL;
    *copy = *value;
    copy->capacity = value->count;
    copy->items = arena_array(arena, value->count, sizeof(struct chat_value *));
    if (copy->items == NULL)
        return NULL;
    if (value->count > 0)
        memcpy(copy->items, value->items, value->count * sizeof(struct chat_value *));
    return copy;
}

static size_t index_of(const struct chat_value *object, const char *key)
{
    size_t i = 0;
    while (i < object->count && strcmp(object->keys[i]->text, key) != 0)
        i++;
    return i;
}

/* The last part of a list of parts that has text; marks it and gives its old text in *text. */
static struct chat_value *mark_parts(struct arena *arena, const struct chat_value *parts,
                                     const struct chat_value **text)
{
    struct chat_value *list = copy_shallow(arena, parts);
    for (size_t i = parts->count; list != NULL && i-- > 0;) {
        const struct chat_value *part = parts->items[i];
        size_t at = part->kind == CHAT_OBJECT ? index_of(part, "text") : 0;
        if (part->kind != CHAT_OBJECT || at == part->count || part->items[at]->kind != CHAT_TEXT)
            continue;
        struct chat_value *copy = copy_shallow(arena, part);
        if (copy == NULL)
            return NULL;
        *text = part->items[at];
        copy->items[at] = marked_text(arena, part->items[at]);
        list->items[i] = copy;
        return copy->items[at] == NULL ? NULL : list;
    }
    return NULL;
}

/* Replaces the last message by one whose content ends in the mark; *text is the content as it was. */
static bool mark_last(struct jinja_run *run, struct chat_value *messages, const struct chat_value **text)
{
    struct arena *arena = run->arena;
    *text = NULL;
    if (messages->count == 0)
        return jinja_fail_status(run, STATUS_INVALID, "continue_final_message is set but the conversation is empty");
    const struct chat_value *last = messages->items[messages->count - 1];
    size_t at = index_of(last, "content");
    if (at == last->count)
        return jinja_fail_status(run, STATUS_INVALID,
                                 "continue_final_message is set but the final message has no content to continue");
    if (memmem(run->program->source, run->program->source_size, "content", 7) == NULL)
        return jinja_fail_status(run, STATUS_INVALID,
                                 "continue_final_message is set but the chat template does not use the content");
    struct chat_value *copy = copy_shallow(arena, last);
    if (copy == NULL)
        return jinja_take(run, 1) != NULL;
    if (last->items[at]->kind == CHAT_TEXT) {
        *text = last->items[at];
        copy->items[at] = marked_text(arena, last->items[at]);
    } else if (last->items[at]->kind == CHAT_LIST) {
        copy->items[at] = mark_parts(arena, last->items[at], text);
    }
    if (*text == NULL)
        return jinja_fail_status(run, STATUS_INVALID,
                                 "continue_final_message is set but the final message has no text to continue");
    messages->items[messages->count - 1] = copy;
    return copy->items[at] != NULL || jinja_take(run, 1) != NULL;
}

/* Where the rendered text ends when its last message stays open. */
static bool open_end(struct jinja_run *run, struct jinja_string *text, const struct chat_value *content, size_t *size)
{
    const char *bytes = jinja_string_bytes(run, text);
    size_t mark = sizeof(continue_mark) - 1, stripped = mark - 1, found = JINJA_UNKNOWN;
    struct jinja_string *whole = jinja_string_of(run, content->text, content->text_size, JINJA_TEMPLATE_ORIGIN);
    struct jinja_string *inner =
        whole == NULL ? NULL : jinja_string_strip(run, whole, NULL, JINJA_STRIP_LEFT | JINJA_STRIP_RIGHT);
    if (bytes == NULL || inner == NULL)
        return false;
    for (size_t at = text->size >= stripped ? text->size - stripped + 1 : 0; at-- > 0;)
        if (memcmp(bytes + at, continue_mark, stripped) == 0) {
            found = at;
            break;
        }
    if (found == JINJA_UNKNOWN ||
        jinja_find_bytes(bytes, text->size, jinja_string_bytes(run, inner), inner->size, 0) == JINJA_UNKNOWN)
        return jinja_fail_status(run, STATUS_INVALID,
                                 "continue_final_message is set but the chat template does not show the final message "
                                 "as it is");
    *size = found;
    if (text->size - found >= mark && bytes[found + mark - 1] == ' ')
        return true;
    struct jinja_string *head = jinja_string_cut(run, text, 0, found);
    head = head == NULL ? NULL : jinja_string_strip(run, head, NULL, JINJA_STRIP_RIGHT);
    if (head == NULL)
        return false;
    *size = head->size;
    return true;
}

/* ---- rendering ---- */

static bool render_chat(struct jinja_run *run, const struct chat_template *chat_template, const struct chat *chat,
                        struct chat_prompt *out)
{
    const struct chat_value *content = NULL;
    struct chat_value *messages = prepare_messages(run, chat->messages);
    if (messages == NULL)
        return false;
    if (chat->continue_final_message && chat->add_generation_prompt)
        return jinja_fail_status(run, STATUS_INVALID,
                                 "continue_final_message and add_generation_prompt exclude each other");
    if (chat->continue_final_message && !mark_last(run, messages, &content))
        return false;
    if (!put_tokens(run, chat_template) || !put_chat(run, "documents", NULL) || !put_all(run, chat->kwargs) ||
        !put_chat(run, "messages", messages) || !put_chat(run, "tools", chat->tools) ||
        !put(run, "add_generation_prompt", jinja_bool(chat->add_generation_prompt)) || !run_template(run))
        return false;
    size_t size = run->out->size;
    if (content != NULL) {
        struct jinja_string *text = jinja_string_view(run, run->out);
        if (text == NULL || !open_end(run, text, content, &size))
            return false;
    }
    return assemble(run, run->out, size, out);
}

enum status chat_template_render(const struct chat_template *chat_template, const struct chat *chat,
                                 const struct chat_template_limits *limits, struct arena *arena,
                                 struct chat_prompt *out, struct error *error)
{
    struct render render;
    memset(out, 0, sizeof(*out));
    bool done = run_start(&render, chat_template, limits, arena, error);
    render.run.now_unix_s = chat->now_unix_s;
    done = done && render_chat(&render.run, chat_template, chat, out);
    return run_end(&render, done);
}

enum status chat_template_render_value(const struct chat_template *chat_template, const struct chat_value *variables,
                                       const struct chat_template_limits *limits, struct arena *arena,
                                       struct chat_prompt *out, struct error *error)
{
    struct render render;
    memset(out, 0, sizeof(*out));
    bool done = run_start(&render, chat_template, limits, arena, error) && put_tokens(&render.run, chat_template) &&
                put_all(&render.run, variables) && run_template(&render.run) &&
                assemble(&render.run, render.run.out, render.run.out->size, out);
    return run_end(&render, done);
}
