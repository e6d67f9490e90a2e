/* The options table: the command line, the configuration file and configs/default.yaml. */
#include "server/options.h"

#include <unistd.h>
#include <yaml.h>

#include "tests/unit/unit.h"

static enum status parse(enum options_command command, struct options *options, struct error *error, int argc,
                         const char *const *argv)
{
    char *copies[16];
    ck_assert_int_le(argc, 16);
    for (int i = 0; i < argc; i++)
        copies[i] = (char *)argv[i];
    return options_parse(command, argc, copies, options, error);
}

#define PARSE(command, options, error, ...)                                                       \
    parse(command, options, error, (int)(sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *)), \
          (const char *[]){__VA_ARGS__})

static void write_config(char path[32], const char *text)
{
    snprintf(path, 32, "/tmp/incipit_config_XXXXXX");
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
}

START_TEST(defaults_are_those_of_the_table)
{
    struct options options;
    struct error error;
    ck_assert_int_eq(options_parse(OPTIONS_SERVE, 0, NULL, &options, &error), STATUS_OK);
    ck_assert_int_eq(options.port, 8080);
    ck_assert_str_eq(options.host, "127.0.0.1");
    ck_assert_int_eq(options.kv_memory, 1 << 30);
    ck_assert(!options.no_prefix_cache);
    options_free(&options);
}
END_TEST

START_TEST(both_spellings_and_operands_are_read)
{
    struct options options;
    struct error error;
    ck_assert_int_eq(PARSE(OPTIONS_TOKENIZE, &options, &error, "--model=x.gguf", "--json", "one", "--", "--two"),
                     STATUS_OK);
    ck_assert_str_eq(options.model, "x.gguf");
    ck_assert(options.json);
    ck_assert_uint_eq(options.operand_count, 2);
    ck_assert_str_eq(options.operands[1], "--two");
    options_free(&options);
}
END_TEST

START_TEST(an_unknown_option_suggests_the_nearest)
{
    struct options options;
    struct error error;
    ck_assert_int_eq(PARSE(OPTIONS_SERVE, &options, &error, "--prot", "1"), STATUS_INVALID);
    ck_assert_ptr_nonnull(strstr(error.text, "did you mean --port?"));
    ck_assert_int_eq(PARSE(OPTIONS_SERVE, &options, &error, "--qqqqqqqqqq", "1"), STATUS_INVALID);
    ck_assert_ptr_null(strstr(error.text, "did you mean"));
    ck_assert_int_eq(PARSE(OPTIONS_TOKENIZE, &options, &error, "--port", "1"), STATUS_INVALID);
    ck_assert_ptr_nonnull(strstr(error.text, "does not belong"));
}
END_TEST

START_TEST(a_bad_value_names_option_value_and_limit)
{
    static const char *const cases[][3] = {
        {"--port", "70000", "65535"},
        {"--port", "80x", "65535"},
        {"--port", "", "65535"},
        {"--threads", "-1", "256"},
        {"--kv-memory", "lots", "512MiB"},
        {"--activations", "int4", "int8|f32"},
        {"--activations", "int8|f32", "int8|f32"},
        {"--block-tokens", "48", "64"},
        {"--block-tokens", "8", "16"},
        {"--port", "99999999999999999999", "65535"},
        {"--no-prefix-cache=maybe", "x", "true or false"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct options options;
        struct error error;
        ck_assert_int_eq(PARSE(OPTIONS_SERVE, &options, &error, cases[i][0], cases[i][1]), STATUS_INVALID);
        ck_assert_msg(strstr(error.text, cases[i][2]) != NULL, "%s", error.text);
        ck_assert(error.field[0] != '\0');
    }
    struct options options;
    struct error error;
    ck_assert_int_eq(PARSE(OPTIONS_SERVE, &options, &error, "--port"), STATUS_INVALID);
    ck_assert_ptr_nonnull(strstr(error.text, "needs a value"));
}
END_TEST

START_TEST(sizes_take_binary_units)
{
    static const struct {
        const char *text;
        int64_t bytes;
    } cases[] = {{"1GiB", 1 << 30}, {"512M", 512 << 20}, {"1.5g", 3 << 29}, {"2097152", 2 << 20}, {"4096kb", 4 << 20}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct options options;
        struct error error;
        ck_assert_int_eq(PARSE(OPTIONS_SERVE, &options, &error, "--kv-memory", cases[i].text), STATUS_OK);
        ck_assert_int_eq(options.kv_memory, cases[i].bytes);
        options_free(&options);
    }
}
END_TEST

START_TEST(the_command_line_wins_over_the_file)
{
    char path[32];
    write_config(path, "port: 9000\ncontext: 512\nsystem: for another command\n");
    struct options options;
    struct error error;
    ck_assert_int_eq(PARSE(OPTIONS_SERVE, &options, &error, "--port", "9001", "--config", path), STATUS_OK);
    ck_assert_int_eq(options.port, 9001);
    ck_assert_int_eq(options.context, 512);
    ck_assert_str_eq(options.system, "");
    options_free(&options);
    unlink(path);
}
END_TEST

START_TEST(a_mistake_in_the_file_names_its_line)
{
    static const char *const cases[][2] = {
        {"host: a\nprot: 1\n", "line 2"},
        {"port: [1, 2]\n", "line 1"},
        {"host: a\nport: x\n", "line 2"},
        {"port: 1\nhost: a\nport: 1\n", "line 3: port is there twice"},
        {"- port\n", "line 1"},
        {"port: 'open\n", "line"},
        {"json: true\n", "not an option for a file"},
        {"{a: b}: c\n", "line 1"},
        {"port: !!binary {}\n", "line 1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char path[32];
        write_config(path, cases[i][0]);
        struct options options;
        struct error error;
        ck_assert_int_eq(PARSE(OPTIONS_SERVE, &options, &error, "--config", path), STATUS_INVALID);
        ck_assert_msg(strstr(error.text, cases[i][1]) != NULL, "%s", error.text);
        unlink(path);
    }
    struct options options;
    struct error error;
    ck_assert_int_eq(PARSE(OPTIONS_SERVE, &options, &error, "--config", "/does/not/exist"), STATUS_IO);
}
END_TEST

/* Reads configs/default.yaml independently of the reader under test. */
START_TEST(default_yaml_lists_every_option_with_its_default)
{
    FILE *file = fopen("configs/default.yaml", "rb");
    ck_assert_msg(file != NULL, "run from the repository root");
    yaml_parser_t parser;
    yaml_document_t document;
    ck_assert(yaml_parser_initialize(&parser));
    yaml_parser_set_input_file(&parser, file);
    ck_assert(yaml_parser_load(&parser, &document));
    yaml_node_t *root = yaml_document_get_root_node(&document);
    ck_assert_int_eq(root->type, YAML_MAPPING_NODE);
    size_t keys = 0, wanted = 0;
    for (yaml_node_pair_t *pair = root->data.mapping.pairs.start; pair < root->data.mapping.pairs.top; pair++, keys++) {
        const char *key = (const char *)yaml_document_get_node(&document, pair->key)->data.scalar.value;
        const char *value = (const char *)yaml_document_get_node(&document, pair->value)->data.scalar.value;
        const struct option_row *row = options_find(key);
        ck_assert_msg(row != NULL && !row->command_line_only, "%s is not in the table", key);
        ck_assert_msg(strcmp(value, row->standard) == 0, "%s: %s, but the table says %s", key, value, row->standard);
    }
    for (size_t i = 0; i < options_table_count; i++)
        wanted += !options_table[i].command_line_only;
    ck_assert_uint_eq(keys, wanted);
    yaml_document_delete(&document);
    yaml_parser_delete(&parser);
    fclose(file);
}
END_TEST

START_TEST(help_names_every_option_of_a_command)
{
    struct buffer text = {0};
    options_describe(OPTIONS_SERVE, &text);
    for (size_t i = 0; i < options_table_count; i++) {
        char name[80];
        snprintf(name, sizeof name, "--%s ", options_table[i].name);
        bool listed = strstr(text.data, name) != NULL;
        ck_assert_msg(listed == ((options_table[i].commands & OPTIONS_SERVE) != 0), "%s", name);
        ck_assert(options_table[i].help[0] != '\0');
    }
    buffer_free(&text);
}
END_TEST

Suite *suite(void)
{
    Suite *suite = suite_create("options");
    TCase *tests = tcase_create("options");
    tcase_add_test(tests, defaults_are_those_of_the_table);
    tcase_add_test(tests, both_spellings_and_operands_are_read);
    tcase_add_test(tests, an_unknown_option_suggests_the_nearest);
    tcase_add_test(tests, a_bad_value_names_option_value_and_limit);
    tcase_add_test(tests, sizes_take_binary_units);
    tcase_add_test(tests, the_command_line_wins_over_the_file);
    tcase_add_test(tests, a_mistake_in_the_file_names_its_line);
    tcase_add_test(tests, default_yaml_lists_every_option_with_its_default);
    tcase_add_test(tests, help_names_every_option_of_a_command);
    suite_add_tcase(suite, tests);
    return suite;
}
