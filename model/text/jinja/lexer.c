/* Follows jinja2/lexer.py rule by rule: the same rules are tried in the same order at each place. */
#include "model/text/jinja/lexer.h"

#include <errno.h>
#include <string.h>

#include "kernels/base/utf8.h"
#include "model/text/jinja/unicode.h"

#define BRACKETS_MAX 256

struct lexer {
    struct arena *arena;
    const char *source;
    size_t size, at;
    uint32_t line;
    struct jinja_tokens *tokens;
    struct error *error;
    char brackets[BRACKETS_MAX]; /* the closing ones that are awaited */
    size_t bracket_count;
};

static const char *const token_names[] = {
    [JINJA_T_EOF] = "end of template",
    [JINJA_T_DATA] = "template data / text",
    [JINJA_T_BLOCK_BEGIN] = "begin of statement block",
    [JINJA_T_BLOCK_END] = "end of statement block",
    [JINJA_T_VARIABLE_BEGIN] = "begin of print statement",
    [JINJA_T_VARIABLE_END] = "end of print statement",
    [JINJA_T_NAME] = "name",
    [JINJA_T_STRING] = "string",
    [JINJA_T_INTEGER] = "integer",
    [JINJA_T_FLOAT] = "float",
    [JINJA_T_ADD] = "+",
    [JINJA_T_SUB] = "-",
    [JINJA_T_MUL] = "*",
    [JINJA_T_DIV] = "/",
    [JINJA_T_FLOORDIV] = "//",
    [JINJA_T_MOD] = "%",
    [JINJA_T_POW] = "**",
    [JINJA_T_TILDE] = "~",
    [JINJA_T_LBRACKET] = "[",
    [JINJA_T_RBRACKET] = "]",
    [JINJA_T_LPAREN] = "(",
    [JINJA_T_RPAREN] = ")",
    [JINJA_T_LBRACE] = "{",
    [JINJA_T_RBRACE] = "}",
    [JINJA_T_EQ] = "==",
    [JINJA_T_NE] = "!=",
    [JINJA_T_GT] = ">",
    [JINJA_T_GTEQ] = ">=",
    [JINJA_T_LT] = "<",
    [JINJA_T_LTEQ] = "<=",
    [JINJA_T_ASSIGN] = "=",
    [JINJA_T_DOT] = ".",
    [JINJA_T_COLON] = ":",
    [JINJA_T_PIPE] = "|",
    [JINJA_T_COMMA] = ",",
    [JINJA_T_SEMICOLON] = ";",
};

const char *jinja_token_name(enum jinja_token_kind kind)
{
    return token_names[kind];
}

static enum status fail_at(struct lexer *lexer, const char *what)
{
    return error_set(lexer->error, STATUS_INVALID, "chat template line %u: %s", lexer->line, what);
}

static enum status add(struct lexer *lexer, struct jinja_token token)
{
    struct jinja_tokens *tokens = lexer->tokens;
    if (tokens->count == tokens->capacity) {
        size_t capacity = tokens->capacity == 0 ? 256 : tokens->capacity * 2;
        struct jinja_token *items = arena_array(lexer->arena, capacity, sizeof(*items));
        if (items == NULL)
            return error_no_memory(lexer->error, "a chat template");
        if (tokens->count > 0)
            memcpy(items, tokens->items, tokens->count * sizeof(*items));
        tokens->items = items;
        tokens->capacity = capacity;
    }
    tokens->items[tokens->count++] = token;
    return STATUS_OK;
}

static enum status add_kind(struct lexer *lexer, enum jinja_token_kind kind)
{
    return add(lexer, (struct jinja_token){.kind = kind, .line = lexer->line});
}

static bool starts(const struct lexer *lexer, size_t at, const char *text)
{
    size_t n = strlen(text);
    return n <= lexer->size - at && memcmp(lexer->source + at, text, n) == 0;
}

/* Moves to `to`, counting lines. */
static void advance(struct lexer *lexer, size_t to)
{
    for (size_t i = lexer->at; i < to; i++)
        if (lexer->source[i] == '\n')
            lexer->line++;
    lexer->at = to;
}

static size_t skip_space(const struct lexer *lexer, size_t at)
{
    while (at < lexer->size) {
        uint32_t c;
        size_t n = utf8_decode(lexer->source + at, lexer->size - at, &c);
        if (n == 0 || !jinja_is_space(c))
            break;
        at += n;
    }
    return at;
}

static size_t trim_end(const char *text, size_t size)
{
    while (size > 0) {
        size_t from = size - 1;
        while (from > 0 && ((unsigned char)text[from] & 0xC0) == 0x80)
            from--;
        uint32_t c;
        if (utf8_decode(text + from, size - from, &c) != size - from || !jinja_is_space(c))
            break;
        size = from;
    }
    return size;
}

/* After a tag's closing bracket at `at` (its sign, if any, is `sign`): what is swallowed. */
static size_t after_tag(const struct lexer *lexer, size_t at, char sign, bool trims_newline)
{
    if (sign == '-')
        return skip_space(lexer, at);
    if (sign != '+' && trims_newline && at < lexer->size && lexer->source[at] == '\n')
        return at + 1;
    return at;
}

/* `{% raw %}` at `at`: the offset after it, or 0. */
static size_t raw_begin(const struct lexer *lexer, size_t at)
{
    if (!starts(lexer, at, "{%"))
        return 0;
    at += 2;
    if (at < lexer->size && (lexer->source[at] == '-' || lexer->source[at] == '+'))
        at++;
    at = skip_space(lexer, at);
    if (!starts(lexer, at, "raw"))
        return 0;
    at = skip_space(lexer, at + 3);
    if (starts(lexer, at, "-%}"))
        return skip_space(lexer, at + 3);
    return starts(lexer, at, "%}") ? at + 2 : 0;
}

/* The text of `size` bytes before a tag with `sign`: its size once stripped. */
static size_t strip_before(const char *text, size_t size, char sign, bool lstrip, bool line_starting)
{
    if (sign == '-')
        return trim_end(text, size);
    if (sign == '+' || !lstrip)
        return size;
    size_t line = size;
    while (line > 0 && text[line - 1] != '\n')
        line--;
    if (line == 0 && !line_starting)
        return size;
    return trim_end(text + line, size - line) == 0 ? line : size;
}

static enum status lex_data(struct lexer *lexer, size_t from, size_t to)
{
    if (from == to)
        return STATUS_OK;
    return add(lexer, (struct jinja_token){
                          .kind = JINJA_T_DATA, .line = lexer->line, .text = lexer->source + from, .size = to - from});
}

static enum status lex_comment(struct lexer *lexer)
{
    for (size_t at = lexer->at; at + 1 < lexer->size; at++) {
        char sign = 0;
        if ((lexer->source[at] == '-' || lexer->source[at] == '+') && starts(lexer, at + 1, "#}"))
            sign = lexer->source[at];
        else if (!starts(lexer, at, "#}"))
            continue;
        advance(lexer, after_tag(lexer, at + (sign ? 3 : 2), sign, true));
        return STATUS_OK;
    }
    return fail_at(lexer, "Missing end of comment tag");
}

static enum status lex_raw(struct lexer *lexer)
{
    bool line_starting = lexer->at == 0 || lexer->source[lexer->at - 1] == '\n';
    for (size_t at = lexer->at; at + 1 < lexer->size; at++) {
        if (!starts(lexer, at, "{%"))
            continue;
        size_t in = at + 2;
        char sign = 0;
        if (in < lexer->size && (lexer->source[in] == '-' || lexer->source[in] == '+'))
            sign = lexer->source[in++];
        in = skip_space(lexer, in);
        if (!starts(lexer, in, "endraw"))
            continue;
        in = skip_space(lexer, in + 6);
        char end_sign = 0;
        if (starts(lexer, in, "-%}") || starts(lexer, in, "+%}"))
            end_sign = lexer->source[in++];
        if (!starts(lexer, in, "%}"))
            continue;
        const char *text = lexer->source + lexer->at;
        size_t kept = strip_before(text, at - lexer->at, sign, true, line_starting);
        if (lex_data(lexer, lexer->at, lexer->at + kept) != STATUS_OK)
            return lexer->error->status;
        advance(lexer, after_tag(lexer, in + 2, end_sign, true));
        return STATUS_OK;
    }
    return fail_at(lexer, "Missing end of raw directive");
}

static enum status unescape_hex(struct lexer *lexer, const char *text, size_t size, size_t *at, size_t digits,
                                uint32_t *out)
{
    uint32_t c = 0;
    for (size_t i = 0; i < digits; i++, (*at)++) {
        if (*at >= size)
            return fail_at(lexer, "a string has a truncated escape");
        char h = text[*at];
        uint32_t d = h >= '0' && h <= '9'   ? (uint32_t)(h - '0')
                     : h >= 'a' && h <= 'f' ? (uint32_t)(h - 'a' + 10)
                     : h >= 'A' && h <= 'F' ? (uint32_t)(h - 'A' + 10)
                                            : 16;
        if (d == 16)
            return fail_at(lexer, "a string has a truncated escape");
        c = c << 4 | d;
    }
    if (c > 0x10FFFF)
        return fail_at(lexer, "a string has an escape beyond the last character of Unicode");
    if (c >= 0xD800 && c <= 0xDFFF)
        return fail_at(lexer, "a string has a surrogate escape; that is not supported");
    *out = c;
    return STATUS_OK;
}

/* One escape at text[*at], after the backslash; writes into out and returns the count in *written (at most 12). */
static enum status unescape_one(struct lexer *lexer, const char *text, size_t size, size_t *at, char *out,
                                size_t *written)
{
    static const char from[] = "\\'\"abfnrtv";
    static const char to[] = "\\'\"\a\b\f\n\r\t\v";
    unsigned char c = (unsigned char)text[*at];
    const char *simple = c != 0 ? strchr(from, c) : NULL;
    uint32_t code;
    *written = 0;
    if (simple != NULL) {
        (*at)++;
        out[(*written)++] = to[simple - from];
        return STATUS_OK;
    }
    if (c == '\n') {
        (*at)++;
        return STATUS_OK;
    }
    if (c >= '0' && c <= '7') {
        code = 0;
        for (int i = 0; i < 3 && *at < size && text[*at] >= '0' && text[*at] <= '7'; i++, (*at)++)
            code = code * 8 + (uint32_t)(text[*at] - '0');
        *written = utf8_encode(code, out);
        return STATUS_OK;
    }
    if (c == 'x' || c == 'u' || c == 'U') {
        (*at)++;
        if (unescape_hex(lexer, text, size, at, c == 'x' ? 2 : c == 'u' ? 4 : 8, &code) != STATUS_OK)
            return lexer->error->status;
        *written = utf8_encode(code, out);
        return STATUS_OK;
    }
    if (c == 'N')
        return fail_at(lexer, "a string has a \\N{...} escape; that is not supported");
    out[(*written)++] = '\\';
    if (c < 0x80)
        return STATUS_OK;
    /* Python escapes what is not ASCII first, so that its own backslash is eaten by this one. */
    *at += utf8_decode(text + *at, size - *at, &code);
    *written += (size_t)snprintf(out + 1, 11, code < 0x100 ? "x%02x" : code < 0x10000 ? "u%04x" : "U%08x", code);
    return STATUS_OK;
}

static enum status lex_string(struct lexer *lexer, bool *found)
{
    char quote = lexer->source[lexer->at];
    size_t from = lexer->at + 1, to = from;
    bool escaped = false;
    while (to < lexer->size && lexer->source[to] != quote) {
        escaped |= lexer->source[to] == '\\';
        to += lexer->source[to] == '\\' ? 2 : 1;
    }
    *found = to < lexer->size;
    if (!*found)
        return STATUS_OK;
    const char *text = lexer->source + from;
    size_t size = to - from;
    if (escaped) {
        /* The longest an escape becomes is 10 bytes for the 3 of `\` and a two-byte character. */
        char *plain = arena_take(lexer->arena, size * 4 + 16);
        size_t n = 0;
        if (plain == NULL)
            return error_no_memory(lexer->error, "a chat template");
        for (size_t at = 0; at < size;) {
            size_t written = 1;
            if (text[at] != '\\') {
                plain[n++] = text[at++];
                continue;
            }
            at++;
            if (unescape_one(lexer, text, size, &at, plain + n, &written) != STATUS_OK)
                return lexer->error->status;
            n += written;
        }
        text = plain;
        size = n;
    }
    struct jinja_token token = {.kind = JINJA_T_STRING, .line = lexer->line, .text = text, .size = size};
    if (add(lexer, token) != STATUS_OK)
        return lexer->error->status;
    advance(lexer, to + 1);
    return STATUS_OK;
}

/* `(_?digit)*` from `at`; digits by base. */
static size_t skip_digits(const struct lexer *lexer, size_t at, int base)
{
    for (;;) {
        size_t next = at + (at < lexer->size && lexer->source[at] == '_');
        if (next >= lexer->size)
            return at;
        char c = lexer->source[next];
        bool digit = base == 16 ? (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F')
                                : c >= '0' && c < '0' + base;
        if (!digit)
            return at;
        at = next + 1;
    }
}

static bool is_digit_at(const struct lexer *lexer, size_t at)
{
    return at < lexer->size && lexer->source[at] >= '0' && lexer->source[at] <= '9';
}

/* float_re at the current place: where it ends, or 0. */
static size_t float_end(const struct lexer *lexer)
{
    if (lexer->at > 0 && lexer->source[lexer->at - 1] == '.')
        return 0;
    size_t at = skip_digits(lexer, lexer->at, 10), end = 0;
    if (at < lexer->size && lexer->source[at] == '.' && is_digit_at(lexer, at + 1))
        end = at = skip_digits(lexer, at + 1, 10);
    if (at < lexer->size && (lexer->source[at] == 'e' || lexer->source[at] == 'E')) {
        size_t exponent = at + 1;
        if (exponent < lexer->size && (lexer->source[exponent] == '+' || lexer->source[exponent] == '-'))
            exponent++;
        if (is_digit_at(lexer, exponent))
            end = skip_digits(lexer, exponent, 10);
    }
    return end;
}

static enum status lex_number(struct lexer *lexer)
{
    char text[128];
    size_t n = 0, to = float_end(lexer), from = lexer->at;
    bool is_float = to != 0;
    int base = 10;
    if (!is_float) {
        char second = from + 1 < lexer->size ? (char)(lexer->source[from + 1] | 0x20) : 0;
        base = lexer->source[from] != '0' ? 10 : second == 'b' ? 2 : second == 'o' ? 8 : second == 'x' ? 16 : 10;
        if (base != 10 && skip_digits(lexer, from + 2, base) == from + 2)
            base = 10;
        if (base != 10)
            to = skip_digits(lexer, from + 2, base);
        else if (lexer->source[from] == '0')
            to = skip_digits(lexer, from, 1);
        else
            to = skip_digits(lexer, from, 10);
    }
    for (size_t i = base == 10 ? from : from + 2; i < to; i++) {
        if (lexer->source[i] == '_')
            continue;
        if (n + 1 >= sizeof(text))
            return fail_at(lexer, "a number is too long");
        text[n++] = lexer->source[i];
    }
    text[n] = '\0';
    struct jinja_token token = {.line = lexer->line};
    if (is_float) {
        token.kind = JINJA_T_FLOAT;
        token.number = jinja_float(strtod(text, NULL));
    } else {
        errno = 0;
        token.kind = JINJA_T_INTEGER;
        token.number = jinja_integer(strtoll(text, NULL, base));
        if (errno == ERANGE)
            return fail_at(lexer, "an integer beyond 64 bits is not supported");
    }
    advance(lexer, to);
    return add(lexer, token);
}

static size_t name_end(const struct lexer *lexer)
{
    size_t at = lexer->at;
    while (at < lexer->size) {
        unsigned char c = (unsigned char)lexer->source[at];
        if (c < 0x80) {
            if (!(c == '_' || (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z')))
                break;
            at++;
            continue;
        }
        uint32_t code;
        size_t n = utf8_decode(lexer->source + at, lexer->size - at, &code);
        if (n == 0 || !jinja_is_word(code))
            break;
        at += n;
    }
    return at;
}

static enum status lex_operator(struct lexer *lexer)
{
    static const enum jinja_token_kind two[] = {JINJA_T_FLOORDIV, JINJA_T_POW,  JINJA_T_EQ,
                                                JINJA_T_NE,       JINJA_T_GTEQ, JINJA_T_LTEQ};
    for (size_t i = 0; i < sizeof(two) / sizeof(two[0]); i++)
        if (starts(lexer, lexer->at, token_names[two[i]])) {
            lexer->at += 2;
            return add_kind(lexer, two[i]);
        }
    char c = lexer->source[lexer->at];
    enum jinja_token_kind kind = JINJA_T_EOF;
    for (int k = JINJA_T_ADD; k <= JINJA_T_SEMICOLON; k++)
        if (token_names[k][1] == '\0' && token_names[k][0] == c)
            kind = (enum jinja_token_kind)k;
    if (kind == JINJA_T_EOF)
        return error_set(lexer->error, STATUS_INVALID, "chat template line %u: unexpected character '%c' (0x%02x)",
                         lexer->line, c >= ' ' && c < 0x7F ? c : '?', (unsigned)(unsigned char)c);
    if (c == '(' || c == '[' || c == '{') {
        if (lexer->bracket_count == BRACKETS_MAX)
            return fail_at(lexer, "brackets are nested too deep");
        lexer->brackets[lexer->bracket_count++] = (char)(c == '(' ? ')' : c == '[' ? ']' : '}');
    } else if (c == ')' || c == ']' || c == '}') {
        if (lexer->bracket_count == 0 || lexer->brackets[--lexer->bracket_count] != c)
            return error_set(lexer->error, STATUS_INVALID, "chat template line %u: unexpected '%c'", lexer->line, c);
    }
    lexer->at++;
    return add_kind(lexer, kind);
}

/* Inside a tag, until its end. */
static enum status lex_tag(struct lexer *lexer, bool block)
{
    const char *end = block ? "%}" : "}}";
    while (lexer->at < lexer->size) {
        size_t at = lexer->at;
        char c = lexer->source[at];
        if (lexer->bracket_count == 0) {
            char sign = 0;
            if ((c == '-' || (c == '+' && block)) && starts(lexer, at + 1, end))
                sign = c;
            if (sign != 0 || starts(lexer, at, end)) {
                if (add_kind(lexer, block ? JINJA_T_BLOCK_END : JINJA_T_VARIABLE_END) != STATUS_OK)
                    return lexer->error->status;
                advance(lexer, after_tag(lexer, at + (sign ? 3 : 2), sign, block));
                return STATUS_OK;
            }
        }
        size_t space = skip_space(lexer, at);
        if (space != at) {
            advance(lexer, space);
            continue;
        }
        enum status status = STATUS_OK;
        bool done = true;
        if (c >= '0' && c <= '9') {
            status = lex_number(lexer);
        } else if (name_end(lexer) != at) {
            size_t to = name_end(lexer);
            status =
                add(lexer, (struct jinja_token){
                               .kind = JINJA_T_NAME, .line = lexer->line, .text = lexer->source + at, .size = to - at});
            lexer->at = to;
        } else if (c == '\'' || c == '"') {
            status = lex_string(lexer, &done);
        } else {
            done = false;
        }
        if (status == STATUS_OK && !done)
            status = lex_operator(lexer);
        if (status != STATUS_OK)
            return status;
    }
    return STATUS_OK;
}

enum status jinja_lex(struct arena *arena, const char *source, size_t size, struct jinja_tokens *out,
                      struct error *error)
{
    struct lexer lexer = {.arena = arena, .source = source, .size = size, .line = 1, .tokens = out, .error = error};
    enum status status = STATUS_OK;
    while (status == STATUS_OK && lexer.at < size) {
        size_t from = lexer.at, at = from;
        bool line_starting = from == 0 || source[from - 1] == '\n';
        while (at + 1 < size && !(source[at] == '{' && strchr("%{#", source[at + 1]) != NULL && source[at + 1] != '\0'))
            at++;
        if (at + 1 >= size) {
            status = lex_data(&lexer, from, size);
            advance(&lexer, size);
            break;
        }
        char opener = source[at + 1];
        char sign = at + 2 < size && (source[at + 2] == '-' || source[at + 2] == '+') ? source[at + 2] : '\0';
        size_t raw = raw_begin(&lexer, at);
        size_t kept = strip_before(source + from, at - from, sign, opener != '{', line_starting);
        status = lex_data(&lexer, from, from + kept);
        if (status != STATUS_OK)
            break;
        advance(&lexer, raw != 0 ? raw : at + 2 + (sign != '\0'));
        if (raw != 0)
            status = lex_raw(&lexer);
        else if (opener == '#')
            status = lex_comment(&lexer);
        else {
            status = add_kind(&lexer, opener == '%' ? JINJA_T_BLOCK_BEGIN : JINJA_T_VARIABLE_BEGIN);
            if (status == STATUS_OK)
                status = lex_tag(&lexer, opener == '%');
        }
    }
    if (status == STATUS_OK)
        status = add_kind(&lexer, JINJA_T_EOF);
    return status;
}
