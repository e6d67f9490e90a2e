/* See golden.h. */
#include "tests/unit/model/text/golden.h"

#include "kernels/base/check.h"
#include "kernels/base/file.h"

#define GOLDEN_BYTES_MAX (16u << 20)

struct golden golden_open(const char *path)
{
    struct golden golden = {0};
    struct error error;
    if (file_read(path, GOLDEN_BYTES_MAX, &golden.file, &error) != STATUS_OK) {
        fprintf(stderr, "%s\n", error.text);
        exit(EXIT_FAILURE);
    }
    return golden;
}

bool golden_next(struct golden *golden)
{
    char *data = golden->file.data;
    while (golden->at < golden->file.size) {
        char *line = data + golden->at;
        char *end = memchr(line, '\n', golden->file.size - golden->at);
        CHECK(end != NULL);
        *end = '\0';
        golden->at = (size_t)(end - data) + 1;
        if (*line == '#')
            continue;
        golden->field_count = 0;
        for (char *field = line; field != NULL;) {
            CHECK(golden->field_count < GOLDEN_FIELDS_MAX);
            golden->fields[golden->field_count++] = field;
            field = strchr(field, '\t');
            if (field != NULL)
                *field++ = '\0';
        }
        return true;
    }
    return false;
}

void golden_close(struct golden *golden)
{
    buffer_free(&golden->file);
}

static char unescaped(const char **from)
{
    char kind = *(*from)++;
    if (kind == 'x') {
        char digits[3] = {(*from)[0], (*from)[1], '\0'};
        *from += 2;
        return (char)strtoul(digits, NULL, 16);
    }
    return (char)(kind == 't' ? '\t' : kind == 'n' ? '\n' : kind == 'r' ? '\r' : kind);
}

size_t golden_unescape(char *text)
{
    char *to = text;
    for (const char *from = text; *from != '\0';) {
        char byte = *from++;
        *to++ = (char)(byte == '\\' ? unescaped(&from) : byte);
    }
    return (size_t)(to - text);
}

bool golden_number(char **list, long *out)
{
    char *end;
    *out = strtol(*list, &end, 10);
    if (end == *list)
        return false;
    *list = *end == ',' ? end + 1 : end;
    return true;
}
