/* See http_client.h. */
#include "tests/unit/server/net/http_client.h"

#include <arpa/inet.h>
#include <check.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#define WAIT_MS 20000

struct http_client http_connect(uint16_t port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct http_client client = {.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ck_assert_int_ge(client.fd, 0);
    ck_assert_int_eq(connect(client.fd, (struct sockaddr *)&address, sizeof(address)), 0);
    return client;
}

void http_send_bytes(struct http_client *client, const char *bytes, size_t size)
{
    while (size > 0) {
        ssize_t sent = send(client->fd, bytes, size, MSG_NOSIGNAL);
        if (sent < 0) {
            ck_assert(errno == EPIPE || errno == ECONNRESET);
            return;
        }
        bytes += sent;
        size -= (size_t)sent;
    }
}

void http_send(struct http_client *client, const char *text)
{
    http_send_bytes(client, text, strlen(text));
}

void http_post(struct http_client *client, const char *path, const char *headers, const char *body)
{
    struct buffer text = {0};
    buffer_printf(&text, "POST %s HTTP/1.1\r\nHost: a\r\nContent-Length: %zu\r\n%s\r\n%s", path, strlen(body),
                  headers == NULL ? "" : headers, body);
    http_send(client, text.data);
    buffer_free(&text);
}

static bool read_more(struct http_client *client)
{
    struct pollfd poll_fd = {.fd = client->fd, .events = POLLIN};
    char bytes[16384];
    if (client->at_end)
        return false;
    if (poll(&poll_fd, 1, WAIT_MS) == 0)
        ck_abort_msg("nothing came for %d ms; so far: %s", WAIT_MS, client->in.size == 0 ? "" : client->in.data);
    ssize_t size = recv(client->fd, bytes, sizeof(bytes), 0);
    if (size > 0)
        buffer_append(&client->in, bytes, (size_t)size);
    client->at_end = size <= 0;
    return size > 0;
}

bool http_wait_for(struct http_client *client, const char *text)
{
    while (client->in.size == 0 || strstr(client->in.data, text) == NULL)
        if (!read_more(client))
            return false;
    return true;
}

void http_wait_for_end(struct http_client *client)
{
    while (read_more(client))
        continue;
}

/* Takes `size` bytes off the front. */
static void drop(struct http_client *client, size_t size)
{
    memmove(client->in.data, client->in.data + size, client->in.size - size);
    client->in.size -= size;
    client->in.data[client->in.size] = '\0';
}

static void take_bytes(struct http_client *client, size_t size, struct buffer *to)
{
    while (client->in.size < size)
        ck_assert_msg(read_more(client), "the body ended early");
    if (size == 0)
        return;
    buffer_append(to, client->in.data, size);
    drop(client, size);
}

static void take_chunks(struct http_client *client, struct buffer *to)
{
    struct buffer ignored = {0};
    size_t size;
    do {
        ck_assert(http_wait_for(client, "\r\n"));
        size = strtoul(client->in.data, NULL, 16);
        drop(client, (size_t)(strstr(client->in.data, "\r\n") - client->in.data) + 2);
        take_bytes(client, size, to);
        take_bytes(client, 2, &ignored);
    } while (size > 0);
    buffer_free(&ignored);
}

struct http_reply http_reply(struct http_client *client, bool head_only)
{
    struct http_reply reply = {0};
    ck_assert_msg(http_wait_for(client, "\r\n\r\n"), "no reply");
    size_t size = (size_t)(strstr(client->in.data, "\r\n\r\n") - client->in.data) + 4;
    ck_assert_uint_lt(size, sizeof(reply.head));
    memcpy(reply.head, client->in.data, size);
    drop(client, size);
    reply.status = (uint32_t)strtoul(reply.head + strlen("HTTP/1.1 "), NULL, 10);
    buffer_text(&reply.body, "");
    if (head_only)
        return reply;
    if (strcasecmp(http_header(&reply, "Transfer-Encoding"), "chunked") == 0)
        take_chunks(client, &reply.body);
    else
        take_bytes(client, strtoul(http_header(&reply, "Content-Length"), NULL, 10), &reply.body);
    return reply;
}

void http_reply_free(struct http_reply *reply)
{
    buffer_free(&reply->body);
}

const char *http_header(const struct http_reply *reply, const char *name)
{
    static char value[512];
    const char *line = strstr(reply->head, "\r\n");
    size_t length = strlen(name);
    value[0] = '\0';
    for (; line != NULL && line[2] != '\r'; line = strstr(line + 2, "\r\n"))
        if (strncasecmp(line + 2, name, length) == 0 && line[2 + length] == ':')
            snprintf(value, sizeof(value), "%.*s", (int)(strstr(line + 2, "\r\n") - line - 4 - (long)length),
                     line + 4 + length);
    return value;
}

void http_close(struct http_client *client)
{
    close(client->fd);
    buffer_free(&client->in);
}

void http_reset(struct http_client *client)
{
    struct linger linger = {.l_onoff = 1, .l_linger = 0};
    setsockopt(client->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
    http_close(client);
}
