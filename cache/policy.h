/* Which cached block goes first when a page is needed: one interface, a file per policy.
 *
 * A policy keeps an order over the nodes it was given, which are the unreferenced ones. The cache adds a parent after
 * its children, and adds a node again (remove, add) only while its parent is not in the policy or is added right after:
 * whatever the order, a node must never come before its child. All calls are O(1) and allocate nothing. Engine
 * thread. */
#ifndef CACHE_POLICY_H
#define CACHE_POLICY_H

#include <stdint.h>

struct policy; /* a member's own state */

struct policy_kind {
    const char *name;
    struct policy *(*open)(uint32_t nodes); /* node indices are 0 .. nodes-1; NULL: no memory */
    void (*close)(struct policy *policy);   /* NULL is allowed */
    void (*add)(struct policy *policy, uint32_t node);
    void (*remove)(struct policy *policy, uint32_t node);
    uint32_t (*first)(const struct policy *policy);               /* the next victim, or NODE_NONE */
    uint32_t (*next)(const struct policy *policy, uint32_t node); /* who goes after `node`, or NODE_NONE */
};

/* Least recently used. */
extern const struct policy_kind policy_lru;

#endif
