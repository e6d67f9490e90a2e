/* Files: read and mapped, empty, missing, too large, not files at all. */
#include "kernels/base/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/unit.h"

static char folder[64];

static void folder_make(void)
{
    snprintf(folder, sizeof(folder), "/tmp/file_test_XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
}

static void folder_remove(void)
{
    char path[128];
    snprintf(path, sizeof(path), "%s/f", folder);
    unlink(path);
    ck_assert_int_eq(rmdir(folder), 0);
}

/* A file of `size` bytes, byte i being i * 7 mod 256; returns its path. */
static const char *make_file(size_t size)
{
    static char path[128];
    snprintf(path, sizeof(path), "%s/f", folder);
    FILE *file = fopen(path, "wb");
    ck_assert_ptr_nonnull(file);
    for (size_t i = 0; i < size; i++)
        fputc((int)(i * 7 & 0xFF), file);
    ck_assert_int_eq(fclose(file), 0);
    return path;
}

static bool holds_pattern(const void *data, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (((const uint8_t *)data)[i] != (uint8_t)(i * 7))
            return false;
    }
    return true;
}

START_TEST(a_file_is_read_whole_at_every_size_near_the_reading_step)
{
    static const size_t sizes[] = {0, 1, 16383, 16384, 16385, 32768, 100001};
    struct error error;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct buffer out = {0};
        const char *path = make_file(sizes[i]);
        ck_assert_int_eq(file_read(path, sizes[i], &out, &error), STATUS_OK);
        ck_assert_uint_eq(out.size, sizes[i]);
        ck_assert(holds_pattern(out.data, out.size));
        buffer_free(&out);
        if (sizes[i] > 0) {
            ck_assert_int_eq(file_read(path, sizes[i] - 1, &out, &error), STATUS_TOO_LARGE);
            ck_assert_ptr_nonnull(strstr(error.text, path));
            ck_assert_uint_eq(out.size, 0);
            buffer_free(&out);
        }
    }
}
END_TEST

START_TEST(reading_appends_and_a_failure_takes_back_what_it_added)
{
    struct error error;
    struct buffer out = {0};
    const char *path = make_file(50000);
    buffer_text(&out, "before");
    ck_assert_int_eq(file_read(path, 49999, &out, &error), STATUS_TOO_LARGE);
    ck_assert_str_eq(out.data, "before");
    ck_assert_int_eq(file_read(path, 50000, &out, &error), STATUS_OK);
    ck_assert_uint_eq(out.size, 50006);
    ck_assert(holds_pattern(out.data + 6, 50000));
    buffer_free(&out);
    out.limit = 100;
    ck_assert_int_eq(file_read(path, 50000, &out, &error), STATUS_NO_MEMORY);
    ck_assert_uint_eq(out.size, 0);
    buffer_free(&out);
}
END_TEST

START_TEST(what_is_not_there_or_not_a_file_is_named)
{
    struct error error;
    struct buffer out = {0};
    struct file_map map;
    ck_assert_int_eq(file_read("/nonexistent/x", 10, &out, &error), STATUS_NOT_FOUND);
    ck_assert_str_eq(error.text, "cannot open /nonexistent/x: No such file or directory");
    ck_assert_str_eq(error.field, "/nonexistent/x");
    ck_assert_int_eq(file_read(folder, 10, &out, &error), STATUS_IO);
    ck_assert_int_eq(file_map_open("/nonexistent/x", &map, &error), STATUS_NOT_FOUND);
    ck_assert_ptr_null(map.path);
    ck_assert_int_eq(file_map_open(folder, &map, &error), STATUS_INVALID);
    ck_assert_ptr_nonnull(strstr(error.text, "is not a regular file"));
    ck_assert_int_eq(file_map_open("/dev/null", &map, &error), STATUS_INVALID);
    file_map_close(&map);
    buffer_free(&out);
}
END_TEST

START_TEST(a_mapped_file_can_be_dropped_and_read_again)
{
    struct error error;
    struct file_map map;
    ck_assert_int_eq(file_map_open(make_file(100001), &map, &error), STATUS_OK);
    ck_assert_uint_eq(map.size, 100001);
    ck_assert(holds_pattern(map.data, map.size));
    file_map_drop(&map, 5000, 50000);
    file_map_drop(&map, 0, SIZE_MAX);
    file_map_drop(&map, 100000, 1);
    file_map_drop(&map, 100001, 1);
    file_map_drop(&map, SIZE_MAX, SIZE_MAX);
    ck_assert(holds_pattern(map.data, map.size));
    file_map_close(&map);
    ck_assert_ptr_null(map.data);
    file_map_close(&map);
}
END_TEST

START_TEST(an_empty_file_maps_to_nothing)
{
    struct error error;
    struct file_map map;
    ck_assert_int_eq(file_map_open(make_file(0), &map, &error), STATUS_OK);
    ck_assert_ptr_null(map.data);
    ck_assert_uint_eq(map.size, 0);
    file_map_drop(&map, 0, 1);
    file_map_close(&map);
}
END_TEST

Suite *suite(void)
{
    Suite *file = suite_create("file");
    TCase *cases = tcase_create("file");
    tcase_add_checked_fixture(cases, folder_make, folder_remove);
    tcase_add_test(cases, a_file_is_read_whole_at_every_size_near_the_reading_step);
    tcase_add_test(cases, reading_appends_and_a_failure_takes_back_what_it_added);
    tcase_add_test(cases, what_is_not_there_or_not_a_file_is_named);
    tcase_add_test(cases, a_mapped_file_can_be_dropped_and_read_again);
    tcase_add_test(cases, an_empty_file_maps_to_nothing);
    suite_add_tcase(file, cases);
    return file;
}
