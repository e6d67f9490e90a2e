/* The opened floors: file, tokenizer, template and model, as serve, chat and bench need them; opened from options by
 * the main thread, closed in reverse order. What is not needed is not opened. */
#ifndef SERVER_RUNTIME_H
#define SERVER_RUNTIME_H

#include <stdbool.h>

#include "kernels/base/status.h"
#include "model/model.h"
#include "model/text/chat_template.h"
#include "model/text/tokenizer.h"
#include "server/engine/engine.h"
#include "server/options.h"

struct runtime {
    struct model_file *file;
    struct model_config config;
    char model_id[96]; /* what clients call it: the name given to --model, or the file's without folder and suffix */
    struct tokenizer *tokenizer;
    struct chat_template *chat_template; /* NULL: the model has none */
    struct model *model;                 /* NULL before runtime_open_model */
    enum activation_mode activations;    /* what --activations says */
};

/* Finds the file by --model, opens it, its tokenizer and its template. */
enum status runtime_open_text(const struct options *options, struct runtime *runtime, struct error *error);

struct runtime_limits {
    uint32_t rows_max;      /* rows of a step */
    uint32_t sequences_max; /* runs of a step */
    uint32_t draws_max;     /* draws of a step */
    bool show_progress;     /* on stderr, if that is a terminal */
};

/* Packs the weights and takes all memory. */
enum status runtime_open_model(const struct options *options, const struct runtime_limits *limits,
                               struct runtime *runtime, struct error *error);
/* What the engine asks of its model: a prefill chunk and every sequence fit one step. */
struct runtime_limits runtime_engine_limits(const struct options *options);
/* The engine over an open model; closed by the caller, before runtime_close. `queue_max`: requests that may wait. */
enum status runtime_open_engine(const struct options *options, const struct runtime *runtime, uint32_t queue_max,
                                struct engine **out, struct error *error);
void runtime_close(struct runtime *runtime);

/* The path behind --model: the path itself, or the one .gguf file in model_dir/NAME. Appended to *out. */
enum status runtime_model_path(const struct options *options, struct buffer *out, struct error *error);

#endif
