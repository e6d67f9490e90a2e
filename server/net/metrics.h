/* GET /metrics: the engine's numbers and the server's own, as Prometheus reads them. Each has a name of ours
 * (incipit_...), and vLLM's where it has one, so that dashboards and routers made for it show this server too.
 * configs/metrics.md lists them all. */
#ifndef SERVER_NET_METRICS_H
#define SERVER_NET_METRICS_H

#include <pthread.h>
#include <stdint.h>

#include "kernels/base/buffer.h"
#include "kernels/base/status.h"

struct net;

#define METRICS_CODES 48
#define METRICS_ENDPOINTS 64
#define METRICS_CLASSES 6 /* of HTTP status: 1xx at 1 */

/* What the server counts: by any thread, under a lock of its own that is taken last. What does not fit the tables (it
 * would take more codes and endpoints than there are) counts under the last row. */
struct metrics {
    pthread_mutex_t lock;
    struct {
        char code[48];
        uint64_t count;
    } refused[METRICS_CODES];
    uint32_t refused_count;
    struct {
        const char *path; /* constant */
        uint64_t classes[METRICS_CLASSES];
    } responses[METRICS_ENDPOINTS];
    uint32_t response_count;
};

void metrics_open(struct metrics *metrics);
void metrics_close(struct metrics *metrics);
void metrics_count_refusal(struct metrics *metrics, const char *code);
/* A reply's status line goes out. `path`: the endpoint's, constant; "other": no endpoint has this path and method. */
void metrics_count_response(struct metrics *metrics, const char *path, uint32_t http_status);

enum status metrics_write(struct net *net, struct buffer *out, struct error *error);

#endif
