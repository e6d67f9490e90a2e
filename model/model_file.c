/* A model file open for reading: metadata by key. The configuration is the architecture's to read (arch/). */
#include "model/model_file.h"

#include <stdlib.h>
#include <string.h>

#include "model/arch/arch.h"

enum status model_file_open(const char *path, struct model_file **out, struct error *error)
{
    struct model_file *file = calloc(1, sizeof(*file));
    *out = NULL;
    if (file == NULL)
        return error_no_memory(error, "a model file");
    enum status status = weights_open(path, &file->weights, error);
    if (status == STATUS_OK)
        *out = file;
    else
        free(file);
    return status;
}

void model_file_close(struct model_file *file)
{
    if (file == NULL)
        return;
    weights_close(&file->weights);
    free(file);
}

const char *model_file_path(const struct model_file *file)
{
    return file->weights.map.path;
}

size_t model_file_bytes(const struct model_file *file)
{
    return file->weights.map.size;
}

static const struct weights_value *find(const struct model_file *file, const char *key, bool array)
{
    const struct weights_value *value = weights_value(&file->weights, key, strlen(key));
    return value != NULL && value->array == array ? value : NULL;
}

bool model_file_text(const struct model_file *file, const char *key, struct model_text *out)
{
    const struct weights_value *value = find(file, key, false);
    return value != NULL && weights_read_text(value, 0, out);
}

bool model_file_integer(const struct model_file *file, const char *key, int64_t *out)
{
    const struct weights_value *value = find(file, key, false);
    return value != NULL && weights_read_integer(value, 0, out);
}

bool model_file_bool(const struct model_file *file, const char *key, bool *out)
{
    const struct weights_value *value = find(file, key, false);
    return value != NULL && weights_read_bool(value, 0, out);
}

bool model_file_array(const struct model_file *file, const char *key, size_t *count)
{
    const struct weights_value *value = find(file, key, true);
    if (value == NULL)
        return false;
    *count = (size_t)value->count;
    return true;
}

bool model_file_array_text(const struct model_file *file, const char *key, size_t index, struct model_text *out)
{
    const struct weights_value *value = find(file, key, true);
    return value != NULL && weights_read_text(value, index, out);
}

bool model_file_array_integer(const struct model_file *file, const char *key, size_t index, int64_t *out)
{
    const struct weights_value *value = find(file, key, true);
    return value != NULL && weights_read_integer(value, index, out);
}

enum status model_file_config(const struct model_file *file, struct model_config *out, struct error *error)
{
    const struct arch *arch;
    enum status status = arch_of_file(file, &arch, error);
    if (status != STATUS_OK)
        return status;
    *out = (struct model_config){0};
    return arch->configure(file, out, error);
}
