/* What printf-style `%` and str.format share: a conversion, and putting a value into the text as it says. What is put
 * in whole keeps its origin. */
#ifndef MODEL_TEXT_JINJA_FORMAT_H
#define MODEL_TEXT_JINJA_FORMAT_H

#include "model/text/jinja/run.h"

#define JINJA_WIDTH_MAX 100000000 /* of widths and precisions as they are read */
#define JINJA_PRECISION_MAX 300   /* of floats */

/* One conversion: [[fill]align][sign][#][0][width][,][.precision][type] */
struct jinja_spec {
    char fill[4];
    size_t fill_size;
    char align; /* '<', '>', '^', '=' or 0 */
    char sign;  /* '+', ' ' or 0 */
    bool alternate, zero;
    char grouping;            /* ',' or '_' or 0 */
    int64_t width, precision; /* precision -1: none */
    char type;
};

/* A number without its sign: the largest float has 309 digits before its point. */
struct jinja_digits {
    char text[309 + 1 + JINJA_PRECISION_MAX + 6];
};

bool jinja_format_integer(struct jinja_run *run, const struct jinja_spec *spec, int64_t value,
                          struct jinja_digits *out);
bool jinja_format_float(struct jinja_run *run, const struct jinja_spec *spec, double value, struct jinja_digits *out);

/* Puts text, a number or a character into `pieces`, filled up to the width. NULL text: it has failed before. */
bool jinja_format_padded(struct jinja_run *run, struct jinja_pieces *pieces, struct jinja_string *text,
                         const struct jinja_spec *spec, char align);
bool jinja_format_number(struct jinja_run *run, struct jinja_pieces *pieces, const struct jinja_spec *spec,
                         bool negative, const char *digits, bool tainted);
bool jinja_format_character(struct jinja_run *run, struct jinja_pieces *pieces, const struct jinja_spec *spec,
                            int64_t code, bool tainted);

/* The first `precision` characters; all of them when it is negative. NULL stays NULL. */
struct jinja_string *jinja_format_cut(struct jinja_run *run, struct jinja_string *text, int64_t precision);

#endif
