/* The longest prefix of some ids that is committed, and the longest that will be. Reads only. */
#include "cache/cache_state.h"

/* Where a walk stands: after `blocks` full blocks of the ids. */
struct place {
    uint32_t blocks;
    uint32_t node; /* the last of them; NODE_NONE before the first */
    struct block_key key;
};

static uint32_t min_u32(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* Among equally long matches, one that can be taken over whole saves the copy. */
static bool can_take_over(const struct node *node, uint32_t tokens)
{
    return node->references == 0 && node->fill == tokens;
}

static void find_source(const struct cache *cache, struct place at, const int32_t *ids, uint32_t limit,
                        struct lookup *out)
{
    const struct block_pool *pool = &cache->pool;
    uint32_t node = block_index_first(&cache->index, at.key, ids[0]);
    for (uint32_t i = 0; node != NODE_NONE && i < BLOCK_INDEX_CANDIDATES_MAX; i++) {
        const struct node *n = &pool->nodes[node];
        if (n->parent == at.node) {
            uint32_t tokens = ids_common(ids, block_pool_ids(pool, node), min_u32(limit, n->fill));
            if (tokens > out->source_tokens ||
                (tokens > 0 && tokens == out->source_tokens && can_take_over(n, tokens) &&
                 !can_take_over(&pool->nodes[out->source], tokens))) {
                out->source = node;
                out->source_tokens = tokens;
            }
        }
        node = n->sibling_older;
    }
}

/* Tokens that the siblings at `at` will match once they hold all that is planned. */
static uint32_t planned_tokens(const struct cache *cache, struct place at, const int32_t *ids, uint32_t limit)
{
    const struct block_pool *pool = &cache->pool;
    uint32_t best = 0;
    uint32_t node = block_index_first(&cache->index, at.key, ids[0]);
    for (uint32_t i = 0; node != NODE_NONE && i < BLOCK_INDEX_CANDIDATES_MAX; i++) {
        const struct node *n = &pool->nodes[node];
        if (n->fill < n->planned) {
            uint32_t tokens = ids_common(ids, block_pool_ids(pool, node), min_u32(limit, n->planned));
            best = tokens > best ? tokens : best;
        }
        node = n->sibling_older;
    }
    return best;
}

/* The full block of the ids that follows. */
static struct block_probe probe_after(const struct cache *cache, struct place at, const int32_t *ids)
{
    const int32_t *block_ids = ids + (size_t)at.blocks * cache->block_tokens;
    return (struct block_probe){
        .previous = at.key,
        .key = block_index_key(&cache->index, at.key, block_ids),
        .parent = at.node,
        .ids = block_ids,
    };
}

static uint32_t find_pending(const struct cache *cache, struct place at, const int32_t *ids, uint32_t cap)
{
    const uint32_t block_tokens = cache->block_tokens;
    while (at.blocks < cap / block_tokens) {
        struct block_probe probe = probe_after(cache, at, ids);
        uint32_t node = block_index_planned(&cache->index, &probe);
        if (node == NODE_NONE)
            break;
        at = (struct place){.blocks = at.blocks + 1, .node = node, .key = probe.key};
    }
    uint32_t tokens = at.blocks * block_tokens;
    uint32_t limit = min_u32(cap - tokens, block_tokens);
    return limit == 0 ? tokens : tokens + planned_tokens(cache, at, ids + tokens, limit);
}

struct lookup lookup_run(const struct cache *cache, struct block_key root, const int32_t *ids, uint32_t count,
                         uint32_t *nodes)
{
    struct lookup out = {.source = NODE_NONE};
    if (!cache->enabled || count < 2)
        return out;
    /* The last token is always computed: its logits are needed. */
    const uint32_t cap = count - 1, block_tokens = cache->block_tokens;
    struct place at = {.node = NODE_NONE, .key = root};
    while (at.blocks < cap / block_tokens) {
        struct block_probe probe = probe_after(cache, at, ids);
        uint32_t node = block_index_committed(&cache->index, &probe, &out.collisions);
        if (node == NODE_NONE)
            break;
        if (nodes != NULL)
            nodes[at.blocks] = node;
        out.blocks_kept += cache->pool.nodes[node].references == 0;
        at = (struct place){.blocks = at.blocks + 1, .node = node, .key = probe.key};
    }
    out.blocks = at.blocks;
    uint32_t tokens = at.blocks * block_tokens;
    uint32_t limit = min_u32(cap - tokens, block_tokens);
    if (limit > 0)
        find_source(cache, at, ids + tokens, limit, &out);
    out.hit = tokens + out.source_tokens;
    uint32_t pending = find_pending(cache, at, ids, cap);
    out.pending = pending > out.hit ? pending : out.hit;
    return out;
}
