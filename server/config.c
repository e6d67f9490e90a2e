/* The configuration file: a YAML mapping whose keys are option names. Every mistake names the file and the line. */
#include "kernels/base/check.h"
#include "server/options.h"
#include "server/yaml_reader.h"

struct config_reader {
    struct yaml_reader yaml;
    uint64_t seen; /* a bit for each row of the options table */
};

static size_t line_of(const struct config_reader *reader)
{
    return yaml_reader_line(&reader->yaml);
}

static enum status find_row(const struct config_reader *reader, const char *key, const struct option_row **row,
                            struct error *error)
{
    *row = options_find(key);
    if (*row != NULL && !(*row)->command_line_only)
        return STATUS_OK;
    const char *nearest = options_nearest(key, ~0u);
    return error_field(error, STATUS_INVALID, key, "%s line %zu: \"%.60s\" is not an option for a file%s%s%s",
                       reader->yaml.path, line_of(reader), key,
                       *row == NULL && nearest != NULL ? "; did you mean \"" : "",
                       *row == NULL && nearest != NULL ? nearest : "", *row == NULL && nearest != NULL ? "\"?" : "");
}

/* YAML's keys are unique: of two, one was meant to be another or to be gone. */
static enum status mark_seen(struct config_reader *reader, const struct option_row *row, struct error *error)
{
    size_t index = (size_t)(row - options_table);
    CHECK(index < 64);
    if ((reader->seen >> index & 1) != 0)
        return error_field(error, STATUS_INVALID, row->name, "%s line %zu: %s is there twice", reader->yaml.path,
                           line_of(reader), row->name);
    reader->seen |= UINT64_C(1) << index;
    return STATUS_OK;
}

/* One key and its value; the key is the event at hand. */
static enum status read_pair(struct config_reader *reader, enum options_command command, struct options *options,
                             struct error *error)
{
    if (reader->yaml.event.type != YAML_SCALAR_EVENT)
        return error_set(error, STATUS_INVALID, "%s line %zu: a key must be an option's name", reader->yaml.path,
                         line_of(reader));
    const struct option_row *row;
    enum status status = find_row(reader, (const char *)reader->yaml.event.data.scalar.value, &row, error);
    if (status == STATUS_OK)
        status = mark_seen(reader, row, error);
    if (status == STATUS_OK)
        status = yaml_reader_next(&reader->yaml, error);
    if (status != STATUS_OK)
        return status;
    if (reader->yaml.event.type != YAML_SCALAR_EVENT)
        return error_field(error, STATUS_INVALID, row->name, "%s line %zu: %s needs one value", reader->yaml.path,
                           line_of(reader), row->name);
    if ((row->commands & (unsigned)command) == 0)
        return STATUS_OK;
    struct buffer source = {0};
    buffer_printf(&source, "%s line %zu: %s", reader->yaml.path, line_of(reader), row->name);
    status = source.failed
                 ? error_no_memory(error, "the configuration")
                 : options_set(options, row, (const char *)reader->yaml.event.data.scalar.value, source.data, error);
    buffer_free(&source);
    return status;
}

static enum status read_document(struct config_reader *reader, enum options_command command, struct options *options,
                                 struct error *error)
{
    bool in_mapping = false;
    for (;;) {
        enum status status = yaml_reader_next(&reader->yaml, error);
        if (status != STATUS_OK)
            return status;
        switch (reader->yaml.event.type) {
        case YAML_STREAM_END_EVENT:
            return STATUS_OK;
        case YAML_MAPPING_START_EVENT:
            in_mapping = true;
            break;
        case YAML_MAPPING_END_EVENT:
            in_mapping = false;
            break;
        default:
            if (!in_mapping && reader->yaml.event.type == YAML_SCALAR_EVENT &&
                reader->yaml.event.data.scalar.length == 0)
                break; /* an empty file */
            if (!in_mapping)
                return error_set(error, STATUS_INVALID, "%s line %zu: expected `option: value` lines",
                                 reader->yaml.path, line_of(reader));
            status = read_pair(reader, command, options, error);
            if (status != STATUS_OK)
                return status;
        }
    }
}

enum status options_read_config(const char *path, enum options_command command, struct options *options,
                                struct error *error)
{
    struct config_reader reader = {0};
    enum status status = yaml_reader_open(&reader.yaml, path, "config", error);
    if (status != STATUS_OK)
        return status;
    status = read_document(&reader, command, options, error);
    yaml_reader_close(&reader.yaml);
    return status;
}
