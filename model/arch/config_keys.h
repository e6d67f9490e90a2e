/* Reading an architecture's metadata: "<architecture>.<key>", with a sentence for each way it can be wrong. */
#ifndef MODEL_ARCH_CONFIG_KEYS_H
#define MODEL_ARCH_CONFIG_KEYS_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/base/status.h"
#include "model/model.h"

struct config_integer {
    const char *key; /* without the architecture */
    uint32_t min;
    uint32_t max;
    const uint32_t *absent; /* the value when there is no such key; NULL: it must be there */
};

struct config_number {
    const char *key;
    double min;
    double max;
    const double *absent;
};

enum status config_integer(const struct model_file *file, const char *architecture, struct config_integer want,
                           uint32_t *out, struct error *error);
enum status config_number(const struct model_file *file, const char *architecture, struct config_number want,
                          double *out, struct error *error);

/* Refuses a file whose `key` is there and not the number `neutral`: it asks for something that is not computed. */
enum status config_refuse_unless(const struct model_file *file, const char *architecture, const char *key,
                                 double neutral, struct error *error);

/* Fills name, tied_head, vocabulary and parameters, which every architecture has alike. `head` is the tensor whose
 * absence means that the head is the embedding table. */
enum status config_common(const struct model_file *file, const char *embedding, const char *head,
                          struct model_config *config, struct error *error);

#endif
