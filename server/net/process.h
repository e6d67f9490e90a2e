/* What the system says about this process, as Prometheus clients name it. */
#ifndef SERVER_NET_PROCESS_H
#define SERVER_NET_PROCESS_H

#include <stdint.h>

struct process_numbers {
    double start_unix_s;
    double cpu_s;
    uint64_t resident_bytes;
    uint64_t virtual_bytes;
    uint64_t open_fds;
    uint64_t max_fds;
    uint64_t threads;
};

/* Zeros where /proc does not tell. */
struct process_numbers process_numbers(void);

#endif
