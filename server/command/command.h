/* The subcommands: one file each, one table (command_table.c). `run` returns the process's exit status: 0, or 1 after
 * one clear sentence on stderr. Options are parsed before it is called. */
#ifndef SERVER_COMMAND_COMMAND_H
#define SERVER_COMMAND_COMMAND_H

#include "kernels/base/buffer.h"
#include "server/options.h"

struct command {
    const char *name;
    enum options_command bit; /* its options in the table */
    const char *summary;      /* a line in `incipit help` */
    const char *operands;     /* "[TEXT]": after the options in the usage line; "" if it takes none */
    size_t operands_max;
    const char *examples; /* lines, each ending in a newline */
    int (*run)(const struct options *options);
};

extern const struct command command_table[];
extern const size_t command_table_count;

const struct command *command_find(const char *name); /* NULL: no such one */

int command_serve(const struct options *options);
int command_chat(const struct options *options);
int command_tokenize(const struct options *options);
int command_render(const struct options *options);
int command_bench(const struct options *options);
int command_inspect(const struct options *options);

/* ---- what several of them need ---- */

/* "incipit: " and the error's sentence on stderr, or a line of the log where that is JSON; returns 1. */
int command_fail(const struct error *error);
/* The operands joined by spaces, or all of stdin when there are none. */
enum status command_input(const struct options *options, struct buffer *out, struct error *error);
/* Writes all of it to stdout; 1 and a message when that fails. */
int command_output(const struct buffer *out);

#endif
