/* What every endpoint's `parse` begins with: the body as an object, its members read through field tables. */
#ifndef API_BODY_H
#define API_BODY_H

#include "api/field.h"

/* After a success the tree stays open, for rules between fields, until json_tree_close. */
enum status body_read(struct field_context *context, const char *body, size_t size,
                      const struct field_table *const *tables, size_t table_count, struct json_tree *tree,
                      struct error *error);

#endif
