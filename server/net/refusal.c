/* See refusal.h. */
#include "server/net/refusal.h"

#include <stdio.h>

#include "kernels/base/log.h"
#include "server/net/keys.h"
#include "server/net/net_private.h"

#define LOGGED_PATH_BYTES 256

bool refusals_count(struct refusals *refusals, uint64_t second, uint32_t *left_out)
{
    *left_out = 0;
    if (second != refusals->second) {
        *left_out = refusals->left_out;
        *refusals = (struct refusals){.second = second};
    }
    bool write = refusals->written < REFUSALS_PER_S;
    if (write)
        refusals->written++;
    else
        refusals->left_out++;
    return write;
}

static void tell_left_out(uint32_t left_out)
{
    if (left_out > 0)
        log_event(LOG_WARN, "refused", (struct log_field[]){log_integer("left_out", left_out)}, 1);
}

/* What a client did wrong is its own affair; that work is turned away is the operator's. */
static void write_line(const struct exchange *exchange, const struct error *error)
{
    uint32_t http_status = api_error_status(error);
    char path[LOGGED_PATH_BYTES];
    snprintf(path, sizeof(path), "%s", exchange->path.data == NULL ? "" : exchange->path.data);
    size_t count = 6;
    struct log_field fields[8] = {
        log_text("id", exchange->id),       log_text("method", exchange->method),    log_text("path", path),
        log_integer("status", http_status), log_text("code", api_error_code(error)), log_text("message", error->text),
    };
    if (exchange->client_id[0] != '\0')
        fields[count++] = log_text("client_id", exchange->client_id);
    if (exchange->grant.key != NULL)
        fields[count++] = log_text("key", key_name(exchange->grant.key));
    log_event(http_status == 429 || http_status >= 500 ? LOG_WARN : LOG_INFO, "refused", fields, count);
}

static uint64_t this_second(void)
{
    return clock_ns() / 1000000000;
}

void refusal_log(const struct exchange *exchange, const struct error *error)
{
    struct net *net = exchange->net;
    uint32_t left_out;
    metrics_count_refusal(&net->metrics, api_error_code(error));
    pthread_mutex_lock(&net->lock);
    bool write = refusals_count(&net->refusals, this_second(), &left_out);
    pthread_mutex_unlock(&net->lock);
    tell_left_out(left_out);
    if (write)
        write_line(exchange, error);
}

bool refusal_flush(struct net *net, bool all)
{
    uint32_t left_out = 0;
    pthread_mutex_lock(&net->lock);
    if (all || net->refusals.second != this_second()) {
        left_out = net->refusals.left_out;
        net->refusals.left_out = 0;
    }
    bool more = net->refusals.left_out > 0;
    pthread_mutex_unlock(&net->lock);
    tell_left_out(left_out);
    return more;
}
