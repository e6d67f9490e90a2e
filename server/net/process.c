/* Reads /proc/self. */
#include "server/net/process.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static double boot_unix_s(void)
{
    char line[256];
    unsigned long long seconds = 0;
    FILE *file = fopen("/proc/stat", "re");
    if (file == NULL)
        return 0;
    while (fgets(line, sizeof(line), file) != NULL && sscanf(line, "btime %llu", &seconds) != 1)
        continue;
    fclose(file);
    return (double)seconds;
}

/* proc(5): the name of the program, in parentheses, may hold anything; what we want comes after it. */
static void read_stat(struct process_numbers *numbers)
{
    char line[1024];
    unsigned long long user, system, threads, start, virtual_bytes, pages;
    FILE *file = fopen("/proc/self/stat", "re");
    const char *after = NULL;
    if (file == NULL)
        return;
    if (fgets(line, sizeof(line), file) != NULL)
        after = strrchr(line, ')');
    fclose(file);
    if (after == NULL || sscanf(after + 1,
                                " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu %*d %*d %*d %*d %llu %*d %llu "
                                "%llu %llu",
                                &user, &system, &threads, &start, &virtual_bytes, &pages) != 6)
        return;
    double ticks = (double)sysconf(_SC_CLK_TCK);
    numbers->cpu_s = (double)(user + system) / ticks;
    numbers->start_unix_s = boot_unix_s() + (double)start / ticks;
    numbers->threads = threads;
    numbers->virtual_bytes = virtual_bytes;
    numbers->resident_bytes = pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Without the one that is open to count them. */
static uint64_t count_fds(void)
{
    uint64_t count = 0;
    DIR *folder = opendir("/proc/self/fd");
    if (folder == NULL)
        return 0;
    for (struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder))
        count += entry->d_name[0] != '.';
    closedir(folder);
    return count > 0 ? count - 1 : 0;
}

struct process_numbers process_numbers(void)
{
    struct process_numbers numbers = {.open_fds = count_fds()};
    struct rlimit limit;
    read_stat(&numbers);
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
        numbers.max_fds = limit.rlim_cur;
    return numbers;
}
