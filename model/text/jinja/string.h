/* Strings with origins: making, cutting, joining, and a writer for text that is made anew. */
#ifndef MODEL_TEXT_JINJA_STRING_H
#define MODEL_TEXT_JINJA_STRING_H

#include "model/text/jinja/value.h"

extern const struct jinja_origin JINJA_TEMPLATE_ORIGIN; /* literal text: trusted, no message */

/* A string that is one run of bytes, which must live as long as the render. */
struct jinja_string *jinja_string_of(struct jinja_run *run, const char *bytes, size_t size, struct jinja_origin origin);
struct jinja_string *jinja_string_copy(struct jinja_run *run, const char *bytes, size_t size,
                                       struct jinja_origin origin);
void jinja_string_constant(struct jinja_string *string, const char *bytes, size_t size);    /* of the template */
struct jinja_string *jinja_string_view(struct jinja_run *run, struct jinja_pieces *pieces); /* all of it, so far */
struct jinja_string *jinja_string_join(struct jinja_run *run, struct jinja_string *a, struct jinja_string *b);
struct jinja_string *jinja_string_cut(struct jinja_run *run, struct jinja_string *string, size_t from, size_t to);
struct jinja_string *jinja_string_repeat(struct jinja_run *run, struct jinja_string *string, int64_t times);
struct jinja_string *jinja_string_marked(struct jinja_run *run, struct jinja_string *string, bool markup);
const char *jinja_string_bytes(struct jinja_run *run, struct jinja_string *string); /* NULL: failed */
bool jinja_string_is(struct jinja_run *run, struct jinja_string *string, const char *text);
bool jinja_string_equal(struct jinja_run *run, struct jinja_string *a, struct jinja_string *b, bool *out);
size_t jinja_string_piece_count(const struct jinja_string *string);
const struct jinja_piece *jinja_string_piece(const struct jinja_string *string, size_t index);
/* Code points; false: failed. */
bool jinja_string_length(struct jinja_run *run, struct jinja_string *string, size_t *out);
/* The byte offset of a code point; `index` at most the length. */
bool jinja_string_offset(struct jinja_run *run, struct jinja_string *string, size_t index, size_t *out);
/* Length in bytes of the character at `bytes`; a byte that is no valid start counts as one character. */
size_t jinja_character(const char *bytes, size_t size, uint32_t *code_point);
size_t jinja_count_characters(const char *bytes, size_t size);

/* What is left of origins when text is made out of several: what they have in common. */
struct jinja_mix {
    bool any;
    struct jinja_origin origin; /* offset is always JINJA_UNKNOWN */
};
void jinja_mix_add(struct jinja_mix *mix, struct jinja_origin origin);
void jinja_mix_string(struct jinja_mix *mix, const struct jinja_string *string);
void jinja_mix_value(struct jinja_mix *mix, struct jinja_value value); /* a scalar's taint */
struct jinja_origin jinja_mix_origin(const struct jinja_mix *mix);

/* A run of pieces that grows. */
bool jinja_pieces_add(struct jinja_run *run, struct jinja_pieces *pieces, const char *bytes, size_t size,
                      struct jinja_origin origin);
bool jinja_pieces_string(struct jinja_run *run, struct jinja_pieces *pieces, const struct jinja_string *string);
bool jinja_pieces_value(struct jinja_run *run, struct jinja_pieces *pieces, struct jinja_value value); /* str(value) */

/* A container that repr is inside of: a namespace may hold itself. */
struct jinja_enclosing {
    const void *object;
    const struct jinja_enclosing *outer;
};

/* New text: bytes with one mixed origin. */
struct jinja_writer {
    struct jinja_run *run;
    char *bytes;
    size_t size, capacity;
    struct jinja_mix mix;
    const struct jinja_enclosing *enclosing; /* of what repr is writing */
    bool failed;
};
void jinja_write(struct jinja_writer *writer, const char *bytes, size_t size);
void jinja_write_text(struct jinja_writer *writer, const char *text);
void jinja_write_byte(struct jinja_writer *writer, char byte);
void jinja_write_character(struct jinja_writer *writer, uint32_t code_point);
void jinja_write_format(struct jinja_writer *writer, const char *format, ...) __attribute__((format(printf, 2, 3)));
struct jinja_string *jinja_writer_string(struct jinja_writer *writer); /* NULL: failed */

/* str(), repr() and json.dumps(). */
struct jinja_string *jinja_str(struct jinja_run *run, struct jinja_value value);
bool jinja_write_str(struct jinja_writer *writer, struct jinja_value value);
bool jinja_write_repr(struct jinja_writer *writer, struct jinja_value value);
void jinja_write_float(struct jinja_writer *writer, double number); /* repr of a float */

struct jinja_json {
    bool ensure_ascii;
    bool sort_keys;
    const char *indent; /* NULL: one line */
    size_t indent_size;
    const char *item_separator;
    size_t item_separator_size;
    const char *key_separator;
    size_t key_separator_size;
};
bool jinja_write_json(struct jinja_writer *writer, const struct jinja_json *style, struct jinja_value value);

#endif
