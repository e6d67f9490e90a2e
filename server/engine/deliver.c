/* Detokenizer, then stop strings, over one buffer whose front is given out. */
#include "server/engine/deliver.h"

#include <string.h>

#include "kernels/base/check.h"

/* Bytes taken at open: longer than any ordinary token. */
#define TEXT_BYTES 1024

enum status deliver_open(const struct deliver_args *args, struct deliver *out, struct error *error)
{
    const struct api_call *call = args->call;
    *out = (struct deliver){
        .detokenizer = detokenizer_start(args->tokenizer, !call->skip_special_tokens),
        .end_ids = args->end_ids,
        .end_count = args->end_count,
        .tokens_max = args->tokens_max,
        .min_tokens = call->min_tokens,
        .include_stop_text = call->include_stop_text,
    };
    size_t longest = 0;
    for (uint32_t i = 0; i < call->stop_count; i++)
        longest = call->stop[i].size > longest ? call->stop[i].size : longest;
    if (stop_text_open(call->stop, call->stop_count, &out->stop, error) != STATUS_OK)
        return error->status;
    if (!buffer_reserve(&out->text, longest + TEXT_BYTES)) {
        deliver_close(out);
        return error_no_memory(error, "a reply's text");
    }
    return STATUS_OK;
}

void deliver_close(struct deliver *deliver)
{
    stop_text_close(&deliver->stop);
    buffer_free(&deliver->text);
}

static bool ends(const struct deliver *deliver, int32_t id)
{
    for (uint32_t i = 0; i < deliver->end_count; i++) {
        if (deliver->end_ids[i] == id)
            return deliver->tokens > deliver->min_tokens;
    }
    return false;
}

static void drop_given(struct deliver *deliver)
{
    struct buffer *text = &deliver->text;
    if (deliver->given > 0)
        memmove(text->data, text->data + deliver->given, text->size - deliver->given);
    text->size -= deliver->given;
    deliver->given = 0;
}

/* Looks for stop strings in the text from `from` on. True: one is there; the text now ends where it should. */
static bool cut_at_stop(struct deliver *deliver, size_t from)
{
    struct buffer *text = &deliver->text;
    struct stop_text_match match;
    if (deliver->tokens <= deliver->min_tokens || from == text->size ||
        !stop_text_feed(&deliver->stop, text->data + from, text->size - from, &match))
        return false;
    size_t end = from + match.end;
    CHECK(match.size <= end);
    text->size = deliver->include_stop_text ? end : end - match.size;
    return true;
}

struct deliver_output deliver_push(struct deliver *deliver, int32_t id)
{
    struct buffer *text = &deliver->text;
    struct deliver_output output = {.reason = API_STOP_END};
    drop_given(deliver);
    deliver->tokens++;
    bool ended = ends(deliver, id), last = deliver->tokens >= deliver->tokens_max;

    size_t from = text->size;
    if (!ended || deliver->include_stop_text)
        detokenizer_push(&deliver->detokenizer, id, text);
    if (ended || last)
        detokenizer_finish(&deliver->detokenizer, text);
    bool stopped = cut_at_stop(deliver, from);

    output.finished = ended || stopped || last;
    if (!ended && !stopped && last)
        output.reason = API_STOP_LENGTH;
    deliver->given = output.finished ? text->size : text->size - stop_text_held(&deliver->stop);
    output.text = text->data;
    output.text_size = deliver->given;
    output.failed = text->failed;
    return output;
}
