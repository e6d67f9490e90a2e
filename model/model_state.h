/* An open model, as model.c, load.c and step.c share it. The engine thread owns it. */
#ifndef MODEL_MODEL_STATE_H
#define MODEL_MODEL_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/kernels.h"
#include "model/arch/arch.h"
#include "model/arch/blocks.h"
#include "model/model.h"

struct model {
    const struct arch *arch;
    struct model_config config;
    struct kv_layout layout;
    struct model_fingerprint fingerprint;
    uint32_t context; /* tokens a sequence */
    uint32_t kv_pages;
    uint32_t rows_max;
    uint32_t sequences_max;
    uint32_t draws_max;

    struct forward forward;
    struct activations *last; /* (draws_max, width): the final norm of rows that are drawn from */
    float *logits;            /* (draws_max, vocabulary), of the device */

    /* the step, in host memory */
    int32_t *ids;                /* (rows_max) */
    uint32_t *selected;          /* (draws_max): the row of each draw */
    struct sample_row *draws;    /* (draws_max) */
    struct sample_result *drawn; /* (draws_max) */
    uint32_t draw_count;
    bool submitted;
    bool abandoned;

    bool keep_logits;
    float *kept; /* (draws_max, vocabulary); NULL until logits were first kept */
    uint32_t kept_count;
};

/* Checks all tensors of the file, then packs them in the architecture's order, computing the fingerprint. What was
 * taken stays with the model when it fails. load.c */
enum status model_load_check(const struct model_file *file, const struct arch *arch, const struct model_config *config,
                             struct error *error);
enum status model_load(struct model *model, const struct model_file *file, const struct model_args *args,
                       struct error *error);
void model_unload(struct model *model);

#endif
