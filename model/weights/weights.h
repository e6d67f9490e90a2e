/* Weights as they lie in a file: named tensors and metadata, whatever the file's format.
 *
 * A format is a member of this family: a file that fills `struct weights` from a mapped file, and a row in
 * format_table.c. The rest of model/ only sees the two tables below. Metadata keys are GGUF's; a format with other
 * names translates them when it reads. Constant once open, any thread may read. */
#ifndef MODEL_WEIGHTS_WEIGHTS_H
#define MODEL_WEIGHTS_WEIGHTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/base/file.h"
#include "kernels/base/map.h"
#include "kernels/base/status.h"
#include "model/model.h"

#define WEIGHTS_DIMS_MAX 4

/* How a metadata value, or an element of an array, is stored; numbered as GGUF does. Little-endian, unaligned. */
enum weights_type {
    WEIGHTS_U8 = 0,
    WEIGHTS_I8 = 1,
    WEIGHTS_U16 = 2,
    WEIGHTS_I16 = 3,
    WEIGHTS_U32 = 4,
    WEIGHTS_I32 = 5,
    WEIGHTS_F32 = 6,
    WEIGHTS_BOOL = 7,  /* a byte, 0 or 1 */
    WEIGHTS_TEXT = 8,  /* u64 size, then the bytes */
    WEIGHTS_ARRAY = 9, /* as an element only: kept, not readable */
    WEIGHTS_U64 = 10,
    WEIGHTS_I64 = 11,
    WEIGHTS_F64 = 12,
};

/* A scalar is read like an array of one element. */
struct weights_value {
    struct model_text key;
    enum weights_type type; /* of the elements */
    bool array;
    uint64_t count;
    const uint8_t *data;
    uint32_t *offsets; /* arrays of texts only, owned: (count), from data to an element's size word */
};

struct weights_tensor {
    struct model_text name;
    enum tensor_type type;
    uint32_t dims;
    uint64_t shape[WEIGHTS_DIMS_MAX]; /* innermost first, 1 beyond dims */
    uint64_t elements;
    const uint8_t *data; /* (bytes) */
    size_t bytes;
};

struct weights {
    struct file_map map;
    const char *format;
    uint32_t version;
    struct weights_value *values; /* (value_count) in the file's order */
    size_t value_count;
    struct weights_tensor *tensors; /* (tensor_count) in the file's order */
    size_t tensor_count;
    struct map value_index;  /* hash of key -> index in values */
    struct map tensor_index; /* hash of name -> index in tensors */
};

/* A member of the family. `read` fills an empty *weights whose map is open; when it fails, the caller closes. */
struct weights_format {
    const char *name;
    bool (*recognizes)(const uint8_t *data, size_t size);
    enum status (*read)(struct weights *weights, struct error *error);
};

extern const struct weights_format weights_gguf;

/* Ends with NULL. */
extern const struct weights_format *const weights_formats[];

enum status weights_open(const char *path, struct weights *weights, struct error *error);
void weights_close(struct weights *weights);
const char *weights_file_name(const struct weights *weights); /* without directories: for messages */

/* NULL: no such key, no such tensor. */
const struct weights_value *weights_value(const struct weights *weights, const char *key, size_t key_size);
const struct weights_tensor *weights_tensor(const struct weights *weights, const char *name, size_t name_size);

/* One element; false when it is of another type, or does not fit, or there is no such element. */
bool weights_read_text(const struct weights_value *value, uint64_t index, struct model_text *out);
bool weights_read_integer(const struct weights_value *value, uint64_t index, int64_t *out);
bool weights_read_number(const struct weights_value *value, uint64_t index, double *out); /* integers too */
bool weights_read_bool(const struct weights_value *value, uint64_t index, bool *out);

/* ---- for formats ---- */

/* Bytes an element takes; 0 for texts and arrays, whose size varies, and for numbers that name no type. */
size_t weights_type_bytes(uint32_t type);

/* Fill the indices from the tables; a key or a tensor that is there twice is refused. */
enum status weights_index_values(struct weights *weights, struct error *error);
enum status weights_index_tensors(struct weights *weights, struct error *error);

#endif
