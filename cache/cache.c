/* Opening, closing, looking and counting. Leases are in lease.c, the walk over the ids in lookup.c. */
#include "cache/cache_state.h"

#include <stdlib.h>

#include "kernels/base/check.h"
#include "kernels/base/size.h"

static enum status check_args(const struct cache_args *args, struct error *error)
{
    const struct kv_layout *layout = args->layout;
    CHECK(args->leases_max > 0 && args->lease_tokens_max > 0 && args->key_bits <= 128);
    CHECK(layout->group_count > 0 && layout->group_count <= KV_GROUPS_MAX);
    CHECK(layout->block_tokens > 0 && layout->block_tokens <= KV_BLOCK_TOKENS_MAX);
    for (uint32_t i = 0; i < layout->group_count; i++) {
        if (layout->groups[i].page_tokens != layout->block_tokens)
            return error_set(error, STATUS_UNSUPPORTED,
                             "KV group %u has pages of %u tokens; the prefix cache needs pages of one block, %u", i,
                             layout->groups[i].page_tokens, layout->block_tokens);
    }
    if (args->pages < layout->group_count)
        return error_set(error, STATUS_INVALID, "the KV pool has %u pages; one block alone needs %u", args->pages,
                         layout->group_count);
    return STATUS_OK;
}

/* One allocation for the tables of all leases; each takes its slices. */
static bool open_leases(struct cache *cache)
{
    size_t rows, count;
    if (!size_multiply(cache->leases_max, 1 + cache->group_count, &rows) ||
        !size_multiply(rows, cache->blocks_max, &count))
        return false;
    cache->leases = calloc(cache->leases_max, sizeof(*cache->leases));
    cache->lease_storage = calloc(count, sizeof(*cache->lease_storage));
    if (cache->leases == NULL || cache->lease_storage == NULL)
        return false;
    uint32_t *slice = cache->lease_storage;
    for (uint32_t i = cache->leases_max; i-- > 0;) {
        struct cache_lease *lease = &cache->leases[i];
        lease->nodes = slice;
        slice += cache->blocks_max;
        for (uint32_t g = 0; g < cache->group_count; g++) {
            lease->pages[g] = slice;
            slice += cache->blocks_max;
        }
        lease->next_free = cache->free_leases;
        cache->free_leases = lease;
    }
    return true;
}

enum status cache_open(const struct cache_args *args, struct cache **out, struct error *error)
{
    enum status status = check_args(args, error);
    if (status != STATUS_OK)
        return status;
    struct cache *cache = calloc(1, sizeof(*cache));
    if (cache == NULL)
        return error_no_memory(error, "the prefix cache");
    cache->enabled = args->enabled;
    cache->block_tokens = args->layout->block_tokens;
    cache->group_count = args->layout->group_count;
    cache->lease_tokens_max = args->lease_tokens_max;
    cache->leases_max = args->leases_max;
    cache->policy_kind = &policy_lru;
    struct block_pool_args pool_args = {
        .block_tokens = cache->block_tokens,
        .group_count = cache->group_count,
        .pages = args->pages,
        .page_freed = args->page_freed,
        .page_freed_context = args->page_freed_context,
    };
    status = block_pool_open(&cache->pool, &pool_args, error);
    if (status != STATUS_OK)
        goto fail;
    cache->blocks_max = cache_pages_for(cache, cache->lease_tokens_max) / cache->group_count;
    if (cache->blocks_max > cache->pool.nodes_total)
        cache->blocks_max = cache->pool.nodes_total;
    cache->policy = cache->policy_kind->open(cache->pool.nodes_total);
    cache->scratch = calloc((size_t)cache->pool.nodes_total + args->pages, sizeof(*cache->scratch));
    if (cache->policy == NULL || cache->scratch == NULL || !open_leases(cache) ||
        !block_index_open(&cache->index, &cache->pool, args->key_bits)) {
        status = error_no_memory(error, "the prefix cache");
        goto fail;
    }
    *out = cache;
    return STATUS_OK;
fail:
    cache_close(cache);
    return status;
}

void cache_close(struct cache *cache)
{
    if (cache == NULL)
        return;
    CHECK(cache->leases_live == 0);
    free(cache->scratch);
    free(cache->lease_storage);
    free(cache->leases);
    cache->policy_kind->close(cache->policy);
    block_index_close(&cache->index);
    block_pool_close(&cache->pool);
    free(cache);
}

struct cache_lookup cache_peek(struct cache *cache, struct block_key root, const int32_t *ids, uint32_t count)
{
    struct lookup found = lookup_run(cache, root, ids, count, NULL);
    return (struct cache_lookup){.hit = found.hit, .pending = found.pending};
}

uint32_t cache_pages_for(const struct cache *cache, uint32_t count)
{
    uint32_t blocks = count / cache->block_tokens + (count % cache->block_tokens != 0);
    size_t pages;
    if (!size_multiply(blocks, cache->group_count, &pages) || pages > UINT32_MAX)
        return UINT32_MAX;
    return (uint32_t)pages;
}

uint32_t cache_pages_available(const struct cache *cache)
{
    return (cache->pool.nodes_free + cache->kept) * cache->group_count;
}

struct cache_stats cache_stats(const struct cache *cache)
{
    const struct block_pool *pool = &cache->pool;
    uint32_t leased = pool->nodes_total - pool->nodes_free - cache->kept;
    struct cache_stats stats = cache->totals;
    stats.pages_total = pool->args.pages;
    stats.pages_free = pool->pages_free;
    stats.pages_leased = leased * cache->group_count;
    stats.pages_cached = cache->kept * cache->group_count;
    return stats;
}
