/* The events of a YAML file, one at a time, for readers whose mistakes name the file and the line. */
#ifndef SERVER_YAML_READER_H
#define SERVER_YAML_READER_H

#include <stddef.h>
#include <stdio.h>
#include <yaml.h>

#include "kernels/base/status.h"

struct yaml_reader {
    const char *path; /* borrowed */
    FILE *file;
    yaml_parser_t parser;
    yaml_event_t event; /* the one being looked at */
};

/* `field`: the option that named the file. On failure there is nothing to close. */
enum status yaml_reader_open(struct yaml_reader *reader, const char *path, const char *field, struct error *error);
/* The next one that says something: values, lists, mappings, their ends, and the end of the file. */
enum status yaml_reader_next(struct yaml_reader *reader, struct error *error);
size_t yaml_reader_line(const struct yaml_reader *reader); /* of the event, from 1 */
void yaml_reader_close(struct yaml_reader *reader);

#endif
