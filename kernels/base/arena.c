/* A list of chunks, the newest in front and filled first. An allocation too large for a chunk gets one of its own,
 * placed behind the front so that the room left there is not lost. */
#include "kernels/base/arena.h"

#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/size.h"

#define ALIGNMENT 16
#define CHUNK_BYTES_MIN ((size_t)4 << 10)
#define CHUNK_BYTES_MAX ((size_t)1 << 20)

struct arena_chunk {
    struct arena_chunk *next;
    size_t capacity;
    size_t used;
    alignas(ALIGNMENT) uint8_t data[]; /* (capacity) */
};

static void *exhaust(struct arena *arena)
{
    arena->exhausted = true;
    return NULL;
}

static struct arena_chunk *chunk_add(struct arena *arena, size_t bytes)
{
    struct arena_chunk *front = arena->chunks;
    size_t capacity = front == NULL ? CHUNK_BYTES_MIN : size_min(front->capacity * 2, CHUNK_BYTES_MAX);
    bool oversize = front != NULL && bytes > capacity / 2;
    capacity = oversize ? bytes : size_max(capacity, bytes);

    size_t total;
    if (!size_add(sizeof(struct arena_chunk), capacity, &total))
        return NULL;
    struct arena_chunk *chunk = malloc(total);
    if (chunk == NULL)
        return NULL;
    chunk->capacity = capacity;
    chunk->used = 0;
    if (oversize) {
        chunk->next = front->next;
        front->next = chunk;
    } else {
        chunk->next = front;
        arena->chunks = chunk;
    }
    return chunk;
}

void *arena_take(struct arena *arena, size_t bytes)
{
    size_t rounded, used;
    if (arena->exhausted)
        return NULL;
    if (!size_add(size_max(bytes, 1), ALIGNMENT - 1, &rounded))
        return exhaust(arena);
    rounded -= rounded % ALIGNMENT;
    if (!size_add(arena->used_bytes, rounded, &used) || (arena->limit_bytes != 0 && used > arena->limit_bytes))
        return exhaust(arena);

    struct arena_chunk *chunk = arena->chunks;
    if (chunk == NULL || chunk->capacity - chunk->used < rounded) {
        chunk = chunk_add(arena, rounded);
        if (chunk == NULL)
            return exhaust(arena);
    }
    uint8_t *memory = chunk->data + chunk->used;
    chunk->used += rounded;
    arena->used_bytes = used;
    memset(memory, 0, rounded);
    return memory;
}

void *arena_array(struct arena *arena, size_t count, size_t bytes)
{
    size_t total;
    if (!size_multiply(count, bytes, &total))
        return exhaust(arena);
    return arena_take(arena, total);
}

char *arena_copy(struct arena *arena, const char *bytes, size_t size)
{
    size_t total;
    if (!size_add(size, 1, &total))
        return exhaust(arena);
    char *copy = arena_take(arena, total);
    if (copy != NULL && size > 0)
        memcpy(copy, bytes, size);
    return copy;
}

static void chunks_free(struct arena_chunk *chunk)
{
    while (chunk != NULL) {
        struct arena_chunk *next = chunk->next;
        free(chunk);
        chunk = next;
    }
}

void arena_reset(struct arena *arena)
{
    struct arena_chunk *front = arena->chunks;
    if (front != NULL) {
        chunks_free(front->next);
        front->next = NULL;
        front->used = 0;
    }
    arena->used_bytes = 0;
    arena->exhausted = false;
}

void arena_free(struct arena *arena)
{
    chunks_free(arena->chunks);
    arena->chunks = NULL;
    arena->used_bytes = 0;
    arena->exhausted = false;
}
