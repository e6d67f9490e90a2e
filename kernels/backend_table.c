/* The backends that are built in. */
#include <string.h>

#include "kernels/kernels.h"

static const struct kernel_ops *const backends[] = {&kernels_cpu};

const struct kernel_ops *kernels_find(const char *name)
{
    if (strcmp(name, "auto") == 0)
        return backends[0];
    for (size_t i = 0; i < sizeof(backends) / sizeof(backends[0]); i++)
        if (strcmp(backends[i]->name, name) == 0)
            return backends[i];
    return NULL;
}
