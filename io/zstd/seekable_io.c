/*
 * seekable_io — see seekable_io.h.
 */
#include "io/zstd/seekable_io.h"

#include "base/bytes.h"
#include "base/os/thread_pool.h"
#include "io/engines/thread_queue.h"
#include "io/file_util.h"
#include "io/forward.h"
#include "io/zstd/frame_reader.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { TABLE_GUESS_BYTES = 64 << 10 }; /* contains most seek tables */

/* Immutable, except files_opened. */
struct seekable_io {
    struct io_forward forward;
    struct io_ops ops; /* with the name of inner's engine */
    unsigned threads;
    atomic_uint_least64_t files_opened;
};

/* Immutable. */
struct io_file {
    struct io *inner_io;
    bool is_compressed;        /* if not, only frames.file is set */
    struct frames_file frames; /* the inner backend's file */
};

/* A queue of depth 1 runs its request in submit, without a thread. */
struct io_queue {
    struct io_queue *thread_queue; /* NULL: of depth 1 */
    struct io_request *completed;  /* of depth 1: to be reaped */
    unsigned readers_count;
    struct frame_reader readers[]; /* one per thread */
};

bool seekable_io_is_name(const char *path)
{
    return str_ends_with_nocase(path, ".zst");
}

bool seekable_io_is_compressed(const struct io_file *file)
{
    return file->is_compressed;
}

static struct io *inner_of(struct io *io)
{
    return ((struct seekable_io *)io)->forward.inner;
}

/* ---- Files. ---- */

/* Reads the last bytes of a file. The caller frees *ret_data. */
static int read_end(struct io_file *file, struct io_queue *queue, const char *path, uint64_t bytes,
                    uint8_t **ret_data, struct err *err)
{
    struct io *inner = file->inner_io;
    uint64_t file_bytes = inner->ops->file_size(file->frames.file);
    uint8_t *data = malloc(bytes + 1);
    int status = data ? io_read_exact(queue, inner, file->frames.file, path, file_bytes - bytes,
                                      data, bytes, err)
                      : err_set(err, -ENOMEM, "out of memory for a seek table");
    if (status)
        free(data);
    else
        *ret_data = data;
    return status;
}

/* Reads the seek table, if the file has one. */
static int load_table(struct io_file *file, struct io_queue *queue, const char *path,
                      struct err *err)
{
    uint64_t file_bytes = file->inner_io->ops->file_size(file->frames.file), table_bytes = 0;
    uint64_t end_bytes = bytes_min(file_bytes, TABLE_GUESS_BYTES);
    uint8_t *end = NULL;
    int status = read_end(file, queue, path, end_bytes, &end, err);
    if (!status && end_bytes >= SEEK_TABLE_FOOTER_BYTES)
        table_bytes = seek_table_bytes(end + end_bytes - SEEK_TABLE_FOOTER_BYTES);
    file->is_compressed = table_bytes > 0 && table_bytes <= file_bytes;
    if (file->is_compressed && table_bytes > end_bytes) {
        free(end);
        end = NULL;
        end_bytes = table_bytes;
        status = read_end(file, queue, path, end_bytes, &end, err);
    }
    if (!status && file->is_compressed)
        status = seek_table_decode(end + end_bytes - table_bytes, table_bytes, file_bytes, path,
                                   &file->frames.table, err);
    free(end);
    return status;
}

static int load_tail(struct io_file *file, struct io_queue *queue, const char *path,
                     struct err *err)
{
    struct seek_table *table = &file->frames.table;
    uint8_t header[SEEK_TABLE_HEADER_BYTES];
    if (!file->is_compressed || !seek_table_ends_empty(table))
        return 0;
    int status =
        io_read_exact(queue, file->inner_io, file->frames.file, path,
                      table->stored_at[table->frames_count - 1], header, sizeof header, err);
    if (!status)
        seek_table_set_tail(table, header);
    return status;
}

static void seekable_file_close(struct io_file *file)
{
    if (file->frames.file)
        file->inner_io->ops->file_close(file->frames.file);
    seek_table_deinit(&file->frames.table);
    free(file);
}

static int seekable_file_open(struct io *io, const char *path, struct io_file **ret_file,
                              struct err *err)
{
    struct io *inner = inner_of(io);
    struct io_file *file = calloc(1, sizeof *file);
    struct io_queue *queue = NULL;
    if (!file)
        return err_set(err, -ENOMEM, "out of memory for a file");
    file->inner_io = inner;
    file->frames.number = atomic_fetch_add(&((struct seekable_io *)io)->files_opened, 1) + 1;
    int status = inner->ops->file_open(inner, path, &file->frames.file, err);
    if (!status && seekable_io_is_name(path)) {
        status = inner->ops->queue_open(inner, 1, &queue, err);
        if (!status)
            status = load_table(file, queue, path, err);
        if (!status)
            status = load_tail(file, queue, path, err);
        if (queue)
            inner->ops->queue_close(queue);
    }
    if (status)
        seekable_file_close(file);
    else
        *ret_file = file;
    return status;
}

static uint64_t seekable_file_size(const struct io_file *file)
{
    return file->is_compressed ? seek_table_content_bytes(&file->frames.table)
                               : file->inner_io->ops->file_size(file->frames.file);
}

static int seekable_file_identity(const struct io_file *file, struct io_identity *ret_identity,
                                  struct err *err)
{
    return file->inner_io->ops->file_identity(file->frames.file, ret_identity, err);
}

/* ---- Queues. ---- */

static ssize_t run_request(void *context, unsigned thread, struct io_request *request)
{
    struct frame_reader *reader = &((struct io_queue *)context)->readers[thread];
    const struct io_file *file = request->file;
    if (request->kind != IO_READ)
        return -EROFS;
    return file->is_compressed ? frame_reader_read(reader, &file->frames, request->offset,
                                                   request->data, request->bytes)
                               : frame_reader_read_stored(reader, &file->frames, request->offset,
                                                          request->data, request->bytes);
}

static void seekable_queue_close(struct io_queue *queue)
{
    if (!queue)
        return;
    thread_queue_close(queue->thread_queue);
    for (unsigned i = 0; i < queue->readers_count; i++)
        frame_reader_deinit(&queue->readers[i]);
    free(queue);
}

static int seekable_queue_open(struct io *io, unsigned depth, struct io_queue **ret_queue,
                               struct err *err)
{
    unsigned threads = ((const struct seekable_io *)io)->threads;
    threads = depth < threads ? depth : threads;
    struct io_queue *queue = calloc(1, sizeof *queue + threads * sizeof queue->readers[0]);
    if (!queue)
        return err_set(err, -ENOMEM, "out of memory for an I/O queue");
    const struct thread_queue_work work = {run_request, queue};
    queue->readers_count = threads;
    for (unsigned i = 0; i < threads; i++)
        queue->readers[i].io = inner_of(io);
    int status =
        depth > 1 ? thread_queue_open(depth, threads, &work, &queue->thread_queue, err) : 0;
    if (status)
        seekable_queue_close(queue);
    else
        *ret_queue = queue;
    return status;
}

static int seekable_submit(struct io_queue *queue, struct io_request *const *requests,
                           unsigned count)
{
    if (queue->thread_queue)
        return thread_queue_submit(queue->thread_queue, requests, count);
    if (count == 0 || queue->completed)
        return 0;
    requests[0]->result = run_request(queue, 0, requests[0]);
    queue->completed = requests[0];
    return 1;
}

static int seekable_reap(struct io_queue *queue, struct io_request **done, unsigned count_max,
                         unsigned count_min, int timeout_ms)
{
    if (queue->thread_queue)
        return thread_queue_reap(queue->thread_queue, done, count_max, count_min, timeout_ms);
    if (count_max == 0 || !queue->completed)
        return 0;
    done[0] = queue->completed;
    queue->completed = NULL;
    return 1;
}

static void seekable_cancel(struct io_queue *queue, struct io_request *request)
{
    if (queue->thread_queue)
        thread_queue_cancel(queue->thread_queue, request);
}

/* ---- The table. ---- */

static void seekable_close(struct io *io)
{
    free(io);
}

static const struct io_ops seekable_ops = {
    .scheme = "zstd", /* of no URL */
    .file_open = seekable_file_open,
    .file_close = seekable_file_close,
    .file_size = seekable_file_size,
    .file_identity = seekable_file_identity,
    .queue_open = seekable_queue_open,
    .queue_close = seekable_queue_close,
    .submit = seekable_submit,
    .reap = seekable_reap,
    .cancel = seekable_cancel,
    .close = seekable_close,
};

static const struct io_name_ops seekable_names = {
    .resolve = io_forward_resolve,
    .stat = io_forward_stat,
    .gap_bytes = io_forward_gap_bytes,
    .list = io_forward_list,
    .make_folder = io_forward_make_folder,
    .remove = io_forward_remove,
};

int seekable_io_open(struct io *inner, unsigned threads, struct io **ret_io, struct err *err)
{
    static const struct io_lock_ops no_locks;
    struct seekable_io *io = calloc(1, sizeof *io);
    if (!io)
        return err_set(err, -ENOMEM, "out of memory for a storage backend");
    io->threads = threads > 0 ? threads : thread_pool_cpu_count();
    if (io->threads > THREAD_QUEUE_THREADS_MAX)
        io->threads = THREAD_QUEUE_THREADS_MAX;
    io->ops = seekable_ops;
    io->ops.name = inner->ops->name;
    io->forward = (struct io_forward){
        .base = {.ops = &io->ops, .names = &seekable_names, .locks = &no_locks}, .inner = inner};
    *ret_io = &io->forward.base;
    return 0;
}
