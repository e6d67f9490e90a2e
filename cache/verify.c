/* cache_verify: every statement that the headers of this folder make about the state, checked against all of it. Owner
 * counts are recounted from the leases and compared with what the nodes say. */
#include "cache/cache_state.h"

#include <string.h>

#include "kernels/base/check.h"

static bool same_key(struct block_key a, struct block_key b)
{
    return a.low == b.low && a.high == b.high;
}

/* Leases against nodes. references[node]: how many leases hold it. */
static void count_leases(const struct cache *cache, uint32_t *references)
{
    const struct node *nodes = cache->pool.nodes;
    uint32_t live = 0;
    for (uint32_t i = 0; i < cache->leases_max; i++) {
        const struct cache_lease *lease = &cache->leases[i];
        if (!lease->live)
            continue;
        live++;
        CHECK(lease->committed <= lease->tokens && lease->tokens <= cache->lease_tokens_max);
        CHECK(lease->blocks <= cache->blocks_max);
        uint32_t tokens = 0, committed = 0, parent = NODE_NONE;
        for (uint32_t b = 0; b < lease->blocks; b++) {
            uint32_t node = lease->nodes[b];
            CHECK(node < cache->pool.nodes_total && nodes[node].parent == parent);
            CHECK(b > 0 || !cache->enabled || same_key(nodes[node].previous, lease->root));
            CHECK(b + 1 == lease->blocks || nodes[node].planned == cache->block_tokens);
            CHECK(nodes[node].fill == 0 || committed == b * cache->block_tokens);
            for (uint32_t g = 0; g < cache->group_count; g++)
                CHECK(lease->pages[g][b] == block_pool_pages(&cache->pool, node)[g]);
            references[node]++;
            tokens += nodes[node].planned;
            committed += nodes[node].fill;
            parent = node;
        }
        CHECK(tokens == lease->tokens && committed == lease->committed);
    }
    CHECK(live == cache->leases_live);
}

/* A node in use against its neighbours and the index. */
static void check_node(const struct cache *cache, uint32_t node)
{
    const struct block_pool *pool = &cache->pool;
    const struct node *n = &pool->nodes[node];
    const int32_t *ids = block_pool_ids(pool, node);
    CHECK(n->planned > 0 && n->fill <= n->planned && n->planned <= cache->block_tokens);
    CHECK(n->references <= 1 || n->fill == cache->block_tokens);
    CHECK(n->references > 0 || (cache->enabled && n->fill == n->planned));
    CHECK(n->children == 0 || n->planned == cache->block_tokens);
    if (n->parent != NODE_NONE) {
        const struct node *parent = &pool->nodes[n->parent];
        CHECK(parent->planned == cache->block_tokens && same_key(parent->key, n->previous));
        CHECK(n->fill == 0 || parent->fill == cache->block_tokens);
        CHECK(n->references == 0 || parent->references >= n->references);
    }
    if (!cache->enabled)
        return;
    if (n->sibling_newer == NODE_NONE)
        CHECK(block_index_first(&cache->index, n->previous, ids[0]) == node);
    else
        CHECK(pool->nodes[n->sibling_newer].sibling_older == node);
    if (n->sibling_older != NODE_NONE) {
        const struct node *older = &pool->nodes[n->sibling_older];
        CHECK(older->sibling_newer == node && same_key(older->previous, n->previous));
        CHECK(block_pool_ids(pool, n->sibling_older)[0] == ids[0]);
    }
    if (n->planned < cache->block_tokens)
        return;
    CHECK(same_key(n->key, block_index_key(&cache->index, n->previous, ids)));
    struct block_probe probe = {.previous = n->previous, .key = n->key, .parent = n->parent, .ids = ids};
    uint64_t collisions = 0;
    if (n->fill == cache->block_tokens)
        CHECK(block_index_committed(&cache->index, &probe, &collisions) == node);
    else
        CHECK(block_index_planned(&cache->index, &probe) != NODE_NONE);
}

/* Evicting in the policy's order must meet leaves only. children[node]: those not yet evicted; used up. */
static void check_policy(const struct cache *cache, uint32_t *children)
{
    uint32_t kept = 0;
    uint32_t node = cache->policy_kind->first(cache->policy);
    for (; node != NODE_NONE; node = cache->policy_kind->next(cache->policy, node)) {
        const struct node *n = &cache->pool.nodes[node];
        CHECK(++kept <= cache->kept && n->references == 0 && n->planned > 0);
        CHECK(children[node] == 0);
        if (n->parent != NODE_NONE)
            children[n->parent]--;
    }
    CHECK(kept == cache->kept);
}

/* owners[page]: 1 for every page that is on the stack or belongs to a node in use; is_free[node] tells those apart. */
static void check_pages(const struct cache *cache, const uint32_t *is_free, uint32_t *owners)
{
    const struct block_pool *pool = &cache->pool;
    for (uint32_t i = 0; i < pool->pages_free; i++)
        CHECK(owners[pool->page_stack[i]]++ == 0);
    for (uint32_t node = 0; node < pool->nodes_total; node++) {
        for (uint32_t g = 0; g < cache->group_count && !is_free[node]; g++)
            CHECK(owners[block_pool_pages(pool, node)[g]]++ == 0);
    }
    for (uint32_t page = 0; page < pool->args.pages; page++)
        CHECK(owners[page] == 1);
    struct cache_stats stats = cache_stats(cache);
    CHECK(stats.pages_free + stats.pages_leased + stats.pages_cached == stats.pages_total);
}

static void mark_free(const struct cache *cache, uint32_t *is_free)
{
    const struct block_pool *pool = &cache->pool;
    uint32_t count = 0;
    for (uint32_t node = pool->free_node; node != NODE_NONE; node = pool->nodes[node].sibling_older) {
        CHECK(node < pool->nodes_total && !is_free[node]);
        is_free[node] = 1;
        count++;
    }
    CHECK(count == pool->nodes_free);
}

void cache_verify(const struct cache *cache)
{
    const uint32_t nodes = cache->pool.nodes_total;
    uint32_t *per_node = cache->scratch, *per_page = cache->scratch + nodes;
    memset(cache->scratch, 0, ((size_t)nodes + cache->pool.args.pages) * sizeof(*cache->scratch));

    mark_free(cache, per_node);
    check_pages(cache, per_node, per_page);
    uint32_t named = 0, used = 0;
    for (uint32_t node = 0; node < nodes; node++) {
        if (per_node[node])
            continue;
        check_node(cache, node);
        used++;
        named += cache->pool.nodes[node].planned == cache->block_tokens;
    }
    CHECK(used == nodes - cache->pool.nodes_free);
    CHECK(cache->index.keys.count == (cache->enabled ? named : 0));

    /* Free nodes keep stale fields: only nodes in use are looked at below. */
    uint32_t *is_used = per_page; /* nodes <= pages */
    for (uint32_t node = 0; node < nodes; node++)
        is_used[node] = !per_node[node];
    memset(per_node, 0, nodes * sizeof(*per_node));
    count_leases(cache, per_node);
    uint32_t held = 0;
    for (uint32_t node = 0; node < nodes; node++) {
        CHECK(per_node[node] == (is_used[node] ? cache->pool.nodes[node].references : 0));
        held += per_node[node] > 0;
    }
    CHECK(held + cache->kept + cache->pool.nodes_free == nodes);

    memset(per_node, 0, nodes * sizeof(*per_node));
    for (uint32_t node = 0; node < nodes; node++) {
        if (is_used[node] && cache->pool.nodes[node].parent != NODE_NONE)
            per_node[cache->pool.nodes[node].parent]++;
    }
    for (uint32_t node = 0; node < nodes; node++)
        CHECK(per_node[node] == (is_used[node] ? cache->pool.nodes[node].children : 0));
    check_policy(cache, per_node);
}
