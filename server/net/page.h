/* The pages that the server answers by itself, of its own and the engine's state: endpoints without a parser and
 * without an answer in api's table. */
#ifndef SERVER_NET_PAGE_H
#define SERVER_NET_PAGE_H

#include "kernels/base/buffer.h"
#include "kernels/base/status.h"
#include "server/net/auth.h"

struct net;

struct page {
    const char *path; /* as in the table of endpoints */
    const char *content_type;
    enum auth_need need;
    enum status (*write)(struct net *net, struct buffer *out, struct error *error);
};

const struct page *page_find(const char *path); /* there is one for each such endpoint */

#endif
