/* libFuzzer entry of the tokenizer: the first bytes draw the spans, the rest is the text. Whatever comes in, encoding
 * fails with the offset of what is not UTF-8, or decodes to the text again, and no control token comes out of untrusted
 * bytes. On a small vocabulary, so that it needs no model file:
 *
 *     clang -std=c17 -D_GNU_SOURCE -g -O1 -fsanitize=fuzzer,address,undefined -I. tests/fuzz/tokenizer_fuzz.c
 *         tests/unit/model/text/vocabulary_file.c tests/support/gguf_writer.c <sources of model, kernels> <libraries> */
#include "kernels/base/check.h"
#include "kernels/base/utf8.h"
#include "model/text/tokenizer.h"
#include "tests/unit/model/text/vocabulary_file.h"

#define SPANS 8

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct target {
    struct tokenizer *tokenizer;
    struct tokenizer_scratch *scratch;
    struct tokenizer_ids ids;
};

/* Letters for all of ASCII that can be seen, so that no byte of a special token's text is ever left out. */
static void add_letters(struct vocabulary_file *file)
{
    static char letters[128][2];
    for (char letter = '!'; letter <= '~'; letter++) {
        if (letter == '1' || (letter >= 'a' && letter <= 'h'))
            continue;
        letters[(size_t)letter][0] = letter;
        file->tokens[file->token_count++] = letters[(size_t)letter];
        file->kinds[file->kind_count++] = 1;
    }
}

/* Opened once for the life of the process. */
static struct target *open_target(void)
{
    static struct target target;
    if (target.tokenizer != NULL)
        return &target;
    struct vocabulary_file small = vocabulary_file_small();
    add_letters(&small);
    struct model_file *file = vocabulary_file_open(&small);
    struct error error;
    CHECK(tokenizer_open(file, &target.tokenizer, &error) == STATUS_OK);
    CHECK(tokenizer_scratch_open(target.tokenizer, &target.scratch, &error) == STATUS_OK);
    model_file_close(file);
    return &target;
}

/* All of `size` in spans whose sizes and trust the bytes of `draw` say. */
static size_t draw_spans(const uint8_t draw[SPANS], size_t size, struct tokenizer_span spans[SPANS + 1])
{
    size_t count = 0, left = size;
    for (size_t i = 0; i < SPANS; i++) {
        size_t take = draw[i] >> 1 < left ? draw[i] >> 1 : left;
        spans[count++] = (struct tokenizer_span){take, draw[i] & 1};
        left -= take;
    }
    spans[count++] = (struct tokenizer_span){left, false};
    return count;
}

static bool in_vocabulary(char byte)
{
    return (byte >= ' ' && byte <= '~') || byte == '\n';
}

static bool is_trusted(const struct tokenizer_input *input, size_t at)
{
    size_t start = 0;
    for (size_t i = 0; i < input->span_count; start += input->spans[i++].size) {
        if (at >= start && at - start < input->spans[i].size)
            return input->spans[i].trusted;
    }
    return false;
}

/* Walks ids and text side by side: each byte stands for itself, or was left out. */
static void check_ids(const struct target *target, const struct tokenizer_input *input)
{
    size_t at = 0, unknown = 0;
    for (size_t i = 0; i < target->ids.count; i++) {
        struct tokenizer_piece piece;
        CHECK(tokenizer_piece(target->tokenizer, target->ids.ids[i], &piece));
        for (size_t k = 0; k < piece.size; k++, at++) {
            for (; at < input->size && !in_vocabulary(input->text[at]); at++)
                unknown++;
            CHECK(at < input->size && input->text[at] == piece.data[k]);
            CHECK(!piece.control || is_trusted(input, at));
        }
    }
    for (; at < input->size; at++, unknown++)
        CHECK(!in_vocabulary(input->text[at]));
    CHECK(unknown == target->ids.unknown_bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < SPANS)
        return 0;
    struct target *target = open_target();
    struct tokenizer_span spans[SPANS + 1];
    struct tokenizer_input input = {.text = (const char *)data + SPANS, .size = size - SPANS, .spans = spans};
    input.span_count = draw_spans(data, input.size, spans);
    target->ids.count = 0;
    target->ids.unknown_bytes = 0;
    struct error error;
    enum status status = tokenizer_encode(target->tokenizer, target->scratch, &input, &target->ids, &error);
    bool valid = utf8_invalid_at(input.text, input.size) == input.size;
    CHECK(valid ? status == STATUS_OK : status == STATUS_INVALID);
    if (valid)
        check_ids(target, &input);
    return 0;
}
