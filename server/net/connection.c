/* The registry of connections, and how an exchange waits without losing a wake-up: looking and suspending happen under
 * one lock with waking and resuming. */
#include <sys/socket.h>

#include "kernels/base/check.h"
#include "server/net/net_private.h"

#define HUNG_UP_MS 500 /* for what the client had sent before it went */

void connection_limit(struct connection *connection, uint32_t timeout_ms)
{
    if (connection->hung_up && timeout_ms > HUNG_UP_MS)
        timeout_ms = HUNG_UP_MS;
    connection->deadline_ns = timeout_ms == 0 ? 0 : clock_ns() + (uint64_t)timeout_ms * 1000000;
}

static void opened(struct net *net, struct MHD_Connection *mhd, void **socket_context)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);
    pthread_mutex_lock(&net->lock);
    struct connection *connection = net->free;
    bool first = net->open_connections == 0;
    if (connection != NULL) {
        net->free = connection->next_free;
        net->open_connections++;
        *connection = (struct connection){
            .mhd = mhd,
            .fd = info->connect_fd,
            .generation = connection->generation + 1,
        };
        connection_limit(connection, net->args.header_timeout_ms);
        watch_add(net, connection);
    }
    *socket_context = connection;
    pthread_mutex_unlock(&net->lock);
    if (first)
        watch_wake(net); /* it sleeps while there is nothing to time */
}

static void closed(struct net *net, struct connection *connection)
{
    if (connection == NULL)
        return;
    pthread_mutex_lock(&net->lock);
    CHECK(connection->exchange == NULL);
    watch_remove(net, connection);
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
    bool within = connection != NULL && net->open_connections <= net->args.connections_max;
    pthread_mutex_unlock(&net->lock);
    return within;
}

void connection_detach(struct exchange *exchange)
{
    struct net *net = exchange->net;
    pthread_mutex_lock(&net->lock);
    if (exchange->connection != NULL) {
        exchange->connection->exchange = NULL;
        connection_limit(exchange->connection, net->args.header_timeout_ms);
    }
    pthread_mutex_unlock(&net->lock);
}

void connection_set_deadline(struct exchange *exchange, uint32_t timeout_ms)
{
    if (exchange->connection == NULL)
        return;
    pthread_mutex_lock(&exchange->net->lock);
    connection_limit(exchange->connection, timeout_ms);
    pthread_mutex_unlock(&exchange->net->lock);
}

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
