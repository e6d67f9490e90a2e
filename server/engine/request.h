/* A request from submit to its last event. It is held by two: the reader's handle, and the engine as long as it works
 * on it (first a prepare thread, then the engine thread). Whoever lets go last frees it. */
#ifndef SERVER_ENGINE_REQUEST_H
#define SERVER_ENGINE_REQUEST_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "server/engine/engine.h"
#include "server/engine/mailbox.h"
#include "server/engine/sequence.h"

/* Who wants it to end early; the first one counts. */
enum request_cancel { REQUEST_GOES_ON, REQUEST_CANCELLED, REQUEST_DISCONNECTED, REQUEST_STALLED, REQUEST_STOPPED };

/* One prompt of a request. Its choices stand one after the other in request->sequences. */
struct request_prompt {
    uint32_t count;      /* tokens */
    uint32_t tokens_max; /* drawn for each choice at most */
    const char *echo;    /* (echo_size): text that each choice begins with; of the call, or `decoded` */
    size_t echo_size;
    struct buffer decoded;
    bool started;     /* the engine thread's, as are the next two */
    uint32_t cached;  /* tokens found when it started */
    uint32_t written; /* tokens computed and kept */
};

struct engine_request {
    struct engine *engine;
    struct api_call *call;        /* NULL: to be parsed; the prepare thread's until it posts an event */
    const struct api_call *shown; /* the reader's: `call`, once it has taken an event that is no ERROR */
    const struct api_endpoint *endpoint;
    const struct api_facts *facts;
    struct buffer body; /* until it is parsed */
    char *space;
    char id[72];
    struct mailbox mailbox;
    atomic_uint holders;
    atomic_uint cancel; /* enum request_cancel */
    atomic_bool ended;  /* its last event was posted */

    pthread_mutex_t wake_lock; /* wake, wake_context; held while wake runs, never by take or cancel */
    engine_wake *wake;         /* NULL: released */
    void *wake_context;

    /* Under the engine's lock. */
    struct engine_request *next; /* in a queue; in the engine thread's list of those that ended, of that thread */
    bool counts_as_waiting;
    uint32_t length; /* of the prompt: stats_length; 0: not known yet */
    bool in_step;    /* the running step computes rows of it */

    /* Taken by the prepare thread, constant afterwards. */
    int32_t *end_ids; /* (end_count) */
    uint32_t end_count;
    struct block_key root;          /* of all its KV */
    struct request_prompt *prompts; /* (prompt_count) */
    uint32_t prompt_count;
    struct sequence *sequences; /* (choices) */
    uint32_t choices;           /* of all prompts ... */
    uint32_t choices_each;      /* ... and of each */
    size_t bytes;               /* that all choices take, about; of them, twice ... */
    size_t prompt_bytes;        /* ... the events that tell of prompts */
    bool has_seed;              /* given or drawn */
    uint64_t seed;

    /* The engine thread's; before the request arrives there, the prepare thread's. */
    bool accepted;
    bool started;
    uint32_t choices_ended;
    enum api_stop_reason last_reason;
    struct api_usage usage;
    uint32_t computed; /* rows of prompt, recomputed ones too */
    uint64_t submitted_ns;
    uint64_t started_ns;
    uint64_t first_token_ns; /* 0: none yet */
};

/* First in, first out. */
struct request_queue {
    struct engine_request *first;
    struct engine_request *last;
};

void request_queue_push(struct request_queue *queue, struct engine_request *request);
struct engine_request *request_queue_pop(struct request_queue *queue); /* NULL: empty */

/* Takes the submission's call and body, also on failure. The reader's and the engine's hold on it begin here. */
enum status request_open(struct engine *engine, const struct engine_submission *submission, struct engine_request **out,
                         struct error *error);
/* Makes the call of the body, if that is what was submitted. */
enum status request_parse(struct engine_request *request, struct error *error);
/* What the events that tell of a prompt take: its ids, its echo for each of its choices. */
size_t request_prompt_bytes(const struct engine_request *request, const struct request_prompt *prompt);
/* For the events of a request whose prompts are known. Before anything is posted. */
enum status request_make_room(struct engine_request *request, struct error *error);
void request_let_go(struct engine_request *request);

bool request_cancelled(struct engine_request *request);
/* What one that was cancelled ends with. */
enum status request_cancel_error(struct engine_request *request, struct error *error);
/* Whether drawn ids go out with the text. */
bool request_wants_tokens(const struct engine_request *request);

/* Puts an event into the mailbox and wakes the reader. False: the reader is too far behind. */
bool request_post(struct engine_request *request, const struct api_event *event);

/* The last event: END when `error` is NULL. Writes the log line, unless the request was refused: the reader knows
 * better how it came and what was answered. The engine's hold is still to be let go. */
void request_end(struct engine_request *request, const struct error *error);

#endif
