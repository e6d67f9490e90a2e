/* A configuration file: the first byte chooses the command that reads it, the rest is the file. It sets options within
 * their ranges, or is refused with a sentence. */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "server/options.h"
#include "tests/fuzz/fuzz.h"

static void check_ranges(const struct options *options)
{
    for (size_t i = 0; i < options_table_count; i++) {
        const struct option_row *row = &options_table[i];
        const char *field = (const char *)options + row->offset;
        if (row->kind == OPTION_INTEGER || row->kind == OPTION_BYTES) {
            int64_t value;
            memcpy(&value, field, sizeof(value));
            CHECK((double)value >= row->minimum && (double)value <= row->maximum);
        } else if (row->kind == OPTION_NUMBER) {
            double value;
            memcpy(&value, field, sizeof(value));
            CHECK(value >= row->minimum && value <= row->maximum);
        } else if (row->kind == OPTION_TEXT || row->kind == OPTION_CHOICE) {
            const char *value;
            memcpy(&value, field, sizeof(value));
            CHECK(value != NULL);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const enum options_command commands[] = {OPTIONS_SERVE, OPTIONS_CHAT, OPTIONS_BENCH};
    char path[64], name[] = "--config";
    struct options options;
    struct error error = {0};
    if (size < 1)
        return 0;
    enum options_command command = commands[fuzz_choice(data[0], sizeof(commands) / sizeof(commands[0]))];
    int fd = memfd_create("config", MFD_CLOEXEC);
    CHECK(fd >= 0 && write(fd, data + 1, size - 1) == (ssize_t)(size - 1));
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    enum status status = options_parse(command, 2, (char *[]){name, path}, &options, &error);
    if (status == STATUS_OK) {
        check_ranges(&options);
        options_free(&options);
    } else {
        CHECK(status == error.status && status != STATUS_INTERNAL && error.text[0] != '\0');
    }
    close(fd);
    return 0;
}
