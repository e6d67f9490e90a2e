/* What shapes the KV of an open model, gathered into the cache's identity: the one place where model and cache meet. */
#ifndef SERVER_ENGINE_IDENTITY_H
#define SERVER_ENGINE_IDENTITY_H

#include "cache/block_key.h"
#include "model/model.h"

struct kv_identity identity_of(const struct model *model, enum activation_mode activations);

#endif
