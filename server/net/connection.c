/* The registry of connections, and how an exchange waits without losing a wake-up: looking and suspending happen under
 * one lock with waking and resuming. */
#include <sys/socket.h>

#include "kernels/base/check.h"
#include "kernels/base/size.h"
#include "server/net/net_private.h"

#define HUNG_UP_MS 500                           /* for what the client had sent before it went */
#define RESERVE_MS 2000                          /* for a request on a connection over the limit */
#define NEWCOMER_NS (UINT64_C(250) * 1000000)    /* nobody is evicted earlier ... */
#define NEWCOMERS_MAX 32                         /* ... unless so many wait */
#define BODY_GRACE_NS (UINT64_C(1) * 1000000000) /* a body may start slowly ... */
#define BODY_BYTES_PER_S_MIN 4096                /* ... and is evicted where it stays slower than this */

void connection_limit(struct connection *connection, uint32_t timeout_ms)
{
    if (connection->hung_up && timeout_ms > HUNG_UP_MS)
        timeout_ms = HUNG_UP_MS;
    connection->deadline_ns = timeout_ms == 0 ? 0 : clock_ns() + (uint64_t)timeout_ms * 1000000;
}

static void enter(struct connection *connection, enum connection_phase phase, uint32_t timeout_ms)
{
    connection->phase = phase;
    connection->since_ns = clock_ns();
    connection_limit(connection, timeout_ms);
}

/* ---- too many ---- */

bool connections_are_over(const struct net *net)
{
    return net->open_connections - net->shut_connections > net->args.connections_max;
}

void connection_shut(struct net *net, struct connection *connection)
{
    connection->deadline_ns = 0;
    if (!connection->shut)
        net->shut_connections++;
    connection->shut = true;
    shutdown(connection->fd, SHUT_RDWR);
}

static bool has_no_request(const struct connection *connection, uint64_t now_ns)
{
    uint64_t waited = now_ns - connection->since_ns;
    if (connection->mhd == NULL || connection->shut)
        return false;
    if (connection->phase == PHASE_BODY)
        return waited > BODY_GRACE_NS &&
               (double)connection->received * 1e9 < (double)BODY_BYTES_PER_S_MIN * (double)waited;
    return connection->phase == PHASE_HEADERS;
}

static bool evict_one(struct net *net)
{
    uint64_t now = clock_ns();
    struct connection *oldest = NULL;
    uint32_t candidates = 0;
    for (uint32_t i = 0; i < net->connection_count; i++) {
        struct connection *connection = &net->connections[i];
        if (!has_no_request(connection, now))
            continue;
        candidates++;
        if (oldest == NULL || connection->since_ns < oldest->since_ns)
            oldest = connection;
    }
    if (oldest == NULL || (candidates <= NEWCOMERS_MAX && now - oldest->since_ns < NEWCOMER_NS))
        return false;
    connection_shut(net, oldest);
    return true;
}

void connections_evict(struct net *net)
{
    while (connections_are_over(net) && evict_one(net))
        continue;
}

/* ---- coming and going ---- */

static void opened(struct net *net, struct MHD_Connection *mhd, void **socket_context)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);
    const union MHD_ConnectionInfo *tls = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_GNUTLS_SESSION);
    pthread_mutex_lock(&net->lock);
    struct connection *connection = net->free;
    bool wake = net->open_connections == 0; /* the watcher sleeps while there is nothing to time */
    if (connection != NULL) {
        net->free = connection->next_free;
        net->open_connections++;
        *connection = (struct connection){
            .mhd = mhd,
            .fd = info->connect_fd,
            .plain = tls == NULL,
            .generation = connection->generation + 1,
        };
        enter(connection, PHASE_HEADERS, net->args.header_timeout_ms);
        connections_evict(net);
        bool over = connections_are_over(net);
        if (over)
            connection_limit(connection, (uint32_t)size_min(net->args.header_timeout_ms, RESERVE_MS));
        watch_add(net, connection);
        wake = wake || over;
    }
    *socket_context = connection;
    pthread_mutex_unlock(&net->lock);
    if (wake)
        watch_wake(net);
}

static void closed(struct net *net, struct connection *connection)
{
    if (connection == NULL)
        return;
    pthread_mutex_lock(&net->lock);
    CHECK(connection->exchange == NULL);
    watch_remove(net, connection);
    net->shut_connections -= connection->shut;
    connection->mhd = NULL;
    connection->fd = -1;
    connection->deadline_ns = 0;
    connection->next_free = net->free;
    net->free = connection;
    net->open_connections--;
    pthread_mutex_unlock(&net->lock);
}

void connection_notify(void *context, struct MHD_Connection *mhd, void **socket_context,
                       enum MHD_ConnectionNotificationCode code)
{
    if (code == MHD_CONNECTION_NOTIFY_STARTED)
        opened(context, mhd, socket_context);
    else
        closed(context, *socket_context);
}

bool connection_attach(struct exchange *exchange)
{
    struct net *net = exchange->net;
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(exchange->mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    struct connection *connection = info->socket_context;
    pthread_mutex_lock(&net->lock);
    net->exchange_count++;
    exchange->connection = connection;
    if (connection != NULL) {
        connection->exchange = exchange;
        exchange->gone = connection->hung_up;
    }
    bool within = connection != NULL && net->exchange_count <= net->args.connections_max; /* who is idle gives way */
    if (connection != NULL)
        enter(connection, PHASE_BODY, within ? net->args.body_timeout_ms : RESERVE_MS);
    pthread_mutex_unlock(&net->lock);
    return within;
}

void connection_detach(struct exchange *exchange)
{
    struct net *net = exchange->net;
    pthread_mutex_lock(&net->lock);
    net->serving -= exchange->serving;
    if (exchange->connection != NULL) {
        exchange->connection->exchange = NULL;
        exchange->connection->received = 0;
        enter(exchange->connection, PHASE_HEADERS, net->args.header_timeout_ms);
        if (net->draining)
            connection_shut(net, exchange->connection);
    }
    pthread_mutex_unlock(&net->lock);
}

void connection_enter(struct exchange *exchange, enum connection_phase phase, uint32_t timeout_ms)
{
    if (exchange->connection == NULL)
        return;
    pthread_mutex_lock(&exchange->net->lock);
    enter(exchange->connection, phase, timeout_ms);
    pthread_mutex_unlock(&exchange->net->lock);
}

void connection_count_body(struct exchange *exchange, size_t size)
{
    if (exchange->connection == NULL)
        return;
    pthread_mutex_lock(&exchange->net->lock);
    exchange->connection->received += size;
    pthread_mutex_unlock(&exchange->net->lock);
}

/* ---- waiting ---- */

bool exchange_suspend(struct exchange *exchange, bool stream)
{
    struct net *net = exchange->net;
    pthread_mutex_lock(&net->lock);
    bool wait = !exchange->woken && !exchange->gone && !exchange->keepalive_due && !net->closing;
    exchange->woken = false;
    if (wait) {
        exchange->waited = true;
        exchange->keepalive_at_ns = stream ? clock_ns() + (uint64_t)net->args.keepalive_ms * 1000000 : UINT64_MAX;
        exchange->suspended = true;
        MHD_suspend_connection(exchange->mhd);
    }
    pthread_mutex_unlock(&net->lock);
    return wait;
}

void exchange_wake(void *context)
{
    struct exchange *exchange = context;
    pthread_mutex_lock(&exchange->net->lock);
    exchange->woken = true;
    if (exchange->suspended) {
        exchange->suspended = false;
        MHD_resume_connection(exchange->mhd);
    }
    pthread_mutex_unlock(&exchange->net->lock);
}

bool exchange_is_gone(struct exchange *exchange)
{
    pthread_mutex_lock(&exchange->net->lock);
    bool gone = exchange->gone;
    pthread_mutex_unlock(&exchange->net->lock);
    return gone;
}

bool exchange_take_keepalive(struct exchange *exchange)
{
    pthread_mutex_lock(&exchange->net->lock);
    bool due = exchange->keepalive_due;
    exchange->keepalive_due = false;
    pthread_mutex_unlock(&exchange->net->lock);
    return due;
}

bool net_is_closing(struct net *net)
{
    pthread_mutex_lock(&net->lock);
    bool closing = net->closing;
    pthread_mutex_unlock(&net->lock);
    return closing;
}
