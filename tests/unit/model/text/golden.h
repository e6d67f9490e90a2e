/* Reads the golden files of make_tokenizer.py: lines of fields between tabs, comments begin with '#'. A file that is
 * not there or not as it must be ends the program: a golden test never passes without its golden. */
#ifndef TESTS_UNIT_MODEL_TEXT_GOLDEN_H
#define TESTS_UNIT_MODEL_TEXT_GOLDEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/base/buffer.h"

#define GOLDEN_FIELDS_MAX 16

struct golden {
    struct buffer file;
    size_t at;
    char *fields[GOLDEN_FIELDS_MAX]; /* of the line read last, NUL-terminated */
    size_t field_count;
};

struct golden golden_open(const char *path);
bool golden_next(struct golden *golden);
void golden_close(struct golden *golden);

/* Takes \t \n \r \\ \xHH back, in place; the size of the text. */
size_t golden_unescape(char *text);
/* The next whole number of a list; false at its end. */
bool golden_number(char **list, long *out);

#endif
