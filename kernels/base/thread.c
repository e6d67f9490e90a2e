/* Threads over pthreads, and what the system says about processors, memory and time. */
#include "kernels/base/thread.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "kernels/base/cgroup.h"
#include "kernels/base/check.h"

#define NAME_BYTES 16 /* what the kernel keeps, NUL included */

/* What a new thread needs to know; it frees this. */
struct start {
    thread_body *body;
    void *context;
    char name[NAME_BYTES];
};

static void *run(void *argument)
{
    struct start start = *(struct start *)argument;
    free(argument);
    pthread_setname_np(pthread_self(), start.name);
    start.body(start.context);
    return NULL;
}

enum status thread_start(const char *name, thread_body *body, void *context, struct thread *thread, struct error *error)
{
    struct start *start = malloc(sizeof(*start));
    if (start == NULL)
        return error_no_memory(error, "a thread");
    start->body = body;
    start->context = context;
    snprintf(start->name, sizeof(start->name), "%s", name);

    /* A thread inherits the mask, so that none of ours ever runs a signal handler. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failure = pthread_create(&thread->handle, NULL, run, start);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failure != 0) {
        char reason[128];
        free(start);
        return error_set(error, STATUS_IO, "cannot start the thread %s: %s", name,
                         strerror_r(failure, reason, sizeof(reason)));
    }
    return STATUS_OK;
}

void thread_join(struct thread *thread)
{
    CHECK(pthread_join(thread->handle, NULL) == 0);
}

/* The affinity mask grows with the machine: the kernel refuses one that is too small for it. */
static uint32_t processors_in_mask(void)
{
    for (int processors = CPU_SETSIZE; processors <= 1 << 20; processors *= 2) {
        cpu_set_t *set = CPU_ALLOC(processors);
        if (set == NULL)
            return 1;
        size_t bytes = CPU_ALLOC_SIZE(processors);
        int count = sched_getaffinity(0, bytes, set) == 0 ? CPU_COUNT_S(bytes, set) : 0;
        CPU_FREE(set);
        if (count > 0)
            return (uint32_t)count;
    }
    return 1;
}

uint32_t thread_processors(void)
{
    uint32_t mask = processors_in_mask(), quota = cgroup_processors(CGROUP_SELF);
    return quota < mask ? quota : mask;
}

static uint64_t memory_free_of_system(void)
{
    char line[128];
    uint64_t kib = 0;
    FILE *file = fopen("/proc/meminfo", "re");
    if (file != NULL) {
        while (fgets(line, sizeof(line), file) != NULL) {
            if (strncmp(line, "MemAvailable:", 13) == 0)
                kib = strtoull(line + 13, NULL, 10);
        }
        fclose(file);
    }
    if (kib != 0)
        return kib << 10;
    return (uint64_t)sysconf(_SC_AVPHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
}

uint64_t thread_memory_available(void)
{
    uint64_t system = memory_free_of_system(), group = cgroup_memory_available(CGROUP_SELF);
    return group < system ? group : system;
}

static uint64_t nanoseconds(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t clock_ns(void)
{
    return nanoseconds(CLOCK_MONOTONIC);
}

uint64_t clock_unix_ms(void)
{
    return nanoseconds(CLOCK_REALTIME) / 1000000u;
}
