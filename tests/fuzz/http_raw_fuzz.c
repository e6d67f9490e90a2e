/* Bytes on a connection, against the real net with a scripted engine: the first byte chooses how the client leaves, the
 * rest is what it sends. Whatever that is, replies begin as replies do and are no 500, the server closes its side soon
 * after the client did, and every request that reached the engine is released. */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "kernels/base/log.h"
#include "server/net/net.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/server/net/fake_engine.h"

#define QUIET_MS 2
#define STUCK_MS 20000
#define REQUESTS_MAX (FAKE_REQUESTS_MAX - 128) /* an input holds fewer than 128 */

enum leave { LEAVE_SERVED, LEAVE_AT_ONCE, LEAVE_RESET, LEAVES };

struct server {
    struct engine *engine;
    struct net *net;
    uint32_t served; /* requests that have had their events */
};

static void start(struct server *server)
{
    struct error error;
    log_setup(LOG_ERROR, LOG_FORMAT_TEXT);
    *server = (struct server){.engine = fake_engine_open()};
    struct net_args args = {.engine = server->engine, .facts = &test_facts};
    CHECK(net_listener_open("127.0.0.1", 0, &args.listener, &error) == STATUS_OK);
    CHECK(net_open(&args, &server->net, &error) == STATUS_OK);
}

static void stop(struct server *server)
{
    net_close(server->net);
    fake_engine_close(server->engine);
}

/* Open for the life of the process, but for a new one when the engine's list is full. */
static struct server *current(void)
{
    static struct server server;
    if (server.net != NULL && fake_engine_submitted(server.engine) > REQUESTS_MAX) {
        stop(&server);
        server.net = NULL;
    }
    if (server.net == NULL)
        start(&server);
    return &server;
}

static int connect_to(const struct server *server)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(net_port(server->net))};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0);
    return fd;
}

static void send_all(int fd, const uint8_t *data, size_t size)
{
    while (size > 0) {
        ssize_t sent = send(fd, data, size, MSG_NOSIGNAL);
        if (sent <= 0)
            return; /* the server has closed */
        data += sent;
        size -= (size_t)sent;
    }
}

static void serve_submitted(struct server *server)
{
    for (uint32_t count = fake_engine_submitted(server->engine); server->served < count; server->served++) {
        fake_push_start(server->engine, server->served);
        fake_push_text(server->engine, server->served, "ab\xC3\xA9");
        fake_push_end(server->engine, server->served);
    }
}

/* Reads until nothing comes for `quiet_ms` (false), or the end (true). */
static bool read_on(struct server *server, int fd, int quiet_ms, struct buffer *in)
{
    char bytes[4096];
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    for (;;) {
        serve_submitted(server);
        uint32_t served = server->served;
        if (poll(&wait, 1, quiet_ms) == 0 && served == fake_engine_submitted(server->engine))
            return false;
        ssize_t got = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);
        if (got == 0 || (got < 0 && errno != EAGAIN))
            return true;
        if (got > 0)
            buffer_append(in, bytes, (size_t)got);
    }
}

static void check_replies(const struct buffer *in)
{
    static const char begin[] = "HTTP/1.";
    size_t size = in->size < strlen(begin) ? in->size : strlen(begin);
    CHECK(size == 0 || memcmp(in->data, begin, size) == 0);
    if (in->size >= 12)
        CHECK(in->data[8] == ' ' && in->data[9] >= '1' && in->data[9] <= '5' && memcmp(in->data + 9, "500", 3) != 0);
}

static void leave(struct server *server, int fd, enum leave how, struct buffer *in)
{
    struct linger reset = {.l_onoff = 1};
    if (how == LEAVE_RESET) {
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
    } else {
        shutdown(fd, SHUT_WR);
        CHECK(read_on(server, fd, STUCK_MS, in));
    }
    close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buffer in = {0};
    if (size < 1)
        return 0;
    struct server *server = current();
    enum leave how = (enum leave)fuzz_choice(data[0], LEAVES);
    int fd = connect_to(server);
    send_all(fd, data + 1, size - 1);
    if (how == LEAVE_SERVED)
        read_on(server, fd, QUIET_MS, &in);
    leave(server, fd, how, &in);
    check_replies(&in);
    serve_submitted(server);
    for (uint32_t count = fake_engine_submitted(server->engine), n = count > 128 ? count - 128 : 0; n < count; n++)
        fake_engine_wait_release(server->engine, n);
    buffer_free(&in);
    return 0;
}
