/* Opening and closing: the daemon, its options, and the order in which things end. */
#include "server/net/net.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "kernels/base/check.h"
#include "kernels/base/log.h"
#include "server/net/net_private.h"

#define CONNECTIONS_RESERVE 64               /* beyond the limit, to be told so */
#define CONNECTION_MEMORY ((size_t)64 << 10) /* holds the headers, about 50 bytes more each */
#define FILES_RESERVE 64
#define CLOSE_WAIT_S 2 /* for replies under way to be written */

static void log_daemon(void *context, const char *format, va_list arguments)
{
    char text[256];
    (void)context;
    vsnprintf(text, sizeof(text), format, arguments);
    text[strcspn(text, "\r\n")] = '\0';
    log_line(LOG_DEBUG, "libmicrohttpd: %s", text);
}

static size_t keep_escapes(void *context, struct MHD_Connection *mhd, char *text)
{
    (void)context;
    (void)mhd;
    return strlen(text);
}

static void fill_defaults(struct net_args *args)
{
    args->body_max = args->body_max == 0 ? (size_t)64 << 20 : args->body_max;
    args->body_memory_max = args->body_memory_max == 0 ? (size_t)256 << 20 : args->body_memory_max;
    args->connections_max = args->connections_max == 0 ? 1000 : args->connections_max;
    args->header_timeout_ms = args->header_timeout_ms == 0 ? 60000 : args->header_timeout_ms;
    args->body_timeout_ms = args->body_timeout_ms == 0 ? 120000 : args->body_timeout_ms;
    args->stall_timeout_ms = args->stall_timeout_ms == 0 ? 60000 : args->stall_timeout_ms;
    args->watchdog_ms = args->watchdog_ms == 0 ? 60000 : args->watchdog_ms;
    args->keepalive_ms = args->keepalive_ms == 0 ? 10000 : args->keepalive_ms;
}

static enum status open_registry(struct net *net, struct error *error)
{
    net->connection_count = net->args.connections_max + CONNECTIONS_RESERVE;
    net->connections = calloc(net->connection_count, sizeof(*net->connections));
    if (net->connections == NULL)
        return error_no_memory(error, "the connections");
    for (uint32_t i = net->connection_count; i-- > 0;) {
        net->connections[i].fd = -1;
        net->connections[i].next_free = net->free;
        net->free = &net->connections[i];
    }
    return STATUS_OK;
}

static enum status start_daemon(struct net *net, struct error *error)
{
    const struct tls *tls = net->args.tls;
    struct MHD_OptionItem secure[] = {
        {MHD_OPTION_HTTPS_MEM_CERT, 0, tls == NULL ? NULL : tls->certificate},
        {MHD_OPTION_HTTPS_MEM_KEY, 0, tls == NULL ? NULL : tls->key},
        {MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)TLS_PRIORITIES},
        {MHD_OPTION_END, 0, NULL},
    };
    unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG;
    net->daemon = MHD_start_daemon(
        flags | (tls == NULL ? 0 : MHD_USE_TLS), 0, NULL, NULL, exchange_handle, net, MHD_OPTION_EXTERNAL_LOGGER,
        log_daemon, NULL, MHD_OPTION_LISTEN_SOCKET, net->args.listener.fd, MHD_OPTION_NOTIFY_COMPLETED,
        exchange_completed, net, MHD_OPTION_NOTIFY_CONNECTION, connection_notify, net, MHD_OPTION_UNESCAPE_CALLBACK,
        keep_escapes, NULL, MHD_OPTION_CONNECTION_LIMIT, net->connection_count, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        CONNECTION_MEMORY, MHD_OPTION_ARRAY, tls == NULL ? &secure[3] : secure, MHD_OPTION_END);
    if (net->daemon != NULL)
        return STATUS_OK;
    return error_set(error, STATUS_IO, "cannot start the HTTP server: %s", strerror(errno));
}

/* A descriptor a connection, and some for the rest of the process: where the system's default is lower and may be
 * raised, it is. */
static void raise_file_limit(uint32_t connections)
{
    struct rlimit limit;
    rlim_t wanted = (rlim_t)connections + FILES_RESERVE;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted)
        return;
    limit.rlim_cur = wanted < limit.rlim_max ? wanted : limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur < wanted)
        log_line(LOG_WARN, "only %llu open files are allowed; %u connections may need %llu",
                 (unsigned long long)limit.rlim_cur, connections, (unsigned long long)wanted);
}

enum status net_open(const struct net_args *args, struct net **out, struct error *error)
{
    struct net *net = calloc(1, sizeof(*net));
    *out = NULL;
    if (net == NULL) {
        net_listener_close(&args->listener);
        return error_no_memory(error, "the HTTP server");
    }
    net->args = *args;
    net->epoll_fd = net->event_fd = -1;
    pthread_mutex_init(&net->lock, NULL);
    pthread_cond_init(&net->none_left, NULL);
    metrics_open(&net->metrics);
    fill_defaults(&net->args);
    enum status status = STATUS_IO;
    if (getrandom(&net->request_id_seed, sizeof(net->request_id_seed), 0) != sizeof(net->request_id_seed))
        error_set(error, STATUS_IO, "no random numbers: %s", strerror(errno));
    else
        status = open_registry(net, error);
    if (status == STATUS_OK) {
        raise_file_limit(net->connection_count);
        status = listen_start(&net->args.listener, error);
    }
    if (status == STATUS_OK)
        status = respond_open(net, error);
    if (status == STATUS_OK)
        status = watch_start(net, error);
    if (status == STATUS_OK)
        status = start_daemon(net, error);
    if (status != STATUS_OK) {
        net_close(net);
        return status;
    }
    *out = net;
    return STATUS_OK;
}

uint16_t net_port(const struct net *net)
{
    return net->args.listener.port;
}

static void resume_all(struct net *net)
{
    pthread_mutex_lock(&net->lock);
    net->draining = net->closing = true;
    for (uint32_t i = 0; i < net->connection_count; i++) {
        struct exchange *exchange = net->connections[i].exchange;
        if (exchange == NULL || !exchange->suspended)
            continue;
        exchange->suspended = false;
        MHD_resume_connection(exchange->mhd);
    }
    pthread_mutex_unlock(&net->lock);
}

/* Replies under way are cut short with an error that their readers get to see; who does not read is not waited for. */
static void finish_exchanges(struct net *net)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += CLOSE_WAIT_S;
    pthread_mutex_lock(&net->lock);
    while (net->exchange_count > 0 && pthread_cond_timedwait(&net->none_left, &net->lock, &until) == 0)
        continue;
    pthread_mutex_unlock(&net->lock);
}

/* libmicrohttpd ends the process if it is stopped with a suspended connection: none is suspended again once `closing`
 * is set. */
static void stop_daemon(struct net *net)
{
    MHD_socket listener = MHD_quiesce_daemon(net->daemon);
    if (listener != MHD_INVALID_SOCKET)
        close(listener);
    resume_all(net);
    finish_exchanges(net);
    MHD_stop_daemon(net->daemon);
    CHECK(net->exchange_count == 0 && net->open_connections == 0);
}

void net_close(struct net *net)
{
    if (net == NULL)
        return;
    if (net->daemon != NULL)
        stop_daemon(net);
    else
        net_listener_close(&net->args.listener);
    watch_stop(net);
    refusal_flush(net, true);
    respond_close(net);
    pthread_cond_destroy(&net->none_left);
    pthread_mutex_destroy(&net->lock);
    metrics_close(&net->metrics);
    free(net->connections);
    free(net);
}
