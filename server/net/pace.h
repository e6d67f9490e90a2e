/* How fast requests end lately, so that who is turned away is told when to come again. libmicrohttpd's thread. */
#ifndef SERVER_NET_PACE_H
#define SERVER_NET_PACE_H

#include <stdint.h>

struct pace {
    uint64_t last_end_ns; /* 0: none has ended yet */
    double interval_s;    /* between two ends, the last ones counting most */
};

void pace_note_end(struct pace *pace, uint64_t now_ns);
/* The time in which `waiting` requests end, 1 to 30 s: longer, and clients do not come again at all. */
uint32_t pace_retry_after_s(const struct pace *pace, uint32_t waiting, uint64_t now_ns);

#endif
