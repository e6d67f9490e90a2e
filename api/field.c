/* The reader of field tables, and the checks that rows share. */
#include "api/field.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/utf8.h"

/* ---- failures ---- */

static enum status fail(struct error *error, enum status status, const char *name, const char *code, const char *format,
                        va_list arguments)
{
    char text[sizeof(error->text)];
    vsnprintf(text, sizeof(text), format, arguments);
    error_field(error, status, name, "%s", text);
    error_code(error, code);
    return status;
}

enum status field_invalid(struct error *error, const char *name, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fail(error, STATUS_INVALID, name, "invalid_value", format, arguments);
    va_end(arguments);
    return error->status;
}

enum status field_unsupported(struct error *error, const char *name, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fail(error, STATUS_UNSUPPORTED, name, "unsupported_parameter", format, arguments);
    va_end(arguments);
    return error->status;
}

enum status field_wrong_type(struct error *error, const char *name, const char *wanted, const cJSON *value)
{
    field_invalid(error, name, "%s must be %s, not %s", name, wanted, json_kind(value));
    return error_code(error, "invalid_type");
}

enum status field_missing(struct error *error, const char *name, const char *wanted)
{
    field_invalid(error, name, "%s is missing; it must be %s", name, wanted);
    return error_code(error, "missing_required_parameter");
}

enum status field_no_memory(struct error *error)
{
    return error_no_memory(error, "the request");
}

/* ---- values ---- */

/* A limit that is only the type's would tell nobody anything. */
static enum status fail_whole(const char *name, const cJSON *value, int64_t minimum, int64_t maximum,
                              struct error *error)
{
    size_t size;
    const char *text = json_number_text(value, &size);
    if (maximum < INT64_MAX)
        return field_invalid(error, name, "%s is %.*s; it must be a whole number from %" PRId64 " to %" PRId64, name,
                             (int)size, text, minimum, maximum);
    if (minimum > INT64_MIN)
        return field_invalid(error, name, "%s is %.*s; it must be a whole number, at least %" PRId64, name, (int)size,
                             text, minimum);
    return field_invalid(error, name, "%s is %.*s; it must be a whole number of at most 64 bits", name, (int)size,
                         text);
}

enum status field_whole(const char *name, const cJSON *value, int64_t minimum, int64_t maximum, int64_t *out,
                        struct error *error)
{
    if (!cJSON_IsNumber(value))
        return field_wrong_type(error, name, "a whole number", value);
    if (!json_whole(value, out) || *out < minimum || *out > maximum)
        return fail_whole(name, value, minimum, maximum, error);
    return STATUS_OK;
}

static enum status read_float(const struct field *field, const cJSON *value, float *out, struct error *error)
{
    double number = value->valuedouble;
    if (number >= field->minimum && number <= field->maximum && !(field->above_minimum && number == field->minimum)) {
        *out = (float)number + 0.0f; /* no negative zero */
        /* A number too small for a float must not become one that is not allowed. */
        if (field->above_minimum && (double)*out <= field->minimum)
            *out = nextafterf((float)field->minimum, INFINITY);
        return STATUS_OK;
    }
    size_t size;
    const char *text = json_number_text(value, &size);
    return field_invalid(error, field->name, "%s is %.*s; it must be %s %g and at most %g", field->name, (int)size,
                         text, field->above_minimum ? "greater than" : "at least", field->minimum, field->maximum);
}

enum status field_bool(const char *name, const cJSON *value, bool *out, struct error *error)
{
    if (!cJSON_IsBool(value))
        return field_wrong_type(error, name, "true or false", value);
    *out = cJSON_IsTrue(value);
    return STATUS_OK;
}

enum status field_text(struct api_call *call, const char *name, const cJSON *value, const char **out, size_t *size,
                       struct error *error)
{
    if (!cJSON_IsString(value))
        return field_wrong_type(error, name, "a string", value);
    *size = strlen(value->valuestring);
    *out = arena_copy(&call->arena, value->valuestring, *size);
    return *out == NULL ? field_no_memory(error) : STATUS_OK;
}

static enum status fail_id(const char *name, size_t index, const cJSON *value, int64_t last, struct error *error)
{
    char path[80];
    int64_t ignored;
    snprintf(path, sizeof(path), "%s[%zu]", name, index);
    return field_whole(path, value, 0, last, &ignored, error);
}

enum status field_ids(const struct field_context *context, const char *name, const cJSON *value, uint32_t count_max,
                      const int32_t **out, uint32_t *count, struct error *error)
{
    if (!cJSON_IsArray(value))
        return field_wrong_type(error, name, "an array of token ids", value);
    size_t size = (size_t)cJSON_GetArraySize(value), i = 0;
    if (size > count_max)
        return field_invalid(error, name, "%s has %zu token ids; at most %" PRIu32 " are accepted", name, size,
                             count_max);
    int32_t *ids = arena_array(&context->call->arena, size, sizeof(*ids));
    if (ids == NULL)
        return field_no_memory(error);
    for (const cJSON *item = value->child; item != NULL; item = item->next, i++) {
        int64_t id, last = (int64_t)context->facts->vocabulary - 1;
        if (!json_whole(item, &id) || id < 0 || id > last)
            return fail_id(name, i, item, last, error);
        ids[i] = (int32_t)id;
    }
    *out = ids;
    *count = (uint32_t)size;
    return STATUS_OK;
}

/* ---- defaults ---- */

void field_set_defaults(const struct field_table *table, struct api_call *call)
{
    for (size_t i = 0; i < table->count; i++) {
        const struct field *field = &table->rows[i];
        void *member = (char *)call + field->offset;
        if (field->standard == NULL)
            continue;
        if (field->member == FIELD_BOOL_MEMBER)
            *(bool *)member = strcmp(field->standard, "true") == 0;
        else if (field->member == FIELD_UINT32_MEMBER)
            *(uint32_t *)member = (uint32_t)strtoul(field->standard, NULL, 10);
        else if (field->member == FIELD_FLOAT_MEMBER)
            *(float *)member = strtof(field->standard, NULL);
    }
}

/* ---- what every row's data says ---- */

static bool has_type(const cJSON *value, unsigned types)
{
    return ((types & FIELD_BOOL) != 0 && cJSON_IsBool(value)) ||
           ((types & (FIELD_WHOLE | FIELD_NUMBER)) != 0 && cJSON_IsNumber(value)) ||
           ((types & FIELD_STRING) != 0 && cJSON_IsString(value)) ||
           ((types & FIELD_ARRAY) != 0 && cJSON_IsArray(value)) ||
           ((types & FIELD_OBJECT) != 0 && cJSON_IsObject(value));
}

static enum status fail_type(const struct field *field, const cJSON *value, struct error *error)
{
    static const struct {
        unsigned type;
        const char *text;
    } rows[] = {{FIELD_BOOL, "true or false"}, {FIELD_WHOLE, "a whole number"}, {FIELD_NUMBER, "a number"},
                {FIELD_STRING, "a string"},    {FIELD_ARRAY, "an array"},       {FIELD_OBJECT, "an object"}};
    char wanted[120] = "";
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        size_t size = strlen(wanted);
        if ((field->types & rows[i].type) != 0)
            snprintf(wanted + size, sizeof(wanted) - size, "%s%s", size == 0 ? "" : " or ", rows[i].text);
    }
    return field_wrong_type(error, field->name, wanted, value);
}

static enum status check_count(const struct field *field, const cJSON *value, struct error *error)
{
    bool text = cJSON_IsString(value), array = cJSON_IsArray(value);
    /* Of a field that is one string or several, the limit is on their number. */
    if (field->count_max == 0 || (text && field->types != FIELD_STRING) || !(text || array || cJSON_IsObject(value)))
        return STATUS_OK;
    size_t count = text ? strlen(value->valuestring) : (size_t)cJSON_GetArraySize(value);
    if (count <= field->count_max)
        return STATUS_OK;
    return field_invalid(error, field->name, "%s has %zu %s; at most %zu are accepted", field->name, count,
                         text    ? "bytes"
                         : array ? "items"
                                 : "members",
                         field->count_max);
}

static enum status read_number(const struct field *field, const cJSON *value, void *member, struct error *error)
{
    bool ranged = field->minimum < field->maximum;
    int64_t whole;
    if (!ranged && ((field->types & FIELD_NUMBER) != 0 || field->parse != NULL))
        return STATUS_OK;
    if ((field->types & FIELD_WHOLE) == 0)
        return read_float(field, value, member, error);
    enum status status = field_whole(field->name, value, ranged ? (int64_t)field->minimum : INT64_MIN,
                                     ranged ? (int64_t)field->maximum : INT64_MAX, &whole, error);
    if (status == STATUS_OK && field->member == FIELD_UINT32_MEMBER)
        *(uint32_t *)member = (uint32_t)whole;
    return status;
}

static enum status refuse(const struct field *field, struct error *error)
{
    return field_unsupported(error, field->name, "%s is not supported%s%s%s", field->name,
                             field->harmless == NULL ? "" : " with this value", field->advice == NULL ? "" : "; ",
                             field->advice == NULL ? "" : field->advice);
}

static enum status read_field(const struct field_context *context, const struct field *field, const cJSON *value,
                              struct error *error)
{
    void *member = (char *)context->call + field->offset;
    enum status status = STATUS_OK;
    if (field->act == FIELD_REFUSE)
        return field->harmless != NULL && field->harmless(value) ? STATUS_OK : refuse(field, error);
    if (!has_type(value, field->types))
        return fail_type(field, value, error);
    status = check_count(field, value, error);
    if (status == STATUS_OK && cJSON_IsNumber(value))
        status = read_number(field, value, member, error);
    if (status == STATUS_OK && field->member == FIELD_BOOL_MEMBER)
        *(bool *)member = cJSON_IsTrue(value);
    if (status == STATUS_OK && field->parse != NULL)
        status = field->parse(context, value, error);
    return status;
}

/* ---- tables ---- */

static const struct field *find(const struct field_table *const *tables, size_t table_count, const char *name)
{
    for (size_t t = 0; t < table_count; t++)
        for (size_t i = 0; i < tables[t]->count; i++)
            if (strcmp(tables[t]->rows[i].name, name) == 0)
                return &tables[t]->rows[i];
    return NULL;
}

/* A misspelt field looks like one that does nothing: the server can tell whoever looks for it. */
static enum status note_unknown(struct api_call *call, const char *name, struct error *error)
{
    if (call->unknown_count++ >= API_UNKNOWN_NAMES_MAX)
        return STATUS_OK;
    size_t size = strnlen(name, API_UNKNOWN_NAME_BYTES_MAX);
    char *copy = arena_copy(&call->arena, name, size - utf8_incomplete_tail(name, size));
    if (copy == NULL)
        return field_no_memory(error);
    call->unknown[call->unknown_count - 1] = copy;
    return STATUS_OK;
}

enum status field_read(const struct field_context *context, const struct field_table *const *tables, size_t table_count,
                       struct error *error)
{
    uint32_t members = 0;
    for (const cJSON *value = context->body->child; value != NULL; value = value->next) {
        if (++members > FIELD_BODY_MEMBERS_MAX)
            return field_invalid(error, "", "the body has more than %d fields", FIELD_BODY_MEMBERS_MAX);
        const struct field *field = find(tables, table_count, value->string);
        enum status status = field == NULL         ? note_unknown(context->call, value->string, error)
                             : cJSON_IsNull(value) ? STATUS_OK
                                                   : read_field(context, field, value, error);
        if (status != STATUS_OK)
            return status;
    }
    return STATUS_OK;
}

/* ---- values that ask for nothing ---- */

bool field_is_false(const cJSON *value)
{
    return cJSON_IsFalse(value);
}

bool field_is_empty(const cJSON *value)
{
    return (cJSON_IsString(value) && *value->valuestring == '\0') ||
           ((cJSON_IsArray(value) || cJSON_IsObject(value)) && value->child == NULL);
}

bool field_is_zero(const cJSON *value)
{
    return cJSON_IsFalse(value) || (cJSON_IsNumber(value) && value->valuedouble == 0);
}

bool field_is_one(const cJSON *value)
{
    return cJSON_IsNumber(value) && value->valuedouble == 1;
}

bool field_is_minus_one(const cJSON *value)
{
    return cJSON_IsNumber(value) && value->valuedouble == -1;
}
