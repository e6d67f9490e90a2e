/* The nodes of the cache and the pages they own: storage and free lists, nothing else. Who holds a node, and how it is
 * found, is for cache_state.h and block_index.h.
 *
 * A node in use owns one page in every group. There are as many nodes as the pages allow, so a free node always has its
 * pages. All memory is taken at open. Engine thread. */
#ifndef CACHE_BLOCK_POOL_H
#define CACHE_BLOCK_POOL_H

#include <stdint.h>

#include "cache/block_key.h"
#include "kernels/base/status.h"

#define NODE_NONE UINT32_MAX

/* One block of ids after its parent. 0 <= fill <= planned <= block_tokens. */
struct node {
    struct block_key previous; /* the parent's key; the root key where there is no parent */
    struct block_key key;      /* meaningful once planned == block_tokens */
    uint32_t parent;           /* NODE_NONE: the first block of a sequence */
    uint32_t children;         /* nodes whose parent this is */
    uint32_t references;       /* leases that hold it; above 1 only for full committed blocks */
    uint32_t fill;             /* tokens whose KV is written */
    uint32_t planned;          /* tokens whose ids are known */
    uint32_t sibling_newer;    /* same previous key and first id, by last use; NODE_NONE at the ends */
    uint32_t sibling_older;    /* while free: the next free node */
};

struct block_pool_args {
    uint32_t block_tokens;
    uint32_t group_count;
    uint32_t pages;
    void (*page_freed)(void *context, uint32_t page); /* may be NULL */
    void *page_freed_context;
};

struct block_pool {
    struct block_pool_args args;
    uint32_t nodes_total; /* pages / group_count */
    uint32_t nodes_free;
    uint32_t free_node; /* head of the free nodes */
    uint32_t pages_free;
    struct node *nodes;   /* (nodes_total) */
    int32_t *ids;         /* (nodes_total, block_tokens) */
    uint32_t *pages;      /* (nodes_total, group_count): meaningful while the node is in use */
    uint32_t *page_stack; /* (pages): the first pages_free are free; last freed, first taken */
};

enum status block_pool_open(struct block_pool *pool, const struct block_pool_args *args, struct error *error);
void block_pool_close(struct block_pool *pool); /* also of one that failed to open or is {0} */

/* A zeroed node (links: NODE_NONE) with its pages. There must be a free one. */
uint32_t block_pool_take(struct block_pool *pool);
void block_pool_give(struct block_pool *pool, uint32_t node);

static inline int32_t *block_pool_ids(const struct block_pool *pool, uint32_t node)
{
    return pool->ids + (size_t)node * pool->args.block_tokens;
}

static inline uint32_t *block_pool_pages(const struct block_pool *pool, uint32_t node)
{
    return pool->pages + (size_t)node * pool->args.group_count;
}

#endif
