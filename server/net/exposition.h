/* Writes numbers as Prometheus reads them: the text exposition format, version 0.0.4.
 * https://prometheus.io/docs/instrumenting/exposition_formats/
 *
 *     struct exposition e = {.out = &body};
 *     exposition_family(&e, "incipit_requests_cancelled_total", "counter", "Requests that ended early.");
 *     exposition_integer(&e, &(struct exposition_label){"reason", "stopped"}, 1, 3);
 *
 * A family is begun once and its samples follow it. Label values are escaped; they must be valid UTF-8. */
#ifndef SERVER_NET_EXPOSITION_H
#define SERVER_NET_EXPOSITION_H

#include <stdint.h>

#include "kernels/base/buffer.h"
#include "server/engine/stats.h"

#define EXPOSITION_TYPE "text/plain; version=0.0.4; charset=utf-8"

struct exposition {
    struct buffer *out;
    const char *name; /* of the family */
};

struct exposition_label {
    const char *name;
    const char *value;
};

/* `type`: "counter" (whose name ends in _total), "gauge", "histogram". `help`: one line. */
void exposition_family(struct exposition *exposition, const char *name, const char *type, const char *help);
void exposition_integer(struct exposition *exposition, const struct exposition_label *labels, uint32_t count,
                        uint64_t value);
void exposition_number(struct exposition *exposition, const struct exposition_label *labels, uint32_t count,
                       double value);
/* Buckets up to the first `bounds` of the histogram's, the one of all, sum and count. */
void exposition_histogram(struct exposition *exposition, const struct exposition_label *labels, uint32_t count,
                          const struct histogram *histogram, enum stats_histogram which, uint32_t bounds);

#endif
