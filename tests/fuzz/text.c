/* Text and tokens: see fuzz.h. */
#include <stdio.h>
#include <string.h>

#include "kernels/base/utf8.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/vocabulary_file.h"

static const char *const control_tokens[] = {"<s>",      "</s>",       "<|im_start|>",        "<|im_end|>",
                                             "<|user|>", "<|eot_id|>", "<|start_header_id|>", "<turn>"};
#define CONTROL_TOKENS (sizeof(control_tokens) / sizeof(control_tokens[0]))

/* As GPT-2 writes it: what can be seen stands for itself, the other bytes are U+0100 and on. */
static void add_bytes(struct vocabulary_file *file)
{
    static char letters[256][5];
    uint32_t hidden = 0x100;
    for (uint32_t byte = 0; byte < 256; byte++) {
        bool seen = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD);
        utf8_encode(seen ? byte : hidden++, letters[byte]);
        file->tokens[file->token_count++] = letters[byte];
    }
}

static void add_merges(struct vocabulary_file *file)
{
    static const char *const merges[] = {"h e", "l l", "he ll", "hell o", "Ġ t", "Ġt h", "Ġth e", "Ċ Ċ", "Ã ©", "1 2"};
    static const char *const merged[] = {"he", "ll", "hell", "hello", "Ġt", "Ġth", "Ġthe", "ĊĊ", "Ã©", "12"};
    for (size_t i = 0; i < sizeof(merges) / sizeof(merges[0]); i++) {
        file->merges[file->merge_count++] = merges[i];
        file->tokens[file->token_count++] = merged[i];
    }
}

struct fuzz_tokenizer fuzz_tokenizer_open(const char *pre)
{
    static struct vocabulary_file vocabulary; /* too large for a stack */
    struct fuzz_tokenizer out;
    struct error error;
    vocabulary =
        (struct vocabulary_file){.model = "gpt2", .pre = pre, .bos = 0, .eos = 1, .eot = 3, .eom = -1, .add_bos = -1};
    for (size_t i = 0; i < CONTROL_TOKENS; i++)
        vocabulary.tokens[vocabulary.token_count++] = control_tokens[i];
    add_bytes(&vocabulary);
    add_merges(&vocabulary);
    vocabulary.tokens[vocabulary.token_count++] = "<mark>";
    vocabulary.kind_count = vocabulary.token_count;
    for (size_t i = 0; i < vocabulary.kind_count; i++)
        vocabulary.kinds[i] = i < CONTROL_TOKENS ? 3 : i + 1 == vocabulary.kind_count ? 4 : 1;
    struct model_file *file = vocabulary_file_open(&vocabulary);
    CHECK(tokenizer_open(file, &out.tokenizer, &error) == STATUS_OK);
    CHECK(tokenizer_scratch_open(out.tokenizer, &out.scratch, &error) == STATUS_OK);
    model_file_close(file);
    return out;
}

/* Whether all of [at, at + size) is trusted; spans without bytes are nowhere. */
static bool is_trusted(const struct tokenizer_input *input, size_t at, size_t size)
{
    size_t start = 0;
    for (size_t i = 0; i < input->span_count; start += input->spans[i++].size) {
        size_t end = start + input->spans[i].size;
        if (input->spans[i].size > 0 && at < end && at + size > start && !input->spans[i].trusted)
            return false;
    }
    return input->spans != NULL || size == 0;
}

void fuzz_check_ids(const struct fuzz_tokenizer *text, const struct tokenizer_input *input,
                    const struct tokenizer_ids *ids)
{
    struct tokenizer_piece piece;
    size_t at = 0, i = 0, total = 0;
    CHECK(ids->unknown_bytes == 0);
    for (size_t k = 0; k < ids->count; k++, total += piece.size)
        CHECK(tokenizer_piece(text->tokenizer, ids->ids[k], &piece));
    if (input->add_bos && tokenizer_adds_bos(text->tokenizer)) {
        CHECK(ids->count > 0 && ids->ids[0] == tokenizer_bos(text->tokenizer));
        i = total == input->size ? 0 : 1; /* or the text begins with it */
    }
    for (; i < ids->count; i++, at += piece.size) {
        tokenizer_piece(text->tokenizer, ids->ids[i], &piece);
        CHECK(piece.size <= input->size - at && memcmp(input->text + at, piece.data, piece.size) == 0);
        CHECK(!piece.control || is_trusted(input, at, piece.size));
    }
    CHECK(at == input->size);
}

/* ---- spans ---- */

/* Whether some value whose path is `path` says `bytes` at the place; keys may have dots themselves. `found` counts the
 * texts with this path. */
static bool says(const struct chat_value *value, const char *path, const struct chat_span *span, const char *bytes,
                 size_t *found)
{
    if (*path == '\0') {
        if (value->kind != CHAT_TEXT && value->kind != CHAT_INTEGER && value->kind != CHAT_FLOAT)
            return false;
        ++*found;
        return span->source_offset <= value->text_size && span->size <= value->text_size - span->source_offset &&
               memcmp(value->text + span->source_offset, bytes, span->size) == 0;
    }
    path += *path == '.' ? 1 : 0;
    for (size_t i = 0; i < value->count; i++) {
        char number[24];
        snprintf(number, sizeof(number), "%zu", i);
        const char *key = value->kind == CHAT_OBJECT ? value->keys[i]->text : number;
        size_t size = strlen(key);
        if (strncmp(path, key, size) == 0 && (path[size] == '.' || path[size] == '\0') &&
            says(value->items[i], path + size, span, bytes, found))
            return true;
    }
    return false;
}

/* Paths that were cut, being too long, and those of a container's parts that have none of their own, name no text. */
static void check_source(const struct chat_span *span, const char *bytes, const struct chat *chat)
{
    size_t found = 0;
    if (span->message < 0 || span->field == NULL || span->source_offset == CHAT_SPAN_UNKNOWN)
        return;
    CHECK((size_t)span->message < chat->messages->count);
    const struct chat_value *message = chat->messages->items[span->message];
    const char *path = strcmp(span->field, "content.0.text") == 0 ? "content" : span->field;
    CHECK(says(message, path, span, bytes, &found) || found == 0);
}

void fuzz_check_spans(const struct chat_prompt *prompt, const struct chat *chat)
{
    size_t at = 0;
    for (size_t i = 0; i < prompt->span_count; i++) {
        const struct chat_span *span = &prompt->spans[i];
        CHECK(span->offset == at && span->size > 0 && span->size <= prompt->size - at);
        check_source(span, prompt->text + at, chat);
        at += span->size;
    }
    CHECK(at == prompt->size);
    CHECK(utf8_invalid_at(prompt->text, prompt->size) == prompt->size);
}
