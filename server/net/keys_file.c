/* Reading --api-keys: a YAML list of mappings, a key each. Every mistake names the file and the line. No message
 * repeats a value: it may be a secret in the wrong place. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "server/net/keys.h"
#include "server/yaml_reader.h"

#define NUMBER_MAX 1000000

enum field_kind { FIELD_NAME, FIELD_KEY, FIELD_HASH, FIELD_SPACE, FIELD_CONCURRENT, FIELD_RATE, FIELDS };

static const char *const field_names[FIELDS] = {
    "name", "key", "key_sha256", "namespace", "max_concurrent", "requests_per_minute",
};

struct keys_reader {
    struct yaml_reader yaml;
    struct key_entry *entries; /* (count), some of them from elsewhere */
    size_t count;
    /* The key being read: */
    struct key_entry entry;
    size_t line;
    unsigned seen; /* a bit a field */
};

static enum status fail(const struct keys_reader *reader, size_t line, const char *text, struct error *error)
{
    return error_field(error, STATUS_INVALID, "api-keys", "%s line %zu: %s", reader->yaml.path, line, text);
}

static enum status fail_here(const struct keys_reader *reader, const char *text, struct error *error)
{
    return fail(reader, yaml_reader_line(&reader->yaml), text, error);
}

/* ---- values ---- */

static bool set_name(char to[KEY_NAME_BYTES_MAX + 1], const char *value, size_t size)
{
    if (size > KEY_NAME_BYTES_MAX)
        return false;
    for (size_t i = 0; i < size; i++)
        if ((unsigned char)value[i] < ' ' || value[i] == 0x7f)
            return false;
    memcpy(to, value, size);
    to[size] = '\0';
    return true;
}

static bool set_hash(uint8_t digest[KEY_DIGEST_BYTES], const char *value, size_t size)
{
    if (size != (size_t)KEY_DIGEST_BYTES * 2)
        return false;
    for (size_t i = 0; i < KEY_DIGEST_BYTES; i++) {
        char pair[3] = {value[2 * i], value[2 * i + 1], '\0'};
        if (!isxdigit((unsigned char)pair[0]) || !isxdigit((unsigned char)pair[1]))
            return false;
        digest[i] = (uint8_t)strtoul(pair, NULL, 16);
    }
    return true;
}

static bool set_number(uint32_t *to, const char *value, size_t size)
{
    if (size == 0 || size > 7 || strspn(value, "0123456789") != size)
        return false;
    unsigned long number = strtoul(value, NULL, 10);
    *to = (uint32_t)number;
    return number >= 1 && number <= NUMBER_MAX;
}

static enum status set_field(struct keys_reader *reader, enum field_kind kind, struct error *error)
{
    struct key_entry *entry = &reader->entry;
    const char *value = (const char *)reader->yaml.event.data.scalar.value;
    size_t size = reader->yaml.event.data.scalar.length;
    switch (kind) {
    case FIELD_NAME:
        if (size == 0 || !set_name(entry->name, value, size))
            return fail_here(reader, "name must be 1 to 64 bytes without control characters", error);
        return STATUS_OK;
    case FIELD_SPACE:
        if (!set_name(entry->space, value, size))
            return fail_here(reader, "namespace must be at most 64 bytes without control characters", error);
        return STATUS_OK;
    case FIELD_KEY:
        if (strlen(value) != size || !key_is_presentable(value))
            return fail_here(reader, "key must be 1 to 4096 printable ASCII characters without blanks", error);
        if (!key_digest(value, size, entry->digest))
            return error_set(error, STATUS_INTERNAL, "cannot hash a key");
        return STATUS_OK;
    case FIELD_HASH:
        if (!set_hash(entry->digest, value, size))
            return fail_here(reader, "key_sha256 must be 64 hexadecimal digits: printf %s KEY | sha256sum", error);
        if (key_digest_is_empty(entry->digest))
            return fail_here(reader, "key_sha256 is the hash of nothing; was the variable of the key set?", error);
        return STATUS_OK;
    case FIELD_CONCURRENT:
        if (!set_number(&entry->max_concurrent, value, size))
            return fail_here(reader, "max_concurrent must be between 1 and 1000000; without it there is no limit",
                             error);
        return STATUS_OK;
    case FIELD_RATE:
        if (!set_number(&entry->requests_per_minute, value, size))
            return fail_here(reader, "requests_per_minute must be between 1 and 1000000; without it there is no limit",
                             error);
        return STATUS_OK;
    case FIELDS:
        break;
    }
    return STATUS_OK;
}

/* ---- a key ---- */

static bool has(const struct keys_reader *reader, enum field_kind kind)
{
    return (reader->seen >> kind & 1) != 0;
}

/* The name of the field that the event is; its value is the next event. */
static enum status read_field(struct keys_reader *reader, struct error *error)
{
    if (reader->yaml.event.type != YAML_SCALAR_EVENT)
        return fail_here(reader, "expected `field: value` lines", error);
    unsigned kind = 0;
    while (kind < FIELDS && strcmp((const char *)reader->yaml.event.data.scalar.value, field_names[kind]) != 0)
        kind++;
    if (kind == FIELDS)
        return fail_here(reader,
                         "unknown field; a key has name, key or key_sha256, and may have namespace, max_concurrent, "
                         "requests_per_minute",
                         error);
    if (has(reader, kind))
        return fail_here(reader, "the field is there twice", error);
    reader->seen |= 1u << kind;
    enum status status = yaml_reader_next(&reader->yaml, error);
    if (status != STATUS_OK)
        return status;
    if (reader->yaml.event.type != YAML_SCALAR_EVENT)
        return fail_here(reader, "the field needs one value", error);
    return set_field(reader, kind, error);
}

static enum status add_entry(struct keys_reader *reader, struct error *error)
{
    if (!has(reader, FIELD_NAME))
        return fail(reader, reader->line, "the key has no name", error);
    if (has(reader, FIELD_KEY) == has(reader, FIELD_HASH))
        return fail(reader, reader->line, "the key needs either key or key_sha256", error);
    if (!has(reader, FIELD_SPACE))
        memcpy(reader->entry.space, reader->entry.name, sizeof(reader->entry.space));
    for (size_t i = 0; i < reader->count; i++) {
        if (strcmp(reader->entries[i].name, reader->entry.name) == 0)
            return fail(reader, reader->line, "another key has the same name", error);
        if (key_digest_equal(reader->entries[i].digest, reader->entry.digest))
            return fail(reader, reader->line, "another name has the same key", error);
    }
    if (reader->count == KEYS_MAX)
        return error_field(error, STATUS_TOO_LARGE, "api-keys", "%s line %zu: more than %d keys", reader->yaml.path,
                           reader->line, KEYS_MAX);
    struct key_entry *grown = realloc(reader->entries, (reader->count + 1) * sizeof(*grown));
    if (grown == NULL)
        return error_no_memory(error, "the API keys");
    reader->entries = grown;
    grown[reader->count++] = reader->entry;
    return STATUS_OK;
}

static enum status read_key(struct keys_reader *reader, struct error *error)
{
    if (reader->yaml.event.type != YAML_MAPPING_START_EVENT)
        return fail_here(reader, "expected a key: `- name: ...` and its fields", error);
    reader->entry = (struct key_entry){0};
    reader->seen = 0;
    reader->line = yaml_reader_line(&reader->yaml);
    for (;;) {
        enum status status = yaml_reader_next(&reader->yaml, error);
        if (status == STATUS_OK && reader->yaml.event.type == YAML_MAPPING_END_EVENT)
            return add_entry(reader, error);
        if (status == STATUS_OK)
            status = read_field(reader, error);
        if (status != STATUS_OK)
            return status;
    }
}

/* ---- the file ---- */

static enum status read_list(struct keys_reader *reader, struct error *error)
{
    size_t before = reader->count;
    for (;;) {
        enum status status = yaml_reader_next(&reader->yaml, error);
        if (status == STATUS_OK && reader->yaml.event.type == YAML_SEQUENCE_END_EVENT)
            return reader->count > before ? STATUS_OK : fail_here(reader, "the list has no key", error);
        if (status == STATUS_OK)
            status = read_key(reader, error);
        if (status != STATUS_OK)
            return status;
    }
}

static enum status read_file(struct keys_reader *reader, struct error *error)
{
    bool list_seen = false;
    for (;;) {
        enum status status = yaml_reader_next(&reader->yaml, error);
        if (status != STATUS_OK)
            return status;
        if (reader->yaml.event.type == YAML_STREAM_END_EVENT)
            return list_seen ? STATUS_OK : fail_here(reader, "the file has no list of keys", error);
        if (list_seen || reader->yaml.event.type != YAML_SEQUENCE_START_EVENT)
            return fail_here(reader, "expected one list of keys: `- name: ...` each", error);
        list_seen = true;
        status = read_list(reader, error);
        if (status != STATUS_OK)
            return status;
    }
}

enum status keys_read_file(const char *path, struct key_entry **entries, size_t *count, struct error *error)
{
    struct keys_reader reader = {.entries = *entries, .count = *count};
    enum status status = yaml_reader_open(&reader.yaml, path, "api-keys", error);
    if (status != STATUS_OK)
        return status;
    status = read_file(&reader, error);
    yaml_reader_close(&reader.yaml);
    *entries = reader.entries;
    *count = reader.count;
    return status;
}
