/* What follows a primary: calls, subscripts, attributes, filters and tests. */
#include <string.h>

#include "model/text/jinja/parser.h"
#include "model/text/jinja/run.h"

static bool add_named(struct jinja_parser *parser, struct jinja_arguments *arguments, const struct jinja_token *name,
                      struct jinja_nodes *nodes, struct jinja_node *node)
{
    struct jinja_string *string = jinja_parser_string(parser, name->text, name->size);
    if (string == NULL)
        return false;
    for (size_t i = 0; i < arguments->named; i++)
        if (arguments->names[i].string->size == name->size &&
            memcmp(arguments->names[i].string->bytes, name->text, name->size) == 0)
            return jinja_parser_fail(parser, name->line, "keyword argument repeated: %.*s", (int)name->size,
                                     name->text) != NULL;
    if (arguments->named % 8 == 0) {
        struct jinja_value *names = jinja_parser_take(parser, arguments->named + 8, sizeof(*names));
        if (names == NULL)
            return false;
        if (arguments->named > 0)
            memcpy(names, arguments->names, arguments->named * sizeof(*names));
        arguments->names = names;
    }
    arguments->names[arguments->named++] = jinja_from_string(string);
    return jinja_nodes_add(parser, nodes, node);
}

static struct jinja_arguments *parse_arguments(struct jinja_parser *parser)
{
    struct jinja_arguments *arguments = jinja_parser_take(parser, 1, sizeof(*arguments));
    struct jinja_nodes positional = {0}, named = {0};
    uint32_t line = parser->token->line;
    if (arguments == NULL || !jinja_expect(parser, JINJA_T_LPAREN))
        return NULL;
    bool comma = false, valid = true;
    while (parser->token->kind != JINJA_T_RPAREN) {
        if (comma && !jinja_expect(parser, JINJA_T_COMMA))
            return NULL;
        if (comma && parser->token->kind == JINJA_T_RPAREN)
            break;
        comma = true;
        if (jinja_skip(parser, JINJA_T_MUL)) {
            valid = arguments->rest == NULL && arguments->rest_named == NULL;
            arguments->rest = jinja_parse_expression(parser);
        } else if (jinja_skip(parser, JINJA_T_POW)) {
            valid = arguments->rest_named == NULL;
            arguments->rest_named = jinja_parse_expression(parser);
        } else if (parser->token->kind == JINJA_T_NAME && parser->token[1].kind == JINJA_T_ASSIGN) {
            const struct jinja_token *name = parser->token;
            valid = arguments->rest_named == NULL;
            parser->token += 2;
            if (!add_named(parser, arguments, name, &named, jinja_parse_expression(parser)))
                return NULL;
        } else {
            valid = arguments->rest == NULL && arguments->rest_named == NULL && named.count == 0;
            jinja_nodes_add(parser, &positional, jinja_parse_expression(parser));
        }
        if (parser->status != STATUS_OK)
            return NULL;
        if (!valid)
            return jinja_parser_fail(parser, line, "invalid syntax for function call expression");
    }
    parser->token++;
    arguments->positional = positional.items;
    arguments->count = positional.count;
    arguments->named_nodes = named.items;
    return arguments;
}

static struct jinja_node *call_node(struct jinja_parser *parser, enum jinja_node_kind kind, uint32_t line,
                                    struct jinja_node *object, struct jinja_arguments *arguments)
{
    struct jinja_node *node = jinja_node_make(parser, kind, line);
    if (node == NULL || arguments == NULL || (object != NULL && !jinja_node_hold(parser, node, object)))
        return NULL;
    for (size_t i = 0; i < arguments->count; i++)
        if (!jinja_node_hold(parser, node, arguments->positional[i]))
            return NULL;
    for (size_t i = 0; i < arguments->named; i++)
        if (!jinja_node_hold(parser, node, arguments->named_nodes[i]))
            return NULL;
    if (arguments->rest != NULL && !jinja_node_hold(parser, node, arguments->rest))
        return NULL;
    if (arguments->rest_named != NULL && !jinja_node_hold(parser, node, arguments->rest_named))
        return NULL;
    node->call.object = object;
    node->call.arguments = arguments;
    return node;
}

/* One element of a subscript: an expression, or a slice into bounds. */
static bool parse_subscribed(struct jinja_parser *parser, struct jinja_node *bounds[3], bool *slice)
{
    enum jinja_token_kind kind;
    *slice = true;
    if (parser->token->kind != JINJA_T_COLON) {
        bounds[0] = jinja_parse_expression(parser);
        if (bounds[0] == NULL)
            return false;
        *slice = parser->token->kind == JINJA_T_COLON;
        if (!*slice)
            return true;
    }
    parser->token++;
    for (int i = 1; i < 3; i++) {
        kind = parser->token->kind;
        if (kind != JINJA_T_COLON && kind != JINJA_T_RBRACKET && kind != JINJA_T_COMMA) {
            bounds[i] = jinja_parse_expression(parser);
            if (bounds[i] == NULL)
                return false;
        }
        if (i == 1 && !jinja_skip(parser, JINJA_T_COLON))
            break;
    }
    return true;
}

static struct jinja_node *subscript_node(struct jinja_parser *parser, uint32_t line, struct jinja_node *object,
                                         struct jinja_node *const bounds[3], bool slice)
{
    struct jinja_node *node = jinja_node_make(parser, slice ? JINJA_GETSLICE : JINJA_GETITEM, line);
    if (node == NULL || !jinja_node_hold(parser, node, object))
        return NULL;
    node->subscript.object = object;
    for (int i = 0; i < 3; i++) {
        node->subscript.bounds[i] = bounds[i];
        if (bounds[i] != NULL && !jinja_node_hold(parser, node, bounds[i]))
            return NULL;
    }
    return node;
}

static struct jinja_node *parse_subscript(struct jinja_parser *parser, struct jinja_node *object)
{
    const struct jinja_token *token = parser->token++;
    struct jinja_node *bounds[3] = {NULL, NULL, NULL};
    if (token->kind == JINJA_T_DOT) {
        const struct jinja_token *name = parser->token++;
        if (name->kind == JINJA_T_INTEGER) {
            bounds[0] = jinja_node_constant(parser, name->line, name->number);
            return bounds[0] == NULL ? NULL : subscript_node(parser, token->line, object, bounds, false);
        }
        if (name->kind != JINJA_T_NAME) {
            parser->token--;
            return jinja_parser_fail(parser, name->line, "expected name or number");
        }
        struct jinja_node *node = jinja_node_make(parser, JINJA_GETATTR, token->line);
        if (node == NULL || !jinja_node_hold(parser, node, object))
            return NULL;
        node->attribute.object = object;
        node->attribute.name = jinja_parser_string(parser, name->text, name->size);
        return node->attribute.name == NULL ? NULL : node;
    }
    bool slice = false;
    if (parser->token->kind == JINJA_T_RBRACKET)
        return jinja_parser_unsupported(parser, token->line, "an empty subscript");
    if (!parse_subscribed(parser, bounds, &slice))
        return NULL;
    if (parser->token->kind == JINJA_T_COMMA)
        return jinja_parser_unsupported(parser, token->line, "a subscript of several expressions");
    if (!jinja_expect(parser, JINJA_T_RBRACKET))
        return NULL;
    return subscript_node(parser, token->line, object, bounds, slice);
}

static struct jinja_node *parse_call(struct jinja_parser *parser, struct jinja_node *callee)
{
    uint32_t line = parser->token->line;
    return call_node(parser, JINJA_CALL, line, callee, parse_arguments(parser));
}

struct jinja_node *jinja_parse_postfix(struct jinja_parser *parser, struct jinja_node *node)
{
    while (node != NULL) {
        enum jinja_token_kind kind = parser->token->kind;
        if (kind == JINJA_T_DOT || kind == JINJA_T_LBRACKET)
            node = parse_subscript(parser, node);
        else if (kind == JINJA_T_LPAREN)
            node = parse_call(parser, node);
        else
            break;
    }
    return node;
}

/* `name` or `a.b` of a filter or test. */
static struct jinja_string *parse_dotted(struct jinja_parser *parser)
{
    const struct jinja_token *token = parser->token;
    if (!jinja_expect(parser, JINJA_T_NAME))
        return NULL;
    if (parser->token->kind == JINJA_T_DOT)
        return jinja_parser_fail(parser, token->line, "no filter or test has a dotted name");
    return jinja_parser_string(parser, token->text, token->size);
}

struct jinja_node *jinja_parse_filter(struct jinja_parser *parser, struct jinja_node *object, bool start_inline,
                                      bool *any)
{
    struct jinja_node *node = object;
    *any = false;
    while (start_inline || parser->token->kind == JINJA_T_PIPE) {
        if (!start_inline)
            parser->token++;
        start_inline = false;
        uint32_t line = parser->token->line;
        struct jinja_string *name = parse_dotted(parser);
        if (name == NULL)
            return NULL;
        struct jinja_arguments *arguments = parser->token->kind == JINJA_T_LPAREN
                                                ? parse_arguments(parser)
                                                : jinja_parser_take(parser, 1, sizeof(*arguments));
        node = call_node(parser, JINJA_FILTER, line, node, arguments);
        if (node == NULL)
            return NULL;
        node->call.name = name;
        node->call.target = jinja_filter_find(name->bytes, name->size);
        if (node->call.target == NULL && jinja_filter_is_foreign(name->bytes, name->size))
            return jinja_parser_unsupported(parser, line, name->bytes);
        *any = true;
    }
    return node;
}

static bool starts_test_argument(const struct jinja_token *token)
{
    switch (token->kind) {
    case JINJA_T_NAME:
        return !jinja_token_is_name(token, "else") && !jinja_token_is_name(token, "or") &&
               !jinja_token_is_name(token, "and");
    case JINJA_T_STRING:
    case JINJA_T_INTEGER:
    case JINJA_T_FLOAT:
    case JINJA_T_LBRACKET:
    case JINJA_T_LBRACE:
        return true;
    default:
        return false;
    }
}

static struct jinja_node *parse_test(struct jinja_parser *parser, struct jinja_node *object)
{
    uint32_t line = parser->token++->line;
    bool negated = jinja_skip_name(parser, "not");
    struct jinja_string *name = parse_dotted(parser);
    struct jinja_arguments *arguments = NULL;
    if (name == NULL)
        return NULL;
    if (parser->token->kind == JINJA_T_LPAREN) {
        arguments = parse_arguments(parser);
    } else {
        arguments = jinja_parser_take(parser, 1, sizeof(*arguments));
        if (arguments != NULL && starts_test_argument(parser->token)) {
            if (jinja_token_is_name(parser->token, "is"))
                return jinja_parser_fail(parser, line, "You cannot chain multiple tests with is");
            struct jinja_nodes nodes = {0};
            struct jinja_node *argument = jinja_parse_primary(parser, false);
            argument = argument == NULL ? NULL : jinja_parse_postfix(parser, argument);
            if (!jinja_nodes_add(parser, &nodes, argument))
                return NULL;
            arguments->positional = nodes.items;
            arguments->count = 1;
        }
    }
    struct jinja_node *node = call_node(parser, JINJA_TEST, line, object, arguments);
    if (node == NULL)
        return NULL;
    node->call.name = name;
    node->call.target = jinja_test_find(name->bytes, name->size);
    return negated ? jinja_node_pair(parser, JINJA_NOT, line, node, NULL) : node;
}

struct jinja_node *jinja_parse_filter_expression(struct jinja_parser *parser, struct jinja_node *node)
{
    bool any;
    while (node != NULL) {
        if (parser->token->kind == JINJA_T_PIPE)
            node = jinja_parse_filter(parser, node, false, &any);
        else if (jinja_token_is_name(parser->token, "is"))
            node = parse_test(parser, node);
        else if (parser->token->kind == JINJA_T_LPAREN)
            node = parse_call(parser, node);
        else
            break;
    }
    return node;
}
