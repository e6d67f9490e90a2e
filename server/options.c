/* Reading options: text to fields by the table. The only place that looks at the environment (HOME, XDG_CACHE_HOME). */
#include "server/options.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>

#include "kernels/base/check.h"
#include "server/nearest.h"

const struct option_row *options_find(const char *name)
{
    for (size_t i = 0; i < options_table_count; i++)
        if (strcmp(options_table[i].name, name) == 0)
            return &options_table[i];
    return NULL;
}

/* ---- values ---- */

static enum status bad_value(struct error *error, const struct option_row *row, const char *source, const char *value,
                             const char *wanted)
{
    return error_field(error, STATUS_INVALID, row->name, "%s is \"%.80s\"; it must be %s", source, value, wanted);
}

static enum status set_text(char **field, const char *value, struct error *error)
{
    char *copy = strdup(value);
    if (copy == NULL)
        return error_no_memory(error, "an option's value");
    free(*field);
    *field = copy;
    return STATUS_OK;
}

static bool choice_allowed(const char *choices, const char *value)
{
    size_t size = strlen(value);
    for (const char *at = choices; size > 0 && at != NULL;) {
        const char *end = strchr(at, '|');
        size_t length = end != NULL ? (size_t)(end - at) : strlen(at);
        if (length == size && memcmp(at, value, size) == 0)
            return true;
        at = end != NULL ? end + 1 : NULL;
    }
    return false;
}

/* "1GiB", "512M", "1.5g", "4096": binary multiples, in bytes. */
static bool parse_bytes(const char *value, double *out)
{
    static const char units[] = "kmgt";
    char *end;
    errno = 0;
    double number = strtod(value, &end);
    if (end == value || errno != 0 || !isfinite(number))
        return false;
    double multiple = 1;
    const char *unit = *end != '\0' ? strchr(units, tolower((unsigned char)*end)) : NULL;
    if (unit != NULL) {
        multiple = ldexp(1, 10 * (int)(unit - units + 1));
        end++;
        if (*end == 'i' || *end == 'I')
            end++;
    }
    if (*end == 'b' || *end == 'B')
        end++;
    *out = number * multiple;
    return *end == '\0';
}

static bool parse_number(const struct option_row *row, const char *value, double *out)
{
    char *end;
    if (row->kind == OPTION_BYTES)
        return parse_bytes(value, out);
    errno = 0;
    *out = row->kind == OPTION_INTEGER ? (double)strtoll(value, &end, 10) : strtod(value, &end);
    return end != value && *end == '\0' && errno == 0 && isfinite(*out);
}

static enum status set_number(struct options *options, const struct option_row *row, const char *value,
                              const char *source, struct error *error)
{
    char wanted[96];
    if (row->kind == OPTION_BYTES)
        snprintf(wanted, sizeof wanted, "a size of at least %.0f KiB, such as 512MiB", row->minimum / (1 << 10));
    else
        snprintf(wanted, sizeof wanted, "%s between %.16g and %.16g",
                 row->kind == OPTION_NUMBER ? "a number" : "a whole number", row->minimum, row->maximum);
    double number;
    if (!parse_number(row, value, &number) || number < row->minimum || number > row->maximum)
        return bad_value(error, row, source, value, wanted);
    char *field = (char *)options + row->offset;
    if (row->kind == OPTION_NUMBER)
        memcpy(field, &number, sizeof number);
    else
        memcpy(field, &(int64_t){(int64_t)number}, sizeof(int64_t));
    return STATUS_OK;
}

static enum status set_flag(struct options *options, const struct option_row *row, const char *value,
                            const char *source, struct error *error)
{
    bool on = strcmp(value, "true") == 0;
    if (!on && strcmp(value, "false") != 0)
        return bad_value(error, row, source, value, "true or false");
    memcpy((char *)options + row->offset, &on, sizeof on);
    return STATUS_OK;
}

enum status options_set(struct options *options, const struct option_row *row, const char *value, const char *source,
                        struct error *error)
{
    switch (row->kind) {
    case OPTION_CHOICE:
        if (!choice_allowed(row->choices, value))
            return bad_value(error, row, source, value, row->choices);
        return set_text((char **)(void *)((char *)options + row->offset), value, error);
    case OPTION_TEXT:
        return set_text((char **)(void *)((char *)options + row->offset), value, error);
    case OPTION_FLAG:
        return set_flag(options, row, value, source, error);
    case OPTION_INTEGER:
    case OPTION_BYTES:
    case OPTION_NUMBER:
        return set_number(options, row, value, source, error);
    }
    CHECK(false);
}

/* "~/x" and the default cache folder, as the user's environment has them. */
static enum status expand_model_dir(struct options *options, struct error *error)
{
    static const char cache[] = "~/.cache/";
    const char *xdg = getenv("XDG_CACHE_HOME");
    const char *home = getenv("HOME");
    const char *path = options->model_dir;
    struct buffer out = {0};
    if (strncmp(path, cache, sizeof cache - 1) == 0 && xdg != NULL && *xdg == '/')
        buffer_printf(&out, "%s/%s", xdg, path + sizeof cache - 1);
    else if (path[0] == '~' && path[1] == '/' && home != NULL)
        buffer_printf(&out, "%s%s", home, path + 1);
    else
        buffer_text(&out, path);
    enum status status = out.failed ? error_no_memory(error, "a path") : set_text(&options->model_dir, out.data, error);
    buffer_free(&out);
    return status;
}

/* ---- names ---- */

const char *options_nearest(const char *name, unsigned command)
{
    const char *nearest = NULL;
    size_t best = nearest_limit(name);
    for (size_t i = 0; i < options_table_count; i++) {
        const struct option_row *row = &options_table[i];
        size_t distance = nearest_distance(name, row->name);
        if ((row->commands & command) != 0 && distance < best) {
            best = distance;
            nearest = row->name;
        }
    }
    return nearest;
}

static enum status unknown_option(struct error *error, const char *name, enum options_command command)
{
    const char *nearest = options_nearest(name, command);
    if (options_find(name) != NULL)
        return error_field(error, STATUS_INVALID, name, "option --%s does not belong to this command; see --help",
                           name);
    if (nearest == NULL)
        return error_field(error, STATUS_INVALID, name, "there is no option --%.60s; see --help", name);
    return error_field(error, STATUS_INVALID, name, "there is no option --%.60s; did you mean --%s?", name, nearest);
}

/* ---- the command line ---- */

struct argument {
    char name[64];
    const char *value; /* NULL: none given with "=" */
};

static bool split_argument(const char *text, struct argument *out)
{
    const char *equals = strchr(text, '=');
    size_t size = equals != NULL ? (size_t)(equals - text) : strlen(text);
    if (size >= sizeof out->name)
        size = sizeof out->name - 1;
    memcpy(out->name, text, size);
    out->name[size] = '\0';
    out->value = equals != NULL ? equals + 1 : NULL;
    return size > 0;
}

/* Handles argv[*i], moving *i past a value that stands apart. `config_only` looks for --config and skips the rest. */
static enum status take_option(enum options_command command, int argc, char **argv, int *i, bool config_only,
                               struct options *options, struct error *error)
{
    struct argument argument;
    if (!split_argument(argv[*i] + 2, &argument))
        return error_set(error, STATUS_INVALID, "\"%.40s\" is not an option", argv[*i]);
    if (strcmp(argument.name, "help") == 0) {
        options->help = true;
        return STATUS_OK;
    }
    const struct option_row *row = options_find(argument.name);
    if (row == NULL || (row->commands & (unsigned)command) == 0)
        return unknown_option(error, argument.name, command);
    const char *value = argument.value;
    if (value == NULL && row->kind == OPTION_FLAG)
        value = "true";
    else if (value == NULL) {
        if (*i + 1 >= argc)
            return error_field(error, STATUS_INVALID, row->name, "--%s needs a value (%s)", row->name, row->value_name);
        value = argv[++*i];
    }
    if (config_only != (row->offset == offsetof(struct options, config)))
        return STATUS_OK;
    char source[80];
    snprintf(source, sizeof source, "--%s", row->name);
    return options_set(options, row, value, source, error);
}

static enum status walk_arguments(enum options_command command, int argc, char **argv, bool config_only,
                                  struct options *options, struct error *error)
{
    bool only_operands = false;
    options->operand_count = 0;
    for (int i = 0; i < argc; i++) {
        bool is_option = !only_operands && argv[i][0] == '-' && argv[i][1] == '-';
        if (is_option && argv[i][2] == '\0') {
            only_operands = true;
        } else if (is_option) {
            enum status status = take_option(command, argc, argv, &i, config_only, options, error);
            if (status != STATUS_OK)
                return status;
        } else if (!only_operands && strcmp(argv[i], "-h") == 0) {
            options->help = true;
        } else if (options->operand_count == OPTIONS_OPERANDS_MAX) {
            return error_set(error, STATUS_INVALID, "more than %d arguments", OPTIONS_OPERANDS_MAX);
        } else {
            options->operands[options->operand_count++] = argv[i];
        }
    }
    return STATUS_OK;
}

static enum status set_defaults(struct options *options, struct error *error)
{
    for (size_t i = 0; i < options_table_count; i++) {
        enum status status = options_set(options, &options_table[i], options_table[i].standard, "a default", error);
        if (status != STATUS_OK)
            return status;
    }
    return STATUS_OK;
}

static enum status check_together(const struct options *options, struct error *error)
{
    int64_t block = options->block_tokens;
    if ((block & (block - 1)) != 0)
        return error_field(error, STATUS_INVALID, "block-tokens",
                           "--block-tokens is %lld; it must be 16, 32, 64, 128 or 256", (long long)block);
    bool has_cert = options->tls_cert[0] != '\0';
    if (has_cert != (options->tls_key[0] != '\0'))
        return error_field(error, STATUS_INVALID, has_cert ? "tls-key" : "tls-cert", "--%s needs --%s too",
                           has_cert ? "tls-cert" : "tls-key", has_cert ? "tls-key" : "tls-cert");
    return STATUS_OK;
}

enum status options_parse(enum options_command command, int argc, char **argv, struct options *options,
                          struct error *error)
{
    memset(options, 0, sizeof *options);
    enum status status = set_defaults(options, error);
    if (status == STATUS_OK)
        status = walk_arguments(command, argc, argv, true, options, error);
    if (status == STATUS_OK && options->config[0] != '\0')
        status = options_read_config(options->config, command, options, error);
    if (status == STATUS_OK)
        status = walk_arguments(command, argc, argv, false, options, error);
    if (status == STATUS_OK)
        status = check_together(options, error);
    if (status == STATUS_OK)
        status = expand_model_dir(options, error);
    if (status != STATUS_OK)
        options_free(options);
    return status;
}

void options_free(struct options *options)
{
    for (size_t i = 0; i < options_table_count; i++) {
        const struct option_row *row = &options_table[i];
        if (row->kind != OPTION_TEXT && row->kind != OPTION_CHOICE)
            continue;
        char **field = (char **)(void *)((char *)options + row->offset);
        free(*field);
        *field = NULL;
    }
}

/* ---- help ---- */

void options_describe(unsigned command, struct buffer *out)
{
    for (size_t i = 0; i < options_table_count; i++) {
        const struct option_row *row = &options_table[i];
        if ((row->commands & command) == 0)
            continue;
        char left[64];
        snprintf(left, sizeof left, "--%s%s%s", row->name, row->value_name != NULL ? " " : "",
                 row->value_name != NULL ? row->value_name : "");
        buffer_printf(out, "  %-27s %s", left, row->help);
        if (row->choices != NULL)
            buffer_printf(out, " (%s)", row->choices);
        if (row->standard[0] != '\0' && row->kind != OPTION_FLAG)
            buffer_printf(out, " [%s]", row->standard);
        buffer_byte(out, '\n');
    }
}
