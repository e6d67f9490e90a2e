/* See body.h. */
#include "api/body.h"

enum status body_parse(struct api_call *call, const char *body, size_t size, const struct api_facts *facts,
                       const struct body_shape *shape, struct error *error)
{
    struct json_tree tree;
    if (size == 0)
        return error_set(error, STATUS_INVALID, "the body is empty; it must be a JSON object");
    enum status status = json_tree_open(body, size, &tree, error);
    if (status != STATUS_OK)
        return status;
    struct field_context context = {.call = call, .facts = facts, .body = tree.root};
    if (!cJSON_IsObject(tree.root))
        status = field_invalid(error, "", "the body must be a JSON object, not %s", json_kind(tree.root));
    else
        status = field_read(&context, shape->tables, shape->tables[1] == NULL ? 1 : 2, error);
    if (status == STATUS_OK)
        status = shape->finish(&context, error);
    json_tree_close(&tree);
    return status;
}
