/* HTTP/1.1 in front of the engine: connections, bodies, replies, streams, and noticing who has gone.
 *
 *     net_listener_open -> the address is ours, and whoever connects is refused until there is something to serve
 *     net_open -> listens and serves, in threads of its own
 *     net_drain -> nothing new is begun; net_serving tells how much is left
 *     net_close -> answers what is under way with an error, then ends; before engine_close
 *
 * A client that hangs up, with FIN or RST, while its request waits or runs ends the request at once, streaming or not.
 * A half-closed connection looks the same and is treated the same: a client must keep its side open until it has its
 * reply. */
#ifndef SERVER_NET_NET_H
#define SERVER_NET_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/api.h"
#include "kernels/base/status.h"
#include "server/engine/engine.h"
#include "server/net/auth.h"
#include "server/net/tls.h"

struct net;

/* A bound address, so that a taken port is told before a model is loaded. */
struct net_listener {
    int fd;
    const char *host; /* as given; borrowed */
    uint16_t port;
    bool loopback; /* only this machine reaches it */
};

/* `host`: an address or a name; port 0: a free one. STATUS_INVALID: no such host; STATUS_IO: taken or not
 * allowed. The sentence says what to do. */
enum status net_listener_open(const char *host, uint16_t port, struct net_listener *out, struct error *error);
void net_listener_close(const struct net_listener *listener); /* one that net_open was not given */

struct net_args {
    struct net_listener listener; /* taken over, also on failure */
    struct engine *engine;
    const struct api_facts *facts; /* borrowed while open */
    struct auth *auth;             /* who may ask; NULL: anybody. Borrowed while open */
    const struct tls *tls;         /* NULL: plain HTTP. Borrowed while open */

    /* 0: the default. */
    size_t body_max;            /* bytes of one; 64 MiB */
    size_t body_memory_max;     /* bytes of all in flight, from the first byte to the end of the reply; 256 MiB */
    uint32_t connections_max;   /* at once; one more takes the place of one without a request; 1,000 */
    uint32_t header_timeout_ms; /* from the connection, or the reply before, to the end of the headers; 60,000 */
    uint32_t body_timeout_ms;   /* for the whole body; then a 408; 120,000 */
    uint32_t stall_timeout_ms;  /* for a client to read a block of a stream, or a reply (1 s more each 64 KB); 60,000 */
    uint32_t watchdog_ms;       /* the engine is stuck if it has work and does not come further; 60,000 */
    uint32_t keepalive_ms;      /* between the comments of a waiting stream; 10,000 */
};

/* STATUS_IO: what the operating system refused; STATUS_NO_MEMORY. */
enum status net_open(const struct net_args *args, struct net **out, struct error *error);
uint16_t net_port(const struct net *net);
/* From now on new requests get a 503, and connections without one are closed; what was begun goes on. */
void net_drain(struct net *net);
uint32_t net_serving(struct net *net); /* requests begun and not yet answered to the end */
void net_close(struct net *net);

#endif
