/*
 * disks — tests real file systems that become full, read-only, immutable or unavailable while
 * several ranks save: the save fails on all ranks, the last complete step remains and is found,
 * nothing is left behind, and once the disk works again the next save succeeds.
 */
#include "tests/ckpt/steps.h"
#include "tests/ckpt/thread_comm.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { RANKS = 3 };

/* How a disk fails and recovers, and the error on the first rank that sees it; code 0: any
 * error. */
struct disk_fault {
    const char *place; /* the checkpoint folder */
    void (*inject)(const char *place);
    void (*repair)(const char *place); /* NULL: cannot be repaired */
    int code;
    int statuses[RANKS];
};

static void barrier(struct comm *comm)
{
    struct comm_options options = {.purpose = "meeting"};
    struct err err = {0};
    assert_ok(comm_barrier(comm, &options, &err), &err);
}

static void save_during_fault(void *context, struct comm *comm)
{
    struct disk_fault *fault = context;
    struct ckpt_tensor tensors[STEPS_ARRAYS];
    struct ckpt_saver *saver = NULL;
    struct err err = {0};
    memcpy(tensors, arrays.tensors, sizeof tensors);
    for (int i = 0; i < STEPS_ARRAYS; i++)
        tensors[i].replicated = true;
    struct ckpt_saver_options options = {.folder = fault->place,
                                         .io = io,
                                         .comm = comm,
                                         .groups_count = arrays.groups_count,
                                         .run_id = "disks",
                                         .numerics_id = "any"};
    assert_ok(ckpt_saver_open(&options, tensors, STEPS_ARRAYS, &saver, &err), &err);
    assert_ok(ckpt_saver_save(saver, 1, FIXTURE_STATE, &err), &err);
    assert_ok(ckpt_saver_wait(saver, &err), &err);
    barrier(comm);
    if (comm->rank == 0)
        fault->inject(fault->place);
    barrier(comm);
    assert_ok(ckpt_saver_save(saver, 2, FIXTURE_STATE, &err), &err);
    fault->statuses[comm->rank] = ckpt_saver_wait(saver, &err);
    barrier(comm);
    if (comm->rank == 0 && fault->repair)
        fault->repair(fault->place);
    barrier(comm);
    if (fault->repair) {
        assert_ok(ckpt_saver_save(saver, 3, FIXTURE_STATE, &err), &err);
        assert_ok(ckpt_saver_wait(saver, &err), &err);
    }
    ckpt_saver_close(saver);
}

static void check_fault(struct disk_fault *fault, bool first_step_survives)
{
    char path[FIXTURE_PATH_BYTES], temporaries[32];
    struct err err = {0};
    uint64_t newest = 0;
    int reports_count = 0;
    arrays_fill(&arrays, 1);
    thread_comm_run(RANKS, save_during_fault, fault);
    for (int r = 0; r < RANKS; r++) {
        assert_true(fault->statuses[r] < 0); /* the save fails on every rank */
        reports_count += fault->statuses[r] != -EREMOTEIO &&
                         (fault->code == 0 || fault->statuses[r] == fault->code);
    }
    assert_true(reports_count >= 1);
    assert_int_equal(fixture_list(io, fault->place, NULL),
                     first_step_survives + (fault->repair != NULL));
    assert_ok(ckpt_find(io, fault->place, path, &newest, NULL, &err), &err);
    assert_int_equal(newest, fault->repair ? 3 : 1);
    assert_int_equal(ckpt_verify(io, path, NULL, NULL, NULL, &err), 0);
    assert_true(fixture_step_equals(io, path, &arrays));
    if (!fault->repair)
        return; /* a disk that cannot be written keeps its temporary files */
    assert_int_equal(test_run_output(temporaries, sizeof temporaries,
                                     "ls -A '%s' | grep -c '^.tmp-' 2>/dev/null || true",
                                     fault->place),
                     0);
    assert_int_equal(atoi(temporaries), 0);
}

static const char *mount_point(void)
{
    static char point[TEST_PATH_BYTES_MAX + 32];
    if (geteuid() != 0 || unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL))
        test_skip("file systems can't be mounted here");
    snprintf(point, sizeof point, "%s/mounted", folder);
    assert_int_equal(mkdir(point, 0755), 0);
    return point;
}

static const char *mount_tmpfs(const char *options)
{
    const char *point = mount_point();
    if (mount("tmpfs", point, "tmpfs", 0, options))
        test_skip("a tmpfs can't be mounted here");
    return point;
}

/* Mounts a new ext4 file system from an image of `mebibytes` MiB. */
static const char *mount_ext4(const char *image, int mebibytes, const char *options)
{
    const char *point = mount_point();
    if (test_run("truncate -s %dM '%s' && mkfs.ext4 -q -F '%s' 2>&1 && mount -o loop%s '%s' '%s'",
                 mebibytes, image, image, options, image, point))
        test_skip("no loop device, or no mkfs.ext4 (e2fsprogs)");
    return point;
}

static void unmount(const char *point)
{
    assert_int_equal(umount2(point, MNT_DETACH), 0);
    assert_int_equal(rmdir(point), 0);
}

/* ---- Faults. ---- */

static void fill(const char *place)
{
    assert_int_equal(test_run("dd if=/dev/zero of='%s/filler' bs=64k status=none 2>'%s.dd' ; rm "
                              "'%s.dd' ; [ -s '%s/filler' ]",
                              place, folder, folder, place),
                     0);
}

static void free_space(const char *place)
{
    assert_int_equal(test_run("rm '%s/filler'", place), 0);
}

static void a_full_tmpfs_fails_the_save_on_all_ranks_until_there_is_room(void **state)
{
    (void)state;
    const char *place = mount_tmpfs("size=14m");
    struct disk_fault fault = {
        .place = place, .inject = fill, .repair = free_space, .code = -ENOSPC};
    check_fault(&fault, true);
    unmount(place);
}

static void a_full_ext4_fails_the_save_on_all_ranks_until_there_is_room(void **state)
{
    (void)state;
    const char *place = mount_ext4(in_folder("image"), 32, "");
    struct disk_fault fault = {
        .place = place, .inject = fill, .repair = free_space, .code = -ENOSPC};
    check_fault(&fault, true);
    unmount(place);
}

static void set_immutable(const char *place)
{
    assert_int_equal(test_run("chattr +i '%s'", place), 0);
}

static void set_mutable(const char *place)
{
    assert_int_equal(test_run("chattr -i '%s'", place), 0);
}

static void an_immutable_folder_fails_saves_until_it_is_mutable(void **state)
{
    (void)state;
    const char *place = mount_ext4(in_folder("image"), 32, "");
    struct disk_fault fault = {
        .place = place, .inject = set_immutable, .repair = set_mutable, .code = -EPERM};
    if (test_run("chattr +i '%s/lost+found' && chattr -i '%s/lost+found'", place, place))
        test_skip("no chattr");
    check_fault(&fault, true);
    unmount(place);
}

/* Triggers the kernel's reaction to a corrupt file system. */
static void trigger_remount_read_only(const char *place)
{
    assert_int_equal(test_run("dev=$(findmnt -no SOURCE '%s') && echo broken "
                              ">/sys/fs/ext4/${dev##*/}/trigger_fs_error",
                              place),
                     0);
}

static void a_read_only_remount_fails_the_save_and_keeps_the_last_step(void **state)
{
    (void)state;
    const char *place = mount_ext4(in_folder("image"), 32, ",errors=remount-ro");
    struct disk_fault fault = {.place = place, .inject = trigger_remount_read_only};
    if (test_run(
            "dev=$(findmnt -no SOURCE '%s') && [ -w /sys/fs/ext4/${dev##*/}/trigger_fs_error ]",
            place))
        test_skip("this kernel's ext4 cannot be made to fail");
    check_fault(&fault, true);
    unmount(place);
}

/* The image is sparse and its underlying file system is full, so blocks that ext4 considers free
 * cannot be written. */
static void fill_underlying(const char *place)
{
    assert_int_equal(
        test_run("dd if=/dev/zero of='%s/../below/filler' bs=64k status=none 2>/dev/null ; sync "
                 "-f '%s' 2>/dev/null || true",
                 place, place),
        0);
}

static void a_writeback_error_fails_the_save(void **state)
{
    (void)state;
    const char *point = mount_point();
    char image[TEST_PATH_BYTES_MAX + 64];
    assert_int_equal(mkdir(in_folder("below"), 0755), 0);
    if (mount("tmpfs", in_folder("below"), "tmpfs", 0, "size=24m"))
        test_skip("a tmpfs can't be mounted here");
    snprintf(image, sizeof image, "%s/below/image", folder);
    if (test_run("truncate -s 96M '%s' && mkfs.ext4 -q -F -O ^has_journal '%s' 2>&1 && mount -o "
                 "loop '%s' '%s'",
                 image, image, image, point))
        test_skip("no loop device, or no mkfs.ext4 (e2fsprogs)");
    struct disk_fault fault = {.place = point, .inject = fill_underlying};
    check_fault(&fault, true);
    unmount(point);
    assert_int_equal(umount2(in_folder("below"), MNT_DETACH), 0);
}

static void limit_files(const char *place)
{
    (void)place;
    struct rlimit limit;
    getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = 64 << 10;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static void free_files(const char *place)
{
    (void)place;
    struct rlimit limit;
    getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = limit.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static void a_file_size_limit_fails_saves_until_it_is_raised(void **state)
{
    (void)state;
    signal(SIGXFSZ, SIG_IGN);
    struct disk_fault fault = {
        .place = folder, .inject = limit_files, .repair = free_files, .code = -EFBIG};
    check_fault(&fault, true);
}

static void remove_folder(const char *place)
{
    assert_int_equal(test_run("rm -r '%s'", place), 0);
}

static void recreate_folder(const char *place)
{
    assert_int_equal(mkdir(place, 0755), 0);
}

static void a_removed_folder_fails_saves_until_it_is_recreated(void **state)
{
    (void)state;
    char place[TEST_PATH_BYTES_MAX + 64];
    snprintf(place, sizeof place, "%s/steps", folder);
    recreate_folder(place);
    struct disk_fault fault = {
        .place = place, .inject = remove_folder, .repair = recreate_folder, .code = -ENOENT};
    check_fault(&fault, false);
}

static void forbid_writes(const char *place)
{
    assert_int_equal(chmod(place, 0555), 0);
}

static void allow_writes(const char *place)
{
    assert_int_equal(chmod(place, 0755), 0);
}

static void an_unwritable_folder_fails_saves_until_it_is_writable(void **state)
{
    (void)state;
    enum { NOBODY = 65534 };
    bool is_root = geteuid() == 0; /* permissions do not apply to root */
    if (is_root && (chown(folder, NOBODY, NOBODY) || seteuid(NOBODY)))
        test_skip("root cannot change users here");
    bool reaches = access(folder, W_OK) == 0 || faccessat(AT_FDCWD, folder, W_OK, AT_EACCESS) == 0;
    struct disk_fault fault = {
        .place = folder, .inject = forbid_writes, .repair = allow_writes, .code = -EACCES};
    if (reaches && faccessat(AT_FDCWD, folder, W_OK, AT_EACCESS) == 0)
        check_fault(&fault, true);
    if (is_root)
        assert_int_equal(seteuid(0), 0);
    if (!reaches)
        test_skip("other users cannot access the build folder");
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, steps_set_up, steps_tear_down)
    const struct CMUnitTest tests[] = {
        CASE(a_full_tmpfs_fails_the_save_on_all_ranks_until_there_is_room),
        CASE(a_full_ext4_fails_the_save_on_all_ranks_until_there_is_room),
        CASE(an_immutable_folder_fails_saves_until_it_is_mutable),
        CASE(a_read_only_remount_fails_the_save_and_keeps_the_last_step),
        CASE(a_writeback_error_fails_the_save),
        CASE(a_file_size_limit_fails_saves_until_it_is_raised),
        CASE(a_removed_folder_fails_saves_until_it_is_recreated),
        CASE(an_unwritable_folder_fails_saves_until_it_is_writable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
