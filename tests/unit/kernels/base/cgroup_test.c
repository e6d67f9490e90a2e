/* Control groups: trees of both versions, laid out in a folder. */
#include "kernels/base/cgroup.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "kernels/base/buffer.h"
#include "tests/unit/unit.h"

static char root[64];
static char membership[128];
static char mount[128];

static void write_file(const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof(path), "%s/%s", root, name);
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_ge(fputs(text, file), 0);
    ck_assert_int_eq(fclose(file), 0);
}

static void make_folder(const char *name)
{
    char path[256];
    snprintf(path, sizeof(path), "%s/%s", root, name);
    ck_assert_int_eq(mkdir(path, 0700), 0);
}

static void tree_make(void)
{
    snprintf(root, sizeof(root), "/tmp/cgroup_test_XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(root));
    snprintf(membership, sizeof(membership), "%s/membership", root);
    snprintf(mount, sizeof(mount), "%s/mount", root);
    make_folder("mount");
}

static void tree_remove(void)
{
    struct buffer command = {0};
    buffer_printf(&command, "rm -r %s", root);
    ck_assert_int_eq(system(command.data), 0);
    buffer_free(&command);
}

static uint32_t processors(void)
{
    return cgroup_processors((struct cgroup_source){membership, mount});
}

static uint64_t memory(void)
{
    return cgroup_memory_available((struct cgroup_source){membership, mount});
}

START_TEST(without_files_there_is_no_limit)
{
    ck_assert_uint_eq(processors(), UINT32_MAX);
    ck_assert_uint_eq(memory(), UINT64_MAX);
    write_file("membership", "0::/a/b\n");
    ck_assert_uint_eq(processors(), UINT32_MAX);
    ck_assert_uint_eq(memory(), UINT64_MAX);
}
END_TEST

START_TEST(version_2_takes_the_tightest_ancestor)
{
    write_file("membership", "0::/a/b\n");
    make_folder("mount/a");
    make_folder("mount/a/b");
    write_file("mount/a/b/cpu.max", "max 100000\n");
    ck_assert_uint_eq(processors(), UINT32_MAX);
    write_file("mount/a/cpu.max", "250000 100000\n");
    ck_assert_uint_eq(processors(), 3);
    write_file("mount/cpu.max", "150000 100000\n");
    ck_assert_uint_eq(processors(), 2);
    write_file("mount/a/b/cpu.max", "1000 100000\n");
    ck_assert_uint_eq(processors(), 1);

    write_file("mount/a/b/memory.max", "max\n");
    write_file("mount/a/b/memory.current", "5\n");
    ck_assert_uint_eq(memory(), UINT64_MAX);
    write_file("mount/a/memory.max", "1000000\n");
    write_file("mount/a/memory.current", "700000\n");
    ck_assert_uint_eq(memory(), 300000);
    write_file("mount/a/memory.stat", "active_file 9\ninactive_file 200000\ninactive_file_x 7\n");
    ck_assert_uint_eq(memory(), 500000);
    write_file("mount/a/memory.stat", "inactive_file 900000\n");
    ck_assert_uint_eq(memory(), 1000000);
    write_file("mount/memory.max", "10\n");
    write_file("mount/memory.current", "20\n");
    ck_assert_uint_eq(memory(), 0);
}
END_TEST

START_TEST(version_1_finds_its_controllers)
{
    write_file("membership", "12:memory:/m\n7:cpu,cpuacct:/c\n0::/x\n");
    make_folder("mount/cpu");
    make_folder("mount/cpu/c");
    make_folder("mount/memory");
    make_folder("mount/memory/m");
    write_file("mount/cpu/c/cpu.cfs_quota_us", "-1\n");
    write_file("mount/cpu/c/cpu.cfs_period_us", "100000\n");
    ck_assert_uint_eq(processors(), UINT32_MAX);
    write_file("mount/cpu/c/cpu.cfs_quota_us", "400000\n");
    ck_assert_uint_eq(processors(), 4);
    write_file("mount/memory/m/memory.limit_in_bytes", "1000\n");
    write_file("mount/memory/m/memory.usage_in_bytes", "400\n");
    write_file("mount/memory/m/memory.stat", "total_inactive_file 100\n");
    ck_assert_uint_eq(memory(), 700);
}
END_TEST

START_TEST(nonsense_is_no_limit)
{
    write_file("membership", "\nfoo\n::\n0::/\n");
    write_file("mount/cpu.max", "100000 0\n");
    write_file("mount/memory.max", "lots\n");
    write_file("mount/memory.current", "\n");
    ck_assert_uint_eq(processors(), UINT32_MAX);
    ck_assert_uint_eq(memory(), UINT64_MAX);
    write_file("mount/cpu.max", "");
    ck_assert_uint_eq(processors(), UINT32_MAX);
}
END_TEST

Suite *suite(void)
{
    Suite *cgroup = suite_create("cgroup");
    TCase *cases = tcase_create("cgroup");
    tcase_add_checked_fixture(cases, tree_make, tree_remove);
    tcase_add_test(cases, without_files_there_is_no_limit);
    tcase_add_test(cases, version_2_takes_the_tightest_ancestor);
    tcase_add_test(cases, version_1_finds_its_controllers);
    tcase_add_test(cases, nonsense_is_no_limit);
    suite_add_tcase(cgroup, cases);
    return cgroup;
}
