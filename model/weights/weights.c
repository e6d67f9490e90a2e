/* What all weight formats share: opening by the first bytes, the two indices, and reading metadata elements. */
#include "model/weights/weights.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "kernels/base/size.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "weights are read in place: a little-endian machine");

const char *weights_file_name(const struct weights *weights)
{
    const char *slash = strrchr(weights->map.path, '/');
    return slash == NULL ? weights->map.path : slash + 1;
}

enum status weights_open(const char *path, struct weights *weights, struct error *error)
{
    *weights = (struct weights){0};
    enum status status = file_map_open(path, &weights->map, error);
    if (status != STATUS_OK)
        return status;
    const struct weights_format *const *format = weights_formats;
    while (*format != NULL && !(*format)->recognizes(weights->map.data, weights->map.size))
        format++;
    if (*format == NULL) {
        status = error_set(error, STATUS_INVALID, "%.160s is not a model file: it does not begin with \"GGUF\"",
                           weights_file_name(weights));
    } else {
        weights->format = (*format)->name;
        status = (*format)->read(weights, error);
    }
    if (status != STATUS_OK)
        weights_close(weights);
    return status;
}

void weights_close(struct weights *weights)
{
    for (size_t i = 0; i < weights->value_count; i++)
        free(weights->values[i].offsets);
    free(weights->values);
    free(weights->tensors);
    map_free(&weights->value_index);
    map_free(&weights->tensor_index);
    file_map_close(&weights->map);
    *weights = (struct weights){0};
}

/* ---- the indices ---- */

struct probe {
    const struct weights *weights;
    const char *name;
    size_t size;
};

static bool text_is(struct model_text text, const struct probe *probe)
{
    return text.size == probe->size && memcmp(text.data, probe->name, probe->size) == 0;
}

static bool value_is(void *context, uint32_t index)
{
    const struct probe *probe = context;
    return text_is(probe->weights->values[index].key, probe);
}

static bool tensor_is(void *context, uint32_t index)
{
    const struct probe *probe = context;
    return text_is(probe->weights->tensors[index].name, probe);
}

const struct weights_value *weights_value(const struct weights *weights, const char *key, size_t key_size)
{
    struct probe probe = {weights, key, key_size};
    uint32_t index = map_find(&weights->value_index, XXH3_64bits(key, key_size), value_is, &probe);
    return index == MAP_NONE ? NULL : &weights->values[index];
}

const struct weights_tensor *weights_tensor(const struct weights *weights, const char *name, size_t name_size)
{
    struct probe probe = {weights, name, name_size};
    uint32_t index = map_find(&weights->tensor_index, XXH3_64bits(name, name_size), tensor_is, &probe);
    return index == MAP_NONE ? NULL : &weights->tensors[index];
}

enum status weights_index_values(struct weights *weights, struct error *error)
{
    for (size_t i = 0; i < weights->value_count; i++) {
        struct model_text key = weights->values[i].key;
        if (weights_value(weights, key.data, key.size) != NULL)
            return error_set(error, STATUS_INVALID, "%.160s: the metadata key '%.*s' is there twice",
                             weights_file_name(weights), (int)size_min(key.size, 128), key.data);
        if (!map_insert(&weights->value_index, XXH3_64bits(key.data, key.size), (uint32_t)i))
            return error_no_memory(error, "the index of a model file");
    }
    return STATUS_OK;
}

enum status weights_index_tensors(struct weights *weights, struct error *error)
{
    for (size_t i = 0; i < weights->tensor_count; i++) {
        struct model_text name = weights->tensors[i].name;
        if (weights_tensor(weights, name.data, name.size) != NULL)
            return error_set(error, STATUS_INVALID, "%.160s: the tensor '%.*s' is there twice",
                             weights_file_name(weights), (int)size_min(name.size, 128), name.data);
        if (!map_insert(&weights->tensor_index, XXH3_64bits(name.data, name.size), (uint32_t)i))
            return error_no_memory(error, "the index of a model file");
    }
    return STATUS_OK;
}

/* ---- metadata elements ---- */

size_t weights_type_bytes(uint32_t type)
{
    switch (type) {
    case WEIGHTS_U8:
    case WEIGHTS_I8:
    case WEIGHTS_BOOL:
        return 1;
    case WEIGHTS_U16:
    case WEIGHTS_I16:
        return 2;
    case WEIGHTS_U32:
    case WEIGHTS_I32:
    case WEIGHTS_F32:
        return 4;
    case WEIGHTS_U64:
    case WEIGHTS_I64:
    case WEIGHTS_F64:
        return 8;
    default:
        return 0;
    }
}

bool weights_read_text(const struct weights_value *value, uint64_t index, struct model_text *out)
{
    if (value->type != WEIGHTS_TEXT || index >= value->count)
        return false;
    const uint8_t *at = value->data + (value->offsets == NULL ? 0 : value->offsets[index]);
    uint64_t size;
    memcpy(&size, at, sizeof(size));
    *out = (struct model_text){(const char *)at + sizeof(size), (size_t)size};
    return true;
}

bool weights_read_integer(const struct weights_value *value, uint64_t index, int64_t *out)
{
    size_t bytes = weights_type_bytes(value->type);
    if (bytes == 0 || index >= value->count)
        return false;
    uint64_t raw = 0;
    memcpy(&raw, value->data + index * bytes, bytes);
    switch (value->type) {
    case WEIGHTS_U8:
    case WEIGHTS_U16:
    case WEIGHTS_U32:
    case WEIGHTS_I64:
        *out = (int64_t)raw;
        return true;
    case WEIGHTS_U64:
        *out = (int64_t)raw;
        return raw <= INT64_MAX;
    case WEIGHTS_I8:
        *out = (int8_t)raw;
        return true;
    case WEIGHTS_I16:
        *out = (int16_t)raw;
        return true;
    case WEIGHTS_I32:
        *out = (int32_t)raw;
        return true;
    default:
        return false;
    }
}

bool weights_read_number(const struct weights_value *value, uint64_t index, double *out)
{
    if (value->type == WEIGHTS_F32 && index < value->count) {
        float number;
        memcpy(&number, value->data + index * sizeof(number), sizeof(number));
        *out = (double)number;
        return true;
    }
    if (value->type == WEIGHTS_F64 && index < value->count) {
        memcpy(out, value->data + index * sizeof(*out), sizeof(*out));
        return true;
    }
    int64_t integer;
    if (!weights_read_integer(value, index, &integer))
        return false;
    *out = (double)integer;
    return true;
}

bool weights_read_bool(const struct weights_value *value, uint64_t index, bool *out)
{
    if (value->type != WEIGHTS_BOOL || index >= value->count)
        return false;
    *out = value->data[index] != 0;
    return true;
}
