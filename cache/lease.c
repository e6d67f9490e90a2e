/* The life of a lease: acquire, extend, commit, release. Every change of who holds a node is made here. */
#include "cache/cache_state.h"

#include <string.h>

#include "kernels/base/check.h"

/* ---- nodes: held, kept, free ---- */

static void keep(struct cache *cache, uint32_t node)
{
    cache->policy_kind->add(cache->policy, node);
    cache->kept++;
}

static void unkeep(struct cache *cache, uint32_t node)
{
    cache->policy_kind->remove(cache->policy, node);
    cache->kept--;
}

static void reference(struct cache *cache, uint32_t node)
{
    if (cache->pool.nodes[node].references++ == 0)
        unkeep(cache, node);
}

/* A kept node was of use. Its parent is held by the caller or has been or will be touched after it. */
static void touch(struct cache *cache, uint32_t node)
{
    block_index_touch(&cache->index, node);
    if (cache->pool.nodes[node].references > 0)
        return;
    unkeep(cache, node);
    keep(cache, node);
}

/* A node that nobody holds and that is not kept goes back to the pool. */
static void discard(struct cache *cache, uint32_t node)
{
    struct node *n = &cache->pool.nodes[node];
    CHECK(n->references == 0 && n->children == 0);
    if (cache->enabled)
        block_index_remove(&cache->index, node);
    if (n->parent != NODE_NONE)
        cache->pool.nodes[n->parent].children--;
    block_pool_give(&cache->pool, node);
}

static uint32_t nodes_available(const struct cache *cache)
{
    return cache->pool.nodes_free + cache->kept;
}

/* A free node, made free by eviction if need be. There must be an available one. */
static uint32_t take_node(struct cache *cache)
{
    if (cache->pool.nodes_free == 0) {
        uint32_t victim = cache->policy_kind->first(cache->policy);
        CHECK(victim != NODE_NONE);
        unkeep(cache, victim);
        discard(cache, victim);
        cache->totals.evicted_blocks++;
    }
    return block_pool_take(&cache->pool);
}

/* Forgets the ids after the first `tokens` of a node without children. */
static void cut(struct cache *cache, uint32_t node, uint32_t tokens)
{
    struct node *n = &cache->pool.nodes[node];
    CHECK(n->children == 0 && tokens > 0 && tokens < cache->block_tokens);
    if (cache->enabled && n->planned == cache->block_tokens)
        block_index_unname(&cache->index, node);
    n->planned = tokens;
    n->fill = n->fill < tokens ? n->fill : tokens;
}

/* ---- nodes of a lease ---- */

static void place_node(struct cache *cache, struct cache_lease *lease, uint32_t block, uint32_t node)
{
    const uint32_t *pages = block_pool_pages(&cache->pool, node);
    lease->nodes[block] = node;
    for (uint32_t i = 0; i < cache->group_count; i++)
        lease->pages[i][block] = pages[i];
}

static void push_node(struct cache *cache, struct cache_lease *lease, uint32_t node)
{
    CHECK(lease->blocks < cache->blocks_max);
    place_node(cache, lease, lease->blocks++, node);
}

/* More known ids (they fit) for a node that only one lease holds. */
static void plan_ids(struct cache *cache, uint32_t node, const int32_t *ids, uint32_t count)
{
    struct node *n = &cache->pool.nodes[node];
    CHECK(n->references == 1 && n->planned < cache->block_tokens && count <= cache->block_tokens - n->planned);
    bool is_new = n->planned == 0;
    memcpy(block_pool_ids(&cache->pool, node) + n->planned, ids, count * sizeof(*ids));
    n->planned += count;
    if (!cache->enabled)
        return;
    if (is_new)
        block_index_add(&cache->index, node);
    if (n->planned == cache->block_tokens)
        block_index_name(&cache->index, node);
}

/* The lease's next node, with its first ids. */
static uint32_t append_node(struct cache *cache, struct cache_lease *lease, const int32_t *ids, uint32_t count)
{
    uint32_t node = take_node(cache);
    struct node *n = &cache->pool.nodes[node];
    n->references = 1;
    n->previous = lease->root;
    if (lease->blocks > 0) {
        n->parent = lease->nodes[lease->blocks - 1];
        n->previous = cache->pool.nodes[n->parent].key;
        cache->pool.nodes[n->parent].children++;
    }
    plan_ids(cache, node, ids, count);
    push_node(cache, lease, node);
    return node;
}

/* ---- acquire ---- */

/* The lease's own copy of the source's first rows. When the pool has nothing but the source to give, the source itself
 * becomes the lease's, without the rows that did not match: it would have been evicted for its own copy. */
static void copy_source(struct cache *cache, struct cache_lease *lease, uint32_t source, uint32_t tokens,
                        struct cache_copy *copy)
{
    touch(cache, source);
    if (cache->pool.nodes_free == 0 && cache->policy_kind->first(cache->policy) == source) {
        cut(cache, source, tokens);
        reference(cache, source);
        push_node(cache, lease, source);
        return;
    }
    uint32_t node = append_node(cache, lease, block_pool_ids(&cache->pool, source), tokens);
    cache->pool.nodes[node].fill = tokens;
    copy->tokens = tokens;
    for (uint32_t i = 0; i < cache->group_count; i++) {
        copy->from[i] = block_pool_pages(&cache->pool, source)[i];
        copy->to[i] = block_pool_pages(&cache->pool, node)[i];
    }
}

/* A partial block that nobody holds and that matches as far as it goes is taken over as it is. The lease appends to it;
 * the rows that others may look for stay what they were. */
static bool takes_over(const struct cache *cache, const struct lookup *found)
{
    const struct node *source = &cache->pool.nodes[found->source];
    return source->references == 0 && source->fill == found->source_tokens;
}

enum status cache_acquire(struct cache *cache, struct block_key root, const int32_t *ids, uint32_t count,
                          struct cache_lease **out, uint32_t *hit, struct cache_copy *copy)
{
    CHECK(count <= cache->lease_tokens_max);
    *copy = (struct cache_copy){0};
    struct cache_lease *lease = cache->free_leases;
    if (lease == NULL)
        return STATUS_BUSY;
    struct lookup found = lookup_run(cache, root, ids, count, lease->nodes);
    bool copies = found.source != NODE_NONE && !takes_over(cache, &found);
    if (copies && nodes_available(cache) - found.blocks_kept == 0)
        return STATUS_BUSY;

    cache->free_leases = lease->next_free;
    cache->leases_live++;
    lease->live = true;
    lease->root = root;
    lease->blocks = 0;
    lease->tokens = lease->committed = found.hit;
    for (uint32_t i = 0; i < found.blocks; i++) {
        reference(cache, lease->nodes[i]);
        push_node(cache, lease, lease->nodes[i]);
    }
    if (copies) {
        copy_source(cache, lease, found.source, found.source_tokens, copy);
    } else if (found.source != NODE_NONE) {
        reference(cache, found.source);
        push_node(cache, lease, found.source);
    }
    cache->totals.lookups++;
    cache->totals.lookup_tokens += count;
    cache->totals.hit_tokens += found.hit;
    cache->totals.copied_tokens += copy->tokens;
    cache->totals.collisions += found.collisions;
    *out = lease;
    *hit = found.hit;
    return STATUS_OK;
}

/* ---- extend ---- */

static uint32_t blocks_for(const struct cache *cache, uint32_t tokens)
{
    return tokens / cache->block_tokens + (tokens % cache->block_tokens != 0);
}

enum status cache_extend(struct cache *cache, struct cache_lease *lease, const int32_t *ids, uint32_t count)
{
    CHECK(lease->live && count <= cache->lease_tokens_max - lease->tokens);
    if (blocks_for(cache, lease->tokens + count) - lease->blocks > nodes_available(cache))
        return STATUS_BUSY;
    while (count > 0) {
        uint32_t used = lease->tokens % cache->block_tokens;
        uint32_t taken = cache->block_tokens - used;
        if (taken > count)
            taken = count;
        if (used == 0)
            append_node(cache, lease, ids, taken);
        else
            plan_ids(cache, lease->nodes[lease->blocks - 1], ids, taken);
        lease->tokens += taken;
        ids += taken;
        count -= taken;
    }
    return STATUS_OK;
}

/* ---- commit ---- */

/* Whether `node` has all written rows of `other` as well. */
static bool covers(const struct block_pool *pool, uint32_t node, uint32_t other)
{
    const struct node *n = &pool->nodes[node], *o = &pool->nodes[other];
    return node != other && n->parent == o->parent && n->fill >= o->fill &&
           ids_common(block_pool_ids(pool, node), block_pool_ids(pool, other), o->fill) == o->fill;
}

static uint32_t first_sibling(const struct cache *cache, uint32_t node)
{
    return block_index_first(&cache->index, cache->pool.nodes[node].previous, block_pool_ids(&cache->pool, node)[0]);
}

/* Kept partial siblings that this node covers serve nobody: their pages go back. */
static void drop_covered(struct cache *cache, uint32_t node)
{
    const struct block_pool *pool = &cache->pool;
    uint32_t sibling = first_sibling(cache, node);
    for (uint32_t i = 0; sibling != NODE_NONE && i < BLOCK_INDEX_CANDIDATES_MAX; i++) {
        const struct node *s = &pool->nodes[sibling];
        uint32_t older = s->sibling_older;
        if (s->references == 0 && s->fill < cache->block_tokens && covers(pool, node, sibling)) {
            unkeep(cache, sibling);
            discard(cache, sibling);
            cache->totals.merged_blocks++;
        }
        sibling = older;
    }
}

/* A sibling that covers this partial node, or NODE_NONE. */
static uint32_t find_covering(const struct cache *cache, uint32_t node)
{
    const struct block_pool *pool = &cache->pool;
    uint32_t sibling = first_sibling(cache, node);
    for (uint32_t i = 0; sibling != NODE_NONE && i < BLOCK_INDEX_CANDIDATES_MAX; i++) {
        if (covers(pool, sibling, node))
            return sibling;
        sibling = pool->nodes[sibling].sibling_older;
    }
    return NODE_NONE;
}

/* The lease computed a block that is already there: it goes on with that one. */
static void merge(struct cache *cache, struct cache_lease *lease, uint32_t block, uint32_t twin)
{
    struct node *nodes = cache->pool.nodes;
    uint32_t node = lease->nodes[block];
    CHECK(nodes[node].references == 1);
    reference(cache, twin);
    place_node(cache, lease, block, twin);
    if (block + 1 < lease->blocks) {
        CHECK(nodes[node].children == 1);
        nodes[lease->nodes[block + 1]].parent = twin;
        nodes[node].children--;
        nodes[twin].children++;
    }
    nodes[node].references = 0;
    discard(cache, node);
    cache->totals.merged_blocks++;
}

static void commit_full_block(struct cache *cache, struct cache_lease *lease, uint32_t block)
{
    uint32_t node = lease->nodes[block];
    struct node *n = &cache->pool.nodes[node];
    if (!cache->enabled) {
        n->fill = cache->block_tokens;
        return;
    }
    struct block_probe probe = {
        .previous = n->previous,
        .key = n->key,
        .parent = n->parent,
        .ids = block_pool_ids(&cache->pool, node),
    };
    uint32_t twin = block_index_committed(&cache->index, &probe, &cache->totals.collisions);
    if (twin != NODE_NONE) {
        merge(cache, lease, block, twin);
        return;
    }
    n->fill = cache->block_tokens;
    drop_covered(cache, node);
}

void cache_commit(struct cache *cache, struct cache_lease *lease, uint32_t tokens)
{
    CHECK(lease->live && tokens >= lease->committed && tokens <= lease->tokens);
    while (lease->committed < tokens) {
        uint32_t block = lease->committed / cache->block_tokens;
        uint32_t left = tokens - block * cache->block_tokens;
        if (left >= cache->block_tokens) {
            commit_full_block(cache, lease, block);
            lease->committed = (block + 1) * cache->block_tokens;
        } else {
            cache->pool.nodes[lease->nodes[block]].fill = left;
            lease->committed = tokens;
        }
    }
}

/* ---- release ---- */

/* The last hold on a node ended; its children, if any, were dealt with before. */
static void retire(struct cache *cache, uint32_t node)
{
    struct node *n = &cache->pool.nodes[node];
    if (!cache->enabled || n->fill == 0) {
        discard(cache, node);
        return;
    }
    if (n->fill < n->planned)
        cut(cache, node, n->fill);
    if (n->fill < cache->block_tokens) {
        uint32_t covering = find_covering(cache, node);
        if (covering != NODE_NONE) {
            touch(cache, covering);
            discard(cache, node);
            cache->totals.merged_blocks++;
            return;
        }
        drop_covered(cache, node);
    }
    keep(cache, node);
    block_index_touch(&cache->index, node);
}

void cache_release(struct cache *cache, struct cache_lease *lease)
{
    CHECK(lease->live);
    for (uint32_t i = lease->blocks; i-- > 0;) {
        uint32_t node = lease->nodes[i];
        if (--cache->pool.nodes[node].references == 0)
            retire(cache, node);
    }
    lease->live = false;
    lease->blocks = lease->tokens = lease->committed = 0;
    lease->next_free = cache->free_leases;
    cache->free_leases = lease;
    cache->leases_live--;
}

/* ---- what a lease holds ---- */

const uint32_t *cache_lease_pages(const struct cache_lease *lease, uint32_t group)
{
    CHECK(lease->live && group < KV_GROUPS_MAX && lease->pages[group] != NULL);
    return lease->pages[group];
}

uint32_t cache_lease_tokens(const struct cache_lease *lease)
{
    return lease->tokens;
}

uint32_t cache_lease_committed(const struct cache_lease *lease)
{
    return lease->committed;
}
