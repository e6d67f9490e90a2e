/* What every endpoint's `parse` does: the tables' defaults, the body as an object, its members read through the tables,
 * then the rules between fields. */
#ifndef API_BODY_H
#define API_BODY_H

#include "api/field.h"

struct body_shape {
    const struct field_table *tables[2]; /* searched in order; NULL: only one */
    enum status (*finish)(const struct field_context *context, struct error *error); /* the rules between fields */
};

enum status body_parse(struct api_call *call, const char *body, size_t size, const struct api_facts *facts,
                       const struct body_shape *shape, struct error *error);

#endif
