/* What the files of the parser share: statements in parser.c, expressions in parser_expression.c and
 * parser_postfix.c, and what they stand on in parser_base.c. */
#ifndef MODEL_TEXT_JINJA_PARSER_H
#define MODEL_TEXT_JINJA_PARSER_H

#include "model/text/jinja/ast.h"
#include "model/text/jinja/lexer.h"

struct jinja_parser {
    struct jinja_program *program;
    struct arena *arena;
    struct error *error;
    enum status status;              /* of the first failure */
    const struct jinja_token *token; /* the current one; more follow, up to EOF */
    uint32_t depth;
    uint32_t name_capacity;
    uint32_t *name_index; /* (name_index_capacity) name + 1, 0: empty */
    uint32_t name_index_capacity;
};

/* A list of pointers that grows in the arena. */
struct jinja_nodes {
    struct jinja_node **items;
    size_t count, capacity;
};

void *jinja_parser_fail(struct jinja_parser *parser, uint32_t line, const char *format, ...)
    __attribute__((format(printf, 3, 4))); /* returns NULL */
void *jinja_parser_unsupported(struct jinja_parser *parser, uint32_t line, const char *what);
void *jinja_parser_take(struct jinja_parser *parser, size_t count, size_t bytes);
bool jinja_nodes_add(struct jinja_parser *parser, struct jinja_nodes *nodes, struct jinja_node *node);
struct jinja_node *jinja_node_make(struct jinja_parser *parser, enum jinja_node_kind kind, uint32_t line);
bool jinja_node_hold(struct jinja_parser *parser, struct jinja_node *node, const struct jinja_node *child);
struct jinja_node *jinja_node_pair(struct jinja_parser *parser, enum jinja_node_kind kind, uint32_t line,
                                   struct jinja_node *a, struct jinja_node *b); /* b: or NULL */
struct jinja_node *jinja_node_sequence(struct jinja_parser *parser, enum jinja_node_kind kind, uint32_t line,
                                       const struct jinja_nodes *items);
struct jinja_node *jinja_node_constant(struct jinja_parser *parser, uint32_t line, struct jinja_value value);
uint32_t jinja_parser_name(struct jinja_parser *parser, const char *text, size_t size); /* UINT32_MAX: failed */
struct jinja_string *jinja_parser_string(struct jinja_parser *parser, const char *text, size_t size);

bool jinja_token_is_name(const struct jinja_token *token, const char *name);
bool jinja_skip_name(struct jinja_parser *parser, const char *name);
bool jinja_skip(struct jinja_parser *parser, enum jinja_token_kind kind);
bool jinja_expect(struct jinja_parser *parser, enum jinja_token_kind kind);

/* How a tuple without brackets is read: Jinja's parse_tuple. */
struct jinja_tuple_rules {
    bool simplified; /* names and literals only: an assignment's target */
    bool without_condition;
    bool parentheses;
    bool namespaces;      /* `ns.a` may be a target */
    const char *end_name; /* a name that ends it too, or NULL */
};
struct jinja_node *jinja_parse_tuple(struct jinja_parser *parser, struct jinja_tuple_rules rules);
struct jinja_node *jinja_parse_expression(struct jinja_parser *parser);
/* A name, literal, list, dict or bracketed expression; `namespaces`: also `ns.a`. */
struct jinja_node *jinja_parse_primary(struct jinja_parser *parser, bool namespaces);
/* Attributes, subscripts and calls that follow `node`; then also filters and tests. NULL stays NULL. */
struct jinja_node *jinja_parse_postfix(struct jinja_parser *parser, struct jinja_node *node);
struct jinja_node *jinja_parse_filter_expression(struct jinja_parser *parser, struct jinja_node *node);
struct jinja_node *jinja_parse_filter(struct jinja_parser *parser, struct jinja_node *object, bool start_inline,
                                      bool *any);
struct jinja_node *jinja_parse_target(struct jinja_parser *parser, bool namespaces, const char *end_name);
struct jinja_node *jinja_parse_name_target(struct jinja_parser *parser);

#endif
