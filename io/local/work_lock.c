/*
 * work_lock — see work_lock.h.
 */
#include "io/local/work_lock.h"

#include "io/local/file_local.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct io_work_lock {
    int fd;
    char path[IO_PATH_BYTES_MAX];
};

/* Also returns -EBUSY if the holder has just finished: path names no file or a new one. */
static int try_lock(int fd, const char *path)
{
    int status = local_lock(fd, true);
    return status == -EAGAIN || (!status && !local_is_same_file(fd, path)) ? -EBUSY : status;
}

int io_work_lock_acquire(const char *path, bool has_waited, struct io_work_lock **ret_lock)
{
    *ret_lock = NULL;
    if (local_path(path, &path, NULL))
        return 0;
    int flags = O_RDWR | O_CLOEXEC | O_NOFOLLOW | (has_waited ? 0 : O_CREAT);
    int fd = LOCAL_RETRY(open(path, flags, 0666));
    if (fd < 0)
        return has_waited && errno == ENOENT ? -ENOENT : 0;
    struct io_work_lock *lock = malloc(sizeof *lock);
    int status = lock ? try_lock(fd, path) : -ENOMEM;
    if (!status) {
        lock->fd = fd;
        strcpy(lock->path, path); /* local_path limits its length */
        *ret_lock = lock;
        return 0;
    }
    free(lock);
    close(fd);
    return status == -EBUSY ? -EBUSY : 0;
}

void io_work_lock_release(struct io_work_lock *lock)
{
    if (!lock)
        return;
    /* Unlink before unlocking, so that no process can lock an unlinked file unnoticed. */
    unlink(lock->path);
    close(lock->fd);
    free(lock);
}
