/* Whole files, read or mapped. Errors name the path and what the system said. */
#ifndef KERNELS_BASE_FILE_H
#define KERNELS_BASE_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/base/buffer.h"
#include "kernels/base/status.h"

struct file_map {
    const uint8_t *data; /* read-only; NULL for an empty file */
    size_t size;
    char *path;
};

enum status file_map_open(const char *path, struct file_map *map, struct error *error);
void file_map_close(struct file_map *map);
/* Tells the system that the range is no longer needed; it may be read again later. */
void file_map_drop(const struct file_map *map, size_t offset, size_t size);

enum status file_read(const char *path, size_t bytes_max, struct buffer *out, struct error *error);

#endif
