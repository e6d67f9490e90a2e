/* See nearest.h: one row of the table of edit distances at a time. */
#include "server/nearest.h"

#include <string.h>

size_t nearest_distance(const char *a, const char *b)
{
    enum { LONGEST = 31 };
    size_t n = strlen(a), m = strlen(b), row[LONGEST + 1];
    if (n > LONGEST || m > LONGEST)
        return LONGEST;
    for (size_t j = 0; j <= m; j++)
        row[j] = j;
    for (size_t i = 1; i <= n; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            size_t best = diagonal + (a[i - 1] != b[j - 1]);
            best = row[j] + 1 < best ? row[j] + 1 : best;
            best = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
            diagonal = row[j];
            row[j] = best;
        }
    }
    return row[m];
}

size_t nearest_limit(const char *name)
{
    return strlen(name) / 3 + 2;
}
