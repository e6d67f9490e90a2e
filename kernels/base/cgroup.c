/* Walks from the process's group up to the mount point, since every ancestor's limit holds. Inside a container the
 * membership path is often one of the host and does not exist under the mount: missing files are no limit. */
#include "kernels/base/cgroup.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATH_BYTES 4096

/* Files of one resource in either version. */
struct layout {
    const char *controller; /* version 1: folder under the mount and name in the membership file; "" for version 2 */
    const char *limit;
    const char *usage;    /* memory: bytes in use; cpu: version 1's period file */
    const char *file_key; /* memory: the reclaimable row of memory.stat */
};

typedef uint64_t left_in_group(const char *folder, const struct layout *layout);

static bool read_line(const char *folder, const char *name, char *line, size_t room)
{
    char path[PATH_BYTES + 64];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return false;
    bool got = fgets(line, (int)room, file) != NULL;
    fclose(file);
    return got;
}

static bool read_number(const char *folder, const char *name, uint64_t *number)
{
    char line[64], *end;
    if (!read_line(folder, name, line, sizeof(line)))
        return false;
    *number = strtoull(line, &end, 10);
    return end != line && line[0] != '-';
}

/* The value of a "key number" row of memory.stat, or 0. */
static uint64_t stat_row(const char *folder, const char *key)
{
    char path[PATH_BYTES + 64], line[256];
    size_t length = strlen(key);
    uint64_t value = 0;
    snprintf(path, sizeof(path), "%s/memory.stat", folder);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return 0;
    while (fgets(line, sizeof(line), file) != NULL) {
        if (strncmp(line, key, length) == 0 && line[length] == ' ')
            value = strtoull(line + length, NULL, 10);
    }
    fclose(file);
    return value;
}

/* The group's path: the row "0::/path" in version 2, "n:a,controller,b:/path" in version 1. */
static bool group_path(const char *membership, const char *controller, char *path, size_t room)
{
    char line[PATH_BYTES];
    FILE *file = fopen(membership, "re");
    if (file == NULL)
        return false;
    bool found = false;
    while (!found && fgets(line, sizeof(line), file) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        char *names = strchr(line, ':'), *at = names == NULL ? NULL : strchr(names + 1, ':');
        if (at == NULL)
            continue;
        *at++ = '\0';
        char padded[PATH_BYTES + 2], wanted[64];
        snprintf(padded, sizeof(padded), ",%s,", names + 1);
        snprintf(wanted, sizeof(wanted), ",%s,", controller);
        found = strstr(padded, wanted) != NULL;
        if (found)
            snprintf(path, room, "%s", at);
    }
    fclose(file);
    return found;
}

static uint64_t least_of_ancestors(struct cgroup_source source, const struct layout *layout, left_in_group *left)
{
    char group[PATH_BYTES], folder[PATH_BYTES];
    uint64_t least = UINT64_MAX;
    if (!group_path(source.membership, layout->controller, group, sizeof(group)))
        return least;
    for (;;) {
        const char *slash = layout->controller[0] != '\0' ? "/" : "";
        int length = snprintf(folder, sizeof(folder), "%s%s%s%s", source.mount, slash, layout->controller, group);
        if (length > 0 && (size_t)length < sizeof(folder)) {
            uint64_t here = left(folder, layout);
            least = here < least ? here : least;
        }
        char *last = strrchr(group, '/');
        if (last == NULL)
            return least;
        *last = '\0';
    }
}

static uint64_t processors_of(uint64_t quota, uint64_t period)
{
    return period == 0 ? UINT64_MAX : quota / period + (quota % period != 0);
}

static uint64_t processors_left(const char *folder, const struct layout *layout)
{
    char line[64], *end;
    if (!read_line(folder, layout->limit, line, sizeof(line)))
        return UINT64_MAX;
    if (line[0] < '0' || line[0] > '9') /* "max", or -1 in version 1 */
        return UINT64_MAX;
    uint64_t quota = strtoull(line, &end, 10), period;
    if (layout->usage == NULL)
        return processors_of(quota, strtoull(end, NULL, 10));
    return read_number(folder, layout->usage, &period) ? processors_of(quota, period) : UINT64_MAX;
}

static uint64_t memory_left(const char *folder, const struct layout *layout)
{
    uint64_t limit, used;
    if (!read_number(folder, layout->limit, &limit) || !read_number(folder, layout->usage, &used))
        return UINT64_MAX;
    uint64_t reclaimable = stat_row(folder, layout->file_key);
    used -= reclaimable < used ? reclaimable : used;
    return used < limit ? limit - used : 0;
}

uint32_t cgroup_processors(struct cgroup_source source)
{
    static const struct layout v2 = {"", "cpu.max", NULL, NULL};
    static const struct layout v1 = {"cpu", "cpu.cfs_quota_us", "cpu.cfs_period_us", NULL};
    uint64_t least = least_of_ancestors(source, &v2, processors_left);
    if (least == UINT64_MAX)
        least = least_of_ancestors(source, &v1, processors_left);
    if (least >= UINT32_MAX)
        return UINT32_MAX;
    return least == 0 ? 1 : (uint32_t)least;
}

uint64_t cgroup_memory_available(struct cgroup_source source)
{
    static const struct layout v2 = {"", "memory.max", "memory.current", "inactive_file"};
    static const struct layout v1 = {"memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"};
    uint64_t least = least_of_ancestors(source, &v2, memory_left);
    return least == UINT64_MAX ? least_of_ancestors(source, &v1, memory_left) : least;
}
