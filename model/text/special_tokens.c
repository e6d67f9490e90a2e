/* See special_tokens.h. Tokens are sorted; at a place where one may begin, the range of tokens that still agree with
 * the text is narrowed byte by byte. */
#include "model/text/special_tokens.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/check.h"
#include "kernels/base/size.h"

#define SPECIAL_CONTROL 1
#define SPECIAL_PLAIN 2

static int compare_tokens(const void *a, const void *b)
{
    const struct special_token *left = a, *right = b;
    int order = memcmp(left->text, right->text, size_min(left->size, right->size));
    if (order != 0)
        return order;
    return (left->size > right->size) - (left->size < right->size);
}

static enum status check_tokens(const struct special_tokens *special, struct error *error)
{
    for (size_t i = 0; i < special->count; i++) {
        const struct special_token *token = &special->tokens[i];
        if (token->size == 0 || token->size > SPECIAL_TOKEN_BYTES_MAX)
            return error_set(error, STATUS_INVALID, "special token %" PRId32 " has %zu bytes; it must have 1 to %d",
                             token->id, token->size, SPECIAL_TOKEN_BYTES_MAX);
        if (i > 0 && compare_tokens(token - 1, token) == 0)
            return error_set(error, STATUS_INVALID, "special tokens %" PRId32 " and %" PRId32 " have the same text",
                             token[-1].id, token->id);
    }
    return STATUS_OK;
}

enum status special_tokens_open(struct special_token *tokens, size_t count, struct special_tokens *out,
                                struct error *error)
{
    *out = (struct special_tokens){.tokens = tokens, .count = count};
    CHECK(count < UINT32_MAX);
    if (count > 0)
        qsort(tokens, count, sizeof(*tokens), compare_tokens);
    enum status status = check_tokens(out, error);
    if (status != STATUS_OK) {
        special_tokens_close(out);
        return status;
    }
    for (size_t i = 0; i < count; i++) {
        uint8_t byte = (uint8_t)tokens[i].text[0];
        out->starts[byte] |= tokens[i].control ? SPECIAL_CONTROL : SPECIAL_PLAIN;
        out->kinds |= out->starts[byte];
        out->first[byte + 1]++;
    }
    for (size_t byte = 0; byte < 256; byte++)
        out->first[byte + 1] += out->first[byte];
    return STATUS_OK;
}

void special_tokens_close(struct special_tokens *special)
{
    free(special->tokens);
    *special = (struct special_tokens){0};
}

/* The first token of [low, high) whose byte at `depth` is at least `byte`; all of them are longer than depth. */
static size_t narrow(const struct special_tokens *special, size_t low, size_t high, size_t depth, unsigned byte)
{
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if ((uint8_t)special->tokens[middle].text[depth] < byte)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The longest token at `at`, control tokens only up to control_end; NULL: none. */
static const struct special_token *longest_at(const struct special_tokens *special, const char *text, size_t size,
                                              size_t at, size_t control_end)
{
    const struct special_token *longest = NULL;
    size_t low = special->first[(uint8_t)text[at]], high = special->first[(uint8_t)text[at] + 1];
    for (size_t depth = 1; low < high; depth++) {
        const struct special_token *shortest = &special->tokens[low];
        if (shortest->size == depth) {
            if (!shortest->control || at + depth <= control_end)
                longest = shortest;
            low++;
        }
        if (at + depth == size)
            break;
        unsigned byte = (uint8_t)text[at + depth];
        low = narrow(special, low, high, depth, byte);
        high = narrow(special, low, high, depth, byte + 1);
    }
    return longest;
}

struct special_cursor special_cursor_start(const struct tokenizer_input *input)
{
    return (struct special_cursor){.input = input};
}

/* Moves to the stretch that holds `at`; at < input->size. */
static void enter_stretch(struct special_cursor *cursor)
{
    const struct tokenizer_input *input = cursor->input;
    if (input->spans == NULL) {
        cursor->stretch_end = input->size;
        return;
    }
    while (cursor->next_span < input->span_count) {
        const struct tokenizer_span *span = &input->spans[cursor->next_span];
        bool joins = span->size == 0 || span->trusted == cursor->trusted;
        if (!joins && cursor->at < cursor->stretch_end)
            break;
        if (span->size > 0)
            cursor->trusted = span->trusted;
        cursor->stretch_end += span->size;
        cursor->next_span++;
    }
    CHECK(cursor->at < cursor->stretch_end && cursor->stretch_end <= input->size);
}

bool special_tokens_next(const struct special_tokens *special, struct special_cursor *cursor,
                         struct special_match *match)
{
    const char *text = cursor->input->text;
    size_t size = cursor->input->size;
    while (cursor->at < size) {
        if (cursor->at >= cursor->stretch_end)
            enter_stretch(cursor);
        uint8_t kinds = special->kinds & (cursor->trusted ? SPECIAL_CONTROL | SPECIAL_PLAIN : SPECIAL_PLAIN);
        size_t at = kinds == 0 ? cursor->stretch_end : cursor->at;
        while (at < cursor->stretch_end && (special->starts[(uint8_t)text[at]] & kinds) == 0)
            at++;
        cursor->at = at;
        if (at == cursor->stretch_end)
            continue;
        const struct special_token *token =
            longest_at(special, text, size, at, cursor->trusted ? cursor->stretch_end : at);
        if (token != NULL) {
            *match = (struct special_match){.offset = at, .size = token->size, .id = token->id};
            cursor->at = at + token->size;
            return true;
        }
        cursor->at = at + 1;
    }
    return false;
}
