/* incipit COMMAND [OPTIONS]: finds the command, reads its options, runs it. Exit status: 0; 1 when the command failed;
 * 2 when the command line is wrong. */
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <unistd.h>

#include "kernels/base/log.h"
#include "server/command/command.h"
#include "server/nearest.h"
#include "server/version.h"

/* Blocks of this size and more are the system's again when they are freed. Left alone, the C library raises the limit
 * to what large requests need, and their holes stay resident for ever: hundreds of MiB after a few hostile bodies. */
#define MAPPED_BYTES (256 << 10)

static void print_overview(FILE *out)
{
    fputs("Incipit serves language models and keeps what it computed for the beginnings of prompts.\n\n"
          "usage: incipit COMMAND [OPTIONS]\n\n",
          out);
    for (size_t i = 0; i < command_table_count; i++)
        fprintf(out, "  %-10s %s\n", command_table[i].name, command_table[i].summary);
    fputs("  help       show this, or all options of a command: incipit help serve\n"
          "  version    show the version\n",
          out);
}

static void print_help(const struct command *command)
{
    struct buffer text = {0};
    options_describe(command->bit, &text);
    printf("usage: incipit %s [OPTIONS]%s%s\n\n%s.\n\noptions (default in brackets):\n%s\nexamples:\n%s", command->name,
           command->operands[0] != '\0' ? " " : "", command->operands, command->summary,
           text.data != NULL ? text.data : "", command->examples);
    buffer_free(&text);
}

static const struct command *find_command(const char *name)
{
    const struct command *command = command_find(name);
    if (command != NULL)
        return command;
    const char *nearest = NULL;
    size_t best = nearest_limit(name);
    for (size_t i = 0; i < command_table_count; i++) {
        size_t distance = nearest_distance(name, command_table[i].name);
        if (distance < best) {
            best = distance;
            nearest = command_table[i].name;
        }
    }
    fprintf(stderr, "incipit: there is no command \"%.40s\"; %s%s%s\n", name,
            nearest != NULL ? "did you mean \"" : "`incipit help` lists them", nearest != NULL ? nearest : "",
            nearest != NULL ? "\"?" : "");
    return NULL;
}

static int help(int argc, char **argv)
{
    if (argc < 3 || strcmp(argv[2], "help") == 0) {
        print_overview(stdout);
        return 0;
    }
    const struct command *command = find_command(argv[2]);
    if (command == NULL)
        return 2;
    print_help(command);
    return 0;
}

static void setup_log(const struct command *command, const struct options *options)
{
    static const char *const levels[] = {"error", "warn", "info", "debug"};
    enum log_level level = LOG_ERROR;
    while (level < LOG_DEBUG && strcmp(levels[level], options->log_level) != 0)
        level++;
    /* The line that a chat prints after each reply says what the log's would. */
    if (command->bit == OPTIONS_CHAT && level == LOG_INFO)
        level = LOG_WARN;
    log_setup(level, strcmp(options->log_format, "json") == 0 ? LOG_FORMAT_JSON : LOG_FORMAT_TEXT);
}

/* Whether the log is to be JSON, as far as a command line tells that is wrong somewhere. */
static bool asks_for_json(int argc, char **argv)
{
    bool json = false;
    for (int i = 0; i < argc; i++) {
        if (strncmp(argv[i], "--log-format=", 13) == 0)
            json = strcmp(argv[i] + 13, "json") == 0;
        else if (strcmp(argv[i], "--log-format") == 0 && i + 1 < argc)
            json = strcmp(argv[i + 1], "json") == 0;
    }
    return json;
}

static int run_command(const struct command *command, int argc, char **argv)
{
    struct options options;
    struct error error;
    if (options_parse(command->bit, argc, argv, &options, &error) != STATUS_OK) {
        log_setup(LOG_ERROR, asks_for_json(argc, argv) ? LOG_FORMAT_JSON : LOG_FORMAT_TEXT);
        command_fail(&error);
        return error.status == STATUS_NO_MEMORY ? 1 : 2;
    }
    int status = 0;
    setup_log(command, &options);
    if (options.help) {
        print_help(command);
    } else if (options.operand_count > command->operands_max) {
        error_set(&error, STATUS_INVALID, "%s does not know what to do with \"%.60s\"; see incipit help %s",
                  command->name, options.operands[command->operands_max], command->name);
        command_fail(&error);
        status = 2;
    } else {
        status = command->run(&options);
    }
    options_free(&options);
    return status;
}

/* Started without one of them, the first files that are opened would take their places, and the log would be written
 * into a connection. */
static void open_standard_files(void)
{
    int fd;
    do {
        fd = open("/dev/null", O_RDWR);
    } while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0)
        close(fd);
}

int main(int argc, char **argv)
{
    open_standard_files();
    signal(SIGPIPE, SIG_IGN);
    mallopt(M_MMAP_THRESHOLD, MAPPED_BYTES);
    if (argc < 2) {
        print_overview(stderr);
        return 2;
    }
    if (strcmp(argv[1], "help") == 0 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
        return help(argc, argv);
    if (strcmp(argv[1], "version") == 0 || strcmp(argv[1], "--version") == 0) {
        puts("incipit " INCIPIT_VERSION);
        return 0;
    }
    const struct command *command = find_command(argv[1]);
    if (command == NULL)
        return 2;
    return run_command(command, argc - 2, argv + 2);
}
