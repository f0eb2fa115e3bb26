/*
 * medium — tests which gaps between ranges are worth reading, for each kind of medium.
 *
 * Real paths show only the media of this machine, so statfs and realpath, by which the local
 * backend recognizes a medium, may simulate others.
 */
#include "io/faults/io_fault.h"
#include "io/file_util.h"
#include "tests/support/scratch.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>

enum { FAST = IO_GAP_BYTES_DEFAULT, SLOW = 1 << 20 };

static uint32_t simulated_type;      /* of the file system; 0: the real one */
static const char *simulated_device; /* folder in place of the device's in /sys; NULL: that one */

int __real_statfs64(const char *path, struct statfs *system);
int __wrap_statfs64(const char *path, struct statfs *system);
int __wrap_statfs64(const char *path, struct statfs *system)
{
    int status = __real_statfs64(path, system);
    if (simulated_type)
        system->f_type = simulated_type;
    return status;
}

char *__real_realpath(const char *path, char *resolved);
char *__wrap_realpath(const char *path, char *resolved);
char *__wrap_realpath(const char *path, char *resolved)
{
    bool is_device = simulated_device && strncmp(path, "/sys/dev/block/", 15) == 0;
    return is_device ? strdup(simulated_device) : __real_realpath(path, resolved);
}

static void memory_and_unknown_paths_have_the_default_gap(void **state)
{
    (void)state;
    struct statfs system;
    assert_int_equal(io_gap_bytes(io, in_folder("absent")), FAST);
    assert_int_equal(io_gap_bytes(io, "s3://bucket/x"), FAST);
    assert_int_equal(io_gap_bytes(io, ""), FAST);
    if (!statfs("/dev/shm", &system) && system.f_type == 0x01021994 /* tmpfs */)
        assert_int_equal(io_gap_bytes(io, "/dev/shm"), FAST);
}

static void a_file_has_the_gap_of_its_folder(void **state)
{
    (void)state;
    char url[2 * TEST_PATH_BYTES_MAX];
    uint64_t gap_bytes = io_gap_bytes(io, folder);
    print_message("%s: %llu KiB\n", folder, (unsigned long long)gap_bytes >> 10);
    assert_true(gap_bytes == FAST || gap_bytes == SLOW);
    test_write_file(in_folder("shard"), "abc", 3);
    snprintf(url, sizeof url, "file://%s", in_folder("shard"));
    assert_int_equal(io_gap_bytes(io, in_folder("shard")), gap_bytes);
    assert_int_equal(io_gap_bytes(io, url), gap_bytes);
}

static void network_file_systems_are_slow(void **state)
{
    (void)state;
    static const uint32_t network[] = {0x6969 /* nfs */, 0xff534d42 /* cifs */,
                                       0x0bd00bd0 /* lustre */, 0x65735546 /* fuse */};
    static const uint32_t others[] = {0xef53 /* ext4 */, 0x01021994 /* tmpfs */, 0x12345678};
    simulated_device = "/absent";
    for (size_t i = 0; i < sizeof network / sizeof network[0]; i++) {
        simulated_type = network[i];
        assert_int_equal(io_gap_bytes(io, folder), SLOW);
    }
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        simulated_type = others[i];
        assert_int_equal(io_gap_bytes(io, folder), FAST);
    }
}

/* Makes a block device's folder as in /sys, with one partition. */
static void make_device(const char *device, const char *rotational)
{
    assert_int_equal(test_run("mkdir -p '%s/queue' '%s/part' && echo %s > '%s/queue/rotational'",
                              device, device, rotational, device),
                     0);
}

static void rotational_disks_are_slow_and_virtual_ones_unknown(void **state)
{
    (void)state;
    char disk[TEST_PATH_BYTES_MAX], ssd[TEST_PATH_BYTES_MAX], virtual[TEST_PATH_BYTES_MAX];
    snprintf(disk, sizeof disk, "%s", in_folder("ata1/sda"));
    snprintf(ssd, sizeof ssd, "%s", in_folder("nvme0/nvme0n1"));
    snprintf(virtual, sizeof virtual, "%s", in_folder("virtio1/vda"));
    make_device(disk, "1");
    make_device(ssd, "0");
    make_device(virtual, "1");
    const struct {
        const char *device;
        uint64_t gap_bytes;
    } cases[] = {{disk, SLOW}, {ssd, FAST}, {virtual, FAST}};
    simulated_type = 0xef53; /* ext4 */
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char partition[2 * TEST_PATH_BYTES_MAX];
        snprintf(partition, sizeof partition, "%s/part", cases[i].device);
        simulated_device = cases[i].device;
        assert_int_equal(io_gap_bytes(io, folder), cases[i].gap_bytes);
        simulated_device = partition;
        assert_int_equal(io_gap_bytes(io, folder), cases[i].gap_bytes);
    }
}

static void a_delay_of_every_read_widens_the_gap(void **state)
{
    (void)state;
    static const struct {
        const char *rules;
        uint64_t gap_bytes; /* 0: that of the backend below */
    } cases[] = {
        {"read:eio@1", 0},
        {"read:delay=0ms", 0},
        {"read:delay=100ms%50", 0},
        {"read:delay=100ms/2", 0},
        {"read:delay=100ms@2+", 0},
        {"write:delay=100ms", 0},
        {"read:delay=100ms:elsewhere", 0},
        {"read:delay=100ms", 100000 * FAULT_BYTES_PER_US},
        {"read:delay=100ms,read:delay=10ms:shard", 110000 * FAULT_BYTES_PER_US},
    };
    test_write_file(in_folder("shard"), "abc", 3);
    uint64_t base_bytes = io_gap_bytes(io, folder);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct io *slow;
        struct err err;
        assert_ok(io_fault_open(folder, NULL, cases[i].rules, &slow, &err), &err);
        assert_int_equal(io_gap_bytes(slow, in_folder("shard")),
                         cases[i].gap_bytes ? cases[i].gap_bytes : base_bytes);
        io_close(slow);
    }
}

static int tear_down(void **state)
{
    simulated_type = 0;
    simulated_device = NULL;
    return scratch_tear_down(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(memory_and_unknown_paths_have_the_default_gap,
                                        scratch_set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_file_has_the_gap_of_its_folder, scratch_set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(network_file_systems_are_slow, scratch_set_up, tear_down),
        cmocka_unit_test_setup_teardown(rotational_disks_are_slow_and_virtual_ones_unknown,
                                        scratch_set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_delay_of_every_read_widens_the_gap, scratch_set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
