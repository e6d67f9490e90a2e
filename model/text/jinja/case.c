/* Upper, lower, title: character by character, each piece of the string keeping its origin. */
#include <string.h>

#include "model/text/jinja/run.h"
#include "model/text/jinja/unicode.h"

struct casing {
    struct jinja_run *run;
    enum jinja_case how;
    const char *bytes; /* the whole string, for the final sigma */
    size_t size;
    bool word_begins; /* title filter: at the first character of a word */
    bool after_cased; /* str.title */
    bool first;
};

/* Greek capital sigma becomes a final one after a cased letter and before none. */
static bool is_final_sigma(const struct casing *casing, size_t at)
{
    uint32_t c = 0;
    bool cased_before = false;
    for (size_t i = at; i > 0;) {
        size_t from = i - 1;
        while (from > 0 && ((unsigned char)casing->bytes[from] & 0xC0) == 0x80)
            from--;
        jinja_character(casing->bytes + from, i - from, &c);
        i = from;
        if (jinja_is_case_ignorable(c))
            continue;
        cased_before = jinja_is_cased(c);
        break;
    }
    if (!cased_before)
        return false;
    for (size_t i = at + 2; i < casing->size;) {
        i += jinja_character(casing->bytes + i, casing->size - i, &c);
        if (!jinja_is_case_ignorable(c))
            return !jinja_is_cased(c);
    }
    return true;
}

static size_t to_lower(const struct casing *casing, uint32_t c, size_t at, uint32_t out[3])
{
    if (c == 0x3A3) {
        out[0] = is_final_sigma(casing, at) ? 0x3C2 : 0x3C3;
        return 1;
    }
    return jinja_to_lower(c, out);
}

/* do_title splits before words at any of these. */
static bool is_word_break(uint32_t c)
{
    return c == '-' || c == '(' || c == '{' || c == '[' || c == '<' || jinja_is_space(c);
}

static size_t convert(struct casing *casing, uint32_t c, size_t at, uint32_t out[3])
{
    bool begins = casing->word_begins, cased = casing->after_cased, first = casing->first;
    casing->word_begins = is_word_break(c);
    casing->after_cased = jinja_is_cased(c);
    casing->first = false;
    switch (casing->how) {
    case JINJA_CASE_UPPER:
        return jinja_to_upper(c, out);
    case JINJA_CASE_LOWER:
        return to_lower(casing, c, at, out);
    case JINJA_CASE_CAPITALIZE:
        return first ? jinja_to_title(c, out) : to_lower(casing, c, at, out);
    case JINJA_CASE_TITLE:
        return cased ? to_lower(casing, c, at, out) : jinja_to_title(c, out);
    case JINJA_CASE_TITLE_FILTER:
        return begins ? jinja_to_upper(c, out) : to_lower(casing, c, at, out);
    case JINJA_CASE_SWAP:
        if (jinja_is_upper(c))
            return to_lower(casing, c, at, out);
        if (jinja_is_lower(c))
            return jinja_to_upper(c, out);
        break;
    }
    out[0] = c;
    return 1;
}

struct jinja_string *jinja_string_case(struct jinja_run *run, struct jinja_string *string, enum jinja_case how)
{
    struct casing casing = {.run = run, .how = how, .size = string->size, .word_begins = true, .first = true};
    struct jinja_pieces *pieces = jinja_take(run, sizeof(*pieces));
    casing.bytes = jinja_string_bytes(run, string);
    if (casing.bytes == NULL || pieces == NULL || !jinja_step(run, string->size / 4))
        return NULL;
    size_t base = 0;
    for (size_t i = 0; i < jinja_string_piece_count(string); i++) {
        const struct jinja_piece *piece = jinja_string_piece(string, i);
        struct jinja_writer writer = {.run = run};
        size_t end = base + piece->size;
        for (size_t at = base; at < end;) {
            uint32_t c, out[3];
            size_t n = jinja_character(casing.bytes + at, casing.size - at, &c);
            if (c == 0xFFFD && n == 1) { /* a byte that is no character stays as it is */
                jinja_write(&writer, casing.bytes + at++, 1);
                continue;
            }
            size_t count = convert(&casing, c, at, out);
            for (size_t k = 0; k < count; k++)
                jinja_write_character(&writer, out[k]);
            at += n;
        }
        base = end;
        struct jinja_origin origin = piece->origin;
        origin.offset = JINJA_UNKNOWN;
        if (writer.failed || !jinja_pieces_add(run, pieces, writer.bytes, writer.size, origin))
            return NULL;
    }
    return jinja_string_view(run, pieces);
}
