/* What is in a model file, for a person or a script. Collected once into struct facts, then written in either form.
 * Works for files whose architecture is not supported: the reason stands where the configuration would be. */
#include <inttypes.h>
#include <string.h>

#include "kernels/base/json_writer.h"
#include "kernels/base/utf8.h"
#include "model/model_file.h"

#define TYPES_MAX 32
#define TEXT_BYTES_SHOWN 448
#define MIB (1024.0 * 1024.0)

struct type_sum {
    enum tensor_type type;
    size_t count;
    size_t bytes;
};

struct facts {
    const struct model_file *file;
    struct buffer architecture; /* printable */
    bool supported;
    struct model_config config;       /* if supported */
    struct error reason;              /* if not */
    struct type_sum types[TYPES_MAX]; /* (type_count) in the order of the file */
    size_t type_count;
};

/* File text made fit to print: control characters and what is not UTF-8 become '?'; long text is cut. */
static void append_printable(struct buffer *out, struct model_text text)
{
    size_t i = 0;
    while (i < text.size && i < TEXT_BYTES_SHOWN) {
        uint32_t code_point;
        size_t size = utf8_decode(text.data + i, text.size - i, &code_point);
        bool control = code_point < 0x20 || (code_point >= 0x7f && code_point < 0xa0);
        if (size == 0 || control)
            buffer_byte(out, '?');
        else
            buffer_append(out, text.data + i, size);
        i += size == 0 ? 1 : size;
    }
    if (i < text.size)
        buffer_text(out, "...");
}

static void append_metadata(struct buffer *out, const struct model_file *file, const char *key)
{
    struct model_text text;
    if (model_file_text(file, key, &text))
        append_printable(out, text);
}

static void sum_types(struct facts *facts)
{
    const struct weights *weights = &facts->file->weights;
    for (size_t i = 0; i < weights->tensor_count; i++) {
        const struct weights_tensor *tensor = &weights->tensors[i];
        size_t t = 0;
        while (t < facts->type_count && facts->types[t].type != tensor->type)
            t++;
        if (t == TYPES_MAX)
            continue; /* more types than there are */
        if (t == facts->type_count)
            facts->types[facts->type_count++] = (struct type_sum){.type = tensor->type};
        facts->types[t].count++;
        facts->types[t].bytes += tensor->bytes;
    }
}

static void collect(const struct model_file *file, struct facts *facts)
{
    *facts = (struct facts){.file = file};
    append_metadata(&facts->architecture, file, "general.architecture");
    facts->supported = model_file_config(file, &facts->config, &facts->reason) == STATUS_OK;
    sum_types(facts);
}

/* ---- text ---- */

static void text_config(struct buffer *out, const struct model_config *c)
{
    buffer_printf(out, "name            %s\n", c->name);
    buffer_printf(out, "parameters      %.1f million\n", (double)c->parameters / 1e6);
    buffer_printf(out, "layers          %" PRIu32 ", width %" PRIu32 ", feed-forward %" PRIu32 "\n", c->layers,
                  c->width, c->ffn_width);
    buffer_printf(out, "heads           %" PRIu32 " query, %" PRIu32 " KV, of %" PRIu32 " elements\n", c->heads,
                  c->kv_heads, c->head_dim);
    buffer_printf(out, "positions       rotary over %" PRIu32 " elements, base %g\n", c->rope_dims, c->rope_base);
    buffer_printf(out, "norm epsilon    %g\n", (double)c->norm_epsilon);
    buffer_printf(out, "vocabulary      %" PRIu32 " tokens, %s output head\n", c->vocabulary,
                  c->tied_head ? "tied" : "its own");
    buffer_printf(out, "context         %" PRIu32 " tokens\n", c->context_trained);
}

static void text_tokenizer(struct buffer *out, const struct model_file *file)
{
    struct model_text template;
    size_t count;
    buffer_text(out, "tokenizer       ");
    append_metadata(out, file, "tokenizer.ggml.model");
    struct model_text pre;
    if (model_file_text(file, "tokenizer.ggml.pre", &pre)) {
        buffer_text(out, ", pre-tokenizer ");
        append_printable(out, pre);
    }
    if (model_file_array(file, "tokenizer.ggml.tokens", &count))
        buffer_printf(out, ", %zu tokens", count);
    if (model_file_array(file, "tokenizer.ggml.merges", &count))
        buffer_printf(out, ", %zu merges", count);
    buffer_byte(out, '\n');
    if (model_file_text(file, "tokenizer.chat_template", &template))
        buffer_printf(out, "chat template   %zu bytes\n", template.size);
    else
        buffer_text(out, "chat template   none\n");
}

static void text_tensor(struct buffer *out, const struct weights *weights, const struct weights_tensor *tensor)
{
    buffer_printf(out, "  %-6s %12zu bytes at %-12zu (", tensor_type_facts(tensor->type)->name, tensor->bytes,
                  (size_t)(tensor->data - weights->map.data));
    for (uint32_t d = 0; d < tensor->dims; d++)
        buffer_printf(out, "%s%" PRIu64, d == 0 ? "" : ", ", tensor->shape[d]);
    buffer_text(out, ") ");
    append_printable(out, tensor->name);
    buffer_byte(out, '\n');
}

static void write_text(const struct facts *facts, bool tensors, struct buffer *out)
{
    const struct weights *weights = &facts->file->weights;
    const char *name = weights_file_name(weights);
    buffer_text(out, "file            ");
    append_printable(out, (struct model_text){name, strlen(name)});
    buffer_printf(out, ", %.1f MiB, %s version %" PRIu32 "\n", (double)weights->map.size / MIB, weights->format,
                  weights->version);
    buffer_printf(out, "architecture    %s\n", facts->architecture.size == 0 ? "none" : facts->architecture.data);
    if (facts->supported) {
        text_config(out, &facts->config);
    } else {
        buffer_text(out, "cannot be run   ");
        append_printable(out, (struct model_text){facts->reason.text, strlen(facts->reason.text)});
        buffer_byte(out, '\n');
    }
    text_tokenizer(out, facts->file);
    buffer_printf(out, "metadata        %zu keys\n", weights->value_count);
    buffer_printf(out, "tensors         %zu\n", weights->tensor_count);
    for (size_t i = 0; i < facts->type_count; i++)
        buffer_printf(out, "  %-6s %5zu, %.1f MiB\n", tensor_type_facts(facts->types[i].type)->name,
                      facts->types[i].count, (double)facts->types[i].bytes / MIB);
    for (size_t i = 0; tensors && i < weights->tensor_count; i++)
        text_tensor(out, weights, &weights->tensors[i]);
}

/* ---- JSON ---- */

static void json_printable(struct json_writer *w, const char *key, struct model_text text)
{
    struct buffer printable = {0};
    append_printable(&printable, text);
    json_key(w, key);
    json_bytes(w, printable.data == NULL ? "" : printable.data, printable.size);
    if (printable.failed)
        w->out->failed = true;
    buffer_free(&printable);
}

static void json_metadata(struct json_writer *w, const char *key, const struct model_file *file, const char *metadata)
{
    struct model_text text;
    if (model_file_text(file, metadata, &text)) {
        json_printable(w, key, text);
    } else {
        json_key(w, key);
        json_null(w);
    }
}

static void json_count(struct json_writer *w, const char *key, uint64_t value)
{
    json_key(w, key);
    json_integer(w, (int64_t)value);
}

static void json_config(struct json_writer *w, const struct model_config *c)
{
    json_key(w, "config");
    json_object_begin(w);
    json_key(w, "name");
    json_string(w, c->name);
    json_count(w, "parameters", c->parameters);
    json_count(w, "layers", c->layers);
    json_count(w, "width", c->width);
    json_count(w, "ffn_width", c->ffn_width);
    json_count(w, "heads", c->heads);
    json_count(w, "kv_heads", c->kv_heads);
    json_count(w, "head_dim", c->head_dim);
    json_count(w, "vocabulary", c->vocabulary);
    json_count(w, "context", c->context_trained);
    json_count(w, "rope_dims", c->rope_dims);
    json_key(w, "rope_base");
    json_number(w, c->rope_base);
    json_key(w, "norm_epsilon");
    json_number(w, (double)c->norm_epsilon);
    json_key(w, "tied_head");
    json_bool(w, c->tied_head);
    json_object_end(w);
}

static void json_tokenizer(struct json_writer *w, const struct model_file *file)
{
    struct model_text template;
    size_t count;
    json_key(w, "tokenizer");
    json_object_begin(w);
    json_metadata(w, "model", file, "tokenizer.ggml.model");
    json_metadata(w, "pre", file, "tokenizer.ggml.pre");
    json_count(w, "tokens", model_file_array(file, "tokenizer.ggml.tokens", &count) ? count : 0);
    json_count(w, "merges", model_file_array(file, "tokenizer.ggml.merges", &count) ? count : 0);
    json_object_end(w);
    json_count(w, "chat_template_bytes",
               model_file_text(file, "tokenizer.chat_template", &template) ? template.size : 0);
}

static void json_types(struct json_writer *w, const struct facts *facts)
{
    json_key(w, "types");
    json_array_begin(w);
    for (size_t i = 0; i < facts->type_count; i++) {
        json_object_begin(w);
        json_key(w, "type");
        json_string(w, tensor_type_facts(facts->types[i].type)->name);
        json_count(w, "tensors", facts->types[i].count);
        json_count(w, "bytes", facts->types[i].bytes);
        json_object_end(w);
    }
    json_array_end(w);
}

static void json_tensors(struct json_writer *w, const struct weights *weights)
{
    json_key(w, "tensors");
    json_array_begin(w);
    for (size_t i = 0; i < weights->tensor_count; i++) {
        const struct weights_tensor *tensor = &weights->tensors[i];
        json_object_begin(w);
        json_printable(w, "name", tensor->name);
        json_key(w, "type");
        json_string(w, tensor_type_facts(tensor->type)->name);
        json_key(w, "shape"); /* innermost first, as in the file */
        json_array_begin(w);
        for (uint32_t d = 0; d < tensor->dims; d++)
            json_integer(w, (int64_t)tensor->shape[d]);
        json_array_end(w);
        json_count(w, "offset", (uint64_t)(tensor->data - weights->map.data));
        json_count(w, "bytes", tensor->bytes);
        json_object_end(w);
    }
    json_array_end(w);
}

static void write_json(const struct facts *facts, bool tensors, struct buffer *out)
{
    const struct weights *weights = &facts->file->weights;
    const char *name = weights_file_name(weights);
    struct json_writer w = json_writer_start(out);
    json_object_begin(&w);
    json_printable(&w, "file", (struct model_text){name, strlen(name)});
    json_count(&w, "bytes", weights->map.size);
    json_key(&w, "format");
    json_string(&w, weights->format);
    json_count(&w, "version", weights->version);
    json_metadata(&w, "architecture", facts->file, "general.architecture");
    json_key(&w, "supported");
    json_bool(&w, facts->supported);
    if (facts->supported)
        json_config(&w, &facts->config);
    else
        json_printable(&w, "reason", (struct model_text){facts->reason.text, strlen(facts->reason.text)});
    json_tokenizer(&w, facts->file);
    json_count(&w, "metadata_keys", weights->value_count);
    json_count(&w, "tensor_count", weights->tensor_count);
    json_types(&w, facts);
    if (tensors)
        json_tensors(&w, weights);
    json_object_end(&w);
    buffer_byte(out, '\n');
}

enum status model_file_describe(const struct model_file *file, bool json, bool tensors, struct buffer *out,
                                struct error *error)
{
    struct facts facts;
    collect(file, &facts);
    if (json)
        write_json(&facts, tensors, out);
    else
        write_text(&facts, tensors, out);
    bool failed = out->failed || facts.architecture.failed;
    buffer_free(&facts.architecture);
    return failed ? error_no_memory(error, "the description of a model file") : STATUS_OK;
}
