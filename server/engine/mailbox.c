/* Records in two swapped buffers. A buffer never moves while it holds records, so a record's pointers are real ones:
 *
 *     record | struct error (ERROR)
 *     record | tokens (token_count), their tops, then the bytes: the event's text, the tokens' */
#include "server/engine/mailbox.h"

#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/check.h"
#include "kernels/base/size.h"

#define ALIGNMENT alignof(max_align_t)

struct record {
    size_t bytes; /* to the next record */
    enum api_event_type type;
    uint32_t choice;
    const char *text;
    size_t text_size;
    const struct api_token *tokens;
    uint32_t token_count;
    enum api_stop_reason stop_reason;
    struct api_usage usage;
};

#define RECORD_BYTES ((sizeof(struct record) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT)

/* ---- open and close ---- */

static bool side_open(struct mailbox_side *side, size_t text_max, size_t reserve)
{
    size_t capacity;
    if (!size_add(text_max, reserve, &capacity))
        return false;
    *side = (struct mailbox_side){.data = malloc(capacity), .capacity = capacity, .text_max = text_max};
    return side->data != NULL;
}

/* Both or none. */
static enum status sides_open(struct mailbox_side sides[2], size_t text_max, size_t prompt_max, uint32_t choices,
                              struct error *error)
{
    /* A STOP a choice; ACCEPTED, STARTED, END or ERROR. */
    size_t reserve = ((size_t)choices + 4) * RECORD_BYTES + sizeof(struct error) + ALIGNMENT + prompt_max;
    if (side_open(&sides[0], text_max, reserve) && side_open(&sides[1], text_max, reserve))
        return STATUS_OK;
    free(sides[0].data);
    return error_no_memory(error, "a request's events");
}

enum status mailbox_open(struct mailbox *mailbox, size_t text_max, uint32_t choices, struct error *error)
{
    struct mailbox_side sides[2] = {{0}};
    *mailbox = (struct mailbox){0};
    if (sides_open(sides, text_max, 0, choices, error) != STATUS_OK)
        return error->status;
    mailbox->filling = sides[0];
    mailbox->taking = sides[1];
    pthread_mutex_init(&mailbox->lock, NULL);
    return STATUS_OK;
}

/* Without the lock the reader looks at nothing but the size of its side, before something was put. */
static void side_replace(struct mailbox_side *side, const struct mailbox_side *by)
{
    free(side->data);
    side->data = by->data;
    side->capacity = by->capacity;
    side->text_max = by->text_max;
}

enum status mailbox_resize(struct mailbox *mailbox, size_t text_max, size_t prompt_max, uint32_t choices,
                           struct error *error)
{
    struct mailbox_side sides[2] = {{0}};
    if (sides_open(sides, text_max, prompt_max, choices, error) != STATUS_OK)
        return error->status;
    pthread_mutex_lock(&mailbox->lock);
    CHECK(mailbox->filling.size == 0);
    side_replace(&mailbox->filling, &sides[0]);
    side_replace(&mailbox->taking, &sides[1]);
    pthread_mutex_unlock(&mailbox->lock);
    return STATUS_OK;
}

void mailbox_close(struct mailbox *mailbox)
{
    free(mailbox->filling.data);
    free(mailbox->taking.data);
    pthread_mutex_destroy(&mailbox->lock);
}

size_t mailbox_bytes_of(size_t tokens, uint32_t top_count, size_t text_size)
{
    return size_round_up(RECORD_BYTES + tokens * (1 + (size_t)top_count) * sizeof(struct api_token) + text_size,
                         ALIGNMENT);
}

size_t mailbox_bytes_for(uint32_t choices, uint32_t tokens, bool with_tokens, uint32_t top_count)
{
    const size_t text_bytes = 16; /* of a token, on average and then some */
    size_t one = RECORD_BYTES + text_bytes;
    if (with_tokens)
        one += (1 + (size_t)top_count) * (sizeof(struct api_token) + text_bytes);
    size_t all;
    return size_multiply(one, (size_t)choices * tokens, &all) ? all : SIZE_MAX;
}

/* ---- writing ---- */

static size_t record_bytes(const struct api_event *event)
{
    size_t tokens = event->token_count, bytes = event->text_size;
    for (uint32_t i = 0; i < event->token_count; i++) {
        const struct api_token *token = &event->tokens[i];
        tokens += token->top_count;
        bytes += token->size;
        for (uint32_t j = 0; j < token->top_count; j++)
            bytes += token->top[j].size;
    }
    size_t error = event->type == API_EVENT_ERROR ? sizeof(struct error) : 0;
    return size_round_up(RECORD_BYTES + error + tokens * sizeof(struct api_token) + bytes, ALIGNMENT);
}

bool mailbox_enlarge(struct mailbox *mailbox, const struct api_event *event)
{
    size_t text_max;
    pthread_mutex_lock(&mailbox->lock);
    struct mailbox_side *side = &mailbox->filling, larger;
    CHECK(side->size == 0);
    bool fits = size_add(side->text_max, record_bytes(event), &text_max) &&
                side_open(&larger, text_max, side->capacity - side->text_max);
    if (fits) {
        free(side->data);
        *side = larger;
    }
    pthread_mutex_unlock(&mailbox->lock);
    return fits;
}

static const char *copy_bytes(unsigned char **at, const char *bytes, size_t size)
{
    char *copy = (char *)*at;
    if (size > 0)
        memcpy(copy, bytes, size);
    *at += size;
    return copy;
}

/* Two passes, so that all structs lie before all bytes. */
static void copy_tokens(struct record *record, const struct api_event *event, unsigned char *at)
{
    struct api_token *tokens = (struct api_token *)(void *)at;
    struct api_token *top = tokens + event->token_count;
    for (uint32_t i = 0; i < event->token_count; i++) {
        tokens[i] = event->tokens[i];
        if (tokens[i].top_count > 0)
            memcpy(top, event->tokens[i].top, tokens[i].top_count * sizeof(*top));
        tokens[i].top = top;
        top += tokens[i].top_count;
    }
    unsigned char *bytes = (unsigned char *)top;
    record->text = copy_bytes(&bytes, event->text, event->text_size);
    for (struct api_token *token = tokens; token < top; token++)
        token->text = copy_bytes(&bytes, token->text, token->size);
    record->tokens = tokens;
}

static void write_record(struct mailbox *mailbox, const struct api_event *event, size_t bytes)
{
    struct mailbox_side *side = &mailbox->filling;
    unsigned char *at = side->data + side->size;
    struct record *record = (struct record *)(void *)at;
    *record = (struct record){
        .bytes = bytes,
        .type = event->type,
        .choice = event->choice,
        .text_size = event->text_size,
        .token_count = event->token_count,
        .stop_reason = event->stop_reason,
        .usage = event->usage,
    };
    at += RECORD_BYTES;
    if (event->type == API_EVENT_ERROR)
        memcpy(at, &event->error, sizeof(event->error));
    else
        copy_tokens(record, event, at);
    mailbox->last = side->size;
    side->size += bytes;
    if (event->type == API_EVENT_PROMPT || event->type == API_EVENT_ECHO)
        side->prompt_size += bytes;
}

/* Appends the text to the newest record. False: it does not belong there. */
static bool join_text(struct mailbox *mailbox, const struct api_event *event)
{
    struct mailbox_side *side = &mailbox->filling;
    if (side->size == 0 || event->type != API_EVENT_TEXT || event->token_count > 0)
        return false;
    struct record *record = (struct record *)(void *)(side->data + mailbox->last);
    if (record->type != API_EVENT_TEXT || record->token_count > 0 || record->choice != event->choice)
        return false;
    size_t bytes = size_round_up(RECORD_BYTES + record->text_size + event->text_size, ALIGNMENT);
    if (mailbox->last - side->prompt_size + bytes > side->text_max)
        return false;
    memcpy(side->data + mailbox->last + RECORD_BYTES + record->text_size, event->text, event->text_size);
    record->text_size += event->text_size;
    record->bytes = bytes;
    side->size = mailbox->last + bytes;
    return true;
}

enum mailbox_outcome mailbox_put(struct mailbox *mailbox, const struct api_event *event)
{
    bool bounded = event->type == API_EVENT_TEXT || event->type == API_EVENT_TOKENS;
    size_t bytes = record_bytes(event);
    enum mailbox_outcome outcome = MAILBOX_PUT;
    pthread_mutex_lock(&mailbox->lock);
    struct mailbox_side *side = &mailbox->filling;
    if (!join_text(mailbox, event)) {
        if (bounded && side->size - side->prompt_size + bytes > side->text_max) {
            outcome = MAILBOX_FULL;
        } else {
            CHECK(side->size + bytes <= side->capacity);
            outcome = side->size == 0 ? MAILBOX_PUT_FIRST : MAILBOX_PUT;
            write_record(mailbox, event, bytes);
        }
    }
    pthread_mutex_unlock(&mailbox->lock);
    return outcome;
}

/* ---- reading ---- */

static bool swap_sides(struct mailbox *mailbox)
{
    mailbox->taking.size = 0;
    mailbox->taking.prompt_size = 0;
    mailbox->taken = 0;
    pthread_mutex_lock(&mailbox->lock);
    struct mailbox_side full = mailbox->filling;
    if (full.size > 0) {
        mailbox->filling = mailbox->taking;
        mailbox->taking = full;
    }
    pthread_mutex_unlock(&mailbox->lock);
    return full.size > 0;
}

bool mailbox_take(struct mailbox *mailbox, struct api_event *event)
{
    if (mailbox->taken == mailbox->taking.size && !swap_sides(mailbox))
        return false;
    unsigned char *at = mailbox->taking.data + mailbox->taken;
    const struct record *record = (const struct record *)(const void *)at;
    mailbox->taken += record->bytes;
    *event = (struct api_event){
        .type = record->type,
        .choice = record->choice,
        .text = record->text,
        .text_size = record->text_size,
        .tokens = record->tokens,
        .token_count = record->token_count,
        .stop_reason = record->stop_reason,
        .usage = record->usage,
    };
    if (record->type == API_EVENT_ERROR)
        memcpy(&event->error, at + RECORD_BYTES, sizeof(event->error));
    return true;
}
