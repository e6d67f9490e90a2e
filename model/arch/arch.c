/* What all architectures share: choosing one for a file, and checking that a tensor is there with the right shape. */
#include "model/arch/arch.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "kernels/base/check.h"
#include "kernels/base/size.h"
#include "model/model_file.h"

static enum status refuse_architecture(struct model_text name, struct error *error)
{
    char known[128] = "";
    size_t used = 0;
    for (const struct arch *const *arch = arch_table; *arch != NULL && used < sizeof(known); arch++)
        used += (size_t)snprintf(known + used, sizeof(known) - used, "%s%s", used == 0 ? "" : ", ", (*arch)->name);
    return error_set(error, STATUS_UNSUPPORTED, "the architecture '%.*s' is not supported; this program runs: %s",
                     (int)size_min(name.size, 64), name.data, known);
}

enum status arch_of_file(const struct model_file *file, const struct arch **out, struct error *error)
{
    struct model_text name;
    int64_t parts;
    if (model_file_integer(file, "split.count", &parts) && parts > 1)
        return error_set(error, STATUS_UNSUPPORTED,
                         "%.160s: the file is one of %" PRId64 " parts; join them with llama-gguf-split --merge",
                         weights_file_name(&file->weights), parts);
    if (!model_file_text(file, "general.architecture", &name))
        return error_set(error, STATUS_INVALID, "%.160s: the metadata key 'general.architecture' is missing",
                         weights_file_name(&file->weights));
    for (const struct arch *const *arch = arch_table; *arch != NULL; arch++) {
        if (strlen((*arch)->name) == name.size && memcmp((*arch)->name, name.data, name.size) == 0) {
            *out = *arch;
            return STATUS_OK;
        }
    }
    return refuse_architecture(name, error);
}

uint32_t arch_size(const struct model_config *config, enum arch_size size)
{
    switch (size) {
    case ARCH_VECTOR:
        return 1;
    case ARCH_WIDTH:
        return config->width;
    case ARCH_FFN_WIDTH:
        return config->ffn_width;
    case ARCH_QUERY_WIDTH:
        return config->heads * config->head_dim;
    case ARCH_KEY_WIDTH:
        return config->kv_heads * config->head_dim;
    case ARCH_VOCABULARY:
        return config->vocabulary;
    }
    CHECK(false);
    return 0;
}

enum status arch_find_tensor(const struct model_file *file, const struct model_config *config,
                             const struct arch_tensor *entry, uint32_t layer, const struct weights_tensor **out,
                             struct error *error)
{
    char name[96];
    bool of_layer = entry->slot >= ARCH_FIRST_LAYER_SLOT;
    int size = of_layer ? snprintf(name, sizeof(name), "blk.%" PRIu32 ".%s", layer, entry->name)
                        : snprintf(name, sizeof(name), "%s", entry->name);
    CHECK(size > 0 && (size_t)size < sizeof(name));
    const struct weights_tensor *tensor = weights_tensor(&file->weights, name, (size_t)size);
    *out = tensor;
    if (tensor == NULL)
        return entry->optional ? STATUS_OK
                               : error_set(error, STATUS_INVALID, "%.160s: the tensor '%s' is missing",
                                           weights_file_name(&file->weights), name);
    uint32_t rows = arch_size(config, entry->rows), columns = arch_size(config, entry->columns);
    if (tensor->shape[0] == columns && tensor->shape[1] == rows && tensor->shape[2] == 1 && tensor->shape[3] == 1)
        return STATUS_OK;
    return error_set(error, STATUS_INVALID,
                     "%.160s: the tensor '%s' has the shape (%" PRIu64 ", %" PRIu64 ", %" PRIu64 ", %" PRIu64
                     "); the configuration asks for (%" PRIu32 ", %" PRIu32 ", 1, 1)",
                     weights_file_name(&file->weights), name, tensor->shape[0], tensor->shape[1], tensor->shape[2],
                     tensor->shape[3], columns, rows);
}
