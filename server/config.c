/* The configuration file: a YAML mapping whose keys are option names. Every mistake names the file and the line. */
#include <errno.h>
#include <yaml.h>

#include "kernels/base/check.h"
#include "server/options.h"

struct config_reader {
    const char *path;
    yaml_parser_t parser;
    yaml_event_t event; /* the one being looked at */
    uint64_t seen;      /* a bit for each row of the options table */
};

static enum status next_event(struct config_reader *reader, struct error *error)
{
    yaml_event_delete(&reader->event);
    memset(&reader->event, 0, sizeof reader->event);
    if (yaml_parser_parse(&reader->parser, &reader->event))
        return STATUS_OK;
    return error_set(error, STATUS_INVALID, "%s line %zu: %s", reader->path, reader->parser.problem_mark.line + 1,
                     reader->parser.problem != NULL ? reader->parser.problem : "not valid YAML");
}

static size_t line_of(const struct config_reader *reader)
{
    return reader->event.start_mark.line + 1;
}

static enum status find_row(const struct config_reader *reader, const char *key, const struct option_row **row,
                            struct error *error)
{
    *row = options_find(key);
    if (*row != NULL && !(*row)->command_line_only)
        return STATUS_OK;
    const char *nearest = options_nearest(key, ~0u);
    return error_field(error, STATUS_INVALID, key, "%s line %zu: \"%.60s\" is not an option for a file%s%s%s",
                       reader->path, line_of(reader), key, *row == NULL && nearest != NULL ? "; did you mean \"" : "",
                       *row == NULL && nearest != NULL ? nearest : "", *row == NULL && nearest != NULL ? "\"?" : "");
}

/* YAML's keys are unique: of two, one was meant to be another or to be gone. */
static enum status mark_seen(struct config_reader *reader, const struct option_row *row, struct error *error)
{
    size_t index = (size_t)(row - options_table);
    CHECK(index < 64);
    if ((reader->seen >> index & 1) != 0)
        return error_field(error, STATUS_INVALID, row->name, "%s line %zu: %s is there twice", reader->path,
                           line_of(reader), row->name);
    reader->seen |= UINT64_C(1) << index;
    return STATUS_OK;
}

/* One key and its value; the key is the event at hand. */
static enum status read_pair(struct config_reader *reader, enum options_command command, struct options *options,
                             struct error *error)
{
    if (reader->event.type != YAML_SCALAR_EVENT)
        return error_set(error, STATUS_INVALID, "%s line %zu: a key must be an option's name", reader->path,
                         line_of(reader));
    const struct option_row *row;
    enum status status = find_row(reader, (const char *)reader->event.data.scalar.value, &row, error);
    if (status == STATUS_OK)
        status = mark_seen(reader, row, error);
    if (status == STATUS_OK)
        status = next_event(reader, error);
    if (status != STATUS_OK)
        return status;
    if (reader->event.type != YAML_SCALAR_EVENT)
        return error_field(error, STATUS_INVALID, row->name, "%s line %zu: %s needs one value", reader->path,
                           line_of(reader), row->name);
    if ((row->commands & (unsigned)command) == 0)
        return STATUS_OK;
    struct buffer source = {0};
    buffer_printf(&source, "%s line %zu: %s", reader->path, line_of(reader), row->name);
    status = source.failed
                 ? error_no_memory(error, "the configuration")
                 : options_set(options, row, (const char *)reader->event.data.scalar.value, source.data, error);
    buffer_free(&source);
    return status;
}

static enum status read_document(struct config_reader *reader, enum options_command command, struct options *options,
                                 struct error *error)
{
    bool in_mapping = false;
    for (;;) {
        enum status status = next_event(reader, error);
        if (status != STATUS_OK)
            return status;
        switch (reader->event.type) {
        case YAML_STREAM_START_EVENT:
        case YAML_DOCUMENT_START_EVENT:
        case YAML_DOCUMENT_END_EVENT:
            break;
        case YAML_STREAM_END_EVENT:
            return STATUS_OK;
        case YAML_MAPPING_START_EVENT:
            in_mapping = true;
            break;
        case YAML_MAPPING_END_EVENT:
            in_mapping = false;
            break;
        default:
            if (!in_mapping && reader->event.type == YAML_SCALAR_EVENT && reader->event.data.scalar.length == 0)
                break; /* an empty file */
            if (!in_mapping)
                return error_set(error, STATUS_INVALID, "%s line %zu: expected `option: value` lines", reader->path,
                                 line_of(reader));
            status = read_pair(reader, command, options, error);
            if (status != STATUS_OK)
                return status;
        }
    }
}

enum status options_read_config(const char *path, enum options_command command, struct options *options,
                                struct error *error)
{
    struct config_reader reader = {.path = path};
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return error_field(error, STATUS_IO, "config", "cannot open %s: %s", path, strerror(errno));
    enum status status;
    if (!yaml_parser_initialize(&reader.parser)) {
        status = error_no_memory(error, "the configuration");
    } else {
        yaml_parser_set_input_file(&reader.parser, file);
        status = read_document(&reader, command, options, error);
        yaml_event_delete(&reader.event);
        yaml_parser_delete(&reader.parser);
    }
    fclose(file);
    return status;
}
