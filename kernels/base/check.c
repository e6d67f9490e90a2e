/* The end of the process when a CHECK fails: says where, then aborts so that a core or a debugger sees the stack. */
#include "kernels/base/check.h"

#include <stdlib.h>

#include "kernels/base/log.h"

void check_failed(const char *expression, const char *file, int line)
{
    log_line(LOG_ERROR, "%s:%d: check failed: %s", file, line, expression);
    abort();
}
