/* The inside of server/net.
 *
 * Threads: libmicrohttpd's (calls exchange_handle, stream_read and the notifications), the watcher (watch.c), whoever
 * calls exchange_wake (the engine's), and the caller of net_close.
 *
 * Lock order: the engine's own locks, then net->lock, then libmicrohttpd's. It holds because wake comes from the engine
 * with whatever locks it has and takes net->lock; suspend and resume are called under net->lock; the engine is never
 * called under net->lock; and libmicrohttpd calls nobody with its locks held. */
#ifndef SERVER_NET_NET_PRIVATE_H
#define SERVER_NET_NET_PRIVATE_H

#include <microhttpd.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/base/buffer.h"
#include "kernels/base/thread.h"
#include "server/net/metrics.h"
#include "server/net/net.h"
#include "server/net/pace.h"
#include "server/net/refusal.h"

#define REQUEST_ID_SIZE 25 /* 24 characters and the NUL */
#define CLIENT_ID_SIZE 65

/* What a connection waits for. Only PHASE_WORK has no deadline: the engine's work takes what it takes. */
enum connection_phase {
    PHASE_HEADERS, /* the client's: a request, up to the end of its headers */
    PHASE_BODY,    /* the client's: the rest of a body */
    PHASE_WORK,    /* ours */
    PHASE_REPLY,   /* the client's: to read what was written last */
};

/* A connection's place in net->connections, from accept to close. Under net->lock, except `mhd`, `fd`, `plain`,
 * constant while open. The file descriptor is valid all that time. */
struct connection {
    struct MHD_Connection *mhd; /* NULL: free */
    int fd;
    bool plain;                /* no TLS: bytes may be written past libmicrohttpd */
    uint32_t generation;       /* grows with each use: events of an earlier user are told apart */
    struct exchange *exchange; /* the request in progress */
    enum connection_phase phase;
    uint64_t since_ns;    /* in this phase */
    uint64_t deadline_ns; /* the connection ends then; 0: never */
    size_t received;      /* bytes of the body so far */
    bool watched;         /* for its client's hang-up, which is seen once */
    bool hung_up;
    bool shut; /* by us: libmicrohttpd is about to close it */
    struct connection *next_free;
};

struct net {
    struct net_args args; /* defaults filled in */
    struct MHD_Daemon *daemon;
    struct MHD_Response *no_memory; /* a 503, ready made */
    uint64_t request_id_seed;
    /* libmicrohttpd's thread: */
    uint64_t requests; /* ids drawn so far */
    size_t body_bytes; /* of all bodies in flight */
    struct pace pace;

    struct metrics metrics;
    bool told_stuck; /* the watcher's: the log says that the engine is stuck */

    pthread_mutex_t lock;
    pthread_cond_t none_left;       /* exchange_count became 0 */
    struct connection *connections; /* (connection_count) */
    uint32_t connection_count;
    struct connection *free;
    uint32_t open_connections;
    uint32_t shut_connections; /* of those */
    uint32_t exchange_count;
    uint32_t serving; /* of those: requests for the engine, from their headers to the end of their reply */
    bool draining;    /* nothing new is begun */
    bool closing;     /* what runs is ended */
    struct refusals refusals;

    int epoll_fd; /* the watcher's: who hangs up */
    int event_fd; /* wakes the watcher */
    bool watcher_ends;
    struct thread watcher;
    bool watcher_started;
};

/* One request and its reply. libmicrohttpd's thread owns it; the last group is under net->lock. */
struct exchange {
    struct net *net;
    struct MHD_Connection *mhd;
    struct connection *connection; /* NULL: there was no place left */
    char id[REQUEST_ID_SIZE];
    char client_id[CLIENT_ID_SIZE]; /* the client's own X-Request-Id, for the log; "": none that can be shown */
    char method[16];
    uint64_t began_ns;

    const struct api_endpoint *endpoint;
    struct buffer path;
    const char *rest;  /* within path */
    const char *allow; /* methods, for a 405 and for OPTIONS */
    bool refused;      /* with `error`, once the body is drained */
    bool must_close;   /* the connection cannot be used again */
    struct error error;
    struct auth_grant grant;

    struct buffer body;  /* the engine's from submit on */
    size_t body_counted; /* bytes of it in net->body_bytes, until the exchange ends */
    size_t discarded;    /* bytes of a body that nobody wants */
    bool received;

    struct engine_request *request; /* NULL: not submitted, or released */
    struct api_reply *reply;        /* NULL: no event yet that is no error, or released */
    struct buffer out;              /* what is to be written; from `out_at` on, in a stream */
    size_t out_at;
    bool ended; /* no event will come any more */
    uint32_t http_status;

    bool waited; /* it was suspended at least once: only the rest of its reply is of use */
    bool suspended;
    bool woken;     /* something came since the last look */
    bool gone;      /* the client hung up */
    bool timed_out; /* before its body was whole: the client was told */
    bool stalled;   /* its client did not read */
    bool serving;   /* counts in net->serving */
    bool keepalive_due;
    uint64_t keepalive_at_ns; /* while suspended; UINT64_MAX: no stream */
};

/* ---- connection.c: the registry, waiting and waking ---- */

void connection_notify(void *context, struct MHD_Connection *mhd, void **socket_context,
                       enum MHD_ConnectionNotificationCode code);
/* Gives the exchange its connection. false: as many as may have a request already. */
bool connection_attach(struct exchange *exchange);
void connection_detach(struct exchange *exchange);
/* Timeout 0: none. A client that has hung up gets little time, whatever is asked for. */
void connection_enter(struct exchange *exchange, enum connection_phase phase, uint32_t timeout_ms);
void connection_count_body(struct exchange *exchange, size_t size);
/* The rest of them under net->lock. */
void connection_limit(struct connection *connection, uint32_t timeout_ms);
void connection_shut(struct net *net, struct connection *connection);
bool connections_are_over(const struct net *net); /* the limit, those about to close not counted */
/* Shuts connections that have no complete request, the oldest first, until the limit holds or none is left that had its
 * chance. */
void connections_evict(struct net *net);
/* Suspends until exchange_wake, a hang-up, a keepalive or the end. false: there is something to look at already. */
bool exchange_suspend(struct exchange *exchange, bool stream);
engine_wake exchange_wake;
bool exchange_is_gone(struct exchange *exchange);
bool exchange_take_keepalive(struct exchange *exchange);
bool net_is_closing(struct net *net);

/* ---- watch.c: the watcher thread ---- */

enum status watch_start(struct net *net, struct error *error);
void watch_stop(struct net *net);
void watch_add(struct net *net, struct connection *connection);    /* under net->lock */
void watch_remove(struct net *net, struct connection *connection); /* under net->lock */
void watch_wake(struct net *net);

/* ---- exchange.c, judge.c, body.c, stream.c, respond.c: a request's life ---- */

enum MHD_Result exchange_handle(void *context, struct MHD_Connection *mhd, const char *url, const char *method,
                                const char *version, const char *upload, size_t *upload_size, void **state);
void exchange_completed(void *context, struct MHD_Connection *mhd, void **state, enum MHD_RequestTerminationCode code);
/* It will be answered with this error. An empty `code`: the status's own. */
void exchange_refuse(struct exchange *exchange, enum status status, const char *code, const char *text);
/* Ends the engine's work for it; the reply goes first, since it looks at the call. */
void exchange_release(struct exchange *exchange);

/* A request header's first value; NULL: it is not there. */
const char *judge_header(const struct exchange *exchange, const char *name);
/* Finds the endpoint, or refuses. */
void judge_target(struct exchange *exchange, const char *url);

/* Takes bytes of the body. MHD_NO: there have been too many of one that nobody wants. */
enum MHD_Result body_receive(struct exchange *exchange, const char *bytes, size_t size);
/* The bytes that Content-Length announces; 0: it is not there. A number that is none, libmicrohttpd refuses. */
uint64_t body_declared(const struct exchange *exchange);
/* Whether they are more than are read past for the sake of a refusal. */
bool body_is_beyond_reading(const struct exchange *exchange);
void body_refuse_size(struct exchange *exchange);
void body_release(struct exchange *exchange);
/* A body that did not come in time: what the client is told, and the line about it. */
void body_timeout_error(const struct net *net, struct error *error);
void body_log_timeout(struct exchange *exchange);

enum MHD_Result stream_begin(struct exchange *exchange);

/* Queues a whole reply; takes the bytes of `body`. */
enum MHD_Result respond(struct exchange *exchange, uint32_t http_status, struct buffer *body); /* JSON */
enum MHD_Result respond_page(struct exchange *exchange, const char *content_type, struct buffer *body);
enum MHD_Result respond_error(struct exchange *exchange, const struct error *error);
/* Writes a small reply past libmicrohttpd, which takes none while a body comes. The connection must end then. */
void respond_past(const struct exchange *exchange, const struct error *error);
enum MHD_Result respond_options(struct exchange *exchange);
/* Adds the headers that every reply has, queues it and lets it go. Where there was no memory for it (`response` is NULL
 * or not `complete`), or is none now, a refusal made beforehand goes out instead. */
enum MHD_Result respond_queue(struct exchange *exchange, uint32_t http_status, struct MHD_Response *response,
                              bool complete);
/* That refusal, which needs no memory: made and let go, and sent to a client whose request could not even begin. */
enum status respond_open(struct net *net, struct error *error);
void respond_close(struct net *net);
enum MHD_Result respond_no_memory(struct net *net, struct MHD_Connection *mhd);

/* ---- framing.c ---- */

/* Refuses what can be read in two ways. `method` and `version` as libmicrohttpd handed them over: where they lie
 * matters. */
bool framing_is_clear(struct exchange *exchange, const char *method, const char *version);
/* A header block in which libmicrohttpd wrote NULs where it split; `version` lies within. */
bool framing_block_is_clear(const char *block, size_t size, const char *version);

/* ---- drain.c ---- */

/* Counts a request for the engine. false: nothing new is begun any more. */
bool drain_admit(struct exchange *exchange);
bool net_is_draining(struct net *net);

/* ---- small parts ---- */

/* Whether a thread of the engine has had work but has not come further for so long. */
bool health_is_stuck(const struct engine_heartbeat *heartbeat, uint32_t watchdog_ms, uint64_t now_ns);
/* STATUS_BUSY: it is stuck, with the reason. */
enum status health_check(struct net *net, struct error *error);
/* Tells the log when the engine gets stuck and when it moves again. The watcher's. */
void health_watch(struct net *net);
/* The state of the engine as a body; a failure: it does not answer. */
enum status health_write(struct net *net, struct buffer *out, struct error *error);
/* The path of a request target, percent-decoded, without query. */
enum status url_path(const char *url, struct buffer *path, struct error *error);
/* Takes over what a client calls its request, where that is short and can be printed. */
void request_id_note_client(struct exchange *exchange);
void request_id_make(struct net *net, char id[REQUEST_ID_SIZE]);
enum status listen_start(const struct net_listener *listener, struct error *error);

#endif
