/* The name of a model file for messages: without its folders. Print it with %.100s. */
#ifndef MODEL_TEXT_FILE_NAME_H
#define MODEL_TEXT_FILE_NAME_H

#include <string.h>

#include "model/model.h"

static inline const char *file_name(const struct model_file *file)
{
    const char *path = model_file_path(file);
    const char *slash = strrchr(path, '/');
    return slash == NULL ? path : slash + 1;
}

#endif
