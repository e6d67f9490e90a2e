/* A client that writes and reads bytes, so that a test says exactly what goes over the wire and when it ends. */
#ifndef TESTS_UNIT_SERVER_NET_HTTP_CLIENT_H
#define TESTS_UNIT_SERVER_NET_HTTP_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/base/buffer.h"

struct http_client {
    int fd;
    struct buffer in; /* all that was read and not yet taken by http_reply */
    bool at_end;      /* the server closed, or reset */
};

struct http_reply {
    uint32_t status;
    char head[4096]; /* status line and headers */
    struct buffer body;
};

struct http_client http_connect(uint16_t port);
void http_send(struct http_client *client, const char *text);
void http_send_bytes(struct http_client *client, const char *bytes, size_t size); /* with NULs in them */
/* A POST with a Content-Length. `headers`: more header lines, each with its CRLF; NULL: none. */
void http_post(struct http_client *client, const char *path, const char *headers, const char *body);
/* Reads until `text` has come (true) or the connection ended (false). Nothing for 20 s fails the test. */
bool http_wait_for(struct http_client *client, const char *text);
void http_wait_for_end(struct http_client *client);
/* The next reply on the connection; chunked bodies are put together. `head_only`: the reply to a HEAD. */
struct http_reply http_reply(struct http_client *client, bool head_only);
void http_reply_free(struct http_reply *reply);
/* The value of a header, "" if it is not there; borrowed until the next call. */
const char *http_header(const struct http_reply *reply, const char *name);
void http_close(struct http_client *client); /* FIN, where everything was read */
void http_reset(struct http_client *client); /* RST */

#endif
