/* Whose web pages may ask. A browser sends what any page tells it to, also to a server on its own machine, where no
 * firewall stands between: the page's own address is then in Origin, and in Host too where its name was made to mean
 * 127.0.0.1 (DNS rebinding). So a server that is bound to loopback and asks for no key answers only values that mean
 * this machine, and those that an option lists.
 *
 * Lists are comma-separated text with blanks around entries. Everything here is pure. */
#ifndef SERVER_NET_ORIGIN_H
#define SERVER_NET_ORIGIN_H

#include <stdbool.h>

#include "kernels/base/status.h"

struct origin_rules {
    const char *origins;  /* --cors-origin: pages that may ask and read replies; "*" is any */
    const char *hosts;    /* --allowed-host: names that mean this server besides those of the machine */
    const char *own_host; /* --host, which names this server too; NULL: nothing */
    bool restricted;      /* false: any Host and any Origin are answered */
};

/* STATUS_INVALID names the option and the entry that could never match. */
enum status origin_check_rules(const struct origin_rules *rules, struct error *error);

/* The values of the two headers; NULL: not sent. STATUS_INVALID with the code permission_denied names the header and
 * the option that widens it. */
enum status origin_judge(const struct origin_rules *rules, const char *host, const char *origin, struct error *error);
/* Whether pages of this origin are listed: their browsers are told that they may read replies. */
bool origin_is_listed(const struct origin_rules *rules, const char *origin);

/* "localhost", "x.localhost", "127.0.0.1", "127.1", "[::1]", each with or without a port. */
bool origin_host_is_loopback(const char *host);
/* The same behind http:// or https://, and nothing after it. */
bool origin_is_loopback(const char *origin);

#endif
