/* Statements, and the compiled template's life. */
#include "model/text/jinja/parser.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/base/size.h"
#include "kernels/base/utf8.h"
#include "model/text/jinja/run.h"

static bool parse_block(struct jinja_parser *parser, const char *const *ends, struct jinja_block *out);

/* ---- statements ---- */

/* The body of a statement, from the end of its tag to one of `ends`; the ending name is consumed. */
static bool parse_body(struct jinja_parser *parser, const char *const *ends, struct jinja_block *out)
{
    jinja_skip(parser, JINJA_T_COLON);
    if (!jinja_expect(parser, JINJA_T_BLOCK_END) || !parse_block(parser, ends, out))
        return false;
    if (parser->token->kind == JINJA_T_EOF) {
        jinja_parser_fail(parser, parser->token->line, "Unexpected end of template; expected '%s'", ends[0]);
        return false;
    }
    return true;
}

static bool parse_body_to(struct jinja_parser *parser, const char *end, struct jinja_block *out)
{
    const char *const ends[] = {end, NULL};
    if (!parse_body(parser, ends, out))
        return false;
    parser->token++;
    return true;
}

static bool hold_block(struct jinja_parser *parser, struct jinja_node *node, const struct jinja_block *block)
{
    for (size_t i = 0; i < block->count; i++)
        if (!jinja_node_hold(parser, node, block->nodes[i]))
            return false;
    return true;
}

static struct jinja_node *parse_if(struct jinja_parser *parser, uint32_t line)
{
    static const char *const ends[] = {"endif", "elif", "else", NULL};
    struct jinja_node *node = jinja_node_make(parser, JINJA_IF, line);
    struct jinja_branches *branches = jinja_parser_take(parser, 1, sizeof(*branches));
    struct jinja_nodes tests = {0};
    size_t capacity = 0;
    if (node == NULL || branches == NULL)
        return NULL;
    node->branches = branches;
    for (bool more = true; more;) {
        struct jinja_block body = {0};
        struct jinja_node *test = jinja_parse_tuple(parser, (struct jinja_tuple_rules){.without_condition = true});
        if (!jinja_nodes_add(parser, &tests, test) || !jinja_node_hold(parser, node, test) ||
            !parse_body(parser, ends, &body) || !hold_block(parser, node, &body))
            return NULL;
        if (branches->count == capacity) {
            capacity = capacity == 0 ? 2 : capacity * 2;
            struct jinja_block *bodies = jinja_parser_take(parser, capacity, sizeof(*bodies));
            if (bodies == NULL)
                return NULL;
            if (branches->count > 0)
                memcpy(bodies, branches->bodies, branches->count * sizeof(*bodies));
            branches->bodies = bodies;
        }
        branches->bodies[branches->count++] = body;
        more = jinja_token_is_name(parser->token, "elif");
        if (jinja_token_is_name(parser->token, "else")) {
            parser->token++;
            if (!parse_body_to(parser, "endif", &branches->otherwise) ||
                !hold_block(parser, node, &branches->otherwise))
                return NULL;
        } else {
            parser->token++;
        }
    }
    branches->tests = tests.items;
    return node;
}

/* The same targets once more, for the variables of a loop's `if`, which live in a scope of their own. */
static struct jinja_node *copy_target(struct jinja_parser *parser, const struct jinja_node *target)
{
    struct jinja_node *copy = jinja_parser_take(parser, 1, sizeof(*copy));
    if (copy == NULL)
        return NULL;
    *copy = *target;
    if (target->kind != JINJA_TUPLE_OF)
        return copy;
    copy->sequence.items = jinja_parser_take(parser, target->sequence.count, sizeof(struct jinja_node *));
    for (size_t i = 0; copy->sequence.items != NULL && i < target->sequence.count; i++)
        copy->sequence.items[i] = copy_target(parser, target->sequence.items[i]);
    return parser->status == STATUS_OK ? copy : NULL;
}

static struct jinja_node *parse_for(struct jinja_parser *parser, uint32_t line)
{
    static const char *const ends[] = {"endfor", "else", NULL};
    struct jinja_node *node = jinja_node_make(parser, JINJA_FOR, line);
    struct jinja_for *loop = jinja_parser_take(parser, 1, sizeof(*loop));
    if (node == NULL || loop == NULL)
        return NULL;
    node->loop = loop;
    loop->target = jinja_parse_target(parser, false, "in");
    if (loop->target == NULL)
        return NULL;
    if (!jinja_skip_name(parser, "in"))
        return jinja_parser_fail(parser, parser->token->line, "expected 'in'");
    loop->iterable =
        jinja_parse_tuple(parser, (struct jinja_tuple_rules){.without_condition = true, .end_name = "recursive"});
    if (loop->iterable == NULL)
        return NULL;
    if (jinja_skip_name(parser, "if")) {
        loop->test = jinja_parse_expression(parser);
        loop->test_target = loop->test == NULL ? NULL : copy_target(parser, loop->target);
        if (loop->test_target == NULL)
            return NULL;
    }
    if (jinja_token_is_name(parser->token, "recursive"))
        return jinja_parser_unsupported(parser, line, "for ... recursive");
    if (!parse_body(parser, ends, &loop->body))
        return NULL;
    bool has_else = jinja_token_is_name(parser->token, "else");
    parser->token++;
    if (has_else && !parse_body_to(parser, "endfor", &loop->otherwise))
        return NULL;
    bool held = jinja_node_hold(parser, node, loop->target) && jinja_node_hold(parser, node, loop->iterable) &&
                (loop->test == NULL || jinja_node_hold(parser, node, loop->test)) &&
                hold_block(parser, node, &loop->body) && hold_block(parser, node, &loop->otherwise);
    return held ? node : NULL;
}

static struct jinja_node *parse_set(struct jinja_parser *parser, uint32_t line)
{
    struct jinja_node *target = jinja_parse_target(parser, true, NULL), *node;
    if (target == NULL)
        return NULL;
    if (jinja_skip(parser, JINJA_T_ASSIGN)) {
        node = jinja_node_make(parser, JINJA_SET, line);
        struct jinja_node *value = jinja_parse_tuple(parser, (struct jinja_tuple_rules){0});
        if (node == NULL || value == NULL || !jinja_node_hold(parser, node, value) ||
            !jinja_node_hold(parser, node, target))
            return NULL;
        node->set.target = target;
        node->set.value = value;
        return node;
    }
    node = jinja_node_make(parser, JINJA_SET_BLOCK, line);
    struct jinja_capture *capture = jinja_parser_take(parser, 1, sizeof(*capture));
    bool any;
    if (node == NULL || capture == NULL)
        return NULL;
    node->capture = capture;
    capture->target = target;
    capture->filter = jinja_parse_filter(parser, NULL, false, &any);
    if (parser->status != STATUS_OK || !parse_body_to(parser, "endset", &capture->body) ||
        !hold_block(parser, node, &capture->body) || !jinja_node_hold(parser, node, capture->filter))
        return NULL;
    return node;
}

static bool parse_signature(struct jinja_parser *parser, struct jinja_function *function)
{
    struct jinja_nodes parameters = {0}, defaults = {0};
    bool any_default = false;
    if (!jinja_expect(parser, JINJA_T_LPAREN))
        return false;
    while (parser->token->kind != JINJA_T_RPAREN) {
        if (parameters.count > 0 && !jinja_expect(parser, JINJA_T_COMMA))
            return false;
        struct jinja_node *name = jinja_parse_name_target(parser);
        if (!jinja_nodes_add(parser, &parameters, name))
            return false;
        for (size_t i = 0; i + 1 < parameters.count; i++)
            if (parameters.items[i]->variable.name == name->variable.name)
                return jinja_parser_fail(parser, name->line, "a parameter's name is used twice") != NULL;
        if (jinja_skip(parser, JINJA_T_ASSIGN)) {
            any_default = true;
            if (!jinja_nodes_add(parser, &defaults, jinja_parse_expression(parser)))
                return false;
        } else if (any_default) {
            return jinja_parser_fail(parser, name->line, "non-default argument follows default argument") != NULL;
        }
    }
    parser->token++;
    function->parameters = parameters.items;
    function->parameter_count = parameters.count;
    function->defaults = jinja_parser_take(parser, parameters.count + 1, sizeof(struct jinja_node *));
    if (function->defaults == NULL)
        return false;
    for (size_t i = 0; i < defaults.count; i++)
        function->defaults[parameters.count - defaults.count + i] = defaults.items[i];
    return true;
}

static struct jinja_node *finish_function(struct jinja_parser *parser, struct jinja_node *node,
                                          struct jinja_function *function, const char *end)
{
    if (!parse_body_to(parser, end, &function->body) || !hold_block(parser, node, &function->body))
        return NULL;
    for (size_t i = 0; i < function->parameter_count; i++)
        if (function->defaults[i] != NULL && !jinja_node_hold(parser, node, function->defaults[i]))
            return NULL;
    return node;
}

static struct jinja_node *parse_macro(struct jinja_parser *parser, uint32_t line)
{
    struct jinja_node *node = jinja_node_make(parser, JINJA_MACRO_DEF, line);
    struct jinja_function *function = jinja_parser_take(parser, 1, sizeof(*function));
    if (node == NULL || function == NULL)
        return NULL;
    node->macro.function = function;
    node->macro.target = jinja_parse_name_target(parser);
    if (node->macro.target == NULL || !parse_signature(parser, function))
        return NULL;
    function->name = parser->program->names[node->macro.target->variable.name];
    function->name_string = jinja_parser_string(parser, function->name, strlen(function->name));
    return function->name_string == NULL ? NULL : finish_function(parser, node, function, "endmacro");
}

static struct jinja_node *parse_call_block(struct jinja_parser *parser, uint32_t line)
{
    struct jinja_node *node = jinja_node_make(parser, JINJA_CALL_BLOCK, line);
    struct jinja_function *function = jinja_parser_take(parser, 1, sizeof(*function));
    if (node == NULL || function == NULL)
        return NULL;
    node->macro.function = function;
    if (parser->token->kind == JINJA_T_LPAREN && !parse_signature(parser, function))
        return NULL;
    node->macro.target = jinja_parse_expression(parser);
    if (node->macro.target == NULL)
        return NULL;
    if (node->macro.target->kind != JINJA_CALL)
        return jinja_parser_fail(parser, line, "expected call");
    if (!jinja_node_hold(parser, node, node->macro.target))
        return NULL;
    return finish_function(parser, node, function, "endcall");
}

static struct jinja_node *parse_captured(struct jinja_parser *parser, uint32_t line, bool filter)
{
    struct jinja_node *node = jinja_node_make(parser, filter ? JINJA_FILTER_BLOCK : JINJA_GENERATION, line);
    struct jinja_capture *capture = jinja_parser_take(parser, 1, sizeof(*capture));
    bool any;
    if (node == NULL || capture == NULL)
        return NULL;
    node->capture = capture;
    if (filter) {
        capture->filter = jinja_parse_filter(parser, NULL, true, &any);
        if (capture->filter == NULL || !jinja_node_hold(parser, node, capture->filter))
            return NULL;
    }
    bool parsed = parse_body_to(parser, filter ? "endfilter" : "endgeneration", &capture->body) &&
                  hold_block(parser, node, &capture->body);
    return parsed ? node : NULL;
}

static struct jinja_node *parse_with(struct jinja_parser *parser, uint32_t line)
{
    struct jinja_node *node = jinja_node_make(parser, JINJA_WITH, line);
    struct jinja_with *with = jinja_parser_take(parser, 1, sizeof(*with));
    struct jinja_nodes targets = {0}, values = {0};
    if (node == NULL || with == NULL)
        return NULL;
    node->with = with;
    while (parser->token->kind != JINJA_T_BLOCK_END) {
        if (targets.count > 0 && !jinja_expect(parser, JINJA_T_COMMA))
            return NULL;
        if (!jinja_nodes_add(parser, &targets, jinja_parse_target(parser, false, NULL)) ||
            !jinja_expect(parser, JINJA_T_ASSIGN) ||
            !jinja_nodes_add(parser, &values, jinja_parse_expression(parser)) ||
            !jinja_node_hold(parser, node, values.items[values.count - 1]))
            return NULL;
    }
    with->targets = targets.items;
    with->values = values.items;
    with->count = targets.count;
    bool parsed = parse_body_to(parser, "endwith", &with->body) && hold_block(parser, node, &with->body);
    return parsed ? node : NULL;
}

static struct jinja_node *parse_print(struct jinja_parser *parser, uint32_t line)
{
    struct jinja_node *node = jinja_node_make(parser, JINJA_OUTPUT, line);
    struct jinja_nodes items = {0};
    while (node != NULL && parser->token->kind != JINJA_T_BLOCK_END) {
        if (items.count > 0 && !jinja_expect(parser, JINJA_T_COMMA))
            return NULL;
        if (!jinja_nodes_add(parser, &items, jinja_parse_expression(parser)) ||
            !jinja_node_hold(parser, node, items.items[items.count - 1]))
            return NULL;
    }
    if (node != NULL) {
        node->sequence.items = items.items;
        node->sequence.count = items.count;
    }
    return node;
}

static struct jinja_node *parse_statement(struct jinja_parser *parser)
{
    static const char *const foreign[] = {"include", "import", "from", "extends", "block", "autoescape"};
    const struct jinja_token *token = parser->token;
    if (token->kind != JINJA_T_NAME)
        return jinja_parser_fail(parser, token->line, "tag name expected");
    parser->token++;
    if (jinja_token_is_name(token, "if"))
        return parse_if(parser, token->line);
    if (jinja_token_is_name(token, "for"))
        return parse_for(parser, token->line);
    if (jinja_token_is_name(token, "set"))
        return parse_set(parser, token->line);
    if (jinja_token_is_name(token, "macro"))
        return parse_macro(parser, token->line);
    if (jinja_token_is_name(token, "call"))
        return parse_call_block(parser, token->line);
    if (jinja_token_is_name(token, "filter"))
        return parse_captured(parser, token->line, true);
    if (jinja_token_is_name(token, "generation"))
        return parse_captured(parser, token->line, false);
    if (jinja_token_is_name(token, "with"))
        return parse_with(parser, token->line);
    if (jinja_token_is_name(token, "print"))
        return parse_print(parser, token->line);
    if (jinja_token_is_name(token, "break"))
        return jinja_node_make(parser, JINJA_BREAK_LOOP, token->line);
    if (jinja_token_is_name(token, "continue"))
        return jinja_node_make(parser, JINJA_CONTINUE_LOOP, token->line);
    for (size_t i = 0; i < sizeof(foreign) / sizeof(foreign[0]); i++)
        if (jinja_token_is_name(token, foreign[i]))
            return jinja_parser_unsupported(parser, token->line, foreign[i]);
    return jinja_parser_fail(parser, token->line, "Encountered unknown tag '%.*s'", (int)size_min(token->size, 64),
                             token->text);
}

static struct jinja_node *parse_output(struct jinja_parser *parser)
{
    struct jinja_node *node = jinja_node_make(parser, JINJA_OUTPUT, parser->token->line);
    struct jinja_nodes items = {0};
    parser->token++;
    struct jinja_node *value = jinja_parse_tuple(parser, (struct jinja_tuple_rules){0});
    if (node == NULL || !jinja_nodes_add(parser, &items, value) || !jinja_node_hold(parser, node, value) ||
        !jinja_expect(parser, JINJA_T_VARIABLE_END))
        return NULL;
    node->sequence.items = items.items;
    node->sequence.count = items.count;
    return node;
}

static struct jinja_node *parse_data(struct jinja_parser *parser)
{
    struct jinja_node *node = jinja_node_make(parser, JINJA_DATA, parser->token->line);
    if (node != NULL) {
        node->data.bytes = parser->token->text;
        node->data.size = parser->token->size;
    }
    parser->token++;
    return node;
}

static bool is_one_of(const struct jinja_token *token, const char *const *names)
{
    for (; names != NULL && *names != NULL; names++)
        if (jinja_token_is_name(token, *names))
            return true;
    return false;
}

/* Statements up to a tag named by one of `ends` (NULL: up to the end of the template). */
static bool parse_block(struct jinja_parser *parser, const char *const *ends, struct jinja_block *out)
{
    struct jinja_nodes nodes = {0};
    if (parser->depth >= JINJA_NEST_MAX) {
        jinja_parser_fail(parser, parser->token->line, "statements are nested deeper than %d levels", JINJA_NEST_MAX);
        return false;
    }
    parser->depth++;
    while (parser->token->kind != JINJA_T_EOF) {
        struct jinja_node *node = NULL;
        if (parser->token->kind == JINJA_T_DATA) {
            node = parse_data(parser);
        } else if (parser->token->kind == JINJA_T_VARIABLE_BEGIN) {
            node = parse_output(parser);
        } else {
            parser->token++; /* the lexer makes nothing else here but the begin of a statement */
            if (is_one_of(parser->token, ends))
                break;
            node = parse_statement(parser);
            if (node == NULL || !jinja_expect(parser, JINJA_T_BLOCK_END))
                return false;
        }
        if (!jinja_nodes_add(parser, &nodes, node))
            return false;
    }
    parser->depth--;
    out->nodes = nodes.items;
    out->count = nodes.count;
    return true;
}

/* ---- the program ---- */

/* Line ends become \n, and one at the very end is dropped. */
static size_t normalize(const char *source, size_t size, char *out)
{
    size_t n = 0;
    for (size_t i = 0; i < size; i++) {
        if (source[i] == '\r' && i + 1 < size && source[i + 1] == '\n')
            continue;
        out[n++] = (char)(source[i] == '\r' ? '\n' : source[i]);
    }
    if (n > 0 && out[n - 1] == '\n')
        n--;
    out[n] = '\0';
    return n;
}

static enum status compile(struct jinja_program *program, const char *source, size_t size, struct error *error)
{
    struct jinja_tokens tokens = {0};
    struct jinja_parser parser = {.program = program, .arena = &program->arena, .error = error};
    char *text = arena_take(&program->arena, size + 1);
    if (text == NULL)
        return error_no_memory(error, "a chat template");
    program->source = text;
    program->source_size = normalize(source, size, text);
    enum status status = jinja_lex(&program->arena, text, program->source_size, &tokens, error);
    if (status != STATUS_OK)
        return status;
    parser.token = tokens.items;
    if (!parse_block(&parser, NULL, &program->root.body))
        return parser.status;
    return jinja_scope_program(program, error);
}

enum status jinja_program_open(const char *source, size_t size, struct jinja_program **out, struct error *error)
{
    *out = NULL;
    if (size > JINJA_SOURCE_MAX)
        return error_set(error, STATUS_TOO_LARGE, "a chat template has %zu bytes; the limit is %zu", size,
                         JINJA_SOURCE_MAX);
    size_t invalid = utf8_invalid_at(source, size);
    if (invalid != size)
        return error_set(error, STATUS_INVALID, "a chat template is not valid UTF-8 at byte %zu", invalid);
    struct jinja_program *program = calloc(1, sizeof(*program));
    if (program == NULL)
        return error_no_memory(error, "a chat template");
    program->arena.limit_bytes = (size_t)64 << 20;
    enum status status = compile(program, source, size, error);
    if (status != STATUS_OK) {
        jinja_program_close(program);
        return status;
    }
    *out = program;
    return STATUS_OK;
}

void jinja_program_close(struct jinja_program *program)
{
    if (program == NULL)
        return;
    arena_free(&program->arena);
    free(program);
}
