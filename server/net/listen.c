/* The listening socket: made here, so that names, port 0 and errors are ours. */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/net/net_private.h"

#define BACKLOG 1024

static int open_one(const struct addrinfo *address)
{
    int one = 1;
    int fd = socket(address->ai_family, address->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, address->ai_protocol);
    if (fd < 0)
        return -1;
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) == 0 &&
        bind(fd, address->ai_addr, address->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0)
        return fd;
    int reason = errno;
    close(fd);
    errno = reason;
    return -1;
}

static uint16_t bound_port(int fd)
{
    struct sockaddr_storage address = {0};
    socklen_t size = sizeof(address);
    if (getsockname(fd, (struct sockaddr *)&address, &size) != 0)
        return 0;
    if (address.ss_family == AF_INET6)
        return ntohs(((struct sockaddr_in6 *)&address)->sin6_port);
    return ntohs(((struct sockaddr_in *)&address)->sin_port);
}

int listen_open(const char *host, uint16_t port, uint16_t *bound, struct error *error)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    struct addrinfo *addresses = NULL;
    char service[8];
    snprintf(service, sizeof(service), "%u", port);
    int result = getaddrinfo(host, service, &hints, &addresses);
    if (result != 0) {
        error_field(error, STATUS_INVALID, "host", "%s is not an address to listen on: %s", host, gai_strerror(result));
        return -1;
    }
    int fd = -1;
    for (const struct addrinfo *address = addresses; address != NULL && fd < 0; address = address->ai_next)
        fd = open_one(address);
    freeaddrinfo(addresses);
    if (fd < 0)
        error_field(error, STATUS_IO, "port", "cannot listen on %s port %u: %s", host, port, strerror(errno));
    else
        *bound = bound_port(fd);
    return fd;
}
