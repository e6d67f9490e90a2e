/* See fuzz.h. */
#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/json_tree.h"

char *fuzz_copy(const void *data, size_t size)
{
    char *copy = malloc(size == 0 ? 1 : size);
    CHECK(copy != NULL);
    if (size > 0)
        memcpy(copy, data, size);
    return copy;
}

size_t fuzz_choice(uint8_t byte, size_t count)
{
    return (byte >= 'a' && byte <= 'z' ? (size_t)(byte - 'a') + 10 : (size_t)(uint8_t)(byte - '0')) % count;
}

void fuzz_check_refusal(enum status status, const struct error *error)
{
    size_t size = strlen(error->text);
    uint32_t http = api_error_status(error);
    CHECK(status == error->status && status != STATUS_OK);
    CHECK(http >= 400 && http < 500);
    CHECK(size > 0 && size < sizeof(error->text) && error->text[size - 1] != '\n');
    struct buffer body = {0};
    api_error_body(NULL, error, &body);
    CHECK(!body.failed);
    fuzz_check_json(body.data, body.size);
    buffer_free(&body);
}

void fuzz_check_json(const char *text, size_t size)
{
    struct json_tree tree;
    struct error error;
    if (json_tree_open(text, size, &tree, &error) == STATUS_OK) {
        json_tree_close(&tree);
        return;
    }
    fprintf(stderr, "%s:\n%.*s\n", error.text, (int)size, text);
    CHECK(false);
}

/* One line of a frame, without its end. */
static bool check_line(const char *line, size_t size)
{
    static const char data[] = "data: ", event[] = "event: ";
    if (size == 0 || line[0] == ':')
        return false;
    if (strncmp(line, event, strlen(event)) == 0)
        return false;
    CHECK(strncmp(line, data, strlen(data)) == 0);
    line += strlen(data);
    size -= strlen(data);
    if (size == 6 && memcmp(line, "[DONE]", 6) == 0)
        return true;
    fuzz_check_json(line, size);
    return false;
}

void fuzz_check_events(const char *text, size_t size)
{
    bool done = false;
    CHECK(size >= 2 && memcmp(text + size - 2, "\n\n", 2) == 0);
    for (const char *line = text; line < text + size;) {
        const char *end = memchr(line, '\n', (size_t)(text + size - line));
        CHECK(!done || end == line);
        done = check_line(line, (size_t)(end - line)) || done;
        line = end + 1;
    }
    CHECK(done);
}
