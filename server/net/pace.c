/* See pace.h. */
#include "server/net/pace.h"

#include <math.h>

#define NEWEST 0.2     /* weight of the last interval */
#define INTERVAL_MAX 5 /* seconds; a longer one says that there was nothing to do */
#define RETRY_MIN 1
#define RETRY_MAX 30

static double seconds_since(uint64_t then_ns, uint64_t now_ns)
{
    return now_ns > then_ns ? fmin((double)(now_ns - then_ns) / 1e9, INTERVAL_MAX) : 0;
}

void pace_note_end(struct pace *pace, uint64_t now_ns)
{
    if (pace->last_end_ns != 0) {
        double interval_s = seconds_since(pace->last_end_ns, now_ns);
        pace->interval_s += (pace->interval_s == 0 ? 1 : NEWEST) * (interval_s - pace->interval_s);
    }
    pace->last_end_ns = now_ns;
}

uint32_t pace_retry_after_s(const struct pace *pace, uint32_t waiting, uint64_t now_ns)
{
    if (pace->last_end_ns == 0)
        return RETRY_MIN;
    double interval_s = fmax(pace->interval_s, seconds_since(pace->last_end_ns, now_ns));
    return (uint32_t)fmin(fmax(ceil(interval_s * waiting), RETRY_MIN), RETRY_MAX);
}
