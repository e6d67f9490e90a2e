/* Reading files, whole or mapped, with the system's reason in the error. */
#include "kernels/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernels/base/size.h"

#define READ_BYTES ((size_t)16 << 10)

static enum status system_error(struct error *error, const char *doing, const char *path, int number)
{
    char reason[128];
    enum status status = number == ENOENT ? STATUS_NOT_FOUND : STATUS_IO;
    return error_field(error, status, path, "cannot %s %s: %s", doing, path,
                       strerror_r(number, reason, sizeof(reason)));
}

static enum status open_to_read(const char *path, int *fd, struct error *error)
{
    *fd = open(path, O_RDONLY | O_CLOEXEC);
    return *fd < 0 ? system_error(error, "open", path, errno) : STATUS_OK;
}

static enum status map_descriptor(int fd, struct file_map *map, struct error *error)
{
    struct stat info;
    if (fstat(fd, &info) != 0)
        return system_error(error, "read", map->path, errno);
    if (!S_ISREG(info.st_mode))
        return error_field(error, STATUS_INVALID, map->path, "%s is not a regular file", map->path);
    map->size = (size_t)info.st_size;
    if (map->size == 0)
        return STATUS_OK;
    void *data = mmap(NULL, map->size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED)
        return system_error(error, "map", map->path, errno);
    map->data = data;
    return STATUS_OK;
}

enum status file_map_open(const char *path, struct file_map *map, struct error *error)
{
    int fd;
    *map = (struct file_map){0};
    enum status status = open_to_read(path, &fd, error);
    if (status != STATUS_OK)
        return status;
    map->path = strdup(path);
    status = map->path == NULL ? error_no_memory(error, "a file name") : map_descriptor(fd, map, error);
    close(fd); /* the mapping stays */
    if (status != STATUS_OK)
        file_map_close(map);
    return status;
}

void file_map_close(struct file_map *map)
{
    if (map->data != NULL)
        munmap((void *)(uintptr_t)map->data, map->size);
    free(map->path);
    *map = (struct file_map){0};
}

void file_map_drop(const struct file_map *map, size_t offset, size_t size)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), end;
    if (map->data == NULL || offset >= map->size)
        return;
    if (!size_add(offset, size, &end) || end > map->size)
        end = map->size;
    /* Rounded outwards: a neighbour that is still in use comes back from the page cache at its next read. */
    offset -= offset % page;
    madvise((void *)(uintptr_t)(map->data + offset), end - offset, MADV_DONTNEED);
}

static enum status read_descriptor(int fd, const char *path, size_t bytes_max, struct buffer *out, struct error *error)
{
    uint8_t part[READ_BYTES];
    for (size_t left = bytes_max;;) {
        ssize_t got = read(fd, part, sizeof(part));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return system_error(error, "read", path, errno);
        if (got == 0)
            return STATUS_OK;
        if ((size_t)got > left)
            return error_field(error, STATUS_TOO_LARGE, path, "%s is larger than the limit of %zu bytes", path,
                               bytes_max);
        left -= (size_t)got;
        buffer_append(out, part, (size_t)got);
        if (out->failed)
            return error_no_memory(error, path);
    }
}

enum status file_read(const char *path, size_t bytes_max, struct buffer *out, struct error *error)
{
    int fd;
    size_t start = out->size;
    enum status status = open_to_read(path, &fd, error);
    if (status != STATUS_OK)
        return status;
    status = read_descriptor(fd, path, bytes_max, out, error);
    close(fd);
    if (status != STATUS_OK)
        out->size = start;
    if (out->data != NULL)
        out->data[out->size] = '\0';
    return status;
}
