/* The watcher thread. libmicrohttpd does not look at the socket of a suspended connection, and is not told of an end
 * that came together with bytes, so the hang-ups of clients are watched here: each socket's once (one shot: a level
 * would spin), under a number that cannot be mistaken for that of a later connection in the same place.
 *
 * It also keeps time: keepalives of waiting streams, and deadlines. libmicrohttpd's own timeout starts again at every
 * byte, so one byte a second would live for ever. */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "kernels/base/check.h"
#include "kernels/base/log.h"
#include "kernels/base/size.h"
#include "server/net/net_private.h"

#define EVENT_FD_ID UINT64_MAX
#define EVENTS_AT_ONCE 64
#define TICK_MS_MIN 10
#define TICK_MS_MAX 1000
#define TICK_MS_OVER 100 /* while there are more connections than may be */

static uint64_t id_of(const struct net *net, const struct connection *connection)
{
    return (uint64_t)(connection - net->connections) << 32 | connection->generation;
}

void watch_add(struct net *net, struct connection *connection)
{
    struct epoll_event event = {.events = EPOLLRDHUP | EPOLLHUP | EPOLLERR | EPOLLONESHOT,
                                .data.u64 = id_of(net, connection)};
    connection->watched = epoll_ctl(net->epoll_fd, EPOLL_CTL_ADD, connection->fd, &event) == 0;
    if (!connection->watched)
        log_line(LOG_WARN, "the hang-up of a client will not be noticed: %s", strerror(errno));
}

void watch_remove(struct net *net, struct connection *connection)
{
    if (connection->watched)
        epoll_ctl(net->epoll_fd, EPOLL_CTL_DEL, connection->fd, NULL);
    connection->watched = false;
}

void watch_wake(struct net *net)
{
    uint64_t one = 1;
    ssize_t written = write(net->event_fd, &one, sizeof(one));
    CHECK(written == sizeof(one) || errno == EAGAIN);
}

static void resume(struct exchange *exchange)
{
    if (!exchange->suspended)
        return;
    exchange->suspended = false;
    MHD_resume_connection(exchange->mhd);
}

/* A connection blocked in a write has no other way to learn of it than its socket's end. Before that, what the client
 * sent may still be read and answered at once; libmicrohttpd does not notice an end that came with the last bytes. */
static void hung_up(struct net *net, uint64_t id)
{
    uint32_t place = (uint32_t)(id >> 32);
    pthread_mutex_lock(&net->lock);
    struct connection *connection = &net->connections[place];
    struct exchange *exchange = connection->exchange;
    if (connection->mhd != NULL && connection->generation == (uint32_t)id) {
        connection->hung_up = true;
        if (exchange != NULL)
            exchange->gone = true;
        if (exchange != NULL && exchange->suspended)
            resume(exchange);
        else if (exchange != NULL && exchange->waited)
            connection_shut(net, connection);
        else
            connection_limit(connection, UINT32_MAX);
    }
    pthread_mutex_unlock(&net->lock);
}

/* libmicrohttpd takes no reply while a body comes, so the reason is written past it; who has sent no request is owed
 * none. What a slow reader has not read is dropped: the system would hold it for as long as it reads a byte now and
 * then. */
static void expire(struct net *net, struct connection *connection)
{
    struct exchange *exchange = connection->exchange;
    if (connection->phase == PHASE_BODY && exchange != NULL && !connection->hung_up) {
        struct error error;
        exchange->timed_out = true;
        body_timeout_error(net, &error);
        respond_past(exchange, &error);
    } else if (connection->phase == PHASE_REPLY) {
        struct linger none = {.l_onoff = 1, .l_linger = 0};
        if (exchange != NULL)
            exchange->stalled = !connection->hung_up;
        setsockopt(connection->fd, SOL_SOCKET, SO_LINGER, &none, sizeof(none));
    }
    connection_shut(net, connection);
}

static void check_times(struct net *net)
{
    uint64_t now = clock_ns();
    pthread_mutex_lock(&net->lock);
    for (uint32_t i = 0; i < net->connection_count; i++) {
        struct connection *connection = &net->connections[i];
        struct exchange *exchange = connection->exchange;
        if (connection->mhd == NULL)
            continue;
        if (connection->deadline_ns != 0 && now >= connection->deadline_ns)
            expire(net, connection);
        if (exchange != NULL && exchange->suspended && now >= exchange->keepalive_at_ns) {
            exchange->keepalive_due = true;
            resume(exchange);
        }
    }
    connections_evict(net);
    pthread_mutex_unlock(&net->lock);
}

/* How long to sleep: for ever while there is nobody, and nothing left to do for those who were there. */
static int tick_ms(struct net *net)
{
    const struct net_args *args = &net->args;
    size_t shortest = size_min(size_min(args->header_timeout_ms, args->body_timeout_ms),
                               size_min(args->stall_timeout_ms, args->keepalive_ms));
    pthread_mutex_lock(&net->lock);
    bool nobody = net->open_connections == 0;
    bool over = connections_are_over(net);
    pthread_mutex_unlock(&net->lock);
    nobody = nobody && !refusal_flush(net, false) && engine_heartbeat(args->engine).progress_ns == 0;
    return nobody ? -1 : (int)size_min(size_max(shortest / 4, TICK_MS_MIN), over ? TICK_MS_OVER : TICK_MS_MAX);
}

static bool ends(struct net *net)
{
    pthread_mutex_lock(&net->lock);
    bool ends_now = net->watcher_ends;
    pthread_mutex_unlock(&net->lock);
    return ends_now;
}

static void watch(void *context)
{
    struct net *net = context;
    struct epoll_event events[EVENTS_AT_ONCE];
    uint64_t checked_ns = clock_ns();
    while (!ends(net)) {
        int tick = tick_ms(net);
        int count = epoll_wait(net->epoll_fd, events, EVENTS_AT_ONCE, tick);
        for (int i = 0; i < count; i++) {
            uint64_t drained;
            if (events[i].data.u64 != EVENT_FD_ID)
                hung_up(net, events[i].data.u64);
            else if (read(net->event_fd, &drained, sizeof(drained)) < 0)
                CHECK(errno == EAGAIN);
        }
        if (tick > 0 && clock_ns() - checked_ns >= (uint64_t)tick * 1000000) {
            checked_ns = clock_ns();
            check_times(net);
            health_watch(net);
        }
    }
}

enum status watch_start(struct net *net, struct error *error)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = EVENT_FD_ID};
    net->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    net->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (net->epoll_fd < 0 || net->event_fd < 0 || epoll_ctl(net->epoll_fd, EPOLL_CTL_ADD, net->event_fd, &event) != 0)
        return error_set(error, STATUS_IO, "cannot watch connections: %s", strerror(errno));
    enum status status = thread_start("net-watch", watch, net, &net->watcher, error);
    net->watcher_started = status == STATUS_OK;
    return status;
}

void watch_stop(struct net *net)
{
    if (net->watcher_started) {
        pthread_mutex_lock(&net->lock);
        net->watcher_ends = true;
        pthread_mutex_unlock(&net->lock);
        watch_wake(net);
        thread_join(&net->watcher);
    }
    if (net->epoll_fd >= 0)
        close(net->epoll_fd);
    if (net->event_fd >= 0)
        close(net->event_fd);
}
