/* Linear probing from a multiplicative hash of the hash (callers may pass hashes with few good bits), at most 3/4 full;
 * removal shifts the run back instead of leaving tombstones (Knuth, TAOCP 3, 6.4, algorithm R). */
#include "kernels/base/map.h"

#include <stdlib.h>

#include "kernels/base/check.h"
#include "kernels/base/size.h"

#define CAPACITY_MIN 16

static size_t home(size_t capacity, uint64_t hash)
{
    uint64_t mixed = hash * UINT64_C(0x9E3779B97F4A7C15);
    return (size_t)(mixed >> 32 ^ mixed) & (capacity - 1);
}

static void place(struct map_slot *slots, size_t capacity, struct map_slot slot)
{
    size_t at = home(capacity, slot.hash);
    while (slots[at].value != MAP_NONE)
        at = (at + 1) & (capacity - 1);
    slots[at] = slot;
}

static size_t capacity_for(size_t count)
{
    size_t capacity = CAPACITY_MIN;
    while (capacity / 4 * 3 < count) {
        if (!size_multiply(capacity, 2, &capacity))
            return 0;
    }
    return capacity;
}

bool map_reserve(struct map *map, size_t count)
{
    size_t capacity = capacity_for(count), bytes;
    if (capacity == 0 || !size_multiply(capacity, sizeof(struct map_slot), &bytes))
        return false;
    if (capacity <= map->capacity)
        return true;
    struct map_slot *slots = malloc(bytes);
    if (slots == NULL)
        return false;
    for (size_t i = 0; i < capacity; i++)
        slots[i] = (struct map_slot){.value = MAP_NONE};
    for (size_t i = 0; i < map->capacity; i++) {
        if (map->slots[i].value != MAP_NONE)
            place(slots, capacity, map->slots[i]);
    }
    free(map->slots);
    map->slots = slots;
    map->capacity = capacity;
    return true;
}

bool map_insert(struct map *map, uint64_t hash, uint32_t value)
{
    CHECK(value != MAP_NONE);
    if (!map_reserve(map, map->count + 1))
        return false;
    place(map->slots, map->capacity, (struct map_slot){.hash = hash, .value = value});
    map->count++;
    return true;
}

uint32_t map_find(const struct map *map, uint64_t hash, map_equal *equal, void *context)
{
    if (map->capacity == 0)
        return MAP_NONE;
    size_t at = home(map->capacity, hash);
    for (;; at = (at + 1) & (map->capacity - 1)) {
        const struct map_slot *slot = &map->slots[at];
        if (slot->value == MAP_NONE)
            return MAP_NONE;
        if (slot->hash == hash && equal(context, slot->value))
            return slot->value;
    }
}

/* Empties the slot at `hole`, moving back every later slot of the run whose home does not lie behind the hole. */
static void close_hole(struct map *map, size_t hole)
{
    size_t mask = map->capacity - 1;
    for (size_t at = (hole + 1) & mask; map->slots[at].value != MAP_NONE; at = (at + 1) & mask) {
        size_t from_home = (at - home(map->capacity, map->slots[at].hash)) & mask;
        size_t from_hole = (at - hole) & mask;
        if (from_home >= from_hole) {
            map->slots[hole] = map->slots[at];
            hole = at;
        }
    }
    map->slots[hole].value = MAP_NONE;
}

bool map_remove(struct map *map, uint64_t hash, uint32_t value)
{
    if (map->capacity == 0 || value == MAP_NONE)
        return false;
    size_t at = home(map->capacity, hash);
    while (map->slots[at].value != MAP_NONE) {
        if (map->slots[at].hash == hash && map->slots[at].value == value) {
            close_hole(map, at);
            map->count--;
            return true;
        }
        at = (at + 1) & (map->capacity - 1);
    }
    return false;
}

void map_free(struct map *map)
{
    free(map->slots);
    *map = (struct map){0};
}
