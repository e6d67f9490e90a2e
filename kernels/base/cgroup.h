/* What the control groups of a process allow it: containers and service managers set limits there that the rest of the
 * system does not show. Understands version 2 and, where that has no controller, version 1. */
#ifndef KERNELS_BASE_CGROUP_H
#define KERNELS_BASE_CGROUP_H

#include <stdint.h>

struct cgroup_source {
    const char *membership; /* a file as /proc/self/cgroup */
    const char *mount;      /* a folder as /sys/fs/cgroup */
};

#define CGROUP_SELF ((struct cgroup_source){"/proc/self/cgroup", "/sys/fs/cgroup"})

/* The smallest processor quota of the group and its ancestors, rounded up; UINT32_MAX where there is none. */
uint32_t cgroup_processors(struct cgroup_source source);

/* The least memory left (limit - used + what the kernel can take back from file caches) of the group and its
 * ancestors, in bytes; UINT64_MAX where there is no limit. */
uint64_t cgroup_memory_available(struct cgroup_source source);

#endif
