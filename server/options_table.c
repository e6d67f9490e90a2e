/* The options table. A new option is one row here, one line in configs/default.yaml and one field in struct options. */
#include "server/options.h"

#define AT(field) offsetof(struct options, field)

enum {
    MODEL_COMMANDS = OPTIONS_SERVE | OPTIONS_CHAT | OPTIONS_BENCH,
    ALL_COMMANDS = MODEL_COMMANDS | OPTIONS_TOKENIZE | OPTIONS_RENDER | OPTIONS_INSPECT,
};

const struct option_row options_table[] = {
    {.name = "model", .kind = OPTION_TEXT, .offset = AT(model), .commands = ALL_COMMANDS, .value_name = "NAME|FILE",
     .standard = "smollm2", .help = "a GGUF file, or the name of a fetched model"},
    {.name = "model-dir", .kind = OPTION_TEXT, .offset = AT(model_dir), .commands = ALL_COMMANDS, .value_name = "DIR",
     .standard = "~/.cache/incipit/models",
     .help = "where fetched models lie, a folder each; if XDG_CACHE_HOME is set it takes the place of ~/.cache"},
    {.name = "config", .kind = OPTION_TEXT, .offset = AT(config), .commands = ALL_COMMANDS, .value_name = "FILE",
     .standard = "", .command_line_only = true, .help = "YAML file with options by their names; the command line wins over it"},

    {.name = "host", .kind = OPTION_TEXT, .offset = AT(host), .commands = OPTIONS_SERVE, .value_name = "ADDRESS",
     .standard = "127.0.0.1", .help = "address to listen on"},
    {.name = "port", .kind = OPTION_INTEGER, .offset = AT(port), .commands = OPTIONS_SERVE, .value_name = "N",
     .standard = "8080", .minimum = 0, .maximum = 65535, .help = "port to listen on; 0 takes a free one"},

    {.name = "threads", .kind = OPTION_INTEGER, .offset = AT(threads), .commands = MODEL_COMMANDS, .value_name = "N",
     .standard = "0", .minimum = 0, .maximum = 256, .help = "compute threads; 0 is one a processor"},
    {.name = "cpu", .kind = OPTION_CHOICE, .offset = AT(cpu), .commands = MODEL_COMMANDS, .value_name = "VARIANT",
     .standard = "auto", .choices = "auto|scalar|avx2|avx512",
     .help = "instructions to use; all give the same bits, auto takes the fastest"},
    {.name = "activations", .kind = OPTION_CHOICE, .offset = AT(activations), .commands = MODEL_COMMANDS,
     .value_name = "TYPE", .standard = "int8", .choices = "int8|f32",
     .help = "int8 is fast; f32 is slow and closest to the reference implementation"},
    {.name = "context", .kind = OPTION_INTEGER, .offset = AT(context), .commands = MODEL_COMMANDS, .value_name = "TOKENS",
     .standard = "0", .minimum = 0, .maximum = 1 << 20, .help = "tokens of a sequence, prompt and reply; 0 is what the model was trained for"},
    {.name = "kv-memory", .kind = OPTION_BYTES, .offset = AT(kv_memory), .commands = MODEL_COMMANDS, .value_name = "BYTES",
     .standard = "1GiB", .minimum = 1 << 20, .maximum = 1ull << 46, .help = "memory for KV pages, shared by running sequences and the prefix cache"},
    {.name = "block-tokens", .kind = OPTION_INTEGER, .offset = AT(block_tokens), .commands = MODEL_COMMANDS,
     .value_name = "N", .standard = "32", .minimum = 16, .maximum = 256, .help = "tokens of a cache block: a power of two"},
    {.name = "max-sequences", .kind = OPTION_INTEGER, .offset = AT(max_sequences), .commands = OPTIONS_SERVE | OPTIONS_CHAT,
     .value_name = "N", .standard = "16", .minimum = 1, .maximum = 1024, .help = "sequences that run at once; others wait"},
    {.name = "prefill-chunk", .kind = OPTION_INTEGER, .offset = AT(prefill_chunk), .commands = MODEL_COMMANDS,
     .value_name = "TOKENS", .standard = "512", .minimum = 1, .maximum = 8192, .help = "prompt tokens computed in one step at most"},
    {.name = "step-ms", .kind = OPTION_INTEGER, .offset = AT(step_ms), .commands = OPTIONS_SERVE | OPTIONS_CHAT,
     .value_name = "MS", .standard = "100", .minimum = 0, .maximum = 60000,
     .help = "time that one step should take: the chunk shrinks to it, so a long prompt does not hold up running replies; 0 is no limit"},
    {.name = "max-queue", .kind = OPTION_INTEGER, .offset = AT(max_queue), .commands = OPTIONS_SERVE, .value_name = "N",
     .standard = "256", .minimum = 1, .maximum = 65536, .help = "requests that may wait; more get 429"},
    {.name = "no-prefix-cache", .kind = OPTION_FLAG, .offset = AT(no_prefix_cache), .commands = OPTIONS_SERVE | OPTIONS_CHAT,
     .standard = "false", .help = "compute every prompt from its first token"},

    {.name = "log-level", .kind = OPTION_CHOICE, .offset = AT(log_level), .commands = ALL_COMMANDS, .value_name = "LEVEL",
     .standard = "info", .choices = "error|warn|info|debug", .help = "what the log on stderr shows"},
    {.name = "log-format", .kind = OPTION_CHOICE, .offset = AT(log_format), .commands = ALL_COMMANDS, .value_name = "FORMAT",
     .standard = "text", .choices = "text|json", .help = "how a log line looks"},

    {.name = "system", .kind = OPTION_TEXT, .offset = AT(system), .commands = OPTIONS_CHAT, .value_name = "TEXT",
     .standard = "", .help = "system message; without it the template's own"},
    {.name = "temperature", .kind = OPTION_NUMBER, .offset = AT(temperature), .commands = OPTIONS_CHAT, .value_name = "T",
     .standard = "0.7", .minimum = 0, .maximum = 2, .help = "0 always takes the most probable token"},
    {.name = "max-tokens", .kind = OPTION_INTEGER, .offset = AT(max_tokens), .commands = OPTIONS_CHAT, .value_name = "N",
     .standard = "0", .minimum = 0, .maximum = 1 << 20, .help = "longest reply in tokens; 0 is up to the context"},
    {.name = "seed", .kind = OPTION_INTEGER, .offset = AT(seed), .commands = OPTIONS_CHAT, .value_name = "N",
     .standard = "-1", .minimum = -1, .maximum = 9e15, .help = "makes replies repeatable; -1 draws one"},

    {.name = "prompt", .kind = OPTION_TEXT, .offset = AT(prompt), .commands = OPTIONS_BENCH, .value_name = "TOKENS[,..]",
     .standard = "512", .command_line_only = true, .help = "prompt lengths to measure"},
    {.name = "generate", .kind = OPTION_TEXT, .offset = AT(generate), .commands = OPTIONS_BENCH, .value_name = "TOKENS[,..]",
     .standard = "128", .command_line_only = true, .help = "tokens to generate after each prompt; 0 measures prefill only"},
    {.name = "batch", .kind = OPTION_TEXT, .offset = AT(batch), .commands = OPTIONS_BENCH, .value_name = "N[,..]",
     .standard = "1", .command_line_only = true, .help = "sequences at once"},
    {.name = "shared-prefix", .kind = OPTION_INTEGER, .offset = AT(shared_prefix), .commands = OPTIONS_BENCH,
     .value_name = "TOKENS", .standard = "0", .minimum = 0, .maximum = 1 << 20, .command_line_only = true,
     .help = "first tokens of the prompt that all sequences of a batch share: computed once"},
    {.name = "repeat", .kind = OPTION_INTEGER, .offset = AT(repeat), .commands = OPTIONS_BENCH, .value_name = "N",
     .standard = "3", .minimum = 1, .maximum = 1000, .command_line_only = true, .help = "runs of each row; the median is shown"},

    {.name = "parse-special", .kind = OPTION_FLAG, .offset = AT(parse_special), .commands = OPTIONS_TOKENIZE,
     .standard = "false", .command_line_only = true, .help = "read control tokens in the text as such"},
    {.name = "tensors", .kind = OPTION_FLAG, .offset = AT(tensors), .commands = OPTIONS_INSPECT,
     .standard = "false", .command_line_only = true, .help = "list every tensor"},
    {.name = "json", .kind = OPTION_FLAG, .offset = AT(json),
     .commands = OPTIONS_TOKENIZE | OPTIONS_RENDER | OPTIONS_BENCH | OPTIONS_INSPECT, .standard = "false",
     .command_line_only = true, .help = "write JSON, for scripts"},
};

const size_t options_table_count = sizeof options_table / sizeof options_table[0];
