/* See tokenizer.h. A text is cut at its special tokens; what lies between is cut into pieces by the pre-tokenizer, and
 * each piece is merged into tokens. */
#include "model/text/tokenizer.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/check.h"
#include "kernels/base/size.h"
#include "kernels/base/utf8.h"
#include "model/text/bpe.h"
#include "model/text/file_name.h"
#include "model/text/pre_tokenizer.h"
#include "model/text/special_tokens.h"
#include "model/text/vocabulary.h"

#define TEXT_BYTES_MAX ((size_t)64 << 20)
#define END_IDS_MAX 3

#define MODEL_KEY "tokenizer.ggml.model"
#define PRE_KEY "tokenizer.ggml.pre"
#define BYTE_LEVEL_BPE "gpt2" /* as GGUF calls it */

struct tokenizer {
    struct vocabulary vocabulary;
    struct pre_tokenizer *pre_tokenizer;
    struct bpe *bpe;
    struct special_tokens special;
    int32_t bos; /* -1: none */
    int32_t eos; /* -1: none */
    bool adds_bos;
    int32_t end_ids[END_IDS_MAX];
    uint32_t end_count;
};

struct tokenizer_scratch {
    const struct tokenizer *tokenizer;
    struct pre_tokenizer_scratch *pre_tokenizer;
    struct bpe_scratch *bpe;
};

/* ---- opening ---- */

/* A name from a file, fit for a message. */
struct shown_name {
    char text[48];
};

static struct shown_name show_name(struct model_text name)
{
    struct shown_name shown;
    size_t size = size_min(name.size, sizeof(shown.text) - 1);
    for (size_t i = 0; i < size; i++)
        shown.text[i] = (char)(name.data[i] >= ' ' && name.data[i] <= '~' ? name.data[i] : '?');
    shown.text[size] = '\0';
    return shown;
}

static enum status check_model(const struct model_file *file, struct error *error)
{
    struct model_text name;
    if (!model_file_text(file, MODEL_KEY, &name))
        return error_set(error, STATUS_INVALID, "%.100s has no %s: there is no tokenizer in it", file_name(file),
                         MODEL_KEY);
    if (name.size == strlen(BYTE_LEVEL_BPE) && memcmp(name.data, BYTE_LEVEL_BPE, name.size) == 0)
        return STATUS_OK;
    return error_set(error, STATUS_UNSUPPORTED, "%.100s: %s is \"%s\"; known is %s (byte-level BPE)", file_name(file),
                     MODEL_KEY, show_name(name).text, BYTE_LEVEL_BPE);
}

static enum status find_pre_tokenizer(const struct model_file *file, const struct pre_tokenizer_row **row,
                                      struct error *error)
{
    struct model_text name;
    bool named = model_file_text(file, PRE_KEY, &name);
    *row = named ? pre_tokenizer_find(name.data, name.size) : NULL;
    if (*row != NULL)
        return STATUS_OK;
    struct buffer known = {0};
    pre_tokenizer_names(&known);
    const char *names = known.failed ? "" : known.data;
    if (named)
        error_set(error, STATUS_UNSUPPORTED, "%.100s: %s is \"%s\"; known are %s", file_name(file), PRE_KEY,
                  show_name(name).text, names);
    else
        error_set(error, STATUS_INVALID, "%.100s has no %s, without which its ids cannot be right; known are %s",
                  file_name(file), PRE_KEY, names);
    buffer_free(&known);
    return error->status;
}

static enum status read_special_tokens(const struct model_file *file, struct tokenizer *tokenizer, struct error *error)
{
    const struct vocabulary *vocabulary = &tokenizer->vocabulary;
    size_t count = 0;
    for (uint32_t id = 0; id < vocabulary->count; id++)
        count += vocabulary_is_control(vocabulary, id) || vocabulary->kinds[id] == TOKEN_USER_DEFINED;
    struct special_token *tokens = malloc((count > 0 ? count : 1) * sizeof(*tokens));
    if (tokens == NULL)
        return error_no_memory(error, "the special tokens");
    count = 0;
    for (uint32_t id = 0; id < vocabulary->count; id++) {
        bool control = vocabulary_is_control(vocabulary, id);
        if (!control && vocabulary->kinds[id] != TOKEN_USER_DEFINED)
            continue;
        struct model_text text = vocabulary_token(vocabulary, id);
        tokens[count++] = (struct special_token){text.data, text.size, (int32_t)id, control};
    }
    struct error reason;
    enum status status = special_tokens_open(tokens, count, &tokenizer->special, &reason);
    if (status != STATUS_OK)
        error_set(error, status, "%.100s: %s", file_name(file), reason.text);
    return status;
}

/* -1: the file has no such key. */
static enum status read_id(const struct model_file *file, const char *key, uint32_t vocabulary, int32_t *out,
                           struct error *error)
{
    int64_t id;
    *out = -1;
    if (!model_file_integer(file, key, &id))
        return STATUS_OK;
    if (id < 0 || id >= (int64_t)vocabulary)
        return error_set(error, STATUS_INVALID,
                         "%.100s: %s is %" PRId64 "; it must be below %" PRIu32 ", the number of tokens",
                         file_name(file), key, id, vocabulary);
    *out = (int32_t)id;
    return STATUS_OK;
}

static void add_end_id(struct tokenizer *tokenizer, int32_t id)
{
    for (uint32_t i = 0; i < tokenizer->end_count; i++) {
        if (tokenizer->end_ids[i] == id)
            return;
    }
    if (id >= 0)
        tokenizer->end_ids[tokenizer->end_count++] = id;
}

static enum status read_ids(const struct model_file *file, struct tokenizer *tokenizer, bool adds_bos,
                            struct error *error)
{
    static const char *const end_keys[END_IDS_MAX] = {
        "tokenizer.ggml.eos_token_id",
        "tokenizer.ggml.eot_token_id",
        "tokenizer.ggml.eom_token_id",
    };
    uint32_t count = tokenizer->vocabulary.count;
    enum status status = read_id(file, "tokenizer.ggml.bos_token_id", count, &tokenizer->bos, error);
    for (size_t i = 0; i < END_IDS_MAX && status == STATUS_OK; i++) {
        int32_t id;
        status = read_id(file, end_keys[i], count, &id, error);
        if (status != STATUS_OK)
            break;
        if (i == 0)
            tokenizer->eos = id;
        add_end_id(tokenizer, id);
    }
    if (status != STATUS_OK)
        return status;
    tokenizer->adds_bos = adds_bos;
    (void)model_file_bool(file, "tokenizer.ggml.add_bos_token", &tokenizer->adds_bos);
    if (tokenizer->adds_bos && tokenizer->bos < 0)
        return error_set(error, STATUS_INVALID,
                         "%.100s: prompts begin with BOS, but there is no tokenizer.ggml.bos_token_id",
                         file_name(file));
    return STATUS_OK;
}

enum status tokenizer_open(const struct model_file *file, struct tokenizer **out, struct error *error)
{
    const struct pre_tokenizer_row *row;
    struct tokenizer *tokenizer = calloc(1, sizeof(*tokenizer));
    if (tokenizer == NULL)
        return error_no_memory(error, "the tokenizer");
    enum status status = check_model(file, error);
    if (status == STATUS_OK)
        status = find_pre_tokenizer(file, &row, error);
    if (status == STATUS_OK)
        status = vocabulary_open(file, &tokenizer->vocabulary, error);
    if (status == STATUS_OK)
        status = read_special_tokens(file, tokenizer, error);
    if (status == STATUS_OK)
        status = read_ids(file, tokenizer, row->adds_bos, error);
    if (status == STATUS_OK)
        status = bpe_open(file, &tokenizer->vocabulary, row->whole_words, &tokenizer->bpe, error);
    if (status == STATUS_OK)
        status = pre_tokenizer_open(row, &tokenizer->pre_tokenizer, error);
    if (status != STATUS_OK) {
        tokenizer_close(tokenizer);
        return status;
    }
    *out = tokenizer;
    return STATUS_OK;
}

void tokenizer_close(struct tokenizer *tokenizer)
{
    if (tokenizer == NULL)
        return;
    pre_tokenizer_close(tokenizer->pre_tokenizer);
    bpe_close(tokenizer->bpe);
    special_tokens_close(&tokenizer->special);
    vocabulary_close(&tokenizer->vocabulary);
    free(tokenizer);
}

/* ---- what it knows ---- */

uint32_t tokenizer_vocabulary(const struct tokenizer *tokenizer)
{
    return tokenizer->vocabulary.count;
}

bool tokenizer_adds_bos(const struct tokenizer *tokenizer)
{
    return tokenizer->adds_bos;
}

int32_t tokenizer_bos(const struct tokenizer *tokenizer)
{
    return tokenizer->bos;
}

int32_t tokenizer_eos(const struct tokenizer *tokenizer)
{
    return tokenizer->eos;
}

const int32_t *tokenizer_end_ids(const struct tokenizer *tokenizer, uint32_t *count)
{
    *count = tokenizer->end_count;
    return tokenizer->end_ids;
}

bool tokenizer_piece(const struct tokenizer *tokenizer, int32_t id, struct tokenizer_piece *out)
{
    if (id < 0 || (uint32_t)id >= tokenizer->vocabulary.count)
        return false;
    struct model_text token = vocabulary_token(&tokenizer->vocabulary, (uint32_t)id);
    *out = (struct tokenizer_piece){
        .data = token.data,
        .size = token.size,
        .control = vocabulary_is_control(&tokenizer->vocabulary, (uint32_t)id),
    };
    return true;
}

const char *tokenizer_special_text(const struct tokenizer *tokenizer, int32_t id)
{
    struct tokenizer_piece piece;
    return tokenizer_piece(tokenizer, id, &piece) ? piece.data : "";
}

/* ---- encoding ---- */

enum status tokenizer_scratch_open(const struct tokenizer *tokenizer, struct tokenizer_scratch **out,
                                   struct error *error)
{
    struct tokenizer_scratch *scratch = calloc(1, sizeof(*scratch));
    if (scratch == NULL)
        return error_no_memory(error, "the tokenizer");
    scratch->tokenizer = tokenizer;
    enum status status = pre_tokenizer_scratch_open(tokenizer->pre_tokenizer, &scratch->pre_tokenizer, error);
    if (status == STATUS_OK)
        status = bpe_scratch_open(&scratch->bpe, error);
    if (status != STATUS_OK) {
        tokenizer_scratch_close(scratch);
        return status;
    }
    *out = scratch;
    return STATUS_OK;
}

void tokenizer_scratch_close(struct tokenizer_scratch *scratch)
{
    if (scratch == NULL)
        return;
    bpe_scratch_close(scratch->bpe);
    pre_tokenizer_scratch_close(scratch->pre_tokenizer);
    free(scratch);
}

static enum status append(struct tokenizer_ids *out, const int32_t *ids, size_t count, struct error *error)
{
    if (out->capacity - out->count < count) {
        size_t capacity, bytes;
        if (!size_multiply(size_max(out->capacity, 32), 2, &capacity) || !size_add(capacity, count, &capacity) ||
            !size_multiply(capacity, sizeof(*ids), &bytes))
            return error_no_memory(error, "the ids");
        int32_t *grown = realloc(out->ids, bytes);
        if (grown == NULL)
            return error_no_memory(error, "the ids");
        out->ids = grown;
        out->capacity = capacity;
    }
    if (count == 1)
        out->ids[out->count] = *ids;
    else
        memcpy(out->ids + out->count, ids, count * sizeof(*ids));
    out->count += count;
    return STATUS_OK;
}

/* Text without special tokens. */
static enum status encode_plain(struct tokenizer_scratch *scratch, const char *text, size_t size,
                                struct tokenizer_ids *out, struct error *error)
{
    const struct tokenizer *tokenizer = scratch->tokenizer;
    for (size_t at = 0, end = 0; at < size; at = end) {
        struct bpe_tokens tokens;
        enum status status =
            pre_tokenizer_next(tokenizer->pre_tokenizer, scratch->pre_tokenizer, text, size, at, &end, error);
        if (status == STATUS_OK)
            status = bpe_encode(tokenizer->bpe, scratch->bpe, text + at, end - at, &tokens, error);
        if (status == STATUS_OK && tokens.count > 0)
            status = append(out, tokens.ids, tokens.count, error);
        if (status != STATUS_OK)
            return status;
        out->unknown_bytes += tokens.unknown_bytes;
    }
    return STATUS_OK;
}

static enum status encode_text(struct tokenizer_scratch *scratch, const struct tokenizer_input *input,
                               struct tokenizer_ids *out, struct error *error)
{
    struct special_cursor cursor = special_cursor_start(input);
    struct special_match match;
    size_t done = 0;
    enum status status = STATUS_OK;
    while (status == STATUS_OK && special_tokens_next(&scratch->tokenizer->special, &cursor, &match)) {
        status = encode_plain(scratch, input->text + done, match.offset - done, out, error);
        if (status == STATUS_OK)
            status = append(out, &match.id, 1, error);
        done = match.offset + match.size;
    }
    if (status == STATUS_OK)
        status = encode_plain(scratch, input->text + done, input->size - done, out, error);
    return status;
}

static enum status check_input(const struct tokenizer_input *input, struct error *error)
{
    size_t covered = 0;
    for (size_t i = 0; input->spans != NULL && i < input->span_count; i++)
        CHECK(size_add(covered, input->spans[i].size, &covered));
    CHECK(input->spans == NULL || covered == input->size);
    if (input->size > TEXT_BYTES_MAX)
        return error_set(error, STATUS_TOO_LARGE, "the text has %zu bytes; the limit is %zu", input->size,
                         TEXT_BYTES_MAX);
    size_t invalid = utf8_invalid_at(input->text, input->size);
    if (invalid != input->size)
        return error_set(error, STATUS_INVALID, "the text is not valid UTF-8 at byte %zu", invalid);
    return STATUS_OK;
}

enum status tokenizer_encode(const struct tokenizer *tokenizer, struct tokenizer_scratch *scratch,
                             const struct tokenizer_input *input, struct tokenizer_ids *out, struct error *error)
{
    CHECK(scratch->tokenizer == tokenizer);
    size_t count_before = out->count, unknown_before = out->unknown_bytes;
    bool adds_bos = input->add_bos && tokenizer->adds_bos;
    enum status status = check_input(input, error);
    if (status == STATUS_OK && adds_bos)
        status = append(out, &tokenizer->bos, 1, error);
    if (status == STATUS_OK)
        status = encode_text(scratch, input, out, error);
    bpe_scratch_trim(scratch->bpe);
    if (status != STATUS_OK) {
        out->count = count_before;
        out->unknown_bytes = unknown_before;
        return status;
    }
    if (adds_bos && out->count - count_before > 1 && out->ids[count_before + 1] == tokenizer->bos) {
        int32_t *ids = out->ids + count_before;
        out->count--;
        memmove(ids, ids + 1, (out->count - count_before) * sizeof(*ids));
    }
    return STATUS_OK;
}

void tokenizer_ids_free(struct tokenizer_ids *ids)
{
    free(ids->ids);
    *ids = (struct tokenizer_ids){0};
}
