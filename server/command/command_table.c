/* The table of subcommands, and the small things that they share. */
#include <errno.h>
#include <unistd.h>

#include "kernels/base/log.h"
#include "server/command/command.h"

#define INPUT_BYTES_MAX (64u << 20)

const struct command command_table[] = {
    {"serve", OPTIONS_SERVE, "answer OpenAI-style requests over HTTP", "", 0,
     "  incipit serve --model smollm2 --port 8080\n"
     "  incipit serve --model ./model.gguf --context 4096 --kv-memory 2GiB --config server.yaml\n",
     command_serve},
    {"chat", OPTIONS_CHAT, "chat in the terminal", "", 0,
     "  incipit chat --model smollm2\n"
     "  incipit chat --model ./model.gguf --system 'Answer in one sentence.' --temperature 0\n",
     command_chat},
    {"tokenize", OPTIONS_TOKENIZE, "show the token ids of a text", "[TEXT...]", OPTIONS_OPERANDS_MAX,
     "  incipit tokenize 'Hello, world'\n"
     "  incipit tokenize --json < book.txt\n",
     command_tokenize},
    {"render", OPTIONS_RENDER, "show the prompt and ids that a request becomes", "[FILE]", 1,
     "  incipit render request.json\n"
     "  echo '{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}' | incipit render --json\n",
     command_render},
    {"bench", OPTIONS_BENCH, "measure prefill and decode", "", 0,
     "  incipit bench --prompt 512,4096 --generate 128 --batch 1,16 --json\n"
     "  incipit bench --prompt 640 --shared-prefix 512 --batch 16 --threads 2\n",
     command_bench},
    {"inspect", OPTIONS_INSPECT, "show what is in a model file", "[FILE]", 1,
     "  incipit inspect model.gguf\n"
     "  incipit inspect --tensors --json model.gguf\n",
     command_inspect},
};

const size_t command_table_count = sizeof command_table / sizeof command_table[0];

const struct command *command_find(const char *name)
{
    for (size_t i = 0; i < command_table_count; i++)
        if (strcmp(command_table[i].name, name) == 0)
            return &command_table[i];
    return NULL;
}

int command_fail(const struct error *error)
{
    if (log_is_json())
        log_line(LOG_ERROR, "%s", error->text);
    else
        fprintf(stderr, "incipit: %s\n", error->text);
    return 1;
}

static enum status read_stdin(struct buffer *out, struct error *error)
{
    out->limit = INPUT_BYTES_MAX;
    for (;;) {
        char chunk[16384];
        ssize_t got = read(STDIN_FILENO, chunk, sizeof chunk);
        if (got == 0)
            return STATUS_OK;
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return error_set(error, STATUS_IO, "cannot read standard input: %s", strerror(errno));
        buffer_append(out, chunk, (size_t)got);
        if (out->failed)
            return error_set(error, STATUS_TOO_LARGE, "standard input is longer than %u bytes", INPUT_BYTES_MAX);
    }
}

enum status command_input(const struct options *options, struct buffer *out, struct error *error)
{
    if (options->operand_count == 0)
        return read_stdin(out, error);
    for (size_t i = 0; i < options->operand_count; i++) {
        if (i > 0)
            buffer_byte(out, ' ');
        buffer_text(out, options->operands[i]);
    }
    return out->failed ? error_no_memory(error, "the text") : STATUS_OK;
}

int command_output(const struct buffer *out)
{
    bool written = !out->failed && fwrite(out->data, 1, out->size, stdout) == out->size && fflush(stdout) == 0;
    if (written)
        return 0;
    fprintf(stderr, "incipit: cannot write the output: %s\n", out->failed ? "out of memory" : strerror(errno));
    return 1;
}
