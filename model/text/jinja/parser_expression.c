/* Expressions, with the precedences of jinja2/parser.py: or, and, not, comparison, + -, ~, * / // %, **, unary; what
 * follows a primary is in parser_postfix.c. */
#include <string.h>

#include "model/text/jinja/parser.h"
#include "model/text/jinja/run.h"

static struct jinja_node *parse_condition(struct jinja_parser *parser);
static struct jinja_node *parse_or(struct jinja_parser *parser);
static struct jinja_node *parse_unary(struct jinja_parser *parser, bool with_filter);

static bool descend(struct jinja_parser *parser)
{
    if (parser->depth >= JINJA_NEST_MAX) {
        jinja_parser_fail(parser, parser->token->line, "an expression is nested deeper than %d levels", JINJA_NEST_MAX);
        return false;
    }
    parser->depth++;
    return true;
}

/* ---- primaries ---- */

static struct jinja_node *parse_string(struct jinja_parser *parser)
{
    uint32_t line = parser->token->line;
    const char *text = parser->token->text;
    size_t size = parser->token->size;
    parser->token++;
    if (parser->token->kind == JINJA_T_STRING) {
        size_t total = size;
        for (const struct jinja_token *t = parser->token; t->kind == JINJA_T_STRING; t++)
            total += t->size;
        char *joined = jinja_parser_take(parser, total + 1, 1);
        if (joined == NULL)
            return NULL;
        memcpy(joined, text, size);
        for (; parser->token->kind == JINJA_T_STRING; parser->token++) {
            memcpy(joined + size, parser->token->text, parser->token->size);
            size += parser->token->size;
        }
        text = joined;
    }
    struct jinja_string *string = jinja_parser_string(parser, text, size);
    return string == NULL ? NULL : jinja_node_constant(parser, line, jinja_from_string(string));
}

static struct jinja_node *parse_name(struct jinja_parser *parser, bool namespaces)
{
    const struct jinja_token *token = parser->token++;
    if (jinja_token_is_name(token, "true") || jinja_token_is_name(token, "True"))
        return jinja_node_constant(parser, token->line, jinja_bool(true));
    if (jinja_token_is_name(token, "false") || jinja_token_is_name(token, "False"))
        return jinja_node_constant(parser, token->line, jinja_bool(false));
    if (jinja_token_is_name(token, "none") || jinja_token_is_name(token, "None"))
        return jinja_node_constant(parser, token->line, jinja_none());
    struct jinja_node *node = jinja_node_make(parser, JINJA_NAME, token->line);
    if (node == NULL)
        return NULL;
    node->variable.name = jinja_parser_name(parser, token->text, token->size);
    if (node->variable.name == UINT32_MAX)
        return NULL;
    if (namespaces && jinja_skip(parser, JINJA_T_DOT)) {
        node->kind = JINJA_NAMESPACE_REF;
        const struct jinja_token *attribute = parser->token;
        if (!jinja_expect(parser, JINJA_T_NAME))
            return NULL;
        node->variable.attribute = jinja_parser_string(parser, attribute->text, attribute->size);
        if (node->variable.attribute == NULL)
            return NULL;
    }
    return node;
}

static struct jinja_node *parse_list(struct jinja_parser *parser)
{
    struct jinja_nodes items = {0};
    uint32_t line = parser->token++->line;
    while (parser->token->kind != JINJA_T_RBRACKET) {
        if (items.count > 0 && !jinja_expect(parser, JINJA_T_COMMA))
            return NULL;
        if (parser->token->kind == JINJA_T_RBRACKET)
            break;
        if (!jinja_nodes_add(parser, &items, jinja_parse_expression(parser)))
            return NULL;
    }
    parser->token++;
    return jinja_node_sequence(parser, JINJA_LIST_OF, line, &items);
}

static struct jinja_node *parse_dict(struct jinja_parser *parser)
{
    struct jinja_nodes items = {0};
    uint32_t line = parser->token++->line;
    while (parser->token->kind != JINJA_T_RBRACE) {
        if (items.count > 0 && !jinja_expect(parser, JINJA_T_COMMA))
            return NULL;
        if (parser->token->kind == JINJA_T_RBRACE)
            break;
        if (!jinja_nodes_add(parser, &items, jinja_parse_expression(parser)) || !jinja_expect(parser, JINJA_T_COLON) ||
            !jinja_nodes_add(parser, &items, jinja_parse_expression(parser)))
            return NULL;
    }
    parser->token++;
    return jinja_node_sequence(parser, JINJA_DICT_OF, line, &items);
}

struct jinja_node *jinja_parse_primary(struct jinja_parser *parser, bool namespaces)
{
    const struct jinja_token *token = parser->token;
    switch (token->kind) {
    case JINJA_T_NAME:
        return parse_name(parser, namespaces);
    case JINJA_T_STRING:
        return parse_string(parser);
    case JINJA_T_INTEGER:
    case JINJA_T_FLOAT:
        parser->token++;
        return jinja_node_constant(parser, token->line, token->number);
    case JINJA_T_LPAREN: {
        parser->token++;
        struct jinja_node *node = jinja_parse_tuple(parser, (struct jinja_tuple_rules){.parentheses = true});
        return node != NULL && jinja_expect(parser, JINJA_T_RPAREN) ? node : NULL;
    }
    case JINJA_T_LBRACKET:
        return parse_list(parser);
    case JINJA_T_LBRACE:
        return parse_dict(parser);
    default:
        return jinja_parser_fail(parser, token->line, "unexpected '%s'", jinja_token_name(token->kind));
    }
}

static bool is_tuple_end(const struct jinja_parser *parser, const char *end_name)
{
    enum jinja_token_kind kind = parser->token->kind;
    return kind == JINJA_T_VARIABLE_END || kind == JINJA_T_BLOCK_END || kind == JINJA_T_RPAREN ||
           (end_name != NULL && jinja_token_is_name(parser->token, end_name));
}

struct jinja_node *jinja_parse_tuple(struct jinja_parser *parser, struct jinja_tuple_rules rules)
{
    struct jinja_nodes items = {0};
    uint32_t line = parser->token->line;
    bool is_tuple = false;
    if (!descend(parser))
        return NULL;
    for (;;) {
        if (items.count > 0 && !jinja_expect(parser, JINJA_T_COMMA))
            return NULL;
        if (is_tuple_end(parser, rules.end_name))
            break;
        struct jinja_node *item = rules.simplified          ? jinja_parse_primary(parser, rules.namespaces)
                                  : rules.without_condition ? parse_or(parser)
                                                            : parse_condition(parser);
        if (!jinja_nodes_add(parser, &items, item))
            return NULL;
        if (parser->token->kind != JINJA_T_COMMA)
            break;
        is_tuple = true;
    }
    parser->depth--;
    if (!is_tuple && items.count > 0)
        return items.items[0];
    if (!is_tuple && !rules.parentheses)
        return jinja_parser_fail(parser, parser->token->line, "Expected an expression, got '%s'",
                                 jinja_token_name(parser->token->kind));
    return jinja_node_sequence(parser, JINJA_TUPLE_OF, line, &items);
}

/* ---- operators ---- */

static struct jinja_node *parse_unary(struct jinja_parser *parser, bool with_filter)
{
    uint32_t line = parser->token->line;
    struct jinja_node *node;
    if (!descend(parser))
        return NULL;
    if (jinja_skip(parser, JINJA_T_SUB)) {
        node = parse_unary(parser, false);
        node = node == NULL ? NULL : jinja_node_pair(parser, JINJA_NEGATE, line, node, NULL);
    } else if (jinja_skip(parser, JINJA_T_ADD)) {
        node = parse_unary(parser, false);
        node = node == NULL ? NULL : jinja_node_pair(parser, JINJA_POSITIVE, line, node, NULL);
    } else {
        node = jinja_parse_primary(parser, false);
    }
    parser->depth--;
    node = jinja_parse_postfix(parser, node);
    return with_filter ? jinja_parse_filter_expression(parser, node) : node;
}

struct level_operator {
    enum jinja_token_kind token;
    enum jinja_operator code;
};

/* Left-associative operators of one level: + and - (0), the multiplications (1), ** (2); ~ lies between 0 and 1. */
static struct jinja_node *parse_math(struct jinja_parser *parser, int level)
{
    static const struct level_operator levels[3][5] = {
        {{JINJA_T_ADD, JINJA_ADD}, {JINJA_T_SUB, JINJA_SUBTRACT}},
        {{JINJA_T_MUL, JINJA_MULTIPLY},
         {JINJA_T_DIV, JINJA_DIVIDE},
         {JINJA_T_FLOORDIV, JINJA_FLOOR_DIVIDE},
         {JINJA_T_MOD, JINJA_MODULO}},
        {{JINJA_T_POW, JINJA_POWER}},
    };
    uint32_t line = parser->token->line;
    struct jinja_node *left = NULL;
    for (const struct level_operator *operation = NULL;;) {
        struct jinja_node *right = NULL;
        if (level == 2) {
            right = parse_unary(parser, true);
        } else if (level == 1) {
            right = parse_math(parser, 2);
        } else {
            struct jinja_nodes parts = {0};
            do {
                if (!jinja_nodes_add(parser, &parts, parse_math(parser, 1)))
                    return NULL;
            } while (jinja_skip(parser, JINJA_T_TILDE));
            right = parts.count == 1 ? parts.items[0] : jinja_node_sequence(parser, JINJA_CONCAT, line, &parts);
        }
        if (right == NULL)
            return NULL;
        if (operation == NULL) {
            left = right;
        } else {
            left = jinja_node_pair(parser, JINJA_BINARY, line, left, right);
            if (left == NULL)
                return NULL;
            left->how = (uint8_t)operation->code;
        }
        operation = levels[level];
        while (operation->token != JINJA_T_EOF && operation->token != parser->token->kind)
            operation++;
        if (operation->token == JINJA_T_EOF)
            return left;
        line = parser->token->line;
        parser->token++;
    }
}

static int comparison_at(struct jinja_parser *parser)
{
    switch (parser->token->kind) {
    case JINJA_T_EQ:
        return JINJA_EQ;
    case JINJA_T_NE:
        return JINJA_NE;
    case JINJA_T_LT:
        return JINJA_LT;
    case JINJA_T_LTEQ:
        return JINJA_LE;
    case JINJA_T_GT:
        return JINJA_GT;
    case JINJA_T_GTEQ:
        return JINJA_GE;
    default:
        break;
    }
    if (jinja_token_is_name(parser->token, "in"))
        return JINJA_IN;
    if (jinja_token_is_name(parser->token, "not") && jinja_token_is_name(parser->token + 1, "in")) {
        parser->token++;
        return JINJA_NOT_IN;
    }
    return -1;
}

static struct jinja_node *parse_compare(struct jinja_parser *parser)
{
    uint32_t line = parser->token->line;
    struct jinja_node *first = parse_math(parser, 0);
    struct jinja_nodes operands = {0};
    uint8_t operators[64];
    if (first == NULL)
        return NULL;
    for (int comparison; (comparison = comparison_at(parser)) >= 0;) {
        parser->token++;
        if (operands.count == sizeof(operators))
            return jinja_parser_fail(parser, line, "a comparison has more than %zu operands", sizeof(operators));
        operators[operands.count] = (uint8_t)comparison;
        if (!jinja_nodes_add(parser, &operands, parse_math(parser, 0)))
            return NULL;
    }
    if (operands.count == 0)
        return first;
    struct jinja_node *node = jinja_node_make(parser, JINJA_COMPARE, line);
    uint8_t *kept = jinja_parser_take(parser, operands.count, 1);
    if (node == NULL || kept == NULL || !jinja_node_hold(parser, node, first))
        return NULL;
    memcpy(kept, operators, operands.count);
    for (size_t i = 0; i < operands.count; i++)
        if (!jinja_node_hold(parser, node, operands.items[i]))
            return NULL;
    node->compare.first = first;
    node->compare.operands = operands.items;
    node->compare.operators = kept;
    node->compare.count = operands.count;
    return node;
}

static struct jinja_node *parse_not(struct jinja_parser *parser)
{
    if (!jinja_token_is_name(parser->token, "not"))
        return parse_compare(parser);
    uint32_t line = parser->token++->line;
    if (!descend(parser))
        return NULL;
    struct jinja_node *node = parse_not(parser);
    parser->depth--;
    return node == NULL ? NULL : jinja_node_pair(parser, JINJA_NOT, line, node, NULL);
}

static struct jinja_node *parse_and(struct jinja_parser *parser)
{
    struct jinja_node *left = parse_not(parser);
    while (left != NULL && jinja_token_is_name(parser->token, "and")) {
        uint32_t line = parser->token++->line;
        struct jinja_node *right = parse_not(parser);
        left = right == NULL ? NULL : jinja_node_pair(parser, JINJA_AND, line, left, right);
    }
    return left;
}

static struct jinja_node *parse_or(struct jinja_parser *parser)
{
    struct jinja_node *left = parse_and(parser);
    while (left != NULL && jinja_token_is_name(parser->token, "or")) {
        uint32_t line = parser->token++->line;
        struct jinja_node *right = parse_and(parser);
        left = right == NULL ? NULL : jinja_node_pair(parser, JINJA_OR, line, left, right);
    }
    return left;
}

static struct jinja_node *parse_condition(struct jinja_parser *parser)
{
    struct jinja_node *yes = parse_or(parser);
    while (yes != NULL && jinja_token_is_name(parser->token, "if")) {
        uint32_t line = parser->token++->line;
        struct jinja_node *test = parse_or(parser), *no = NULL;
        if (test == NULL)
            return NULL;
        if (jinja_skip_name(parser, "else")) {
            if (!descend(parser))
                return NULL;
            no = parse_condition(parser);
            parser->depth--;
            if (no == NULL)
                return NULL;
        }
        struct jinja_node *node = jinja_node_make(parser, JINJA_COND, line);
        if (node == NULL || !jinja_node_hold(parser, node, test) || !jinja_node_hold(parser, node, yes) ||
            (no != NULL && !jinja_node_hold(parser, node, no)))
            return NULL;
        node->cond.test = test;
        node->cond.yes = yes;
        node->cond.no = no;
        yes = node;
    }
    return yes;
}

struct jinja_node *jinja_parse_expression(struct jinja_parser *parser)
{
    if (!descend(parser))
        return NULL;
    struct jinja_node *node = parse_condition(parser);
    parser->depth--;
    return node;
}

/* ---- targets ---- */

static bool is_target(struct jinja_parser *parser, struct jinja_node *node)
{
    if (node->kind == JINJA_NAME || node->kind == JINJA_NAMESPACE_REF) {
        node->variable.store = true;
        return true;
    }
    if (node->kind != JINJA_TUPLE_OF) {
        jinja_parser_fail(parser, node->line, "can't assign to an expression");
        return false;
    }
    for (size_t i = 0; i < node->sequence.count; i++)
        if (!is_target(parser, node->sequence.items[i]))
            return false;
    return true;
}

struct jinja_node *jinja_parse_target(struct jinja_parser *parser, bool namespaces, const char *end_name)
{
    struct jinja_node *node = jinja_parse_tuple(
        parser, (struct jinja_tuple_rules){.simplified = true, .namespaces = namespaces, .end_name = end_name});
    return node != NULL && is_target(parser, node) ? node : NULL;
}

struct jinja_node *jinja_parse_name_target(struct jinja_parser *parser)
{
    const struct jinja_token *token = parser->token;
    if (token->kind != JINJA_T_NAME) {
        jinja_expect(parser, JINJA_T_NAME);
        return NULL;
    }
    struct jinja_node *node = parse_name(parser, false);
    return node != NULL && is_target(parser, node) ? node : NULL;
}
