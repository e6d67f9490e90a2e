/* Threads, the processors one may use, and the clock. */
#ifndef KERNELS_BASE_THREAD_H
#define KERNELS_BASE_THREAD_H

#include <pthread.h>
#include <stdint.h>

#include "kernels/base/status.h"

typedef void thread_body(void *context);

struct thread {
    pthread_t handle;
};

/* Starts a named thread (at most 15 characters) with all signals blocked. */
enum status thread_start(const char *name, thread_body *body, void *context, struct thread *thread,
                         struct error *error);
void thread_join(struct thread *thread);

/* Processors this process may run on: affinity mask and cgroup quota (rounded up) considered; at least 1. */
uint32_t thread_processors(void);

/* Bytes of memory this process may still use: MemAvailable and the cgroup limit considered. */
uint64_t thread_memory_available(void);

uint64_t clock_ns(void);      /* monotonic, for durations */
uint64_t clock_unix_ms(void); /* wall clock, for timestamps */

#endif
