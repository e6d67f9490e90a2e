/* Free nodes are a list through sibling_older, free pages a stack: recently used memory is used again first. */
#include "cache/block_pool.h"

#include <stdlib.h>

#include "kernels/base/check.h"
#include "kernels/base/size.h"

static void *array_open(uint32_t rows, uint32_t columns, size_t bytes)
{
    size_t count;
    if (!size_multiply(rows, columns, &count))
        return NULL;
    return calloc(count, bytes);
}

enum status block_pool_open(struct block_pool *pool, const struct block_pool_args *args, struct error *error)
{
    CHECK(args->block_tokens > 0 && args->group_count > 0 && args->pages >= args->group_count);
    uint32_t nodes = args->pages / args->group_count;
    *pool = (struct block_pool){.args = *args, .nodes_total = nodes, .nodes_free = nodes, .pages_free = args->pages};
    pool->nodes = array_open(nodes, 1, sizeof(*pool->nodes));
    pool->ids = array_open(nodes, args->block_tokens, sizeof(*pool->ids));
    pool->pages = array_open(nodes, args->group_count, sizeof(*pool->pages));
    pool->page_stack = array_open(args->pages, 1, sizeof(*pool->page_stack));
    if (pool->nodes == NULL || pool->ids == NULL || pool->pages == NULL || pool->page_stack == NULL) {
        block_pool_close(pool);
        return error_no_memory(error, "the prefix cache's blocks");
    }
    for (uint32_t i = 0; i < nodes; i++)
        pool->nodes[i].sibling_older = i + 1 < nodes ? i + 1 : NODE_NONE;
    pool->free_node = 0;
    for (uint32_t i = 0; i < args->pages; i++)
        pool->page_stack[i] = args->pages - 1 - i;
    return STATUS_OK;
}

void block_pool_close(struct block_pool *pool)
{
    free(pool->nodes);
    free(pool->ids);
    free(pool->pages);
    free(pool->page_stack);
    *pool = (struct block_pool){0};
}

uint32_t block_pool_take(struct block_pool *pool)
{
    CHECK(pool->nodes_free > 0 && pool->pages_free >= pool->args.group_count);
    uint32_t node = pool->free_node;
    pool->free_node = pool->nodes[node].sibling_older;
    pool->nodes_free--;
    pool->nodes[node] = (struct node){.parent = NODE_NONE, .sibling_newer = NODE_NONE, .sibling_older = NODE_NONE};
    uint32_t *pages = block_pool_pages(pool, node);
    for (uint32_t i = 0; i < pool->args.group_count; i++)
        pages[i] = pool->page_stack[--pool->pages_free];
    return node;
}

void block_pool_give(struct block_pool *pool, uint32_t node)
{
    CHECK(node < pool->nodes_total && pool->nodes_free < pool->nodes_total);
    const uint32_t *pages = block_pool_pages(pool, node);
    for (uint32_t i = 0; i < pool->args.group_count; i++) {
        pool->page_stack[pool->pages_free++] = pages[i];
        if (pool->args.page_freed != NULL)
            pool->args.page_freed(pool->args.page_freed_context, pages[i]);
    }
    pool->nodes[node].sibling_older = pool->free_node;
    pool->free_node = node;
    pool->nodes_free++;
}
