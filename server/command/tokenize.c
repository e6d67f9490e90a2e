/* incipit tokenize: ids and pieces of a text. Invalid UTF-8 on the command line becomes U+FFFD, as Python's
 * errors="replace" has it. */
#include "kernels/base/json_writer.h"
#include "kernels/base/utf8.h"
#include "server/command/command.h"
#include "server/runtime.h"

static enum status encode(const struct options *options, const struct tokenizer *tokenizer, struct tokenizer_ids *ids,
                          struct error *error)
{
    struct buffer raw = {0}, text = {0};
    struct tokenizer_scratch *scratch = NULL;
    enum status status = command_input(options, &raw, error);
    if (status == STATUS_OK) {
        utf8_append_valid(&text, raw.data, raw.size);
        status = text.failed ? error_no_memory(error, "the text") : tokenizer_scratch_open(tokenizer, &scratch, error);
    }
    if (status == STATUS_OK) {
        struct tokenizer_span span = {.size = text.size, .trusted = options->parse_special};
        struct tokenizer_input input = {
            .text = text.data != NULL ? text.data : "", .size = text.size, .spans = &span, .span_count = 1};
        status = tokenizer_encode(tokenizer, scratch, &input, ids, error);
    }
    tokenizer_scratch_close(scratch);
    buffer_free(&raw);
    buffer_free(&text);
    return status;
}

/* A piece may be part of a character: such bytes show as U+FFFD. */
static void piece_text(const struct tokenizer *tokenizer, int32_t id, struct buffer *out)
{
    struct tokenizer_piece piece = {0};
    tokenizer_piece(tokenizer, id, &piece);
    buffer_clear(out);
    utf8_append_valid(out, piece.data, piece.size);
}

static void write_json(const struct tokenizer *tokenizer, const struct tokenizer_ids *ids, struct buffer *out)
{
    struct json_writer writer = json_writer_start(out);
    struct buffer piece = {0};
    json_object_begin(&writer);
    json_key(&writer, "count");
    json_integer(&writer, (int64_t)ids->count);
    json_key(&writer, "tokens");
    json_array_begin(&writer);
    for (size_t i = 0; i < ids->count; i++)
        json_integer(&writer, ids->ids[i]);
    json_array_end(&writer);
    json_key(&writer, "pieces");
    json_array_begin(&writer);
    for (size_t i = 0; i < ids->count; i++) {
        piece_text(tokenizer, ids->ids[i], &piece);
        json_bytes(&writer, piece.data != NULL ? piece.data : "", piece.size);
    }
    json_array_end(&writer);
    json_object_end(&writer);
    buffer_byte(out, '\n');
    buffer_free(&piece);
}

static void write_text(const struct tokenizer *tokenizer, const struct tokenizer_ids *ids, struct buffer *out)
{
    struct buffer piece = {0};
    for (size_t i = 0; i < ids->count; i++) {
        piece_text(tokenizer, ids->ids[i], &piece);
        buffer_printf(out, "%7d  ", ids->ids[i]);
        struct json_writer writer = json_writer_start(out); /* quoted, so that spaces and newlines show */
        json_bytes(&writer, piece.data != NULL ? piece.data : "", piece.size);
        buffer_byte(out, '\n');
    }
    buffer_printf(out, "%zu tokens\n", ids->count);
    buffer_free(&piece);
}

int command_tokenize(const struct options *options)
{
    struct runtime runtime;
    struct tokenizer_ids ids = {0};
    struct buffer out = {0};
    struct error error;
    enum status status = runtime_open_text(options, &runtime, &error);
    if (status == STATUS_OK)
        status = encode(options, runtime.tokenizer, &ids, &error);
    int result;
    if (status == STATUS_OK) {
        (options->json ? write_json : write_text)(runtime.tokenizer, &ids, &out);
        result = command_output(&out);
    } else {
        result = command_fail(&error);
    }
    tokenizer_ids_free(&ids);
    buffer_free(&out);
    runtime_close(&runtime);
    return result;
}
