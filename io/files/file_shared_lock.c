/*
 * file_shared_lock — readers lock a file shared; a remover locks it exclusively. See file_local.h.
 *
 * The kernel releases an open-file-description lock when its owner dies. The name is checked after
 * locking, because the remover renames the file while it holds the lock: a reader either gets its
 * lock first or finds that the name is gone.
 *
 * Network file systems with lock support (NFS with its lock service, Lustre with -o flock) make the
 * lock visible to all hosts. On file systems without locks, every request succeeds without locking.
 */
#include "io/local/file_local.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

struct io_shared_lock {
    int fd;
};

static int busy_error(const char *path, bool is_exclusive, struct err *err)
{
    err_set(err, -EBUSY, "%s", is_exclusive ? "it is being read" : "it is being removed");
    err_at(err, path, ERR_NO_OFFSET);
    err_advise(err, "%s", is_exclusive ? "wait for the reader to finish" : "use another file");
    return -EBUSY;
}

/* Returns 1 if the file system has no locks. */
static int set_lock(int fd, const char *path, bool is_exclusive, struct err *err)
{
    int status = local_lock(fd, is_exclusive);
    if (local_has_no_locks(status))
        return 1;
    if (status == -EAGAIN)
        return busy_error(path, is_exclusive, err);
    if (!status && !local_is_same_file(fd, path))
        status = -ENOENT;
    return status ? local_error(err, status, path, "could not lock the file") : 0;
}

int local_shared_lock_acquire(struct io *io, const char *path, bool is_exclusive,
                              struct io_shared_lock **ret_lock, struct err *err)
{
    (void)io;
    int status = local_path(path, &path, err);
    if (status)
        return status;
    int fd = LOCAL_RETRY(
        open(path, (is_exclusive ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
    if (fd < 0)
        return local_error(err, -errno, path, "could not lock the file");
    struct io_shared_lock *lock = NULL;
    status = set_lock(fd, path, is_exclusive, err);
    if (!status) {
        lock = malloc(sizeof *lock);
        status = lock ? 0 : err_set(err, -ENOMEM, "out of memory for a file lock");
    }
    if (status)
        close(fd);
    if (status < 0)
        return status;
    if (lock)
        lock->fd = fd;
    *ret_lock = lock;
    return 0;
}

void local_shared_lock_release(struct io_shared_lock *lock)
{
    if (!lock)
        return;
    close(lock->fd);
    free(lock);
}
