/* The first byte chooses the pre-tokenizer, the next the spans and their trust, the rest is the text. Encoding fails
 * with the offset of what is not UTF-8, or the ids say the text again and no control token comes out of untrusted
 * bytes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/utf8.h"
#include "tests/fuzz/fuzz.h"

#define SPANS 8
#define HEAD (1 + SPANS)

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

static const struct fuzz_tokenizer *choose(uint8_t byte)
{
    static const char *const names[] = {"smollm", "gpt-2", "llama-bpe"};
    static struct fuzz_tokenizer opened[sizeof(names) / sizeof(names[0])];
    size_t choice = fuzz_choice(byte, sizeof(names) / sizeof(names[0]));
    if (opened[choice].tokenizer == NULL)
        opened[choice] = fuzz_tokenizer_open(names[choice]);
    return &opened[choice];
}

static void check_offset(const struct error *error, const struct tokenizer_input *input)
{
    char offset[32];
    snprintf(offset, sizeof(offset), "%zu", utf8_invalid_at(input->text, input->size));
    CHECK(strstr(error->text, offset) != NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct tokenizer_ids ids; /* grows once */
    if (size < HEAD)
        return 0;
    const struct fuzz_tokenizer *text = choose(data[0]);
    struct tokenizer_span spans[SPANS + 1];
    char *copy = fuzz_copy(data + HEAD, size - HEAD);
    struct tokenizer_input input = {.text = copy, .size = size - HEAD, .spans = spans, .add_bos = data[1] & 1};
    input.span_count = draw_spans(data + 1, input.size, spans);
    ids.count = ids.unknown_bytes = 0;
    struct error error = {0};
    enum status status = tokenizer_encode(text->tokenizer, text->scratch, &input, &ids, &error);
    if (utf8_invalid_at(copy, input.size) == input.size) {
        CHECK(status == STATUS_OK);
        fuzz_check_ids(text, &input, &ids);
    } else {
        CHECK(ids.count == 0);
        fuzz_check_refusal(status, &error);
        check_offset(&error, &input);
    }
    free(copy);
    return 0;
}
