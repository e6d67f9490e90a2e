/* How nodes are found. Two ways, over the nodes of one block_pool:
 *
 *     by key      blocks whose ids are all known ("named"), committed or not
 *     by siblings all nodes with the same previous key and first id, most recently used first: where partial matches
 *                 are sought. Callers look at no more than BLOCK_INDEX_CANDIDATES_MAX of them.
 *
 * Keys and previous keys only find; what is found is compared before it is used. All memory is taken at open. */
#ifndef CACHE_BLOCK_INDEX_H
#define CACHE_BLOCK_INDEX_H

#include <stdbool.h>

#include "cache/block_pool.h"
#include "kernels/base/map.h"

#define BLOCK_INDEX_CANDIDATES_MAX 64

struct block_index {
    struct block_pool *pool; /* borrowed */
    struct map keys;         /* low half of the key -> node */
    struct map siblings;     /* previous key and first id -> the sibling used last */
    struct block_key mask;   /* what is kept of a key: all, but in tests */
};

bool block_index_open(struct block_index *index, struct block_pool *pool, uint32_t key_bits); /* false: no memory */
void block_index_close(struct block_index *index);

/* The key of the full block `ids` (block_tokens) after a block with key `previous`. */
struct block_key block_index_key(const struct block_index *index, struct block_key previous, const int32_t *ids);

/* Among its siblings; its first id and `previous` are set. */
void block_index_add(struct block_index *index, uint32_t node);
void block_index_touch(struct block_index *index, uint32_t node); /* now the sibling used last */

/* Under its key: planned == block_tokens. Computes the key. */
void block_index_name(struct block_index *index, uint32_t node);
void block_index_unname(struct block_index *index, uint32_t node); /* planned is about to fall below block_tokens */

void block_index_remove(struct block_index *index, uint32_t node); /* from everything it is in */

/* A block that is looked for. Blocks without parent are told apart by `previous`, their root key. */
struct block_probe {
    struct block_key previous;
    struct block_key key;
    uint32_t parent;
    const int32_t *ids; /* (block_tokens) */
};

/* The committed full block that equals the probe in all of it, or NODE_NONE. Equal keys of unequal blocks are added to
 * *collisions. */
uint32_t block_index_committed(const struct block_index *index, const struct block_probe *probe, uint64_t *collisions);

/* A full block that is planned but not committed and equals the probe, or NODE_NONE. The parent is not compared:
 * sequences that compute the same prefix side by side have parents of their own until they are merged. */
uint32_t block_index_planned(const struct block_index *index, const struct block_probe *probe);

/* The most recently used node with this previous key and first id, or NODE_NONE; go on by sibling_older. */
uint32_t block_index_first(const struct block_index *index, struct block_key previous, int32_t first_id);

#endif
