/* How far apart two names are, for "did you mean". */
#ifndef SERVER_NEAREST_H
#define SERVER_NEAREST_H

#include <stddef.h>

/* Edits (insert, remove, replace) that make one name the other; for names of at most 31 bytes, 31 otherwise. */
size_t nearest_distance(const char *a, const char *b);
/* A distance below this is close enough to `name` to be suggested. */
size_t nearest_limit(const char *name);

#endif
