/* See yaml_reader.h. */
#include "server/yaml_reader.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

enum status yaml_reader_open(struct yaml_reader *reader, const char *path, const char *field, struct error *error)
{
    memset(reader, 0, sizeof *reader);
    reader->path = path;
    reader->file = fopen(path, "rb");
    if (reader->file == NULL)
        return error_field(error, STATUS_IO, field, "cannot open %s: %s", path, strerror(errno));
    if (!yaml_parser_initialize(&reader->parser)) {
        fclose(reader->file);
        return error_no_memory(error, path);
    }
    yaml_parser_set_input_file(&reader->parser, reader->file);
    return STATUS_OK;
}

static bool is_frame(yaml_event_type_t type)
{
    return type == YAML_STREAM_START_EVENT || type == YAML_DOCUMENT_START_EVENT || type == YAML_DOCUMENT_END_EVENT;
}

enum status yaml_reader_next(struct yaml_reader *reader, struct error *error)
{
    do {
        yaml_event_delete(&reader->event);
        memset(&reader->event, 0, sizeof reader->event);
        if (!yaml_parser_parse(&reader->parser, &reader->event))
            return error_set(error, STATUS_INVALID, "%s line %zu: %s", reader->path,
                             reader->parser.problem_mark.line + 1,
                             reader->parser.problem != NULL ? reader->parser.problem : "not valid YAML");
    } while (is_frame(reader->event.type));
    return STATUS_OK;
}

size_t yaml_reader_line(const struct yaml_reader *reader)
{
    return reader->event.start_mark.line + 1;
}

void yaml_reader_close(struct yaml_reader *reader)
{
    yaml_event_delete(&reader->event);
    yaml_parser_delete(&reader->parser);
    fclose(reader->file);
}
