/*
 * cgroup — limits read from trees laid out like the kernel's, for both cgroup versions, inside and
 * outside containers.
 */
#include "base/os/cgroup.h"
#include "base/os/thread_pool.h"
#include "tests/support/test.h"

#include <string.h>

static char root[TEST_PATH_BYTES_MAX];

static int set_up(void **state)
{
    (void)state;
    test_make_folder(root);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    test_remove_folder(root);
    return 0;
}

static void write_root_file(const char *path, const char *text)
{
    char full[2 * TEST_PATH_BYTES_MAX];
    snprintf(full, sizeof full, "%s%s", root, path);
    assert_int_equal(test_run("mkdir -p \"$(dirname '%s')\"", full), 0);
    test_write_file(full, text, strlen(text));
}

static void expect_limits(double cpu_count, uint64_t memory_bytes)
{
    struct cgroup_limits limits;
    cgroup_read_limits(root, &limits);
    assert_float_equal(limits.cpu_count, cpu_count, 1e-9);
    assert_int_equal(limits.memory_bytes, memory_bytes);
}

static void unreadable_limits_are_ignored(void **state)
{
    (void)state;
    expect_limits(0, 0);
    write_root_file("/proc/self/cgroup", "0::/a\n");
    expect_limits(0, 0);
    write_root_file("/proc/self/mountinfo", "garbage\n1 2 3\n - cgroup2\n");
    expect_limits(0, 0);
}

static void the_lowest_limit_of_all_ancestors_applies_in_version_2(void **state)
{
    (void)state;
    write_root_file("/proc/self/cgroup", "0::/user/job/step\n");
    write_root_file(
        "/proc/self/mountinfo",
        "22 1 0:20 / /proc rw,nosuid shared:5 - proc proc rw\n"
        "30 22 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n");
    write_root_file("/sys/fs/cgroup/user/job/step/cpu.max", "max 100000\n");
    write_root_file("/sys/fs/cgroup/user/job/step/memory.max", "8589934592\n");
    expect_limits(0, 8589934592);
    write_root_file("/sys/fs/cgroup/user/job/cpu.max", "350000 100000\n");
    write_root_file("/sys/fs/cgroup/user/job/memory.max", "max\n");
    write_root_file("/sys/fs/cgroup/user/cpu.max", "1600000 100000\n");
    write_root_file("/sys/fs/cgroup/user/memory.max", "4294967296\n");
    expect_limits(3.5, 4294967296);
}

static void in_a_container_its_own_cgroup_is_the_root(void **state)
{
    (void)state;
    write_root_file("/proc/self/cgroup", "0::/\n");
    write_root_file("/proc/self/mountinfo", "30 22 0:26 / /sys/fs/cgroup ro - cgroup2 cgroup rw\n");
    write_root_file("/sys/fs/cgroup/cpu.max", "50000 100000\n");
    write_root_file("/sys/fs/cgroup/memory.max", "536870912\n");
    expect_limits(0.5, 536870912);
}

static void version_1_has_one_hierarchy_per_controller(void **state)
{
    (void)state;
    write_root_file("/proc/self/cgroup",
                    "9:cpuset:/\n8:cpu,cpuacct:/job\n4:memory:/docker/ab/job\n0::/\n");
    write_root_file("/proc/self/mountinfo",
                    "31 22 0:27 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
                    "32 22 0:28 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
                    "33 22 0:29 /docker/ab /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n");
    write_root_file("/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "-1\n");
    write_root_file("/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
    write_root_file("/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "9223372036854771712\n");
    expect_limits(0, 0);
    write_root_file("/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "150000\n");
    write_root_file("/sys/fs/cgroup/memory/memory.limit_in_bytes", "1073741824\n");
    expect_limits(1.5, 1073741824);
}

/* /docker/abc is not below /docker/ab: only the mounted group is known to be an ancestor of
 * both. */
static void a_cgroup_outside_the_mount_has_the_mounts_limit(void **state)
{
    (void)state;
    write_root_file("/proc/self/cgroup", "4:memory:/docker/abc\n");
    write_root_file("/proc/self/mountinfo",
                    "33 22 0:29 /docker/ab /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n");
    write_root_file("/sys/fs/cgroup/memory/memory.limit_in_bytes", "1073741824\n");
    write_root_file("/sys/fs/cgroup/memoryc/memory.limit_in_bytes", "1\n");
    expect_limits(0, 1073741824);
}

/* Affinity allows at least one CPU, so a quota of half a CPU is always the tighter limit, and a
 * large quota never is. */
static void thread_count_is_bounded_by_the_cpu_quota(void **state)
{
    (void)state;
    unsigned unlimited = thread_pool_cpu_count_in(root);
    write_root_file("/proc/self/cgroup", "0::/job\n");
    write_root_file("/proc/self/mountinfo",
                    "30 22 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
    write_root_file("/sys/fs/cgroup/job/cpu.max", "50000 100000\n");
    assert_int_equal(thread_pool_cpu_count_in(root), 1);
    write_root_file("/sys/fs/cgroup/job/cpu.max", "150000 100000\n");
    assert_int_equal(thread_pool_cpu_count_in(root), unlimited < 2 ? unlimited : 2);
    write_root_file("/sys/fs/cgroup/job/cpu.max", "200000000 100000\n");
    assert_int_equal(thread_pool_cpu_count_in(root), unlimited);
    write_root_file("/proc/self/cgroup", "8:cpu,cpuacct:/job\n");
    write_root_file("/proc/self/mountinfo",
                    "32 22 0:28 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n");
    write_root_file("/sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "100000\n");
    write_root_file("/sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "100000\n");
    assert_int_equal(thread_pool_cpu_count_in(root), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(unreadable_limits_are_ignored, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_lowest_limit_of_all_ancestors_applies_in_version_2,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(in_a_container_its_own_cgroup_is_the_root, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(version_1_has_one_hierarchy_per_controller, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_cgroup_outside_the_mount_has_the_mounts_limit, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(thread_count_is_bounded_by_the_cpu_quota, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
