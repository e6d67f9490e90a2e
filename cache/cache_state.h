/* What the files of cache.h share: the state behind it. Private to this folder; tests of this folder may look in.
 *
 * Every node of the pool is free, or held by leases (references > 0), or kept: unreferenced, with nothing uncommitted
 * in it, in the policy's order. A lease holds its nodes from the first block on, so the parent of a held node is held,
 * and the children of a kept node are kept. */
#ifndef CACHE_CACHE_STATE_H
#define CACHE_CACHE_STATE_H

#include "cache/block_index.h"
#include "cache/block_pool.h"
#include "cache/cache.h"
#include "cache/policy.h"

struct cache_lease {
    struct cache_lease *next_free;
    bool live;
    struct block_key root;
    uint32_t blocks;
    uint32_t tokens;                /* ids known */
    uint32_t committed;             /* of which have KV */
    uint32_t *nodes;                /* (blocks) of (blocks_max) */
    uint32_t *pages[KV_GROUPS_MAX]; /* per group: (blocks) of (blocks_max) */
};

struct cache {
    bool enabled;
    uint32_t block_tokens;
    uint32_t group_count;
    uint32_t lease_tokens_max;
    uint32_t blocks_max; /* of a lease */
    uint32_t leases_max;
    uint32_t leases_live;
    uint32_t kept; /* nodes in the policy */
    struct block_pool pool;
    struct block_index index;
    const struct policy_kind *policy_kind;
    struct policy *policy;
    struct cache_lease *leases;      /* (leases_max) */
    struct cache_lease *free_leases; /* a list through next_free */
    uint32_t *lease_storage;         /* (leases_max, 1 + group_count, blocks_max): nodes and pages of the leases */
    uint32_t *scratch;               /* (nodes_total + pages): for cache_verify */
    struct cache_stats totals;       /* the counters; the page numbers are filled in when asked */
};

/* What a walk over the ids found. */
struct lookup {
    uint32_t blocks;        /* full committed blocks */
    uint32_t blocks_kept;   /* of which no lease holds */
    uint32_t source;        /* the node whose first rows match on, or NODE_NONE */
    uint32_t source_tokens; /* how many rows: 1 .. block_tokens-1; 0 without source */
    uint32_t hit;           /* tokens: the blocks and the source's rows */
    uint32_t pending;       /* tokens, see cache_lookup */
    uint64_t collisions;
};

/* Changes nothing. `nodes` (count / block_tokens) receives the full blocks; NULL: not wanted. */
struct lookup lookup_run(const struct cache *cache, struct block_key root, const int32_t *ids, uint32_t count,
                         uint32_t *nodes);

static inline uint32_t ids_common(const int32_t *a, const int32_t *b, uint32_t limit)
{
    uint32_t i = 0;
    while (i < limit && a[i] == b[i])
        i++;
    return i;
}

#endif
