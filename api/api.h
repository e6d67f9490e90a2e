/* Wire formats: JSON in, JSON or SSE out. Pure: no I/O, no sockets, no cache, no engine; token ids pass through
 * opaquely.
 *
 * A request is one api_call, made by its endpoint's `parse` from the body; what happens to it comes back as api_events,
 * the same for every dialect, which an api_reply turns into bytes:
 *
 *     endpoint = api_endpoint_find(path, method, &error)
 *     call = api_call_open(endpoint, body, size, facts, &error)
 *     reply = api_reply_open(call, facts, &error)
 *     for each event: api_reply_event(reply, &event, &out)       -> SSE frames when call->stream, else nothing ...
 *     after END or ERROR:                                        ... until the whole body comes with the last event
 *     api_reply_close, api_call_close
 *
 * Endpoints that need no engine (models, version) answer through `answer`. A call is used by one thread at a time. */
#ifndef API_API_H
#define API_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/base/arena.h"
#include "kernels/base/buffer.h"
#include "kernels/base/status.h"
#include "model/text/chat.h"

#define API_STOP_STRINGS_MAX 16
#define API_CHOICES_MAX 128
#define API_TOP_LOGPROBS_MAX 20
#define API_PROMPTS_MAX 1024       /* of a batch */
#define API_BATCH_CHOICES_MAX 2048 /* its prompts times n */
#define API_CACHE_SALT_BYTES_MAX 1024
#define API_MODEL_NAME_MAX 256 /* bytes */
#define API_UNKNOWN_NAMES_MAX 8
#define API_UNKNOWN_NAME_BYTES_MAX 64

/* What the server knows and replies say. Constant while serving; borrowed. */
struct api_facts {
    const char *model_id;   /* the loaded model's name */
    int64_t created_unix_s; /* when it was loaded */
    uint32_t context;       /* tokens a sequence */
    uint32_t context_trained;
    uint32_t vocabulary;
    uint32_t choices_max;    /* n that can run at once; larger is a 400 */
    const char *fingerprint; /* system_fingerprint: "fp_..." of build and weights */
    const char *version;
    const char *eos_text; /* NULL: the model has none */
    bool has_chat_template;
    bool strict_model; /* a request that names another model is a 404; otherwise any name is taken and echoed */
};

/* ---- a request ---- */

/* The first two draw tokens; the others are answered at once. */
enum api_kind { API_CHAT, API_COMPLETION, API_TOKENIZE, API_DETOKENIZE, API_APPLY_TEMPLATE };

static inline bool api_kind_generates(enum api_kind kind)
{
    return kind == API_CHAT || kind == API_COMPLETION;
}

struct api_bias {
    int32_t id;
    float value;
};

struct api_sampling {
    float temperature;
    uint32_t top_k;
    float top_p;
    float min_p;
    float repetition_penalty;
    float presence_penalty;
    float frequency_penalty;
    const struct api_bias *bias; /* (bias_count), ids distinct */
    uint32_t bias_count;
    bool has_seed;
    uint64_t seed;
};

struct api_stop {
    const char *text;
    size_t size; /* > 0 */
};

/* One prompt: text, or ids. */
struct api_prompt {
    const char *text; /* UTF-8 (size), or NULL */
    size_t size;
    const int32_t *ids; /* (id_count), or NULL; each < vocabulary */
    uint32_t id_count;
};

struct api_endpoint;

struct api_call {
    struct arena arena; /* all the call's memory */
    const struct api_endpoint *endpoint;
    enum api_kind kind;
    const char *model; /* as requested, echoed; the loaded one's id when absent */

    /* What is to be continued: a conversation, or prompts. */
    bool is_chat;
    struct chat chat;
    const struct api_prompt *prompts; /* (prompt_count), all text or all ids */
    uint32_t prompt_count;
    bool add_special_tokens; /* BOS, for text prompts */
    const char *cache_salt;  /* (cache_salt_size), not empty: KV is shared among equal ones only; NULL: none */
    size_t cache_salt_size;

    struct api_sampling sampling;
    uint32_t choices;    /* n: of each prompt */
    bool has_max_tokens; /* false: up to the context */
    uint32_t max_tokens; /* 0: prefill only */
    uint32_t min_tokens;
    bool ignore_eos;
    const struct api_stop *stop; /* (stop_count) */
    uint32_t stop_count;
    const int32_t *stop_ids; /* (stop_id_count) */
    uint32_t stop_id_count;
    bool include_stop_text;
    bool skip_special_tokens; /* true: control tokens give no text */

    bool stream;
    bool include_usage;
    bool logprobs;         /* log-probabilities of drawn tokens */
    uint32_t top_logprobs; /* others a position, 0..20 */
    bool echo;             /* the reply's text begins with the prompt; with logprobs, those of its tokens come first */
    bool return_token_ids;
    bool return_token_strings; /* tokenize */
    bool return_pieces;        /* tokenize: each token as {id, piece} */
    bool echo_service_tier;    /* the reply names the tier, since the request did */

    /* Members of the body that no field has the name of: ignored, for the server to log and count. */
    uint32_t unknown_count;
    const char *unknown[API_UNKNOWN_NAMES_MAX]; /* the first ones, each cut to API_UNKNOWN_NAME_BYTES_MAX */
};

/* Parses a body (JSON, UTF-8) for an endpoint. A failure is a client's: error.field names the field. */
enum status api_call_open(const struct api_endpoint *endpoint, const char *body, size_t size,
                          const struct api_facts *facts, struct api_call **out, struct error *error);
/* A call with every field at its default, for callers that build one in code (chat, tests). */
struct api_call *api_call_blank(enum api_kind kind);
void api_call_close(struct api_call *call);
/* Gives the call this many prompts, empty as yet, in its arena; NULL: no memory. */
struct api_prompt *api_call_add_prompts(struct api_call *call, uint32_t count);
/* How many prompts it has, a conversation counting as one, and how many choices these have together: the j-th choice of
 * prompt p is number p * n + j. */
uint32_t api_call_prompts(const struct api_call *call);
uint32_t api_call_choices(const struct api_call *call);

/* ---- what happens to it ---- */

enum api_stop_reason {
    API_STOP_END,    /* end-of-turn token, stop string or stop id: "stop" */
    API_STOP_LENGTH, /* max_tokens or the context: "length" */
};

struct api_token {
    int32_t id;
    const char *text; /* the token's bytes; may be part of a UTF-8 sequence */
    size_t size;
    float logprob;               /* NaN: the first of a prompt has none */
    bool hidden;                 /* its text is not in the text that it belongs to */
    const struct api_token *top; /* (top_count), most probable first; only id, text, size, logprob */
    uint32_t top_count;
};

struct api_usage {
    uint32_t prompt_tokens;     /* of all prompts */
    uint32_t cached_tokens;     /* within prompt_tokens, of each prompt at most all but the last */
    uint32_t written_tokens;    /* prompt tokens computed and kept */
    uint32_t completion_tokens; /* all choices */
    uint32_t reasoning_tokens;
};

enum api_event_type {
    /* The prompts are tokenized and fit; they wait for their turn. usage.prompt_tokens is set. */
    API_EVENT_ACCEPTED,
    /* A prompt's tokens, ids only, when ids were asked for; choice is its first one. Before anything of it starts. */
    API_EVENT_PROMPT,
    API_EVENT_STARTED, /* the first prompt has; usage.cached_tokens is set, of that one */
    API_EVENT_ECHO,    /* choice, text and/or tokens of its prompt; all of it before the first TEXT of the choice */
    API_EVENT_TEXT,    /* choice, text and/or tokens */
    API_EVENT_STOP,    /* choice, stop_reason: no more text of this choice */
    API_EVENT_END,     /* usage: the last one of a request that went well */
    API_EVENT_ERROR,   /* error: the last one */
    API_EVENT_TOKENS,  /* the answer to tokenize: tokens; to detokenize, apply-template: text. Followed by END */
};

struct api_event {
    enum api_event_type type;
    uint32_t choice;
    const char *text; /* whole UTF-8 sequences; borrowed until the next event is taken */
    size_t text_size;
    const struct api_token *tokens; /* (token_count): only when logprobs or ids were asked for */
    uint32_t token_count;
    enum api_stop_reason stop_reason;
    struct api_usage usage;
    struct error error;
};

/* ---- a reply ---- */

struct api_reply;

enum status api_reply_open(const struct api_call *call, const struct api_facts *facts, const char *request_id,
                           struct api_reply **out, struct error *error);
void api_reply_close(struct api_reply *reply);
void api_reply_event(struct api_reply *reply, const struct api_event *event, struct buffer *out);
/* What keeps a waiting stream alive: an SSE comment, or the dialect's ping. */
void api_reply_keepalive(struct api_reply *reply, struct buffer *out);

/* An error body in the endpoint's dialect (NULL endpoint: OpenAI's), and its HTTP status. */
void api_error_body(const struct api_endpoint *endpoint, const struct error *error, struct buffer *out);
uint32_t api_error_status(const struct error *error);
/* The code in that body. */
const char *api_error_code(const struct error *error);

/* ---- endpoints: one file each, one table ---- */

struct api_endpoint {
    const char *method; /* "GET" or "POST" */
    const char *path;   /* without "/v1"; a final "*" takes the rest of the path, as an id */
    /* Needs the engine: body -> call. NULL: `answer` says it all. */
    enum status (*parse)(struct api_call *call, const char *body, size_t size, const struct api_facts *facts,
                         struct error *error);
    void (*event)(struct api_reply *reply, const struct api_event *event, struct buffer *out);
    /* Needs no engine. `rest` is what "*" took, percent-decoded. Without parse and answer (health) the server, which
     * knows its state, answers. */
    enum status (*answer)(const struct api_facts *facts, const char *rest, struct buffer *out, struct error *error);
};

/* Finds by path (with or without a leading /v1, no query) and method. STATUS_NOT_FOUND, or STATUS_UNSUPPORTED with
 * `*allow` set to the methods that exist there ("GET, HEAD") for a 405. HEAD finds GET endpoints. */
const struct api_endpoint *api_endpoint_find(const char *method, const char *path, const char **rest,
                                             const char **allow, struct error *error);

#endif
