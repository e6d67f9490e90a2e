/* The worker pool: a generation counter that workers watch, a condition they fall asleep on. */
#include "kernels/cpu/pool.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "kernels/base/check.h"
#include "kernels/base/thread.h"

#define SPIN_NS 50000
#define SPINS_PER_LOOK 32   /* between looks at the clock */
#define SPINS_PER_YIELD 512 /* tens of microseconds: a worker that is this late may wait for our processor */

struct pool_worker {
    struct pool *pool;
    uint32_t index;
    struct thread thread;
};

struct pool {
    /* Written by the caller before it raises `generation`, read by workers after they saw it rise. */
    pool_body *body;
    void *context;

    _Alignas(64) atomic_uint generation;
    _Alignas(64) atomic_uint unfinished; /* workers other than 0 still in the run */
    _Alignas(64) atomic_uint sleepers;
    atomic_bool stop;
    pthread_mutex_t mutex;
    pthread_cond_t wake;

    uint32_t workers;
    uint32_t started;
    struct pool_worker *members; /* (workers - 1) */
};

#if defined(__x86_64__)
#define cpu_relax() __builtin_ia32_pause()
#elif defined(__aarch64__)
#define cpu_relax() __asm__ volatile("yield")
#else
#define cpu_relax() ((void)0)
#endif

/* True as soon as the generation differs from `seen`; false after SPIN_NS. */
static bool spin_for_work(struct pool *pool, unsigned seen)
{
    uint64_t deadline = 0;
    for (;;) {
        for (int i = 0; i < SPINS_PER_LOOK; i++) {
            if (atomic_load_explicit(&pool->generation, memory_order_acquire) != seen)
                return true;
            cpu_relax();
        }
        uint64_t now = clock_ns();
        if (deadline == 0)
            deadline = now + SPIN_NS;
        if (now >= deadline)
            return false;
    }
}

/* The sleeper is counted before it looks once more, and the caller looks at the count after raising the generation, all
 * in one total order: one of the two sees the other. */
static void sleep_for_work(struct pool *pool, unsigned seen)
{
    pthread_mutex_lock(&pool->mutex);
    atomic_fetch_add(&pool->sleepers, 1);
    while (atomic_load(&pool->generation) == seen)
        pthread_cond_wait(&pool->wake, &pool->mutex);
    atomic_fetch_sub(&pool->sleepers, 1);
    pthread_mutex_unlock(&pool->mutex);
}

static void raise_generation(struct pool *pool)
{
    atomic_fetch_add(&pool->generation, 1);
    if (atomic_load(&pool->sleepers) == 0)
        return;
    pthread_mutex_lock(&pool->mutex);
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->mutex);
}

static void worker_main(void *context)
{
    struct pool_worker *worker = context;
    struct pool *pool = worker->pool;
    unsigned seen = 0;
    for (;;) {
        if (!spin_for_work(pool, seen))
            sleep_for_work(pool, seen);
        seen++;
        if (atomic_load_explicit(&pool->stop, memory_order_relaxed))
            return;
        pool->body(pool->context, worker->index);
        atomic_fetch_sub_explicit(&pool->unfinished, 1, memory_order_release);
    }
}

enum status pool_open(uint32_t workers, struct pool **out, struct error *error)
{
    CHECK(workers >= 1 && workers <= POOL_WORKERS_MAX);
    *out = NULL;
    struct pool *pool = aligned_alloc(64, sizeof(*pool));
    if (pool == NULL)
        return error_no_memory(error, "the worker pool");
    *pool = (struct pool){.workers = workers};
    pthread_mutex_init(&pool->mutex, NULL);
    pthread_cond_init(&pool->wake, NULL);
    pool->members = calloc(workers, sizeof(*pool->members));
    if (pool->members == NULL) {
        pool_close(pool);
        return error_no_memory(error, "the worker pool");
    }
    for (uint32_t i = 0; i + 1 < workers; i++) {
        char name[16];
        snprintf(name, sizeof(name), "worker-%u", i + 1);
        pool->members[i] = (struct pool_worker){.pool = pool, .index = i + 1};
        enum status status = thread_start(name, worker_main, &pool->members[i], &pool->members[i].thread, error);
        if (status != STATUS_OK) {
            pool_close(pool);
            return status;
        }
        pool->started++;
    }
    *out = pool;
    return STATUS_OK;
}

void pool_close(struct pool *pool)
{
    if (pool == NULL)
        return;
    atomic_store(&pool->stop, true);
    raise_generation(pool);
    for (uint32_t i = 0; i < pool->started; i++)
        thread_join(&pool->members[i].thread);
    pthread_cond_destroy(&pool->wake);
    pthread_mutex_destroy(&pool->mutex);
    free(pool->members);
    free(pool);
}

uint32_t pool_workers(const struct pool *pool)
{
    return pool->workers;
}

void pool_run(struct pool *pool, pool_body *body, void *context)
{
    if (pool->workers == 1) {
        body(context, 0);
        return;
    }
    pool->body = body;
    pool->context = context;
    atomic_store_explicit(&pool->unfinished, pool->workers - 1, memory_order_relaxed);
    raise_generation(pool);
    body(context, 0);
    for (unsigned spins = 1; atomic_load_explicit(&pool->unfinished, memory_order_acquire) != 0; spins++) {
        if (spins % SPINS_PER_YIELD == 0)
            sched_yield();
        else
            cpu_relax();
    }
}
