/* Two maps that hold node indices; the lists of siblings run through the nodes, and the map knows their heads. */
#include "cache/block_index.h"

#include <string.h>

#include "kernels/base/check.h"

static bool key_equal(struct block_key a, struct block_key b)
{
    return a.low == b.low && a.high == b.high;
}

static bool ids_equal(const struct block_pool *pool, uint32_t node, const int32_t *ids)
{
    return memcmp(block_pool_ids(pool, node), ids, pool->args.block_tokens * sizeof(*ids)) == 0;
}

static uint64_t siblings_hash(struct block_key previous, int32_t first_id)
{
    return previous.low ^ (uint64_t)(uint32_t)first_id * UINT64_C(0xD6E8FEB86659FD93);
}

static uint64_t low_bits(uint32_t bits)
{
    return bits >= 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;
}

bool block_index_open(struct block_index *index, struct block_pool *pool, uint32_t key_bits)
{
    CHECK(key_bits <= 128);
    uint32_t bits = key_bits == 0 ? 128 : key_bits;
    *index = (struct block_index){.pool = pool};
    index->mask = (struct block_key){.low = low_bits(bits), .high = bits > 64 ? low_bits(bits - 64) : 0};
    if (!map_reserve(&index->keys, pool->nodes_total) || !map_reserve(&index->siblings, pool->nodes_total)) {
        block_index_close(index);
        return false;
    }
    return true;
}

void block_index_close(struct block_index *index)
{
    map_free(&index->keys);
    map_free(&index->siblings);
    *index = (struct block_index){0};
}

struct block_key block_index_key(const struct block_index *index, struct block_key previous, const int32_t *ids)
{
    struct block_key key = block_key_next(previous, ids, index->pool->args.block_tokens, NULL, 0);
    return (struct block_key){.low = key.low & index->mask.low, .high = key.high & index->mask.high};
}

/* ---- siblings ---- */

struct siblings_probe {
    const struct block_pool *pool;
    struct block_key previous;
    int32_t first_id;
};

static bool is_head_of(void *context, uint32_t value)
{
    const struct siblings_probe *probe = context;
    return key_equal(probe->pool->nodes[value].previous, probe->previous) &&
           block_pool_ids(probe->pool, value)[0] == probe->first_id;
}

uint32_t block_index_first(const struct block_index *index, struct block_key previous, int32_t first_id)
{
    struct siblings_probe probe = {.pool = index->pool, .previous = previous, .first_id = first_id};
    return map_find(&index->siblings, siblings_hash(previous, first_id), is_head_of, &probe);
}

/* The map was given room for every node at open, so an insertion cannot fail. */
static void insert(struct map *map, uint64_t hash, uint32_t node)
{
    bool inserted = map_insert(map, hash, node);
    CHECK(inserted);
}

void block_index_add(struct block_index *index, uint32_t node)
{
    struct node *nodes = index->pool->nodes;
    int32_t first_id = block_pool_ids(index->pool, node)[0];
    uint64_t hash = siblings_hash(nodes[node].previous, first_id);
    uint32_t head = block_index_first(index, nodes[node].previous, first_id);
    nodes[node].sibling_newer = NODE_NONE;
    nodes[node].sibling_older = head;
    if (head != NODE_NONE) {
        nodes[head].sibling_newer = node;
        map_remove(&index->siblings, hash, head);
    }
    insert(&index->siblings, hash, node);
}

static void leave_siblings(struct block_index *index, uint32_t node)
{
    struct node *nodes = index->pool->nodes;
    uint32_t newer = nodes[node].sibling_newer, older = nodes[node].sibling_older;
    if (older != NODE_NONE)
        nodes[older].sibling_newer = newer;
    if (newer != NODE_NONE) {
        nodes[newer].sibling_older = older;
        return;
    }
    uint64_t hash = siblings_hash(nodes[node].previous, block_pool_ids(index->pool, node)[0]);
    bool removed = map_remove(&index->siblings, hash, node);
    CHECK(removed);
    if (older != NODE_NONE)
        insert(&index->siblings, hash, older);
}

void block_index_touch(struct block_index *index, uint32_t node)
{
    if (index->pool->nodes[node].sibling_newer == NODE_NONE)
        return;
    leave_siblings(index, node);
    block_index_add(index, node);
}

/* ---- keys ---- */

void block_index_name(struct block_index *index, uint32_t node)
{
    struct node *n = &index->pool->nodes[node];
    CHECK(n->planned == index->pool->args.block_tokens);
    n->key = block_index_key(index, n->previous, block_pool_ids(index->pool, node));
    insert(&index->keys, n->key.low, node);
}

void block_index_unname(struct block_index *index, uint32_t node)
{
    bool removed = map_remove(&index->keys, index->pool->nodes[node].key.low, node);
    CHECK(removed);
}

void block_index_remove(struct block_index *index, uint32_t node)
{
    if (index->pool->nodes[node].planned == index->pool->args.block_tokens)
        block_index_unname(index, node);
    leave_siblings(index, node);
}

struct key_search {
    const struct block_pool *pool;
    const struct block_probe *probe;
    uint64_t collisions;
};

static bool is_block(const struct block_pool *pool, uint32_t node, const struct block_probe *probe)
{
    return key_equal(pool->nodes[node].previous, probe->previous) && ids_equal(pool, node, probe->ids);
}

static bool is_committed_block(void *context, uint32_t value)
{
    struct key_search *search = context;
    const struct node *n = &search->pool->nodes[value];
    if (!key_equal(n->key, search->probe->key))
        return false;
    bool committed = n->fill == search->pool->args.block_tokens;
    if (!is_block(search->pool, value, search->probe) || (committed && n->parent != search->probe->parent)) {
        search->collisions++;
        return false;
    }
    return committed;
}

uint32_t block_index_committed(const struct block_index *index, const struct block_probe *probe, uint64_t *collisions)
{
    struct key_search search = {.pool = index->pool, .probe = probe};
    uint32_t node = map_find(&index->keys, probe->key.low, is_committed_block, &search);
    *collisions += search.collisions;
    return node;
}

static bool is_planned_block(void *context, uint32_t value)
{
    const struct key_search *search = context;
    const struct node *n = &search->pool->nodes[value];
    return n->fill < n->planned && key_equal(n->key, search->probe->key) &&
           is_block(search->pool, value, search->probe);
}

uint32_t block_index_planned(const struct block_index *index, const struct block_probe *probe)
{
    struct key_search search = {.pool = index->pool, .probe = probe};
    return map_find(&index->keys, probe->key.low, is_planned_block, &search);
}
