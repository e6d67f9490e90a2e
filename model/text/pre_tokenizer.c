/* See pre_tokenizer.h. Patterns are the published ones but for their classes, which are spelt out so that PCRE2 and the
 * reference agree on every code point: \s there does not hold U+180E, and letters and numbers are those of a newer
 * Unicode. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "model/text/pre_tokenizer.h"

#include <pcre2.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/check.h"
#include "model/text/unicode_newer.h"

#define JIT_STACK_START ((size_t)32 << 10)
#define JIT_STACK_MAX ((size_t)1 << 20)
#define HEAP_MAX_KIB (64u << 10)
#define STEPS_MAX 10000000u

/* The insides of character classes. */
#define SPACE \
    "\\x{9}-\\x{D}\\x{20}\\x{85}\\x{A0}\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}\\x{202F}\\x{205F}\\x{3000}"
#define LETTER "\\p{L}" UNICODE_NEWER_LETTERS
#define NUMBER "\\p{N}" UNICODE_NEWER_NUMBERS
#define DIGIT NUMBER UNICODE_NEWEST_NUMBERS

#define GPT2_CONTRACTIONS "'s|'t|'re|'ve|'m|'ll|'d|"

static const struct pre_tokenizer_row rows[] = {
    {
        /* Every number alone, and GPT-2's pattern between them; in one pass. */
        .name = "smollm",
        .pattern = "[" DIGIT "]|" GPT2_CONTRACTIONS " ?[" LETTER "]+| ?[^" SPACE LETTER DIGIT "]+|"
                   "[" SPACE "]+(?![^" SPACE DIGIT "])|[" SPACE "]+",
    },
    {
        .name = "gpt-2",
        .pattern = GPT2_CONTRACTIONS " ?[" LETTER "]+| ?[" NUMBER "]+| ?[^" SPACE LETTER NUMBER "]+|"
                                     "[" SPACE "]+(?![^" SPACE "])|[" SPACE "]+",
    },
    {
        .name = "llama-bpe",
        .pattern = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n" LETTER NUMBER "]?[" LETTER "]+|[" NUMBER "]{1,3}|"
                   " ?[^" SPACE LETTER NUMBER "]+[\\r\\n]*|[" SPACE "]*[\\r\\n]+|[" SPACE "]+(?![^" SPACE "])|"
                   "[" SPACE "]+",
        .whole_words = true,
        .adds_bos = true,
    },
};

#define ROWS (sizeof(rows) / sizeof(rows[0]))

const struct pre_tokenizer_row *pre_tokenizer_find(const char *name, size_t size)
{
    for (size_t i = 0; i < ROWS; i++) {
        if (strlen(rows[i].name) == size && memcmp(rows[i].name, name, size) == 0)
            return &rows[i];
    }
    return NULL;
}

void pre_tokenizer_names(struct buffer *out)
{
    for (size_t i = 0; i < ROWS; i++) {
        buffer_text(out, i == 0 ? "" : ", ");
        buffer_text(out, rows[i].name);
    }
}

struct pre_tokenizer {
    pcre2_code *code;
};

struct pre_tokenizer_scratch {
    pcre2_match_data *match;
    pcre2_match_context *context;
    pcre2_jit_stack *stack;
};

enum status pre_tokenizer_open(const struct pre_tokenizer_row *row, struct pre_tokenizer **out, struct error *error)
{
    struct pre_tokenizer *pre_tokenizer = calloc(1, sizeof(*pre_tokenizer));
    if (pre_tokenizer == NULL)
        return error_no_memory(error, "the pre-tokenizer");
    int reason;
    PCRE2_SIZE offset;
    pre_tokenizer->code =
        pcre2_compile((PCRE2_SPTR)row->pattern, PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_UCP, &reason, &offset, NULL);
    if (pre_tokenizer->code == NULL) {
        PCRE2_UCHAR text[128];
        pcre2_get_error_message(reason, text, sizeof(text));
        pre_tokenizer_close(pre_tokenizer);
        return error_set(error, STATUS_INTERNAL, "pre-tokenizer %s: %s at offset %zu of its pattern", row->name,
                         (const char *)text, offset);
    }
    /* Where compiling to machine code is not possible, matching interprets: slower, the same pieces. */
    (void)pcre2_jit_compile(pre_tokenizer->code, PCRE2_JIT_COMPLETE);
    *out = pre_tokenizer;
    return STATUS_OK;
}

void pre_tokenizer_close(struct pre_tokenizer *pre_tokenizer)
{
    if (pre_tokenizer == NULL)
        return;
    pcre2_code_free(pre_tokenizer->code);
    free(pre_tokenizer);
}

enum status pre_tokenizer_scratch_open(const struct pre_tokenizer *pre_tokenizer, struct pre_tokenizer_scratch **out,
                                       struct error *error)
{
    struct pre_tokenizer_scratch *scratch = calloc(1, sizeof(*scratch));
    if (scratch == NULL)
        return error_no_memory(error, "the pre-tokenizer");
    scratch->match = pcre2_match_data_create_from_pattern(pre_tokenizer->code, NULL);
    scratch->context = pcre2_match_context_create(NULL);
    scratch->stack = pcre2_jit_stack_create(JIT_STACK_START, JIT_STACK_MAX, NULL);
    if (scratch->match == NULL || scratch->context == NULL || scratch->stack == NULL) {
        pre_tokenizer_scratch_close(scratch);
        return error_no_memory(error, "the pre-tokenizer");
    }
    pcre2_set_match_limit(scratch->context, STEPS_MAX);
    pcre2_set_heap_limit(scratch->context, HEAP_MAX_KIB);
    pcre2_jit_stack_assign(scratch->context, NULL, scratch->stack);
    *out = scratch;
    return STATUS_OK;
}

void pre_tokenizer_scratch_close(struct pre_tokenizer_scratch *scratch)
{
    if (scratch == NULL)
        return;
    pcre2_jit_stack_free(scratch->stack);
    pcre2_match_context_free(scratch->context);
    pcre2_match_data_free(scratch->match);
    free(scratch);
}

enum status pre_tokenizer_next(const struct pre_tokenizer *pre_tokenizer, struct pre_tokenizer_scratch *scratch,
                               const char *text, size_t size, size_t at, size_t *end, struct error *error)
{
    CHECK(at < size);
    /* Without NO_UTF_CHECK every call would validate the rest of the text again. */
    int found = pcre2_match(pre_tokenizer->code, (PCRE2_SPTR)text, size, at, PCRE2_NO_UTF_CHECK, scratch->match,
                            scratch->context);
    if (found == PCRE2_ERROR_NOMATCH) {
        *end = size;
        return STATUS_OK;
    }
    if (found < 0) {
        PCRE2_UCHAR reason[128];
        pcre2_get_error_message(found, reason, sizeof(reason));
        enum status status = found == PCRE2_ERROR_NOMEMORY ? STATUS_NO_MEMORY : STATUS_TOO_LARGE;
        return error_set(error, status, "the text at byte %zu cannot be cut into words: %s", at, (const char *)reason);
    }
    const PCRE2_SIZE *piece = pcre2_get_ovector_pointer(scratch->match);
    *end = piece[0] > at ? piece[0] : piece[1];
    CHECK(*end > at && *end <= size);
    return STATUS_OK;
}
