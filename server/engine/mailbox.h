/* The events of one request on their way to its reader: one writer (the thread that has the request), one reader.
 *
 * Two buffers of fixed size: events are copied into one, with all they point to; the reader works through the other and
 * swaps them when it is done, so that what it took stays valid until its next take. Text is bounded and refused when it
 * does not fit; room for the events that end things is kept apart and never refused. Nothing is allocated once an event
 * was put.
 *
 * Text that follows text of the same choice is joined to it, unless there are tokens. */
#ifndef SERVER_ENGINE_MAILBOX_H
#define SERVER_ENGINE_MAILBOX_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "api/api.h"

struct mailbox_side {
    unsigned char *data; /* (capacity): records, one after the other */
    size_t size;
    size_t capacity;
    size_t prompt_size; /* bytes of them that PROMPT and ECHO events take, which are not bounded */
    size_t text_max;    /* bytes of it that others may take */
};

struct mailbox {
    pthread_mutex_t lock;        /* filling, last */
    struct mailbox_side filling; /* the writer's */
    size_t last;                 /* offset of the newest record in it */
    struct mailbox_side taking;  /* the reader's */
    size_t taken;                /* bytes of it that were read */
};

enum mailbox_outcome {
    MAILBOX_PUT,
    MAILBOX_PUT_FIRST, /* the reader may have found it empty: wake it */
    MAILBOX_FULL,      /* nothing was put; only for TEXT and TOKENS */
};

/* `text_max`: bytes of text events that may be on their way; `choices`: how many STOP events may come besides. */
enum status mailbox_open(struct mailbox *mailbox, size_t text_max, uint32_t choices, struct error *error);
void mailbox_close(struct mailbox *mailbox);

/* As if opened with these, when they are known later, and with room for all PROMPT and ECHO events besides:
 * `prompt_max` bytes. On failure as before. Only before anything was put. */
enum status mailbox_resize(struct mailbox *mailbox, size_t text_max, size_t prompt_max, uint32_t choices,
                           struct error *error);
/* Makes room for one event of this size besides. Only before anything was put; false: no memory. */
bool mailbox_enlarge(struct mailbox *mailbox, const struct api_event *event);
enum mailbox_outcome mailbox_put(struct mailbox *mailbox, const struct api_event *event);
bool mailbox_take(struct mailbox *mailbox, struct api_event *event);

/* What one event takes: tokens, `top_count` others with each, and bytes of all texts. */
size_t mailbox_bytes_of(size_t tokens, uint32_t top_count, size_t text_size);
/* What text events of a request can take at most, for `text_max`. */
size_t mailbox_bytes_for(uint32_t choices, uint32_t tokens, bool with_tokens, uint32_t top_count);

#endif
