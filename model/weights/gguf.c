/* GGUF versions 2 and 3, little-endian: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
 *
 *     "GGUF" u32 version, u64 tensors, u64 values; values: key, u32 type, value; tensors: name, u32 dims, u64
 *     shape[dims], u32 type, u64 offset; padding to general.alignment; tensor data
 *
 * Nothing in the file is trusted. The cursor never passes the end: every length is compared with what is left before it
 * is used, so counts bound nothing but loops whose every turn consumes bytes. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/size.h"
#include "kernels/base/utf8.h"
#include "model/weights/weights.h"

#define MAGIC "GGUF"
#define VALUES_MAX 65536
#define TENSORS_MAX 65536
#define NAME_BYTES_MAX 255
#define ALIGNMENT_DEFAULT 32
#define ALIGNMENT_MAX (1u << 20)
#define ARRAY_DEPTH_MAX 4
#define METADATA_BYTES_MAX ((size_t)1 << 30) /* offsets of texts are 32 bits wide */

struct cursor {
    struct weights *weights;
    const uint8_t *data;
    size_t size;
    size_t at;
    struct error *error;
};

/* What is being read, for the sentence when it fails. */
__attribute__((format(printf, 2, 3))) static enum status refuse(const struct cursor *cursor, const char *format, ...)
{
    char text[320];
    va_list arguments;
    va_start(arguments, format);
    if (vsnprintf(text, sizeof(text), format, arguments) < 0)
        text[0] = '\0';
    va_end(arguments);
    return error_set(cursor->error, STATUS_INVALID, "%.100s: %s (at byte %zu)", weights_file_name(cursor->weights),
                     text, cursor->at);
}

static size_t left(const struct cursor *cursor)
{
    return cursor->size - cursor->at;
}

static enum status read_bytes(struct cursor *cursor, void *out, size_t bytes, const char *what)
{
    if (left(cursor) < bytes)
        return refuse(cursor, "the file ends inside %s", what);
    memcpy(out, cursor->data + cursor->at, bytes);
    cursor->at += bytes;
    return STATUS_OK;
}

static enum status read_u32(struct cursor *cursor, uint32_t *out, const char *what)
{
    return read_bytes(cursor, out, sizeof(*out), what);
}

static enum status read_u64(struct cursor *cursor, uint64_t *out, const char *what)
{
    return read_bytes(cursor, out, sizeof(*out), what);
}

/* A key or a tensor's name: short, valid UTF-8 without control characters, so that it can be printed. */
static enum status read_name(struct cursor *cursor, struct model_text *out, const char *what)
{
    uint64_t size = 0;
    enum status status = read_u64(cursor, &size, what);
    if (status != STATUS_OK)
        return status;
    if (size == 0 || size > NAME_BYTES_MAX)
        return refuse(cursor, "%s is %" PRIu64 " bytes long; it must have 1 to %d", what, size, NAME_BYTES_MAX);
    if (size > left(cursor))
        return refuse(cursor, "the file ends inside %s of %" PRIu64 " bytes", what, size);
    *out = (struct model_text){(const char *)cursor->data + cursor->at, (size_t)size};
    for (size_t i = 0; i < out->size; i++)
        if ((uint8_t)out->data[i] < ' ' || out->data[i] == 0x7f)
            return refuse(cursor, "%s holds a control character", what);
    if (utf8_invalid_at(out->data, out->size) != out->size)
        return refuse(cursor, "%s is not valid UTF-8", what);
    cursor->at += out->size;
    return STATUS_OK;
}

/* ---- metadata ---- */

static enum status skip_text(struct cursor *cursor, const struct model_text *key)
{
    uint64_t size = 0;
    enum status status = read_u64(cursor, &size, "a text's length");
    if (status != STATUS_OK)
        return status;
    if (size > left(cursor))
        return refuse(cursor, "a text of '%.*s' has %" PRIu64 " bytes, but only %zu are left in the file",
                      (int)key->size, key->data, size, left(cursor));
    cursor->at += (size_t)size;
    return STATUS_OK;
}

static enum status check_bools(struct cursor *cursor, const struct model_text *key, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (cursor->data[cursor->at + i] > 1)
            return refuse(cursor, "'%.*s' holds a boolean that is neither 0 nor 1", (int)key->size, key->data);
    return STATUS_OK;
}

static enum status skip_numbers(struct cursor *cursor, const struct model_text *key, uint32_t type, uint64_t count)
{
    size_t bytes;
    if (!size_multiply((size_t)count, weights_type_bytes(type), &bytes) || bytes > left(cursor))
        return refuse(cursor, "'%.*s' has %" PRIu64 " elements, more than the file can hold", (int)key->size, key->data,
                      count);
    enum status status = type == WEIGHTS_BOOL ? check_bools(cursor, key, bytes) : STATUS_OK;
    cursor->at += status == STATUS_OK ? bytes : 0;
    return status;
}

static enum status read_array_head(struct cursor *cursor, const struct model_text *key, uint32_t *type, uint64_t *count)
{
    enum status status = read_u32(cursor, type, "an array's element type");
    if (status == STATUS_OK)
        status = read_u64(cursor, count, "an array's length");
    if (status != STATUS_OK)
        return status;
    if (*type > WEIGHTS_F64)
        return refuse(cursor, "'%.*s' is an array of unknown type %u", (int)key->size, key->data, *type);
    /* The smallest elements of texts and arrays take 8 and 12 bytes. */
    size_t smallest = *type == WEIGHTS_TEXT ? 8 : *type == WEIGHTS_ARRAY ? 12 : weights_type_bytes(*type);
    if (*count > left(cursor) / smallest)
        return refuse(cursor, "'%.*s' has %" PRIu64 " elements, more than the file can hold", (int)key->size, key->data,
                      *count);
    return STATUS_OK;
}

/* The elements of an array inside an array: checked, but not kept. */
static enum status skip_nested(struct cursor *cursor, const struct model_text *key, uint32_t depth)
{
    uint32_t type = 0;
    uint64_t count = 0;
    if (depth >= ARRAY_DEPTH_MAX)
        return refuse(cursor, "'%.*s' nests arrays deeper than %d", (int)key->size, key->data, ARRAY_DEPTH_MAX);
    enum status status = read_array_head(cursor, key, &type, &count);
    if (status != STATUS_OK)
        return status;
    if (type != WEIGHTS_TEXT && type != WEIGHTS_ARRAY)
        return skip_numbers(cursor, key, type, count);
    for (uint64_t i = 0; i < count && status == STATUS_OK; i++)
        status = type == WEIGHTS_TEXT ? skip_text(cursor, key) : skip_nested(cursor, key, depth + 1);
    return status;
}

/* Remembers where each text begins, so that any of them is found at once. */
static enum status index_texts(struct cursor *cursor, struct weights_value *value)
{
    value->offsets = value->count == 0 ? NULL : malloc((size_t)value->count * sizeof(*value->offsets));
    if (value->offsets == NULL && value->count != 0)
        return error_no_memory(cursor->error, "the texts of a model file");
    enum status status = STATUS_OK;
    for (uint64_t i = 0; i < value->count && status == STATUS_OK; i++) {
        size_t offset = (size_t)(cursor->data + cursor->at - value->data);
        if (offset > METADATA_BYTES_MAX)
            return refuse(cursor, "the metadata is larger than %zu bytes", METADATA_BYTES_MAX);
        value->offsets[i] = (uint32_t)offset;
        status = skip_text(cursor, &value->key);
    }
    return status;
}

static enum status read_array(struct cursor *cursor, struct weights_value *value)
{
    uint32_t type = 0;
    enum status status = read_array_head(cursor, &value->key, &type, &value->count);
    if (status != STATUS_OK)
        return status;
    value->array = true;
    value->type = (enum weights_type)type;
    value->data = cursor->data + cursor->at;
    if (type == WEIGHTS_TEXT)
        return index_texts(cursor, value);
    if (type != WEIGHTS_ARRAY)
        return skip_numbers(cursor, &value->key, type, value->count);
    for (uint64_t i = 0; i < value->count && status == STATUS_OK; i++)
        status = skip_nested(cursor, &value->key, 1);
    return status;
}

static enum status read_value(struct cursor *cursor, struct weights_value *value)
{
    uint32_t type = 0;
    enum status status = read_name(cursor, &value->key, "a metadata key");
    if (status == STATUS_OK)
        status = read_u32(cursor, &type, "a metadata value's type");
    if (status != STATUS_OK)
        return status;
    if (type > WEIGHTS_F64)
        return refuse(cursor, "'%.*s' is of unknown type %u", (int)value->key.size, value->key.data, type);
    if (type == WEIGHTS_ARRAY)
        return read_array(cursor, value);
    value->type = (enum weights_type)type;
    value->count = 1;
    value->data = cursor->data + cursor->at;
    return type == WEIGHTS_TEXT ? skip_text(cursor, &value->key) : skip_numbers(cursor, &value->key, type, 1);
}

static enum status read_values(struct cursor *cursor, uint64_t count)
{
    struct weights *weights = cursor->weights;
    if (count > VALUES_MAX)
        return refuse(cursor, "%" PRIu64 " metadata values; at most %d are read", count, VALUES_MAX);
    if (count == 0)
        return STATUS_OK;
    weights->values = calloc((size_t)count, sizeof(*weights->values));
    if (weights->values == NULL)
        return error_no_memory(cursor->error, "the metadata of a model file");
    enum status status = STATUS_OK;
    while (weights->value_count < count && status == STATUS_OK)
        status = read_value(cursor, &weights->values[weights->value_count++]);
    return status == STATUS_OK ? weights_index_values(weights, cursor->error) : status;
}

/* ---- tensors ---- */

/* Elements and bytes of a tensor whose shape and type are known; false: no size_t holds them. */
static bool measure(struct weights_tensor *tensor, const struct tensor_type_facts *facts)
{
    size_t elements = 1;
    for (uint32_t d = 0; d < tensor->dims; d++)
        if (!size_multiply(elements, (size_t)tensor->shape[d], &elements))
            return false;
    tensor->elements = elements;
    return size_multiply(elements / facts->block_elements, facts->block_bytes, &tensor->bytes);
}

static enum status read_shape(struct cursor *cursor, struct weights_tensor *tensor)
{
    int size = (int)tensor->name.size;
    enum status status = read_u32(cursor, &tensor->dims, "a tensor's dimensions");
    if (status != STATUS_OK)
        return status;
    if (tensor->dims == 0 || tensor->dims > WEIGHTS_DIMS_MAX)
        return refuse(cursor, "the tensor '%.*s' has %u dimensions; 1 to %d are possible", size, tensor->name.data,
                      tensor->dims, WEIGHTS_DIMS_MAX);
    for (uint32_t d = 0; d < WEIGHTS_DIMS_MAX; d++) {
        tensor->shape[d] = 1;
        if (d < tensor->dims && (status = read_u64(cursor, &tensor->shape[d], "a tensor's shape")) != STATUS_OK)
            return status;
        if (tensor->shape[d] == 0 || tensor->shape[d] > INT64_MAX)
            return refuse(cursor, "the tensor '%.*s' has %" PRIu64 " elements in dimension %u", size, tensor->name.data,
                          tensor->shape[d], d);
    }
    return STATUS_OK;
}

/* Everything but where the data is: that is known when all tensors have been read. */
static enum status read_tensor(struct cursor *cursor, struct weights_tensor *tensor, uint64_t *offset)
{
    uint32_t type = 0;
    enum status status = read_name(cursor, &tensor->name, "a tensor's name");
    if (status == STATUS_OK)
        status = read_shape(cursor, tensor);
    if (status == STATUS_OK)
        status = read_u32(cursor, &type, "a tensor's type");
    if (status == STATUS_OK)
        status = read_u64(cursor, offset, "a tensor's offset");
    if (status != STATUS_OK)
        return status;
    int size = (int)tensor->name.size;
    const struct tensor_type_facts *facts = tensor_type_facts(type);
    if (facts->name == NULL)
        return refuse(cursor, "the tensor '%.*s' is of type %u, which this program cannot read", size,
                      tensor->name.data, type);
    tensor->type = (enum tensor_type)type;
    if (tensor->shape[0] % facts->block_elements != 0)
        return refuse(cursor, "the tensor '%.*s' has rows of %" PRIu64 " elements; %s comes in blocks of %u", size,
                      tensor->name.data, tensor->shape[0], facts->name, facts->block_elements);
    if (!measure(tensor, facts))
        return refuse(cursor, "the tensor '%.*s' has more elements than a file can hold", size, tensor->name.data);
    return STATUS_OK;
}

static enum status read_alignment(struct cursor *cursor, size_t *alignment)
{
    const char *key = "general.alignment";
    const struct weights_value *value = weights_value(cursor->weights, key, strlen(key));
    int64_t number = ALIGNMENT_DEFAULT;
    if (value != NULL && (value->array || !weights_read_integer(value, 0, &number)))
        return refuse(cursor, "%s is not an integer", key);
    if (number < 8 || number > (int64_t)ALIGNMENT_MAX || (number & (number - 1)) != 0)
        return refuse(cursor, "%s is %" PRId64 "; it must be a power of two from 8 to %u", key, number, ALIGNMENT_MAX);
    *alignment = (size_t)number;
    return STATUS_OK;
}

static int compare_places(const void *a, const void *b)
{
    const struct weights_tensor *const *x = a, *const *y = b;
    return (*x)->data < (*y)->data ? -1 : (*x)->data > (*y)->data;
}

/* Overlapping tensors are damage, and would let a small file ask for a lot of memory. */
static enum status refuse_overlaps(struct cursor *cursor)
{
    const struct weights *weights = cursor->weights;
    const struct weights_tensor **sorted = malloc(weights->tensor_count * sizeof(const struct weights_tensor *));
    if (sorted == NULL)
        return error_no_memory(cursor->error, "the tensors of a model file");
    for (size_t i = 0; i < weights->tensor_count; i++)
        sorted[i] = &weights->tensors[i];
    qsort(sorted, weights->tensor_count, sizeof(const struct weights_tensor *), compare_places);
    enum status status = STATUS_OK;
    for (size_t i = 1; i < weights->tensor_count && status == STATUS_OK; i++) {
        const struct weights_tensor *a = sorted[i - 1], *b = sorted[i];
        if (b->data < a->data + a->bytes)
            status = refuse(cursor, "the tensors '%.*s' and '%.*s' overlap", (int)size_min(a->name.size, 100),
                            a->name.data, (int)size_min(b->name.size, 100), b->name.data);
    }
    free(sorted);
    return status;
}

static enum status place_tensors(struct cursor *cursor, const uint64_t *offsets, size_t alignment)
{
    struct weights *weights = cursor->weights;
    size_t start = size_round_up(cursor->at, alignment); /* at most size + 1 MiB: no overflow */
    for (size_t i = 0; i < weights->tensor_count; i++) {
        struct weights_tensor *tensor = &weights->tensors[i];
        int size = (int)tensor->name.size;
        if (offsets[i] % alignment != 0)
            return refuse(cursor, "the tensor '%.*s' lies at offset %" PRIu64 ", not a multiple of %zu", size,
                          tensor->name.data, offsets[i], alignment);
        if (start > cursor->size || offsets[i] > cursor->size - start ||
            tensor->bytes > cursor->size - start - (size_t)offsets[i])
            return refuse(cursor,
                          "the tensor '%.*s' needs %zu bytes at offset %" PRIu64
                          " of the data, but the file ends before: it has %zu bytes",
                          size, tensor->name.data, tensor->bytes, offsets[i], cursor->size);
        tensor->data = cursor->data + start + offsets[i];
    }
    return weights->tensor_count == 0 ? STATUS_OK : refuse_overlaps(cursor);
}

static enum status read_tensors(struct cursor *cursor, uint64_t count)
{
    struct weights *weights = cursor->weights;
    size_t alignment = 0;
    if (count > TENSORS_MAX)
        return refuse(cursor, "%" PRIu64 " tensors; at most %d are read", count, TENSORS_MAX);
    enum status status = read_alignment(cursor, &alignment);
    if (status != STATUS_OK || count == 0)
        return status;
    weights->tensors = calloc((size_t)count, sizeof(*weights->tensors));
    uint64_t *offsets = calloc((size_t)count, sizeof(*offsets)); /* from the start of the data */
    if (weights->tensors == NULL || offsets == NULL)
        status = error_no_memory(cursor->error, "the tensors of a model file");
    while (status == STATUS_OK && weights->tensor_count < count) {
        size_t i = weights->tensor_count++;
        status = read_tensor(cursor, &weights->tensors[i], &offsets[i]);
    }
    if (status == STATUS_OK)
        status = weights_index_tensors(weights, cursor->error);
    if (status == STATUS_OK)
        status = place_tensors(cursor, offsets, alignment);
    free(offsets);
    return status;
}

/* ---- the whole ---- */

static bool gguf_recognizes(const uint8_t *data, size_t size)
{
    return size >= strlen(MAGIC) && memcmp(data, MAGIC, strlen(MAGIC)) == 0;
}

static enum status gguf_read(struct weights *weights, struct error *error)
{
    struct cursor cursor = {weights, weights->map.data, weights->map.size, strlen(MAGIC), error};
    uint64_t tensors = 0, values = 0;
    enum status status = read_u32(&cursor, &weights->version, "the version");
    if (status != STATUS_OK)
        return status;
    if (weights->version == 0x02000000 || weights->version == 0x03000000)
        return refuse(&cursor, "the file is big-endian, which this program cannot read");
    if (weights->version != 2 && weights->version != 3)
        return refuse(&cursor, "GGUF version %u; this program reads 2 and 3", weights->version);
    status = read_u64(&cursor, &tensors, "the number of tensors");
    if (status == STATUS_OK)
        status = read_u64(&cursor, &values, "the number of metadata values");
    if (status == STATUS_OK)
        status = read_values(&cursor, values);
    if (status == STATUS_OK)
        status = read_tensors(&cursor, tensors);
    return status;
}

const struct weights_format weights_gguf = {
    .name = "GGUF",
    .recognizes = gguf_recognizes,
    .read = gguf_read,
};
