/*
 * file_resume — resumes the staging path of a dead writer. See file_local.h and enum io_resume.
 *
 * The writer of a resumable transaction holds a lock (flock) on the open file description of its
 * staging folder or single file. The kernel releases the lock when the process dies. A successor
 * finds the path by its name and takes the lock; it ignores a path that was committed or removed in
 * the meantime.
 *
 * If the file system has no such locks (or, like NFS, none on folders), the caller must ensure that
 * the first writer is dead.
 */
#include "base/clock.h"
#include "io/file_util.h"
#include "io/local/file_local.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

enum { ATTEMPTS_MAX = 100, ATTEMPT_PAUSE_NS = 10000000 };

/* Retries, because a killed writer keeps its lock until the kernel has ended its requests, possibly
 * after its parent has reaped it. */
static int try_lock(int staging_fd)
{
    int status = LOCAL_RETRY(flock(staging_fd, LOCK_EX | LOCK_NB)) ? -errno : 0;
    for (int attempt = 1; status == -EWOULDBLOCK && attempt < ATTEMPTS_MAX; attempt++) {
        clock_sleep_ns(ATTEMPT_PAUSE_NS);
        status = LOCAL_RETRY(flock(staging_fd, LOCK_EX | LOCK_NB)) ? -errno : 0;
    }
    return status;
}

static int owned_error(const char *staging, struct err *err)
{
    err_set(err, -EBUSY, "another process is writing this output");
    err_at(err, staging, ERR_NO_OFFSET);
    err_advise(err, "wait for it, or stop it first");
    return -EBUSY;
}

static int lock_staging(int staging_fd, const char *staging, bool is_file, struct err *err)
{
    int status = try_lock(staging_fd);
    /* NFS locks need a file opened for writing, so locking a folder fails: -EBADF. */
    if (!status || local_has_no_locks(status) || (status == -EBADF && !is_file))
        return 0;
    if (status == -EWOULDBLOCK)
        return owned_error(staging, err);
    return local_error(err, status, staging, "could not lock the unfinished output");
}

int staging_lock(int staging_fd, const char *staging, bool is_file, struct err *err)
{
    int status = lock_staging(staging_fd, staging, is_file, err);
    /* Another process took it over and has finished. */
    if (!status && !local_is_same_file(staging_fd, staging))
        status = owned_error(staging, err);
    return status;
}

struct staging_search {
    const char *parent, *prefix;
    bool is_file;
    char *staging;
    int fd; /* -1: none found */
    struct err *err;
};

static int try_entry(void *context, const struct io_entry *entry)
{
    struct staging_search *search = context;
    if (!temporary_has_prefix(entry->name, search->prefix) ||
        entry->kind != (search->is_file ? IO_ENTRY_FILE : IO_ENTRY_FOLDER))
        return 0;
    int status = io_join_path(search->parent, entry->name, search->staging, search->err);
    if (status)
        return status;
    int fd =
        LOCAL_RETRY(open(search->staging, O_CLOEXEC | O_NOFOLLOW |
                                              (search->is_file ? O_RDWR : O_RDONLY | O_DIRECTORY)));
    if (fd < 0)
        return errno == ENOENT ? 0
                               : local_error(search->err, -errno, search->staging,
                                             "could not resume the unfinished output");
    status = lock_staging(fd, search->staging, search->is_file, search->err);
    if (status || !local_is_same_file(fd, search->staging)) {
        close(fd);
        return status;
    }
    search->fd = fd;
    return 1;
}

int staging_find(const char *parent, const char *name, const struct io_transaction_options *options,
                 char *staging, int *ret_staging_fd, struct err *err)
{
    char prefix[IO_PATH_BYTES_MAX];
    struct staging_search search = {.parent = parent,
                                    .prefix = prefix,
                                    .is_file = options->single_file,
                                    .staging = staging,
                                    .fd = -1,
                                    .err = err};
    int status = temporary_prefix(name, options->owner_id, options->attempt, prefix, err);
    if (!status)
        status = local_list(NULL, parent, try_entry, &search, err);
    if (status < 0)
        return status;
    if (search.fd < 0)
        return -ENOENT;
    *ret_staging_fd = search.fd;
    return 0;
}
