/*
 * io_threads — local files by plain threads with pread and pwrite; works everywhere.
 *
 * Everything but the queue is shared with other engines for local files, see file_local.h.
 */
#include "io/file_local.h"
#include "io/file_queue.h"

#include <errno.h>
#include <stdlib.h>

enum { THREADS_DEFAULT = 4 };

/* Immutable after open. */
struct io_threads {
    struct io base;
    unsigned threads; /* a queue */
};

static int threads_queue_open(struct io *io, unsigned depth, struct io_queue **ret_queue, struct err *err)
{
    return file_queue_open(depth, ((struct io_threads *)io)->threads, ret_queue, err);
}

static void threads_close(struct io *io)
{
    free(io);
}

static const struct io_ops threads_ops = {
    .name = "threads",
    .scheme = "file",
    .file_open = local_file_open,
    .file_close = local_file_close,
    .file_size = local_file_size,
    .queue_open = threads_queue_open,
    .queue_close = file_queue_close,
    .submit = file_queue_submit,
    .reap = file_queue_reap,
    .cancel = file_queue_cancel,
    .stat = local_stat,
    .list = local_list,
    .make_folder = local_make_folder,
    .remove = local_remove,
    .set_begin = local_set_begin,
    .set_join = local_set_join,
    .set_place = local_set_place,
    .set_create = local_set_create,
    .set_seal = local_set_seal,
    .set_publish = local_set_publish,
    .set_abort = local_set_abort,
    .set_leave = local_set_leave,
    .sweep = local_sweep,
    .lock_acquire = local_lock_acquire,
    .lock_release = local_lock_release,
    .close = threads_close,
};

int io_threads_open(const struct io_options *options, struct io **ret_io, struct err *err)
{
    unsigned threads = options && options->threads ? options->threads : THREADS_DEFAULT;
    if (threads > FILE_QUEUE_THREADS_MAX)
        threads = FILE_QUEUE_THREADS_MAX;
    struct io_threads *io = malloc(sizeof *io);
    if (!io)
        return err_set(err, -ENOMEM, "out of memory for the local file backend");
    *io = (struct io_threads){.base.ops = &threads_ops, .threads = threads};
    *ret_io = &io->base;
    return 0;
}
