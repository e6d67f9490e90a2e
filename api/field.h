/* Request fields as table rows: name, type, range, and what is done with a value. An endpoint's body is read by one or
 * two tables; what no row names is ignored, as is every null.
 *
 * A field that changes the output and is not built has a FIELD_REFUSED row: a request with it fails, naming it, except
 * where its value asks for nothing (`harmless`). FIELD_HINT rows are known to change nothing. */
#ifndef API_FIELD_H
#define API_FIELD_H

#include <stdbool.h>
#include <stddef.h>

#include "api/api.h"
#include "api/json_tree.h"

enum field_type {
    FIELD_HINT,
    FIELD_REFUSED,
    FIELD_BOOL,   /* a bool of the call */
    FIELD_UINT32, /* a uint32_t of the call, from a whole number */
    FIELD_FLOAT,  /* a float of the call */
    FIELD_PARSED, /* `parse` does it */
};

struct field_context {
    struct api_call *call;
    const struct api_facts *facts;
    const cJSON *body;
};

struct field {
    const char *name;
    enum field_type type;
    size_t offset; /* of the member of struct api_call */
    double minimum;
    double maximum;
    bool above_minimum; /* the minimum itself is outside */
    enum status (*parse)(const struct field_context *context, const cJSON *value, struct error *error);
    bool (*harmless)(const cJSON *value); /* NULL: no value but null is */
};

struct field_table {
    const struct field *rows; /* (count), names distinct */
    size_t count;
};

#define ROW_HINT(key)                   \
    {                                   \
        .name = key, .type = FIELD_HINT \
    }
#define ROW_REFUSED(key, harmless_if)                               \
    {                                                               \
        .name = key, .type = FIELD_REFUSED, .harmless = harmless_if \
    }
#define ROW_PARSED(key, parser)                            \
    {                                                      \
        .name = key, .type = FIELD_PARSED, .parse = parser \
    }
#define ROW_BOOL(key, member)                                                        \
    {                                                                                \
        .name = key, .type = FIELD_BOOL, .offset = offsetof(struct api_call, member) \
    }
#define ROW_UINT32(key, member, low, high)                                                              \
    {                                                                                                   \
        .name = key, .type = FIELD_UINT32, .offset = offsetof(struct api_call, member), .minimum = low, \
        .maximum = high                                                                                 \
    }
#define ROW_FLOAT(key, member, low, high)                                                                              \
    {                                                                                                                  \
        .name = key, .type = FIELD_FLOAT, .offset = offsetof(struct api_call, member), .minimum = low, .maximum = high \
    }
#define ROW_FLOAT_ABOVE(key, member, low, high)                                                        \
    {                                                                                                  \
        .name = key, .type = FIELD_FLOAT, .offset = offsetof(struct api_call, member), .minimum = low, \
        .maximum = high, .above_minimum = true                                                         \
    }

#define FIELD_TABLE(array)                        \
    {                                             \
        (array), sizeof(array) / sizeof(*(array)) \
    }

#define FIELD_BODY_MEMBERS_MAX 1024

/* Reads every member of the body, an object, through the first table with a row for it. */
enum status field_read(const struct field_context *context, const struct field_table *const *tables, size_t table_count,
                       struct error *error);

/* ---- for `parse` functions ---- */

/* Set error.field, a code and a sentence that begins with the field's name. */
enum status field_wrong_type(struct error *error, const char *name, const char *wanted, const cJSON *value);
enum status field_invalid(struct error *error, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
enum status field_missing(struct error *error, const char *name, const char *wanted);
enum status field_unsupported(struct error *error, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
enum status field_no_memory(struct error *error);

enum status field_whole(const char *name, const cJSON *value, int64_t minimum, int64_t maximum, int64_t *out,
                        struct error *error);
enum status field_bool(const char *name, const cJSON *value, bool *out, struct error *error);
/* A string copied into the call's arena. */
enum status field_text(struct api_call *call, const char *name, const cJSON *value, const char **out, size_t *size,
                       struct error *error);
/* A list of ids below the vocabulary's size, into the call's arena. */
enum status field_ids(const struct field_context *context, const char *name, const cJSON *value, uint32_t count_max,
                      const int32_t **out, uint32_t *count, struct error *error);

/* ---- values that ask for nothing ---- */

bool field_is_false(const cJSON *value); /* false */
bool field_is_empty(const cJSON *value); /* "", [], {} */
bool field_is_zero(const cJSON *value);  /* 0 or false */
bool field_is_one(const cJSON *value);   /* 1 */

#endif
