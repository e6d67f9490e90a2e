/* Template text to tokens, with jinja2's whitespace control (trim_blocks, lstrip_blocks) done here. Comments and raw
 * markers do not reach the parser. */
#ifndef MODEL_TEXT_JINJA_LEXER_H
#define MODEL_TEXT_JINJA_LEXER_H

#include "kernels/base/arena.h"
#include "kernels/base/status.h"
#include "model/text/jinja/value.h"

enum jinja_token_kind {
    JINJA_T_EOF,
    JINJA_T_DATA,
    JINJA_T_BLOCK_BEGIN,
    JINJA_T_BLOCK_END,
    JINJA_T_VARIABLE_BEGIN,
    JINJA_T_VARIABLE_END,
    JINJA_T_NAME,
    JINJA_T_STRING,
    JINJA_T_INTEGER,
    JINJA_T_FLOAT,
    JINJA_T_ADD,
    JINJA_T_SUB,
    JINJA_T_MUL,
    JINJA_T_DIV,
    JINJA_T_FLOORDIV,
    JINJA_T_MOD,
    JINJA_T_POW,
    JINJA_T_TILDE,
    JINJA_T_LBRACKET,
    JINJA_T_RBRACKET,
    JINJA_T_LPAREN,
    JINJA_T_RPAREN,
    JINJA_T_LBRACE,
    JINJA_T_RBRACE,
    JINJA_T_EQ,
    JINJA_T_NE,
    JINJA_T_GT,
    JINJA_T_GTEQ,
    JINJA_T_LT,
    JINJA_T_LTEQ,
    JINJA_T_ASSIGN,
    JINJA_T_DOT,
    JINJA_T_COLON,
    JINJA_T_PIPE,
    JINJA_T_COMMA,
    JINJA_T_SEMICOLON,
};

struct jinja_token {
    enum jinja_token_kind kind;
    uint32_t line;
    const char *text; /* data, name: the source; string: unescaped */
    size_t size;
    struct jinja_value number; /* integer, float */
};

struct jinja_tokens {
    struct jinja_token *items; /* (count), the last is EOF */
    size_t count, capacity;
};

/* `source` has normalized newlines and valid UTF-8. Everything is in the arena. */
enum status jinja_lex(struct arena *arena, const char *source, size_t size, struct jinja_tokens *out,
                      struct error *error);
const char *jinja_token_name(enum jinja_token_kind kind);

#endif
