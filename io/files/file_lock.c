/*
 * file_lock — one owner per folder: a kernel lock on FOLDER/.millrace-owner, or a lease. See
 * file_local.h.
 *
 * On local file systems, the lock decides. On all others, the lease (lease.h) decides, because some
 * of them grant locks without informing other machines. Each kind of owner checks for the other:
 * the owner of the lock also takes the lease if one was ever used, and the owner of a new lease
 * yields to a lock. If two owners start simultaneously, at least one sees the other.
 *
 * An open-file-description lock survives another thread's close of the same file. The file holds
 * "host=H pid=P boot=B\n" for users and for the error message. Releasing the lock keeps the file:
 * removing it would let two owners lock two files with the same name.
 */
#include "base/clock.h"
#include "base/os/machine.h"
#include "io/file_util.h"
#include "io/local/file_local.h"
#include "io/local/lease.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#define OWNER_FILE_NAME ".millrace-owner"

enum { OWNER_TEXT_BYTES_MAX = 192, ATTEMPTS_MAX = 20, ATTEMPT_PAUSE_NS = 5000000 };

bool io_is_owner_record(const char *entry_name)
{
    return strcmp(entry_name, OWNER_FILE_NAME) == 0 || strcmp(entry_name, LEASE_FOLDER_NAME) == 0;
}

/* Owner thread. */
struct io_lock {
    int fd; /* -1: the lease is the only lock */
    struct lease *lease;
    char path[IO_PATH_BYTES_MAX]; /* of the lock file */
};

/* Whether only this machine uses the file system, so that its kernel knows every lock holder. */
static bool is_local_fs(const char *folder)
{
    static const unsigned long kinds[] = {
        0xef53 /* ext */,       0x58465342 /* xfs */,      0x9123683e /* btrfs */,
        0x01021994 /* tmpfs */, 0x794c7630 /* overlay */,  0x2fc12fc1 /* zfs */,
        0xf2f52010 /* f2fs */,  0x858458f6 /* ramfs */,    0xca451a4e /* bcachefs */,
        0x3153464a /* jfs */,   0x52654973 /* reiserfs */,
    };
    struct statfs info;
    if (statfs(folder, &info))
        return true; /* locking will report the error */
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if ((unsigned long)info.f_type == kinds[i])
            return true;
    return false;
}

static int write_owner(int fd)
{
    char host[65] = "unknown", boot[64], text[OWNER_TEXT_BYTES_MAX];
    gethostname(host, sizeof host - 1);
    machine_boot_id(boot, sizeof boot);
    int bytes = snprintf(text, sizeof text, "host=%s pid=%ld boot=%s\n", host, (long)getpid(),
                         *boot ? boot : "unknown");
    if (LOCAL_RETRY(ftruncate(fd, 0)))
        return -errno;
    ssize_t n = LOCAL_RETRY(pwrite(fd, text, (size_t)bytes, 0));
    return n == bytes ? 0 : n < 0 ? -errno : -EIO;
}

/* "" if the owner has not written it yet. */
static void read_owner(int fd, char text[OWNER_TEXT_BYTES_MAX])
{
    ssize_t n = LOCAL_RETRY(pread(fd, text, OWNER_TEXT_BYTES_MAX - 1, 0));
    text[n > 0 ? n : 0] = '\0';
    text[strcspn(text, "\n")] = '\0';
}

/* -EAGAIN: held (owner names the holder, if known), or removed in the meantime. */
static int try_lock(const char *path, int *ret_fd, char owner[OWNER_TEXT_BYTES_MAX])
{
    int fd = LOCAL_RETRY(open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666));
    if (fd < 0)
        return -errno;
    int status = local_lock(fd, true);
    if (status == -EAGAIN)
        read_owner(fd, owner);
    else if (!status)
        status = local_is_same_file(fd, path) ? write_owner(fd) : -EAGAIN;
    if (status)
        close(fd);
    else
        *ret_fd = fd;
    return status;
}

int local_owned_error(const char *folder, const char *owner, const char *what, struct err *err)
{
    err_set(err, -EBUSY, "%s", what);
    err_at(err, folder, ERR_NO_OFFSET);
    err_found(err, "owner %s", *owner ? owner : "unknown");
    err_advise(err, "wait for it, stop it, or use another folder");
    return -EBUSY;
}

static int acquire_lock(struct io_lock *lock, const char *folder, struct err *err)
{
    char owner[OWNER_TEXT_BYTES_MAX] = "";
    int status = -EAGAIN;
    /* Retries, so that a new holder has time to write its identity. */
    for (int attempt = 0; attempt < ATTEMPTS_MAX && status == -EAGAIN && !*owner; attempt++) {
        if (attempt > 0)
            clock_sleep_ns(ATTEMPT_PAUSE_NS);
        status = try_lock(lock->path, &lock->fd, owner);
    }
    if (status == -EAGAIN)
        return local_owned_error(folder, owner, LOCAL_OWNED_MESSAGE, err);
    return status ? local_error(err, status, lock->path, "could not lock the folder") : 0;
}

/* -EBUSY if another process holds the lock. Storage without locks has no holders. */
static int check_unlocked(const struct io_lock *lock, const char *folder, struct err *err)
{
    char owner[OWNER_TEXT_BYTES_MAX];
    int fd = LOCAL_RETRY(open(lock->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW));
    if (fd < 0)
        return errno == ENOENT
                   ? 0
                   : local_error(err, -errno, lock->path, "could not check the folder's lock");
    struct flock whole_file = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    bool held = fcntl(fd, F_OFD_GETLK, &whole_file) == 0 && whole_file.l_type != F_UNLCK;
    read_owner(fd, owner);
    close(fd);
    return held ? local_owned_error(folder, owner, LOCAL_OWNED_MESSAGE, err) : 0;
}

static int acquire(struct io_lock *lock, const char *folder, const struct io_lock_options *options,
                   struct err *err)
{
    bool by_lease =
        options->kind == IO_LOCK_AUTO ? !is_local_fs(folder) : options->kind == IO_LOCK_LEASE;
    int status = by_lease ? 0 : acquire_lock(lock, folder, err);
    if (!status && (by_lease || lease_was_used(folder)))
        status = lease_acquire(folder, options->period_ns, &lock->lease, err);
    if (!status && by_lease)
        status = check_unlocked(lock, folder, err);
    return status;
}

static void local_lock_release(struct io_lock *lock)
{
    if (!lock)
        return;
    lease_release(lock->lease);
    if (lock->fd >= 0) {
        int failed = LOCAL_RETRY(ftruncate(lock->fd, 0));
        (void)failed; /* the text is informational; the lock decides */
        close(lock->fd);
    }
    free(lock);
}

static int local_lock_acquire(struct io *io, const char *folder,
                              const struct io_lock_options *options, struct io_lock **ret_lock,
                              struct err *err)
{
    (void)io;
    static const struct io_lock_options defaults = {0};
    int status = local_path(folder, &folder, err);
    if (status)
        return status;
    struct io_lock *lock = calloc(1, sizeof *lock);
    if (!lock)
        return err_set(err, -ENOMEM, "not enough memory to lock a folder");
    lock->fd = -1;
    status = io_join_path(folder, OWNER_FILE_NAME, lock->path, err);
    if (!status)
        status = acquire(lock, folder, options ? options : &defaults, err);
    if (status)
        local_lock_release(lock);
    else
        *ret_lock = lock;
    return status;
}

/* The lock file was removed. The folder is still ours unless another process has locked a new
 * file. */
static int relock(struct io_lock *lock, struct err *err)
{
    char folder[IO_PATH_BYTES_MAX];
    int old = lock->fd;
    io_parent_path(lock->path, folder);
    int status = acquire_lock(lock, folder, err);
    if (!status)
        close(old);
    return status;
}

static int local_lock_check(struct io_lock *lock, struct err *err)
{
    int status = 0;
    if (lock->fd >= 0 && !local_is_same_file(lock->fd, lock->path))
        status = relock(lock, err);
    return !status && lock->lease ? lease_check(lock->lease, err) : status;
}

const struct io_lock_ops local_locks = {
    .acquire = local_lock_acquire,
    .check = local_lock_check,
    .release = local_lock_release,
    .lock_shared = local_shared_lock_acquire,
    .unlock_shared = local_shared_lock_release,
};
