/*
 * file_lock — one owner a folder: a lock on FOLDER/.millrace-owner that the kernel frees at any death. See file_local.h.
 *
 * The lock is an open-file-description lock: it belongs to this open file, not to the process, so that another thread's
 * close of the same file does not drop it. The file holds "host=H pid=P boot=B\n" for people and for the refusal's text; it
 * stays when the lock goes, since removing it would let two owners lock two files of one name.
 */
#include "io/file_local.h"
#include "io/whole.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define OWNER_FILE_NAME ".millrace-owner"

enum { OWNER_TEXT_BYTES_MAX = 192, ATTEMPTS_MAX = 20, ATTEMPT_PAUSE_NS = 5000000 };

struct io_lock {
    int fd;
};

static void read_boot_id(char *text, size_t bytes)
{
    snprintf(text, bytes, "unknown");
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    ssize_t n = read(fd, text, bytes - 1);
    close(fd);
    if (n > 0) {
        text[n] = '\0';
        text[strcspn(text, "\n")] = '\0';
    }
}

static int write_owner(int fd)
{
    char host[65] = "unknown", boot[64], text[OWNER_TEXT_BYTES_MAX];
    gethostname(host, sizeof host - 1);
    read_boot_id(boot, sizeof boot);
    int bytes = snprintf(text, sizeof text, "host=%s pid=%ld boot=%s\n", host, (long)getpid(), boot);
    if (ftruncate(fd, 0))
        return -errno;
    ssize_t n = pwrite(fd, text, (size_t)bytes, 0);
    return n == bytes ? 0 : n < 0 ? -errno : -EIO;
}

/* "" where the owner has not written it yet. */
static void read_owner(int fd, char text[OWNER_TEXT_BYTES_MAX])
{
    ssize_t n = pread(fd, text, OWNER_TEXT_BYTES_MAX - 1, 0);
    text[n > 0 ? n : 0] = '\0';
    text[strcspn(text, "\n")] = '\0';
}

/* True where path still names the open file. */
static bool is_same_file(int fd, const char *path)
{
    struct stat ours, theirs;
    return fstat(fd, &ours) == 0 && stat(path, &theirs) == 0 && ours.st_dev == theirs.st_dev &&
           ours.st_ino == theirs.st_ino;
}

/* 0, -EAGAIN (held, or removed meanwhile; owner then says by whom, if known) or another -errno. Gives the descriptor. */
static int try_lock(const char *path, int *ret_fd, char owner[OWNER_TEXT_BYTES_MAX])
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (fd < 0)
        return -errno;
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    int status = fcntl(fd, F_OFD_SETLK, &whole) ? -errno : 0;
    if (status == -EAGAIN || status == -EACCES) {
        read_owner(fd, owner);
        status = -EAGAIN;
    } else if (!status && !is_same_file(fd, path)) {
        status = -EAGAIN;
    } else if (!status) {
        status = write_owner(fd);
    }
    if (status)
        close(fd);
    else
        *ret_fd = fd;
    return status;
}

static int refuse(const char *folder, const char *owner, struct err *err)
{
    err_set(err, -EBUSY, "another process owns the folder");
    err_at(err, folder, ERR_NO_OFFSET);
    err_found(err, "owner %s", *owner ? owner : "unknown");
    err_advise(err, "wait for it, stop it, or use another folder");
    return -EBUSY;
}

int local_lock_acquire(struct io *io, const char *folder, struct io_lock **ret_lock, struct err *err)
{
    (void)io;
    char path[IO_PATH_BYTES_MAX], owner[OWNER_TEXT_BYTES_MAX] = "";
    int status = local_path(folder, &folder, err);
    if (!status)
        status = io_join_path(folder, OWNER_FILE_NAME, path, err);
    if (status)
        return status;
    struct io_lock *lock = malloc(sizeof *lock);
    if (!lock)
        return err_set(err, -ENOMEM, "out of memory to lock a folder");
    /* A holder that has not yet said who it is gets a moment to do so. */
    for (int attempt = 0; attempt < ATTEMPTS_MAX; attempt++) {
        status = try_lock(path, &lock->fd, owner);
        if (status != -EAGAIN || *owner)
            break;
        nanosleep(&(struct timespec){.tv_nsec = ATTEMPT_PAUSE_NS}, NULL);
    }
    if (!status) {
        *ret_lock = lock;
        return 0;
    }
    free(lock);
    return status == -EAGAIN ? refuse(folder, owner, err)
                             : local_fail(err, status, path, "could not lock the folder");
}

void local_lock_release(struct io_lock *lock)
{
    if (!lock)
        return;
    if (ftruncate(lock->fd, 0)) { /* the text of an owner that is gone misleads nobody who holds the lock */
    }
    close(lock->fd);
    free(lock);
}
