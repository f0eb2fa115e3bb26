/*
 * file_hold — who reads a file, and who wants it gone: shared and exclusive holds. See
 * file_local.h.
 *
 * A hold is an open-file-description lock of the file itself, which the kernel frees at any death.
 * One on a file that meanwhile lost its name is worth nothing, so the name is looked at once more
 * when the lock is there: a remover renames while it holds, hence a reader either has its hold
 * first, or finds the name gone.
 *
 * On a network file system that has locks (NFS with its lock service, Lustre with -o flock) a hold
 * is seen by all hosts; where there are no locks nothing is held, and nothing refused.
 */
#include "io/file_local.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

struct io_hold {
    int fd;
};

static bool has_no_locks(int code)
{
    return code == -EINVAL || code == -ENOLCK || code == -ENOSYS || code == -EOPNOTSUPP;
}

static int busy(const char *path, bool is_exclusive, struct err *err)
{
    err_set(err, -EBUSY, "%s", is_exclusive ? "somebody reads it" : "it is being removed");
    err_at(err, path, ERR_NO_OFFSET);
    err_advise(err, "%s", is_exclusive ? "wait for the reader to end" : "use another one");
    return -EBUSY;
}

/* 1 where the file system has no locks. */
static int lock(int fd, const char *path, bool is_exclusive, struct err *err)
{
    struct flock whole = {.l_type = is_exclusive ? F_WRLCK : F_RDLCK, .l_whence = SEEK_SET};
    int status = LOCAL_RETRY(fcntl(fd, F_OFD_SETLK, &whole)) ? -errno : 0;
    if (has_no_locks(status))
        return 1;
    if (status == -EAGAIN || status == -EACCES)
        return busy(path, is_exclusive, err);
    if (!status && !local_is_named(fd, path))
        status = -ENOENT;
    return status ? local_fail(err, status, path, "could not hold the file") : 0;
}

int local_hold_acquire(struct io *io, const char *path, bool is_exclusive,
                       struct io_hold **ret_hold, struct err *err)
{
    (void)io;
    int status = local_path(path, &path, err);
    if (status)
        return status;
    int fd = LOCAL_RETRY(
        open(path, (is_exclusive ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
    if (fd < 0)
        return local_fail(err, -errno, path, "could not hold the file");
    struct io_hold *hold = NULL;
    status = lock(fd, path, is_exclusive, err);
    if (!status) {
        hold = malloc(sizeof *hold);
        status = hold ? 0 : err_set(err, -ENOMEM, "out of memory to hold a file");
    }
    if (status)
        close(fd);
    if (status < 0)
        return status;
    if (hold)
        hold->fd = fd;
    *ret_hold = hold;
    return 0;
}

void local_hold_release(struct io_hold *hold)
{
    if (!hold)
        return;
    close(hold->fd);
    free(hold);
}
