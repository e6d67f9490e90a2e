/* Every option of every command: one table (options_table.c), read by the command line, the configuration file, --help
 * and the test that compares configs/default.yaml with it.
 *
 *     options_parse(command, argc, argv, &options, &error)   defaults < --config FILE < command line
 *
 * Filled once by the main thread before others start; constant from then on. Released with options_free. */
#ifndef SERVER_OPTIONS_H
#define SERVER_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/base/buffer.h"
#include "kernels/base/status.h"

/* Which commands take an option: a bit each. */
enum options_command {
    OPTIONS_SERVE = 1,
    OPTIONS_CHAT = 2,
    OPTIONS_TOKENIZE = 4,
    OPTIONS_RENDER = 8,
    OPTIONS_BENCH = 16,
    OPTIONS_INSPECT = 32,
};

#define OPTIONS_OPERANDS_MAX 64

struct options {
    /* where things are */
    char *model; /* a file, or the name of a model in model_dir */
    char *model_dir;
    char *config; /* "": none */

    /* the listener */
    char *host;
    int64_t port;       /* 0: any free one */
    char *api_key;      /* "": none; "@FILE": its first line */
    char *api_keys;     /* a file; "": none */
    char *admin_key;    /* as api_key */
    char *cors_origin;  /* comma-separated; "": nobody */
    char *allowed_host; /* the same */
    char *tls_cert;     /* a file; "": plain HTTP */
    char *tls_key;
    int64_t max_connections;
    int64_t max_body;        /* bytes */
    int64_t max_body_memory; /* bytes */
    int64_t drain_timeout;   /* seconds */

    /* the engine */
    int64_t threads;   /* 0: one a processor */
    char *cpu;         /* auto, scalar, avx2, avx512 */
    char *activations; /* int8, f32 */
    int64_t context;   /* tokens; 0: what the model was trained for */
    int64_t kv_memory; /* bytes */
    int64_t block_tokens;
    int64_t max_sequences;
    int64_t prefill_chunk;
    int64_t step_ms;
    int64_t max_queue;
    bool strict_model;
    bool no_prefix_cache;
    int64_t watchdog; /* seconds */

    char *log_level;
    char *log_format;

    /* chat */
    char *system; /* "": the template's own */
    double temperature;
    int64_t max_tokens; /* 0: up to the context */
    int64_t seed;       /* -1: drawn */

    /* tokenize, render, inspect, bench */
    bool json;
    bool parse_special;
    bool tensors;
    char *prompt;   /* comma-separated token counts */
    char *generate; /* the same */
    char *batch;    /* the same */
    int64_t shared_prefix;
    int64_t repeat;

    char *operands[OPTIONS_OPERANDS_MAX]; /* what is not an option; borrowed from argv */
    size_t operand_count;
    bool help;
};

enum option_kind { OPTION_TEXT, OPTION_CHOICE, OPTION_INTEGER, OPTION_BYTES, OPTION_NUMBER, OPTION_FLAG };

struct option_row {
    const char *name; /* without "--" */
    enum option_kind kind;
    size_t offset;          /* in struct options */
    unsigned commands;      /* bits of enum options_command */
    const char *value_name; /* "N", "FILE": for --help */
    const char *standard;   /* the default, as it would be written */
    double minimum;         /* numbers, both ends allowed */
    double maximum;
    const char *choices; /* OPTION_CHOICE: "a|b|c" */
    const char *help;
    bool command_line_only; /* not a key of the configuration file */
};

extern const struct option_row options_table[];
extern const size_t options_table_count;

/* argv without the program and command names. An unknown option is STATUS_INVALID and suggests the nearest one. */
enum status options_parse(enum options_command command, int argc, char **argv, struct options *options,
                          struct error *error);
void options_free(struct options *options);

/* Sets one option from text; `source` says where it stands ("--port", "server.yaml line 3"). */
enum status options_set(struct options *options, const struct option_row *row, const char *value, const char *source,
                        struct error *error);
const struct option_row *options_find(const char *name);
/* The known name closest to `name` that `command` takes; NULL when nothing is close. */
const char *options_nearest(const char *name, unsigned command);

/* Reads a YAML mapping of option names to values (server/config.c). Keys of other commands are accepted and left
 * alone. */
enum status options_read_config(const char *path, enum options_command command, struct options *options,
                                struct error *error);

/* The options of a command with their defaults and help, a line or two each. */
void options_describe(unsigned command, struct buffer *out);

#endif
