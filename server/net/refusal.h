/* The log's lines about requests that are turned away: a flood of them is counted, not written. */
#ifndef SERVER_NET_REFUSAL_H
#define SERVER_NET_REFUSAL_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/base/status.h"

struct exchange;
struct net;

#define REFUSALS_PER_S 20 /* lines; what is more is told by number, once a second */

/* Under net->lock. */
struct refusals {
    uint64_t second;
    uint32_t written; /* in it */
    uint32_t left_out;
};

/* Whether one more line may be written in this second. *left_out: how many were left out in an earlier one, to be told
 * now. */
bool refusals_count(struct refusals *refusals, uint64_t second, uint32_t *left_out);

/* Counts it, and writes its line. */
void refusal_log(const struct exchange *exchange, const struct error *error);
/* Tells what was left out in seconds before this one, or `all`. Returns whether there is more to tell later. */
bool refusal_flush(struct net *net, bool all);

#endif
