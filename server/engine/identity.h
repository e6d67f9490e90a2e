/* What shapes the KV of an open model, gathered into the cache's identity: the one place where model and cache meet. */
#ifndef SERVER_ENGINE_IDENTITY_H
#define SERVER_ENGINE_IDENTITY_H

#include "cache/block_key.h"
#include "model/model.h"

/* The root of all keys of a name space, and in it of a salt (NULL: none): no two of them have the same one. The name
 * space "" without a salt has the root of the bare identity. STATUS_NO_MEMORY. */
enum status identity_root(const struct kv_identity *identity, const char *space, const char *salt, size_t salt_size,
                          struct block_key *out, struct error *error);

struct kv_identity identity_of(const struct model *model, enum activation_mode activations);

#endif
