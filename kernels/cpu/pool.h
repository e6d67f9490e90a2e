/* A fixed set of threads that run one function at a time together. The calling thread is worker 0.
 *
 * Workers spin for some tens of microseconds after a run, so that the next operation of a step finds them awake, then
 * sleep until pool_run: an idle process uses no processor time. One thread calls pool_run. */
#ifndef KERNELS_CPU_POOL_H
#define KERNELS_CPU_POOL_H

#include <stdint.h>

#include "kernels/base/status.h"

#define POOL_WORKERS_MAX 256

struct pool;

typedef void pool_body(void *context, uint32_t worker);

enum status pool_open(uint32_t workers, struct pool **out, struct error *error);
void pool_close(struct pool *pool);
uint32_t pool_workers(const struct pool *pool);

/* Runs body(context, w) for every worker w; returns when all have returned. */
void pool_run(struct pool *pool, pool_body *body, void *context);

/* The part of `items` that a worker does under a static partition: consecutive, sizes differing by at most one. */
static inline uint32_t pool_share(uint32_t items, uint32_t worker, uint32_t workers)
{
    return (uint32_t)((uint64_t)items * worker / workers);
}

#endif
