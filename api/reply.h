/* A reply being made: what the frames of a stream have in common, and what a whole body is collected from. Each
 * endpoint's `event` turns events into bytes with it. */
#ifndef API_REPLY_H
#define API_REPLY_H

#include "api/api.h"
#include "kernels/base/json_writer.h"

/* Log-probabilities as the endpoint's dialect has them: pieces of JSON arrays, items separated by commas. Chat uses the
 * first only. */
enum reply_column { REPLY_TOKENS, REPLY_LOGPROBS, REPLY_TOPS, REPLY_OFFSETS, REPLY_COLUMNS };

struct reply_choice {
    struct buffer text;
    struct buffer columns[REPLY_COLUMNS];
    struct buffer ids;
    uint64_t characters; /* of all tokens' texts so far: where the next one begins */
    enum api_stop_reason stop_reason;
    bool shown; /* a frame of it is out, or it is in the body */
};

struct api_reply {
    const struct api_call *call;
    const struct api_facts *facts;
    char id[64]; /* the request's, without the dialect's prefix */
    int64_t created_unix_s;
    bool started;                 /* the first frame is out */
    struct reply_choice *choices; /* (choice_count), of all prompts */
    uint32_t choice_count;
    struct buffer *prompt_ids; /* (prompt_count) */
    uint32_t prompt_count;
    struct buffer answer; /* tokenize, detokenize: what came, before END */
    struct buffer strings;
    uint32_t answer_count;
};

/* How a dialect of choices writes. */
struct reply_shape {
    void (*add_tokens)(struct reply_choice *choice, const struct api_event *event); /* into its columns */
    void (*stream)(struct api_reply *reply, const struct api_event *event, struct buffer *out);
    void (*body)(struct api_reply *reply, const struct api_usage *usage, struct buffer *out);
};

/* An endpoint's `event`: failures, the prompt's ids, then frames or what the body is made of at the end. */
void reply_take_event(struct api_reply *reply, const struct reply_shape *shape, const struct api_event *event,
                      struct buffer *out);
/* The choice of an event. */
struct reply_choice *reply_choice(struct api_reply *reply, const struct api_event *event);
/* The ids of the prompt that a choice continues. */
struct buffer *reply_prompt_ids(struct api_reply *reply, uint32_t choice);
/* Appends ids, separated by commas. */
void reply_add_ids(struct buffer *ids, const struct api_token *tokens, uint32_t count);
/* A comma before the next item of a list kept as text. */
void reply_separate(struct buffer *items);
/* Writes the list. */
void reply_write_list(struct json_writer *writer, const struct buffer *items);
/* id, object, created, model, system_fingerprint of an object that has begun. */
void reply_write_head(const struct api_reply *reply, struct json_writer *writer, const char *id_prefix,
                      const char *object);
void reply_write_text_or_null(struct json_writer *writer, const char *key, const char *text);
/* Ends a frame and its object: with the usage, null where there is none yet, if the client asked for it. */
void reply_end_frame(const struct api_reply *reply, struct json_writer *writer, const struct api_usage *usage);
const char *reply_stop_reason(enum api_stop_reason reason);
double reply_logprob(float logprob); /* finite: -9999 for minus infinity */
/* Collects an answer that is text (detokenize). true with END: it is whole, `text` and its size say it, borrowed. */
bool reply_take_answer(struct api_reply *reply, const struct api_event *event, struct buffer *out, const char **text,
                       size_t *size);
/* What ends a stream that failed, or the body that says so. */
void reply_fail(struct api_reply *reply, const struct api_event *event, struct buffer *out);
/* Lost memory shows in the output, whoever's buffer it was. */
void reply_check_memory(const struct api_reply *reply, struct buffer *out);

#endif
