/* An open-addressing table from a 64-bit hash to a 32-bit value (an index into the caller's array). The table stores
 * hash and value only; equality of what lies behind is the caller's to prove, so one table serves token strings and
 * cache blocks alike. Values with equal hashes may coexist.
 *
 *     map_find(&map, hash, node_equals, &probe)   -> value, or MAP_NONE
 *
 * Grows by doubling (insert is the only call that allocates); removal leaves no tombstones. One owner thread. */
#ifndef KERNELS_BASE_MAP_H
#define KERNELS_BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MAP_NONE UINT32_MAX

struct map_slot {
    uint64_t hash;
    uint32_t value; /* MAP_NONE: empty */
};

struct map {
    struct map_slot *slots; /* (capacity) */
    size_t capacity;        /* a power of two, or 0 */
    size_t count;
};

typedef bool map_equal(void *context, uint32_t value);

bool map_reserve(struct map *map, size_t count); /* false: no memory */
bool map_insert(struct map *map, uint64_t hash, uint32_t value);
uint32_t map_find(const struct map *map, uint64_t hash, map_equal *equal, void *context);
bool map_remove(struct map *map, uint64_t hash, uint32_t value); /* false: was not there */
void map_free(struct map *map);

#endif
