/* The end of the process when a CHECK fails: says where, then aborts so that a core or a debugger sees the stack. */
#include "kernels/base/check.h"

#include <stdio.h>
#include <stdlib.h>

void check_failed(const char *expression, const char *file, int line)
{
    fprintf(stderr, "%s:%d: check failed: %s\n", file, line, expression);
    abort();
}
