/* The prefix cache: which KV blocks exist, in which pages, and for whom. One per model; the engine thread owns it all.
 *
 * A node is one block of `block_tokens` ids after a parent node: a page in every group, `fill` tokens whose KV is
 * written ("committed"), and `planned` >= fill tokens whose ids are known. Nodes with planned > fill are being computed
 * by the one lease that writes them. Nodes of live leases are referenced; the rest is cached, in one list ordered by
 * last use in which a child is always older than its parent, so that eviction takes the oldest, a leaf, in O(1).
 *
 * A lease is one sequence's hold on a chain of nodes: its page table. One acquire, one release:
 *
 *     cache_acquire   longest committed prefix of the ids (at most count - 1), partial last block copied
 *     cache_extend    pages and nodes for ids about to be computed; all or nothing; evicts as needed
 *     cache_commit    after the step: the KV of the first n ids is written; full blocks become findable under their key
 *     cache_release   the hold ends; what is committed stays cached, the rest goes back to the pool
 *
 * Between the calls free + leased + cached == total pages, and every page's owners add up: cache_verify (checked builds
 * call it after every step). Lookup costs O(count), extend, commit and release O(blocks touched). All memory is taken
 * at open; nothing here allocates later.
 *
 * Partial blocks. A match that ends inside a block costs one copy of its rows (cache_copy), unless nobody holds that
 * block and it matches as far as it goes: then the lease takes it over as it is and appends to it, while its first rows
 * go on serving others. A partial block whose rows a longer one has as well is not kept beside it. Of the blocks that
 * begin with the same id after the same parent, a lookup compares the 64 used last.
 *
 * In flight: when the walk ends at a block that another lease has planned but not committed, acquire says so in
 * `pending` (tokens that would match once the leader gets there). The caller may hold the sequence back, without
 * having acquired it, and ask again after the next step; if the leader is gone, its plans are gone too. */
#ifndef CACHE_CACHE_H
#define CACHE_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cache/block_key.h"
#include "kernels/base/status.h"
#include "kernels/kv_layout.h"

struct cache;
struct cache_lease;

struct cache_args {
    const struct kv_layout *layout; /* copied */
    uint32_t pages;                 /* of the pool, all groups share it */
    uint32_t leases_max;            /* live at a time */
    uint32_t lease_tokens_max;      /* tokens a lease can hold: the context */
    bool enabled;                   /* false: nothing is kept or found (--no-prefix-cache) */
    uint32_t key_bits; /* 0: all 128 of a block's key; tests keep fewer to see collisions proven harmless */
    /* Called when a page goes back to the free list: checked builds poison it. NULL: not called. */
    void (*page_freed)(void *context, uint32_t page);
    void *page_freed_context;
};

/* STATUS_UNSUPPORTED: a group whose pages are not one block long; STATUS_INVALID: a pool too small for one block. */
enum status cache_open(const struct cache_args *args, struct cache **out, struct error *error);
void cache_close(struct cache *cache); /* all leases must have been released */

/* ---- lookup and leases ---- */

struct cache_lookup {
    uint32_t hit;     /* tokens found committed, 0 .. count-1 */
    uint32_t pending; /* tokens that would be found once a leader in flight has committed them; >= hit */
};

/* Only looks; takes nothing, counts nothing. */
struct cache_lookup cache_peek(struct cache *cache, struct block_key root, const int32_t *ids, uint32_t count);

/* The rows that must be copied before the lease's first step: page `from` of another node into the lease's own page. */
struct cache_copy {
    uint32_t tokens; /* 0: nothing to copy */
    uint32_t from[KV_GROUPS_MAX];
    uint32_t to[KV_GROUPS_MAX];
};

/* Leases the longest committed prefix; `hit` tokens of it need not be computed. *copy must be carried out at once,
 * before any other call. `count` is at most lease_tokens_max. STATUS_BUSY: no page or lease to be had now, nothing was
 * taken. */
enum status cache_acquire(struct cache *cache, struct block_key root, const int32_t *ids, uint32_t count,
                          struct cache_lease **out, uint32_t *hit, struct cache_copy *copy);

/* Ids about to be computed: those after the ones the lease holds. Makes sure that every one has a page, planning its
 * node so that others can wait for it. All or nothing: STATUS_BUSY when the pool cannot give that many pages even after
 * evicting all that is cached; the lease is unchanged then. */
enum status cache_extend(struct cache *cache, struct cache_lease *lease, const int32_t *ids, uint32_t count);

/* The first `tokens` ids of the lease have their KV written. A full block whose key another node already has is
 * replaced by that node (equal by promise 1), its page freed. Tokens never shrink. */
void cache_commit(struct cache *cache, struct cache_lease *lease, uint32_t tokens);

/* Ends the hold. Committed blocks stay, the partial last one too; planned ones vanish. */
void cache_release(struct cache *cache, struct cache_lease *lease);

/* Page table of a group: (blocks held); valid until the next extend, commit or release of this lease. */
const uint32_t *cache_lease_pages(const struct cache_lease *lease, uint32_t group);
uint32_t cache_lease_tokens(const struct cache_lease *lease); /* planned or committed */
uint32_t cache_lease_committed(const struct cache_lease *lease);

/* Pages an acquire + extend of `count` ids would need at most; what a pool can give now without touching leases. */
uint32_t cache_pages_for(const struct cache *cache, uint32_t count);
uint32_t cache_pages_available(const struct cache *cache);

/* ---- numbers ---- */

struct cache_stats {
    uint32_t pages_total;
    uint32_t pages_free;
    uint32_t pages_leased;
    uint32_t pages_cached;
    uint64_t lookups;       /* acquires that succeeded */
    uint64_t lookup_tokens; /* ids asked for in them */
    uint64_t hit_tokens;    /* of which found */
    uint64_t copied_tokens; /* of which by copying rows */
    uint64_t evicted_blocks;
    uint64_t merged_blocks; /* pages given back because another block holds the same rows */
    uint64_t collisions;    /* equal keys, unequal ids or parents */
};

struct cache_stats cache_stats(const struct cache *cache);

/* Walks everything and CHECKs every invariant: O(pages). */
void cache_verify(const struct cache *cache);

#endif
