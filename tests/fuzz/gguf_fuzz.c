/* A model file. Its first reader runs on a block of exactly its size, so that the first byte too far is seen; then
 * the file is opened as the server does it: configuration, description, tokenizer, weights, and two steps. What is
 * opened holds what the file says and no more memory than a small file may ask for (the fuzzer's -malloc_limit_mb);
 * what is not is refused with a reason. */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "model/batch.h"
#include "model/model_file.h"
#include "tests/fuzz/fuzz.h"

#define CONTEXT 32
#define TOKENS 3

/* ---- the reader ---- */

/* Reads all that the file claims to have. */
static void touch(const struct weights *weights)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < weights->value_count; i++) {
        const struct weights_value *value = &weights->values[i];
        CHECK(weights_value(weights, value->key.data, value->key.size) == value);
        for (uint64_t e = 0; e < value->count; e++) {
            struct model_text text = {0};
            double number = 0;
            if (weights_read_text(value, e, &text) && text.size > 0)
                sum += (uint8_t)text.data[0] + (uint8_t)text.data[text.size - 1];
            sum += weights_read_number(value, e, &number);
        }
    }
    for (size_t i = 0; i < weights->tensor_count; i++) {
        const struct weights_tensor *tensor = &weights->tensors[i];
        CHECK(weights_tensor(weights, tensor->name.data, tensor->name.size) == tensor);
        CHECK(tensor->bytes > 0 && tensor->bytes <= weights->map.size);
        sum += tensor->data[0] + tensor->data[tensor->bytes - 1];
    }
    CHECK(sum != UINT64_MAX); /* so that the reads are made */
}

/* The file's memory is the caller's. */
static void read_exactly(const uint8_t *data, size_t size)
{
    static char path[] = "model.gguf";
    struct weights weights = {.map = {.data = data, .size = size, .path = path}};
    struct error error = {0};
    if (weights_gguf.recognizes(data, size)) {
        weights.format = weights_gguf.name;
        enum status status = weights_gguf.read(&weights, &error);
        if (status == STATUS_OK)
            touch(&weights);
        else
            CHECK(status == STATUS_INVALID && status == error.status && error.text[0] != '\0');
    }
    weights.map = (struct file_map){0};
    weights_close(&weights);
}

/* ---- the model ---- */

static void step(struct model *model)
{
    uint32_t vocabulary = model_config(model)->vocabulary, pages[CONTEXT] = {0};
    int32_t ids[TOKENS + 1] = {0, (int32_t)(vocabulary - 1), (int32_t)(vocabulary / 2)};
    struct sample_row draw = {.temperature = 1, .top_p = 0.9F, .top_k = 5, .repetition_penalty = 1, .seed = 1};
    struct sample_result result;
    for (uint32_t i = 0; i < CONTEXT && i < model_kv_pages(model); i++)
        pages[i] = i;
    struct batch_sequence sequence = {
        .ids = ids, .count = TOKENS, .pages = {pages}, .sample = &draw, .sample_count = 1};
    model_step_submit(model, &(struct batch){.sequences = &sequence, .sequence_count = 1});
    CHECK(model_step_collect(model, &result) == STATUS_OK);
    CHECK(result.id >= 0 && (uint32_t)result.id < vocabulary);
    ids[TOKENS] = result.id;
    sequence = (struct batch_sequence){
        .ids = ids + TOKENS, .count = 1, .position = TOKENS, .pages = {pages}, .sample = &draw, .sample_count = 1};
    model_step_submit(model, &(struct batch){.sequences = &sequence, .sequence_count = 1});
    CHECK(model_step_collect(model, &result) == STATUS_OK);
    CHECK(result.id >= 0 && (uint32_t)result.id < vocabulary);
}

static void open_weights(const struct model_file *file)
{
    struct model_args args = {.ops = &kernels_cpu,
                              .cpu = "auto",
                              .threads = 1,
                              .context = CONTEXT,
                              .block_tokens = 16,
                              .kv_bytes = 8 << 20,
                              .rows_max = 16,
                              .sequences_max = 2,
                              .logits_rows_max = 2};
    struct model *model;
    struct error error = {0};
    if (model_open(file, &args, &model, &error) == STATUS_OK) {
        if (model_context(model) > TOKENS)
            step(model);
        model_close(model);
    } else {
        CHECK(error.status != STATUS_INTERNAL && error.text[0] != '\0');
    }
}

static void open_tokenizer(const struct model_file *file)
{
    static const char text[] = "<s>hello the world 123 \xC3\xA9</s>";
    struct fuzz_tokenizer opened = {0};
    struct tokenizer_ids ids = {0};
    struct tokenizer_input input = {.text = text, .size = sizeof(text) - 1, .add_bos = true};
    struct tokenizer_piece piece;
    struct error error = {0};
    enum status status = tokenizer_open(file, &opened.tokenizer, &error);
    if (status != STATUS_OK) {
        CHECK(status == error.status && status != STATUS_INTERNAL && error.text[0] != '\0');
        return;
    }
    CHECK(tokenizer_scratch_open(opened.tokenizer, &opened.scratch, &error) == STATUS_OK);
    CHECK(tokenizer_encode(opened.tokenizer, opened.scratch, &input, &ids, &error) == STATUS_OK);
    for (size_t i = 0; i < ids.count; i++)
        CHECK(tokenizer_piece(opened.tokenizer, ids.ids[i], &piece));
    tokenizer_ids_free(&ids);
    tokenizer_scratch_close(opened.scratch);
    tokenizer_close(opened.tokenizer);
}

static void open_template(const struct model_file *file)
{
    struct chat_template_tokens tokens = {0};
    struct chat_template *chat_template = NULL;
    struct model_text source;
    struct error error;
    if (model_file_text(file, "tokenizer.chat_template", &source))
        chat_template_open(source.data, source.size, &tokens, &chat_template, &error);
    chat_template_close(chat_template);
}

static void open_file(const uint8_t *data, size_t size)
{
    char path[64];
    struct model_file *file;
    struct error error = {0};
    struct buffer out = {0};
    int fd = memfd_create("gguf", MFD_CLOEXEC);
    CHECK(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    if (model_file_open(path, &file, &error) == STATUS_OK) {
        CHECK(model_file_describe(file, true, true, &out, &error) == STATUS_OK);
        fuzz_check_json(out.data, out.size);
        buffer_clear(&out);
        CHECK(model_file_describe(file, false, true, &out, &error) == STATUS_OK);
        open_tokenizer(file);
        open_template(file);
        open_weights(file);
        model_file_close(file);
    } else {
        CHECK(error.status != STATUS_INTERNAL && error.text[0] != '\0');
    }
    buffer_free(&out);
    close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    read_exactly(data, size);
    open_file(data, size);
    return 0;
}
