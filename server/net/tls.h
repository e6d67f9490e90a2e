/* The certificate and key that the server speaks HTTPS with, checked at start: a mistake is told with the file's name,
 * not by the first client. Constant while open. */
#ifndef SERVER_NET_TLS_H
#define SERVER_NET_TLS_H

#include "kernels/base/status.h"

/* TLS 1.2 and newer. */
#define TLS_PRIORITIES "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2"

struct tls {
    char *certificate; /* PEM, the chain behind it */
    char *key;         /* PEM */
};

/* STATUS_INVALID: which file is not what it should be, or that the two do not belong together. */
enum status tls_open(const char *certificate_path, const char *key_path, struct tls **out, struct error *error);
void tls_close(struct tls *tls); /* NULL is allowed */

#endif
