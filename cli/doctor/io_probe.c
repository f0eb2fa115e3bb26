#include "cli/doctor/io_probe.h"

#include "base/clock.h"
#include "base/os/machine.h"
#include "io/file_util.h"
#include "io/local/file_local.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/io_uring.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <unistd.h>

enum { FSYNCS_COUNT = 8, RESERVE_BYTES = 1 << 20, KIB = 1024, MOUNT_LINE_BYTES = 8192 };

/* From statfs(2) and the file systems' sources; missing from linux/magic.h, the last four from that
 * of Linux 5.15. */
enum {
    LUSTRE_MAGIC = 0x0bd00bd0,
    GPFS_MAGIC = 0x47504653,
    BEEGFS_MAGIC = 0x19830326,
    ZFS_MAGIC = 0x2fc12fc1,
    CIFS_MAGIC = 0xff534d42,
    SMB2_MAGIC = 0xfe534d42,
    CEPH_MAGIC = 0x00c36400,
    FUSE_MAGIC = 0x65735546,
};

/* Types that share a magic number get the newest name. */
static void type_from_magic(uint32_t magic, char type[IO_PROBE_TYPE_BYTES])
{
    static const struct {
        uint32_t magic;
        const char *type;
    } file_systems[] = {
        {EXT4_SUPER_MAGIC, "ext4"}, {XFS_SUPER_MAGIC, "xfs"}, {BTRFS_SUPER_MAGIC, "btrfs"},
        {F2FS_SUPER_MAGIC, "f2fs"}, {ZFS_MAGIC, "zfs"},       {OVERLAYFS_SUPER_MAGIC, "overlay"},
        {TMPFS_MAGIC, "tmpfs"},     {RAMFS_MAGIC, "ramfs"},   {SQUASHFS_MAGIC, "squashfs"},
        {NFS_SUPER_MAGIC, "nfs"},   {CIFS_MAGIC, "cifs"},     {SMB2_MAGIC, "smb3"},
        {V9FS_MAGIC, "9p"},         {CEPH_MAGIC, "ceph"},     {AFS_SUPER_MAGIC, "afs"},
        {LUSTRE_MAGIC, "lustre"},   {GPFS_MAGIC, "gpfs"},     {BEEGFS_MAGIC, "beegfs"},
        {FUSE_MAGIC, "fuse"},
    };
    for (size_t i = 0; i < sizeof file_systems / sizeof file_systems[0]; i++)
        if (file_systems[i].magic == magic)
            snprintf(type, IO_PROBE_TYPE_BYTES, "%s", file_systems[i].type);
}

/* A line of mountinfo: "36 35 98:0 ROOT MOUNT OPTIONS ... - TYPE SOURCE ...". Leaves type unchanged
 * if the mount is not listed, as for one outside a chroot. */
static void find_type(uint64_t mount_id, char type[IO_PROBE_TYPE_BYTES])
{
    FILE *file = fopen("/proc/self/mountinfo", "re");
    if (!file)
        return;
    char line[MOUNT_LINE_BYTES];
    while (fgets(line, sizeof line, file)) {
        const char *dash = strstr(line, " - ");
        if (!dash || strtoull(line, NULL, 10) != mount_id)
            continue;
        snprintf(type, IO_PROBE_TYPE_BYTES, "%.*s", (int)strcspn(dash + 3, " \n"), dash + 3);
        break;
    }
    fclose(file);
}

static bool is_one_of(const char *word, const char *const *words)
{
    for (; *words; words++)
        if (strcmp(word, *words) == 0)
            return true;
    return false;
}

static bool is_network_type(const char *type)
{
    static const char *const types[] = {"nfs",
                                        "nfs4",
                                        "cifs",
                                        "smb3",
                                        "9p",
                                        "ceph",
                                        "lustre",
                                        "gpfs",
                                        "beegfs",
                                        "afs",
                                        "glusterfs",
                                        "pvfs2",
                                        "wekafs",
                                        "fuse.sshfs",
                                        "fuse.ceph",
                                        "fuse.s3fs",
                                        "fuse.rclone",
                                        "fuse.gcsfuse",
                                        "fuse.juicefs",
                                        "fuse.glusterfs",
                                        "fuse.nfs",
                                        "fuse.mount-s3",
                                        NULL};
    return is_one_of(type, types);
}

static bool is_memory_type(const char *type)
{
    static const char *const types[] = {"tmpfs", "ramfs", "devtmpfs", "rootfs", NULL};
    return is_one_of(type, types);
}

/* Returns the setting of the device or of its parent disk. */
static uint64_t read_ahead_bytes(dev_t device)
{
    static const char *const patterns[] = {
        "/sys/class/bdi/%u:%u/read_ahead_kb",
        "/sys/dev/block/%u:%u/queue/read_ahead_kb",
        "/sys/dev/block/%u:%u/../queue/read_ahead_kb",
    };
    for (size_t i = 0; i < sizeof patterns / sizeof patterns[0]; i++) {
        char path[MACHINE_TEXT_BYTES], text[MACHINE_TEXT_BYTES];
        snprintf(path, sizeof path, patterns[i], major(device), minor(device));
        uint64_t kib;
        if (machine_read_line(path, text, sizeof text) == 0 && sscanf(text, "%" SCNu64, &kib) == 1)
            return kib * KIB;
    }
    return 0;
}

static int query_file_system(int folder_fd, const char *folder, struct io_probe *probe,
                             struct err *err)
{
    struct statx info;
    struct statfs system;
    struct statvfs space;
    if (statx(folder_fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS | STATX_MNT_ID, &info) ||
        fstatfs(folder_fd, &system) || fstatvfs(folder_fd, &space))
        return local_error(err, -errno, folder, "could not query the file system");
    snprintf(probe->type, sizeof probe->type, "unknown");
    type_from_magic((uint32_t)system.f_type, probe->type);
    find_type(info.stx_mask & STATX_MNT_ID ? info.stx_mnt_id : UINT64_MAX, probe->type);
    probe->is_network = is_network_type(probe->type);
    probe->is_memory = is_memory_type(probe->type);
    probe->is_type_unknown = is_one_of(probe->type, (const char *const[]){"unknown", "fuse", NULL});
    probe->free_bytes = (uint64_t)space.f_bavail * space.f_frsize;
    probe->total_bytes = (uint64_t)space.f_blocks * space.f_frsize;
    probe->free_files = space.f_favail;
    probe->read_ahead_bytes = read_ahead_bytes(makedev(info.stx_dev_major, info.stx_dev_minor));
    return 0;
}

static int negative_errno(int result)
{
    return result ? -errno : 0;
}

static int probe_renames(const char *scratch, struct io_probe *probe)
{
    int fd = LOCAL_RETRY(open(scratch, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (fd < 0)
        return -errno;
    if (mkdirat(fd, "a", 0777) || mkdirat(fd, "b", 0777)) {
        int failure = -errno;
        close(fd);
        return failure;
    }
    /* must fail, because b exists */
    int status = negative_errno(renameat2(fd, "a", fd, "b", RENAME_NOREPLACE));
    probe->noreplace_status = status == -EEXIST ? 0 : status ? status : -EINVAL;
    probe->exchange_status = negative_errno(renameat2(fd, "a", fd, "b", RENAME_EXCHANGE));
    close(fd);
    return 0;
}

static int probe_scratch_folder(const char *folder, struct io_probe *probe)
{
    char scratch[IO_PATH_BYTES_MAX];
    int status = temporary_path(folder, "doctor", NULL, 0, scratch, NULL);
    if (!status)
        status = negative_errno(mkdir(scratch, 0700));
    if (status)
        return status;
    status = probe_renames(scratch, probe);
    int remove_status = temporary_remove(scratch, NULL);
    return status ? status : remove_status;
}

static int open_unnamed_file(const char *folder, int *ret_fd)
{
    *ret_fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (*ret_fd >= 0)
        return 0;
    char path[IO_PATH_BYTES_MAX];
    int status = temporary_path(folder, "doctor", NULL, 0, path, NULL);
    if (status)
        return status;
    *ret_fd = open(path, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0600);
    return *ret_fd < 0 ? -errno : negative_errno(unlink(path));
}

static int compare_ns(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

/* block has IO_ALIGN_BYTES. Returns write errors; stores fsync errors in sync_status. */
static int probe_syncs(int fd, const void *block, struct io_probe *probe)
{
    uint64_t ns[FSYNCS_COUNT];
    for (int i = 0; i < FSYNCS_COUNT; i++) {
        ssize_t n = LOCAL_RETRY(pwrite(fd, block, IO_ALIGN_BYTES, (off_t)i * IO_ALIGN_BYTES));
        if (n != IO_ALIGN_BYTES)
            return n < 0 ? -errno : -ENOSPC;
        uint64_t began_ns = clock_now_ns();
        probe->sync_status = negative_errno(LOCAL_RETRY(fsync(fd)));
        if (probe->sync_status)
            return 0;
        ns[i] = clock_now_ns() - began_ns;
    }
    qsort(ns, FSYNCS_COUNT, sizeof ns[0], compare_ns);
    probe->sync_ns = ns[FSYNCS_COUNT / 2];
    return 0;
}

static void probe_direct(int fd, void *block, struct io_probe *probe)
{
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_DIRECT) ||
        LOCAL_RETRY(pread(fd, block, IO_ALIGN_BYTES, 0)) < 0) {
        probe->direct_status = -errno;
        return;
    }
    probe->direct_status = 0;
#ifdef STATX_DIOALIGN
    struct statx info;
    if (statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &info) == 0 &&
        info.stx_mask & STATX_DIOALIGN) {
        probe->direct_memory_align_bytes = info.stx_dio_mem_align;
        probe->direct_offset_align_bytes = info.stx_dio_offset_align;
    }
#endif
}

static int probe_file(const char *folder, struct io_probe *probe)
{
    void *block = NULL;
    int fd;
    int status = open_unnamed_file(folder, &fd);
    if (!status)
        status = -posix_memalign(&block, IO_ALIGN_BYTES, IO_ALIGN_BYTES);
    if (status)
        goto out;
    memset(block, 0, IO_ALIGN_BYTES);
    struct flock whole_file = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    probe->lock_status = negative_errno(LOCAL_RETRY(fcntl(fd, F_OFD_SETLK, &whole_file)));
    probe->fallocate_status = negative_errno(LOCAL_RETRY(fallocate(fd, 0, 0, RESERVE_BYTES)));
    status = probe_syncs(fd, block, probe);
    if (!status)
        probe_direct(fd, block, probe);
out:
    free(block);
    if (fd >= 0)
        close(fd);
    return status;
}

static int choose_folder(const char *path, bool will_be_created, char *folder, bool *ret_exists,
                         struct err *err)
{
    struct stat info;
    int status = local_path(path, &path, err);
    if (status)
        return status;
    strcpy(folder, path);
    bool is_found = stat(folder, &info) == 0;
    *ret_exists = is_found;
    while (!is_found && will_be_created && errno == ENOENT && strcmp(folder, "/") != 0 &&
           strcmp(folder, ".") != 0) {
        char child[IO_PATH_BYTES_MAX];
        strcpy(child, folder);
        io_parent_path(child, folder);
        is_found = stat(folder, &info) == 0;
    }
    if (!is_found)
        return local_error(err, -errno, folder, "could not stat the path");
    if (!S_ISDIR(info.st_mode) && will_be_created) {
        local_error(err, -ENOTDIR, folder, "cannot create a folder there");
        err_advise(err, "choose another name");
        return -ENOTDIR;
    }
    if (!S_ISDIR(info.st_mode))
        io_parent_path(path, folder);
    return 0;
}

int io_probe_folder(const char *path, bool will_be_created, struct io_probe *ret_probe,
                    struct err *err)
{
    struct io_probe probe = {0};
    const char *folder = probe.folder;
    int status = choose_folder(path, will_be_created, probe.folder, &probe.exists, err);
    if (status)
        return status;
    int fd = LOCAL_RETRY(open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (fd < 0)
        return local_error(err, -errno, folder, "could not open the folder");
    status = query_file_system(fd, folder, &probe, err);
    close(fd);
    if (status)
        return status;
    probe.write_status = probe_scratch_folder(folder, &probe);
    if (!probe.write_status)
        probe.write_status = probe_file(folder, &probe);
    *ret_probe = probe;
    return 0;
}

static int open_ring(void)
{
    struct io_uring_params params = {0};
    long fd = syscall(__NR_io_uring_setup, 1, &params);
    return fd < 0 ? -errno : (int)fd;
}

int io_probe_uring(void)
{
    int fd = open_ring();
    if (fd < 0)
        return fd;
    close(fd);
    return 0;
}

int io_probe_uring_buffers(void)
{
    int fd = open_ring();
    if (fd < 0)
        return fd;
    struct iovec memory = {.iov_len = IO_PROBE_REGISTERED_BYTES};
    memory.iov_base =
        mmap(NULL, memory.iov_len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int status = memory.iov_base == MAP_FAILED ? -errno : 0;
    if (!status) {
        status = negative_errno(
            (int)syscall(__NR_io_uring_register, fd, IORING_REGISTER_BUFFERS, &memory, 1));
        munmap(memory.iov_base, memory.iov_len);
    }
    close(fd);
    return status;
}
