/* A small server around a real cache, in which a row of KV is one number: a hash of the ids up to that token. A row that
 * holds anything but the number its sequence expects is KV of somebody else, and fails the test.
 *
 * The world also knows, from the rows alone, what the cache should find: a prefix is available as far as some page that
 * was not given back holds the committed row of each of its tokens. So hits are compared for being right and for being
 * as long as possible, with no look into the cache. Rows of pages that go back to the pool are poisoned; writing over a
 * committed row, or reading an uncommitted one, fails. The functions of each step run cache_verify. */
#ifndef TESTS_UNIT_CACHE_KV_WORLD_H
#define TESTS_UNIT_CACHE_KV_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include "cache/cache.h"
#include "kernels/base/map.h"

#define WORLD_TOKENS_MAX 1024 /* of a sequence */
#define WORLD_SEQUENCES_MAX 64

struct world_args {
    uint32_t block_tokens;
    uint32_t groups; /* 0: one */
    uint32_t pages;
    uint32_t leases; /* 0: WORLD_SEQUENCES_MAX */
    uint32_t key_bits;
    bool disabled;
    bool shorter_hits_allowed; /* where cut keys crowd the candidates of a lookup */
};

enum row_state { ROW_EMPTY, ROW_WRITTEN, ROW_COMMITTED };

struct row {
    uint64_t value;
    enum row_state state;
};

struct sequence {
    struct cache_lease *lease; /* NULL: not live */
    uint64_t name;             /* of its root */
    int32_t ids[WORLD_TOKENS_MAX];
    uint32_t tokens;
    uint32_t committed;
    uint32_t hit; /* at acquire */
};

struct world {
    struct world_args args;
    struct cache *cache;
    struct row *rows;     /* (pages, block_tokens) */
    struct map committed; /* value -> index of a committed row */
    struct sequence sequences[WORLD_SEQUENCES_MAX];
    uint32_t *freed; /* (freed_max) pages in the order they were given back, for tests that ask; or NULL */
    uint32_t freed_count;
    uint32_t freed_max;
    uint64_t hit_tokens;       /* over all acquires */
    uint64_t available_tokens; /* what the hits could have been */
};

void world_open(struct world *world, const struct world_args *args);
void world_close(struct world *world); /* releases what is live; everything must be back in the pool or cached */

/* `name` stands for a namespace: each has a root key of its own. */
struct block_key world_root(uint64_t name);

/* What cache_peek should say. */
struct cache_lookup world_expects(const struct world *world, uint64_t name, const int32_t *ids, uint32_t count);
/* Asks cache_peek and compares. */
struct cache_lookup world_peek(struct world *world, uint64_t name, const int32_t *ids, uint32_t count);

/* NULL: busy, and rightly so. Carries out the copy and reads all rows of the hit. */
struct sequence *world_acquire(struct world *world, uint64_t name, const int32_t *ids, uint32_t count);
/* False: busy, and rightly so. */
bool world_extend(struct world *world, struct sequence *sequence, const int32_t *ids, uint32_t count);
/* The forward pass of the next `count` planned tokens: reads all rows before them and writes theirs. */
void world_compute(struct world *world, struct sequence *sequence, uint32_t count);
/* Computes them and commits. */
void world_commit(struct world *world, struct sequence *sequence, uint32_t count);
void world_release(struct world *world, struct sequence *sequence);

/* A whole request: acquire, extend to all ids, commit, release. Returns the hit. */
uint32_t world_request(struct world *world, uint64_t name, const int32_t *ids, uint32_t count);
/* The same without the release. */
struct sequence *world_start(struct world *world, uint64_t name, const int32_t *ids, uint32_t count);

/* ids[i] = first + i. */
void world_count_up(int32_t *ids, uint32_t count, int32_t first);

#endif
