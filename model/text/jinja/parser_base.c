/* What both parsers stand on: failing, memory, nodes, names, and the token at hand. */
#include <stdarg.h>
#include <string.h>

#include "kernels/base/size.h"
#include "model/text/jinja/parser.h"
#include "model/text/jinja/string.h"

void *jinja_parser_fail(struct jinja_parser *parser, uint32_t line, const char *format, ...)
{
    char text[300];
    va_list args;
    if (parser->status != STATUS_OK)
        return NULL;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    parser->status = error_set(parser->error, STATUS_INVALID, "chat template line %u: %s", line, text);
    return NULL;
}

void *jinja_parser_unsupported(struct jinja_parser *parser, uint32_t line, const char *what)
{
    if (parser->status == STATUS_OK)
        parser->status =
            error_set(parser->error, STATUS_UNSUPPORTED, "chat template line %u: '%s' is not supported", line, what);
    return NULL;
}

void *jinja_parser_take(struct jinja_parser *parser, size_t count, size_t bytes)
{
    void *memory = arena_array(parser->arena, count, bytes);
    if (memory == NULL && parser->status == STATUS_OK)
        parser->status = error_no_memory(parser->error, "a chat template");
    return memory;
}

bool jinja_nodes_add(struct jinja_parser *parser, struct jinja_nodes *nodes, struct jinja_node *node)
{
    if (node == NULL)
        return false;
    if (nodes->count == nodes->capacity) {
        size_t capacity = nodes->capacity == 0 ? 4 : nodes->capacity * 2;
        struct jinja_node **items = jinja_parser_take(parser, capacity, sizeof(struct jinja_node *));
        if (items == NULL)
            return false;
        if (nodes->count > 0)
            memcpy(items, nodes->items, nodes->count * sizeof(struct jinja_node *));
        nodes->items = items;
        nodes->capacity = capacity;
    }
    nodes->items[nodes->count++] = node;
    return true;
}

struct jinja_node *jinja_node_make(struct jinja_parser *parser, enum jinja_node_kind kind, uint32_t line)
{
    struct jinja_node *node = jinja_parser_take(parser, 1, sizeof(*node));
    if (node != NULL) {
        node->kind = (uint8_t)kind;
        node->line = line;
    }
    return node;
}

bool jinja_node_hold(struct jinja_parser *parser, struct jinja_node *node, const struct jinja_node *child)
{
    if (child == NULL)
        return parser->status == STATUS_OK;
    if (child->depth >= JINJA_NEST_MAX) {
        jinja_parser_fail(parser, node->line, "an expression is nested deeper than %d levels", JINJA_NEST_MAX);
        return false;
    }
    if (child->depth + 1 > node->depth)
        node->depth = (uint16_t)(child->depth + 1);
    return true;
}

struct jinja_string *jinja_parser_string(struct jinja_parser *parser, const char *text, size_t size)
{
    struct jinja_string *string = jinja_parser_take(parser, 1, sizeof(*string));
    char *bytes = jinja_parser_take(parser, size + 1, 1);
    if (string == NULL || bytes == NULL)
        return NULL;
    if (size > 0)
        memcpy(bytes, text, size);
    jinja_string_constant(string, bytes, size);
    return string;
}

static uint32_t name_hash(const char *text, size_t size)
{
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ (unsigned char)text[i]) * 16777619u;
    return hash;
}

static bool grow_name_index(struct jinja_parser *parser)
{
    struct jinja_program *program = parser->program;
    uint32_t capacity = parser->name_index_capacity == 0 ? 64 : parser->name_index_capacity * 2;
    uint32_t *index = jinja_parser_take(parser, capacity, sizeof(*index));
    const char **names = jinja_parser_take(parser, capacity / 2, sizeof(*names));
    if (index == NULL || names == NULL)
        return false;
    for (uint32_t i = 0; i < program->name_count; i++) {
        uint32_t at = name_hash(program->names[i], strlen(program->names[i])) & (capacity - 1);
        while (index[at] != 0)
            at = (at + 1) & (capacity - 1);
        index[at] = i + 1;
        names[i] = program->names[i];
    }
    program->names = names;
    parser->name_index = index;
    parser->name_index_capacity = capacity;
    return true;
}

uint32_t jinja_parser_name(struct jinja_parser *parser, const char *text, size_t size)
{
    struct jinja_program *program = parser->program;
    if (program->name_count * 2 >= parser->name_index_capacity && !grow_name_index(parser))
        return UINT32_MAX;
    uint32_t mask = parser->name_index_capacity - 1, at = name_hash(text, size) & mask;
    for (; parser->name_index[at] != 0; at = (at + 1) & mask) {
        const char *name = program->names[parser->name_index[at] - 1];
        if (strncmp(name, text, size) == 0 && name[size] == '\0')
            return parser->name_index[at] - 1;
    }
    const char *copy = arena_copy(parser->arena, text, size);
    if (copy == NULL) {
        parser->status = error_no_memory(parser->error, "a chat template");
        return UINT32_MAX;
    }
    program->names[program->name_count] = copy;
    parser->name_index[at] = ++program->name_count;
    return program->name_count - 1;
}

bool jinja_token_is_name(const struct jinja_token *token, const char *name)
{
    return token->kind == JINJA_T_NAME && strncmp(token->text, name, token->size) == 0 && name[token->size] == '\0';
}

bool jinja_skip_name(struct jinja_parser *parser, const char *name)
{
    if (!jinja_token_is_name(parser->token, name))
        return false;
    parser->token++;
    return true;
}

bool jinja_skip(struct jinja_parser *parser, enum jinja_token_kind kind)
{
    if (parser->token->kind != kind)
        return false;
    parser->token++;
    return true;
}

bool jinja_expect(struct jinja_parser *parser, enum jinja_token_kind kind)
{
    if (jinja_skip(parser, kind))
        return true;
    const struct jinja_token *token = parser->token;
    if (token->kind == JINJA_T_NAME)
        jinja_parser_fail(parser, token->line, "expected '%s', got '%.*s'", jinja_token_name(kind),
                          (int)size_min(token->size, 64), token->text);
    else
        jinja_parser_fail(parser, token->line, "expected '%s', got '%s'", jinja_token_name(kind),
                          jinja_token_name(token->kind));
    return false;
}

/* ---- nodes ---- */

struct jinja_node *jinja_node_pair(struct jinja_parser *parser, enum jinja_node_kind kind, uint32_t line,
                                   struct jinja_node *a, struct jinja_node *b)
{
    struct jinja_node *node = jinja_node_make(parser, kind, line);
    if (node == NULL || !jinja_node_hold(parser, node, a) || !jinja_node_hold(parser, node, b))
        return NULL;
    node->pair.a = a;
    node->pair.b = b;
    return node;
}

struct jinja_node *jinja_node_sequence(struct jinja_parser *parser, enum jinja_node_kind kind, uint32_t line,
                                       const struct jinja_nodes *items)
{
    struct jinja_node *node = jinja_node_make(parser, kind, line);
    if (node == NULL)
        return NULL;
    for (size_t i = 0; i < items->count; i++)
        if (!jinja_node_hold(parser, node, items->items[i]))
            return NULL;
    node->sequence.items = items->items;
    node->sequence.count = items->count;
    return node;
}

struct jinja_node *jinja_node_constant(struct jinja_parser *parser, uint32_t line, struct jinja_value value)
{
    struct jinja_node *node = jinja_node_make(parser, JINJA_CONST, line);
    if (node != NULL)
        node->constant = value;
    return node;
}
