/* See body.h. */
#include "api/body.h"

enum status body_read(struct field_context *context, const char *body, size_t size,
                      const struct field_table *const *tables, size_t table_count, struct json_tree *tree,
                      struct error *error)
{
    enum status status = json_tree_open(body, size, tree, error);
    if (status != STATUS_OK)
        return status;
    context->body = tree->root;
    if (!cJSON_IsObject(tree->root))
        status = field_invalid(error, "", "the body must be a JSON object, not %s", json_kind(tree->root));
    else
        status = field_read(context, tables, table_count, error);
    if (status != STATUS_OK)
        json_tree_close(tree);
    return status;
}
