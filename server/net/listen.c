/* The listening socket: made here, so that names, port 0 and errors are ours, and bound before it listens. */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/net/net_private.h"

#define BACKLOG 1024

static int bind_one(const struct addrinfo *address)
{
    int one = 1;
    int fd = socket(address->ai_family, address->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, address->ai_protocol);
    if (fd < 0)
        return -1;
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) == 0 &&
        bind(fd, address->ai_addr, address->ai_addrlen) == 0)
        return fd;
    int reason = errno;
    close(fd);
    errno = reason;
    return -1;
}

/* Port 0 has become a number, and a name an address. */
static void fill_bound(struct net_listener *listener)
{
    struct sockaddr_storage address = {0};
    const struct sockaddr_in *four = (const struct sockaddr_in *)&address;
    const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)&address;
    socklen_t size = sizeof(address);
    if (getsockname(listener->fd, (struct sockaddr *)&address, &size) != 0)
        return;
    listener->port = ntohs(address.ss_family == AF_INET6 ? six->sin6_port : four->sin_port);
    listener->loopback = address.ss_family == AF_INET6
                             ? IN6_IS_ADDR_LOOPBACK(&six->sin6_addr)
                             : ntohl(four->sin_addr.s_addr) >> IN_CLASSA_NSHIFT == IN_LOOPBACKNET;
}

/* What to do about the system's answer. */
static enum status fail(struct error *error, const char *host, uint16_t port, int reason)
{
    const char *advice =
        reason == EADDRINUSE ? "another program does; end it, or choose another with --port (0: a free one)"
        : reason == EACCES   ? "the system keeps ports below 1024 for root; choose another with --port"
        : reason == EADDRNOTAVAIL
            ? "this machine has no such address; --host takes 127.0.0.1 (only from here), 0.0.0.0 (from "
              "everywhere) or one of its own"
            : strerror(reason);
    return error_field(error, STATUS_IO, reason == EADDRNOTAVAIL ? "host" : "port", "cannot listen on %s port %u: %s",
                       host, port, advice);
}

enum status net_listener_open(const char *host, uint16_t port, struct net_listener *out, struct error *error)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    struct addrinfo *addresses = NULL;
    char service[8];
    snprintf(service, sizeof(service), "%u", port);
    int result = getaddrinfo(host, service, &hints, &addresses);
    if (result != 0)
        return error_field(error, STATUS_INVALID, "host",
                           "\"%.100s\" is not an address to listen on (%s); --host takes 127.0.0.1 (only from here), "
                           "0.0.0.0 (from everywhere), or an address or name of this machine",
                           host, gai_strerror(result));
    int fd = -1;
    for (const struct addrinfo *address = addresses; address != NULL && fd < 0; address = address->ai_next)
        fd = bind_one(address);
    int reason = errno;
    freeaddrinfo(addresses);
    if (fd < 0)
        return fail(error, host, port, reason);
    *out = (struct net_listener){.fd = fd, .host = host};
    fill_bound(out);
    return STATUS_OK;
}

void net_listener_close(const struct net_listener *listener)
{
    close(listener->fd);
}

/* Two may have bound the same address; only one gets to listen. */
enum status listen_start(const struct net_listener *listener, struct error *error)
{
    if (listen(listener->fd, BACKLOG) == 0)
        return STATUS_OK;
    return fail(error, listener->host, listener->port, errno);
}
