/* Least recently used: a list from the oldest node to the newest. Nodes are added in the order child, parent, so a
 * child is always older. */
#include "cache/policy.h"

#include <stdlib.h>

#include "cache/block_pool.h"
#include "kernels/base/check.h"

struct links {
    uint32_t older; /* NODE_NONE at the old end */
    uint32_t newer; /* NODE_NONE at the new end */
};

struct policy {
    struct links *links; /* (nodes) */
    uint32_t nodes;
    uint32_t oldest;
    uint32_t newest;
};

static void lru_close(struct policy *policy)
{
    if (policy == NULL)
        return;
    free(policy->links);
    free(policy);
}

static struct policy *lru_open(uint32_t nodes)
{
    struct policy *policy = calloc(1, sizeof(*policy));
    if (policy == NULL)
        return NULL;
    policy->links = calloc(nodes, sizeof(*policy->links));
    if (policy->links == NULL) {
        lru_close(policy);
        return NULL;
    }
    policy->nodes = nodes;
    policy->oldest = policy->newest = NODE_NONE;
    return policy;
}

static void lru_add(struct policy *policy, uint32_t node)
{
    CHECK(node < policy->nodes);
    policy->links[node] = (struct links){.older = policy->newest, .newer = NODE_NONE};
    if (policy->newest == NODE_NONE)
        policy->oldest = node;
    else
        policy->links[policy->newest].newer = node;
    policy->newest = node;
}

static void lru_remove(struct policy *policy, uint32_t node)
{
    CHECK(node < policy->nodes);
    struct links links = policy->links[node];
    if (links.older == NODE_NONE) {
        CHECK(policy->oldest == node);
        policy->oldest = links.newer;
    } else {
        policy->links[links.older].newer = links.newer;
    }
    if (links.newer == NODE_NONE) {
        CHECK(policy->newest == node);
        policy->newest = links.older;
    } else {
        policy->links[links.newer].older = links.older;
    }
}

static uint32_t lru_first(const struct policy *policy)
{
    return policy->oldest;
}

static uint32_t lru_next(const struct policy *policy, uint32_t node)
{
    return policy->links[node].newer;
}

const struct policy_kind policy_lru = {
    .name = "lru",
    .open = lru_open,
    .close = lru_close,
    .add = lru_add,
    .remove = lru_remove,
    .first = lru_first,
    .next = lru_next,
};
