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

/* Also returns -EBUSY if the holder has just ended: the file is unlinked or soon will be. */
static int lock(int fd, const char *path)
{
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    int status = LOCAL_RETRY(fcntl(fd, F_OFD_SETLK, &whole)) ? -errno : 0;
    if (status == -EAGAIN || status == -EACCES || (!status && !local_is_named(fd, path)))
        return -EBUSY;
    return status;
}

int io_work_lock_acquire(const char *path, bool has_waited, struct io_work_lock **ret_turn)
{
    *ret_turn = NULL;
    if (local_path(path, &path, NULL))
        return 0;
    int flags = O_RDWR | O_CLOEXEC | O_NOFOLLOW | (has_waited ? 0 : O_CREAT);
    int fd = LOCAL_RETRY(open(path, flags, 0666));
    if (fd < 0)
        return has_waited && errno == ENOENT ? -ENOENT : 0;
    struct io_work_lock *turn = malloc(sizeof *turn);
    int status = turn ? lock(fd, path) : -ENOMEM;
    if (!status) {
        turn->fd = fd;
        strcpy(turn->path, path); /* local_path limits its length */
        *ret_turn = turn;
        return 0;
    }
    free(turn);
    close(fd);
    return status == -EBUSY ? -EBUSY : 0;
}

void io_work_lock_release(struct io_work_lock *turn)
{
    if (!turn)
        return;
    /* Unlink while holding the lock, so that nobody locks an unlinked file unnoticed. */
    unlink(turn->path);
    close(turn->fd);
    free(turn);
}
