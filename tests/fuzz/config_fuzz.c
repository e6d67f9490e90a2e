/* What an operator writes: the first byte chooses who reads it (commands of a configuration file, the list of keys, a
 * Host or Origin value), the rest is the text. It sets options within their ranges, gives keys with names of their own,
 * or is refused with a sentence; and what is taken for this machine has its name in it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "server/net/keys.h"
#include "server/net/origin.h"
#include "server/options.h"
#include "tests/fuzz/fuzz.h"

#define COMMANDS 3

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

static void read_config(enum options_command command, char *path)
{
    char name[] = "--config";
    struct options options;
    struct error error = {0};
    enum status status = options_parse(command, 2, (char *[]){name, path}, &options, &error);
    if (status == STATUS_OK) {
        check_ranges(&options);
        options_free(&options);
    } else {
        CHECK(status == error.status && status != STATUS_INTERNAL && error.text[0] != '\0');
    }
}

static void read_keys(const char *path)
{
    struct key_entry *entries = NULL;
    size_t count = 0;
    struct error error = {0};
    enum status status = keys_read_file(path, &entries, &count, &error);
    CHECK(status == STATUS_OK ? count > 0 && count <= KEYS_MAX : error.text[0] != '\0' && status == error.status);
    for (size_t i = 0; status == STATUS_OK && i < count; i++) {
        CHECK(entries[i].name[0] != '\0' && strlen(entries[i].name) <= KEY_NAME_BYTES_MAX);
        for (size_t k = 0; k < i; k++)
            CHECK(strcmp(entries[i].name, entries[k].name) != 0);
    }
    free(entries);
}

static void judge_origin(const uint8_t *data, size_t size)
{
    const struct origin_rules rules = {
        .origins = "http://a.example, https://b:1", .hosts = "c.example", .restricted = true};
    struct error error = {0};
    char *text = strndup((const char *)data, size);
    CHECK(text != NULL);
    if (origin_host_is_loopback(text))
        CHECK(strcasestr(text, "localhost") != NULL || strchr(text, '1') != NULL);
    if (origin_judge(&rules, text, NULL, &error) != STATUS_OK)
        CHECK(api_error_status(&error) == 403);
    if (origin_judge(&rules, "localhost", text, &error) != STATUS_OK)
        CHECK(api_error_status(&error) == 403);
    origin_is_listed(&rules, text);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const enum options_command commands[COMMANDS] = {OPTIONS_SERVE, OPTIONS_CHAT, OPTIONS_BENCH};
    char path[64];
    if (size < 1)
        return 0;
    size_t choice = fuzz_choice(data[0], COMMANDS + 2);
    if (choice == COMMANDS) {
        judge_origin(data + 1, size - 1);
        return 0;
    }
    int fd = memfd_create("config", MFD_CLOEXEC);
    CHECK(fd >= 0 && write(fd, data + 1, size - 1) == (ssize_t)(size - 1));
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    if (choice < COMMANDS)
        read_config(commands[choice], path);
    else
        read_keys(path);
    close(fd);
    return 0;
}
