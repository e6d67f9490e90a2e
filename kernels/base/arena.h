/* Memory for things that all end at once: one request, one render. Allocations are zeroed and 16-byte aligned, never
 * freed one by one. When `limit_bytes` would be passed, or the system has no memory, arena_take returns NULL and
 * `exhausted` stays true until the reset. Not for sharing between threads. */
#ifndef KERNELS_BASE_ARENA_H
#define KERNELS_BASE_ARENA_H

#include <stdbool.h>
#include <stddef.h>

struct arena_chunk;

struct arena {
    struct arena_chunk *chunks; /* newest first */
    size_t used_bytes;          /* handed out since the last reset, padding included */
    size_t limit_bytes;         /* 0: no limit */
    bool exhausted;
};

void *arena_take(struct arena *arena, size_t bytes);
void *arena_array(struct arena *arena, size_t count, size_t bytes);    /* overflow-checked count * bytes */
char *arena_copy(struct arena *arena, const char *bytes, size_t size); /* NUL-terminated copy */
void arena_reset(struct arena *arena);                                 /* everything ends; keeps one chunk for reuse */
void arena_free(struct arena *arena);                                  /* everything ends; nothing is kept */

#endif
