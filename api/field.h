/* Request fields as table rows: name, what is done with it, types, range, default. An endpoint's body is read by one or
 * two tables; what no row names is ignored (and noted in the call), as is every null.
 *
 * A row's act is one of three. FIELD_IMPLEMENT: the value decides something. FIELD_HINT: known, and known to change no
 * output; only its type is looked at. FIELD_REFUSE: it would change the output and is not built; a request with it
 * fails, naming it, except where its value asks for nothing (`harmless`).
 *
 * A row says all of that as data, so that the reader below, the defaults of a call and the tests that go through the
 * tables have one source. `parse` does only what data cannot say. */
#ifndef API_FIELD_H
#define API_FIELD_H

#include <stdbool.h>
#include <stddef.h>

#include "api/api.h"
#include "api/json_tree.h"

enum field_act { FIELD_IMPLEMENT, FIELD_HINT, FIELD_REFUSE };

/* What a value may be: a bit each. */
enum field_type {
    FIELD_BOOL = 1,
    FIELD_WHOLE = 2, /* a number without a fraction; 1.0 and 1e2 are such */
    FIELD_NUMBER = 4,
    FIELD_STRING = 8,
    FIELD_ARRAY = 16,
    FIELD_OBJECT = 32,
    FIELD_ANY = 63,
};

/* Where a value goes without a parser. */
enum field_member { FIELD_NO_MEMBER, FIELD_BOOL_MEMBER, FIELD_UINT32_MEMBER, FIELD_FLOAT_MEMBER };

struct field_context {
    struct api_call *call;
    const struct api_facts *facts;
    const cJSON *body;
};

struct field {
    const char *name;
    enum field_act act;
    unsigned types; /* of enum field_type */
    double minimum; /* of a number; only where there is a member, or minimum < maximum */
    double maximum;
    bool above_minimum;   /* the minimum itself is outside */
    size_t count_max;     /* bytes of a string, items of an array, members of an object; 0: other limits hold */
    const char *standard; /* the default as JSON; NULL: absent is a state of its own */
    enum field_member member;
    size_t offset; /* of the member of struct api_call */
    /* Sees only values of the row's types, in its range; NULL: the member is all. */
    enum status (*parse)(const struct field_context *context, const cJSON *value, struct error *error);
    bool (*harmless)(const cJSON *value); /* NULL: no value but null is */
    const char *advice;                   /* what to do instead: the end of a refusal; NULL: nothing */
};

struct field_table {
    const struct field *rows; /* (count), names distinct */
    size_t count;
};

/* clang-format off */
#define ROW_HINT(key, kinds) {.name = key, .act = FIELD_HINT, .types = kinds}
#define ROW_REFUSED(key, harmless_if) {.name = key, .act = FIELD_REFUSE, .types = FIELD_ANY, .harmless = harmless_if}
#define ROW_REFUSED_FOR(key, harmless_if, instead) \
    {.name = key, .act = FIELD_REFUSE, .types = FIELD_ANY, .harmless = harmless_if, .advice = instead}
#define ROW_PARSED(key, kinds, parser) {.name = key, .types = kinds, .parse = parser}
#define ROW_PARSED_UP_TO(key, kinds, limit, parser) {.name = key, .types = kinds, .count_max = limit, .parse = parser}
#define ROW_MEMBER(key, kinds, member_kind, place, default_value) \
    .name = key, .types = kinds, .member = member_kind, .offset = offsetof(struct api_call, place), \
    .standard = default_value
#define ROW_BOOL(key, place) {ROW_MEMBER(key, FIELD_BOOL, FIELD_BOOL_MEMBER, place, "false")}
#define ROW_BOOL_ON(key, place) {ROW_MEMBER(key, FIELD_BOOL, FIELD_BOOL_MEMBER, place, "true")}
#define ROW_UINT32(key, place, low, high, default_value) \
    {ROW_MEMBER(key, FIELD_WHOLE, FIELD_UINT32_MEMBER, place, default_value), .minimum = low, .maximum = high}
#define ROW_FLOAT(key, place, low, high, default_value) \
    {ROW_MEMBER(key, FIELD_NUMBER, FIELD_FLOAT_MEMBER, place, default_value), .minimum = low, .maximum = high}
#define ROW_FLOAT_ABOVE(key, place, low, high, default_value)                                                  \
    {ROW_MEMBER(key, FIELD_NUMBER, FIELD_FLOAT_MEMBER, place, default_value), .minimum = low, .maximum = high, \
     .above_minimum = true}
/* clang-format on */

#define FIELD_TABLE(array)                        \
    {                                             \
        (array), sizeof(array) / sizeof(*(array)) \
    }

#define FIELD_BODY_MEMBERS_MAX 1024

/* Sets the members that a table's rows name to their defaults. */
void field_set_defaults(const struct field_table *table, struct api_call *call);
/* Reads every member of the body, an object, through the first table with a row for it; fills call->unknown. */
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
bool field_is_minus_one(const cJSON *value);

#endif
