/* Who may ask: the rules of Host and Origin, the API keys and the admin key, in one judgement a request.
 *
 *     auth_open -> reads the keys and checks the options, so that a mistake is told before a model is loaded
 *     auth_judge -> a grant, until auth_end; or what to tell the client
 *     auth_close -> after net_close
 *
 * With no API key configured any key or none is accepted. A refusal never says what is wrong with a key, and no key is
 * ever logged. Every function may be called by any thread; only auth_reload changes anything. */
#ifndef SERVER_NET_AUTH_H
#define SERVER_NET_AUTH_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/base/buffer.h"
#include "kernels/base/status.h"

struct auth;
struct key;

/* Borrowed while open; NULL is "". */
struct auth_args {
    const char *api_key;      /* one key for everybody, or "@FILE" whose first line it is */
    const char *api_keys;     /* a file of keys: keys.h */
    const char *admin_key;    /* what AUTH_ADMIN asks for, as api_key; without it that is an API key's to see */
    const char *cors_origins; /* origin.h, also for those below */
    const char *allowed_hosts;
    const char *host;
    bool loopback; /* only this machine can reach the server: without an API key, Host and Origin must mean it */
};

enum auth_need {
    AUTH_NONE,  /* anybody: whether the server lives, and what a browser may send it */
    AUTH_KEY,   /* who has an API key */
    AUTH_ADMIN, /* who has the admin key */
};

/* Header values; NULL: not sent. */
struct auth_request {
    const char *host;
    const char *origin;
    const char *authorization; /* "Bearer KEY" */
    const char *api_key;       /* of x-api-key; one that is good in either place is */
    enum auth_need need;
};

struct auth_grant {
    struct key *key;        /* NULL: none was asked for */
    const char *space;      /* the namespace of the cache: "" without a key */
    uint32_t retry_after_s; /* of a refusal: when to come again; 0: not said */
};

/* STATUS_INVALID, STATUS_IO, ...: which option is wrong, with file and line. */
enum status auth_open(const struct auth_args *args, struct auth **out, struct error *error);
void auth_close(struct auth *auth); /* NULL is allowed; no grant may be held */
/* Reads the keys again. A request that holds a key which is gone goes on; on an error the keys stay as they were. */
enum status auth_reload(struct auth *auth, struct error *error);

/* Fills *grant. error->code: permission_denied (403), invalid_api_key (401), rate_limit_exceeded (429). */
enum status auth_judge(struct auth *auth, const struct auth_request *request, uint64_t now_ns, struct auth_grant *grant,
                       struct error *error);
void auth_end(struct auth *auth, struct auth_grant *grant); /* also after a refusal, and twice */
/* Whether a browser may show a reply to a page of this origin. */
bool auth_is_cors_origin(const struct auth *auth, const char *origin);

/* Whether anybody who reaches the server from elsewhere may ask. */
bool auth_is_open(const struct auth *auth);
/* One line about it, for people, without a newline. */
void auth_describe(const struct auth *auth, struct buffer *out);

#endif
