/* See body.h. */
#include "api/body.h"

enum status body_parse(struct api_call *call, const char *body, size_t size, const struct api_facts *facts,
                       const struct body_shape *shape, struct error *error)
{
    struct json_tree tree;
    size_t table_count = shape->tables[1] == NULL ? 1 : 2;
    for (size_t i = 0; i < table_count; i++)
        field_set_defaults(shape->tables[i], call);
    if (size == 0)
        return field_invalid(error, "", "the body is empty; it must be a JSON object");
    enum status status = json_tree_open(body, size, &tree, error);
    if (status != STATUS_OK)
        return status;
    struct field_context context = {.call = call, .facts = facts, .body = tree.root};
    if (!cJSON_IsObject(tree.root))
        status = field_invalid(error, "", "the body must be a JSON object, not %s", json_kind(tree.root));
    else
        status = field_read(&context, shape->tables, table_count, error);
    if (status == STATUS_OK)
        status = shape->finish(&context, error);
    json_tree_close(&tree);
    return status;
}
