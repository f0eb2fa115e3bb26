/*
 * decompressed_io — see decompressed_io.h.
 */
#include "convert/dataset/decompressed_io.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/os/thread_pool.h"
#include "base/str.h"
#include "convert/dataset/dataset_output.h"
#include "io/file_util.h"
#include "io/forward.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK_BYTES = 1 << 20, PROGRESS_INTERVAL_MS = 100 };

/* Immutable once open. */
struct decompressed_io {
    struct io_forward forward;
    /* The inner backend's, except those with struct io. */
    struct io_ops ops;
    struct io_transaction_ops transactions;
    struct io_lock_ops locks;
    const struct compressed_files *files;
    struct io_transaction *transaction; /* of the copies, which are named by their files' numbers */
};

static struct decompressed_io *of(struct io *io)
{
    return (struct decompressed_io *)io;
}

/* The path to read instead of another one: that of a copy, or the same. */
static int find_copy(const struct decompressed_io *io, const char *path,
                     char copy[IO_PATH_BYTES_MAX], struct err *err)
{
    const struct compressed_file *file = compressed_files_at(io->files, path);
    char name[IO_NAME_BYTES_MAX];
    if (!file)
        return io_join_path("", path, copy, err);
    snprintf(name, sizeof name, "%td", file - io->files->items);
    return io_join_path(io->forward.inner->transactions->staging_path(io->transaction), name, copy,
                        err);
}

/* ---- Operations with a path. ---- */

/* An error of a copy names the file. */
static int name_path(int status, const char *path, struct err *err)
{
    if (status && err && err->path[0])
        err_at(err, path, err->offset);
    return status;
}

static int decompressed_file_open(struct io *io, const char *path, struct io_file **ret_file,
                                  struct err *err)
{
    char copy[IO_PATH_BYTES_MAX];
    struct io *inner = of(io)->forward.inner;
    int status = find_copy(of(io), path, copy, err);
    return status ? status
                  : name_path(inner->ops->file_open(inner, copy, ret_file, err), path, err);
}

static int decompressed_stat(struct io *io, const char *path, struct io_stat *ret_stat,
                             struct err *err)
{
    char copy[IO_PATH_BYTES_MAX];
    struct io *inner = of(io)->forward.inner;
    int status = find_copy(of(io), path, copy, err);
    return status ? status : name_path(inner->names->stat(inner, copy, ret_stat, err), path, err);
}

struct folder_entry {
    size_t name_at; /* in names */
    enum io_entry_kind kind;
};

struct folder_listing {
    const struct decompressed_io *io;
    const char *folder;
    struct str names;   /* each with its NUL */
    struct str entries; /* struct folder_entry */
};

static int collect_entry(void *context, const struct io_entry *entry)
{
    struct folder_listing *listing = context;
    struct folder_entry collected = {listing->names.bytes, entry->kind};
    char path[IO_PATH_BYTES_MAX];
    const struct compressed_file *file = NULL;
    if (io_join_path(listing->folder, entry->name, path, NULL) == 0)
        file = compressed_files_of(listing->io->files, path);
    const char *slash = file ? strrchr(file->path, '/') : NULL;
    const char *name = slash ? slash + 1 : file ? file->path : entry->name;
    str_add(&listing->names, name, strlen(name) + 1);
    str_add(&listing->entries, &collected, sizeof collected);
    return 0;
}

static int compare_entries(const void *a, const void *b, void *context)
{
    const struct folder_entry *left = a, *right = b;
    const struct folder_listing *listing = context;
    return strcmp(listing->names.data + left->name_at, listing->names.data + right->name_at);
}

static int decompressed_list(struct io *io, const char *path,
                             int (*visit)(void *context, const struct io_entry *entry),
                             void *context, struct err *err)
{
    struct io *inner = of(io)->forward.inner;
    struct folder_listing listing = {.io = of(io), .folder = path};
    int status = inner->names->list(inner, path, collect_entry, &listing, err);
    if (!status && (str_status(&listing.names) || str_status(&listing.entries)))
        status = err_set(err, -ENOMEM, "out of memory for a folder's names");
    struct folder_entry *entries = (struct folder_entry *)(void *)listing.entries.data;
    size_t count = listing.entries.bytes / sizeof *entries;
    if (!status && count > 0)
        qsort_r(entries, count, sizeof *entries, compare_entries, &listing);
    for (size_t i = 0; i < count && !status; i++) {
        const struct io_entry entry = {listing.names.data + entries[i].name_at, entries[i].kind};
        status = visit(context, &entry);
    }
    str_deinit(&listing.names);
    str_deinit(&listing.entries);
    return status;
}

static unsigned decompressed_direct_align(struct io *io, struct io_file *file)
{
    struct io *inner = of(io)->forward.inner;
    return inner->ops->direct_align ? inner->ops->direct_align(inner, file) : 0;
}

static void decompressed_close(struct io *io)
{
    of(io)->forward.inner->transactions->abort(of(io)->transaction);
    free(io);
}

static const struct io_name_ops name_ops = {
    .resolve = io_forward_resolve,
    .stat = decompressed_stat,
    .gap_bytes = io_forward_gap_bytes,
    .list = decompressed_list,
    .make_folder = io_forward_make_folder,
    .remove = io_forward_remove,
};

static struct decompressed_io *make_io(struct io *inner, const struct compressed_files *files)
{
    struct decompressed_io *io = calloc(1, sizeof *io);
    if (!io)
        return NULL;
    *io = (struct decompressed_io){.forward = {.inner = inner},
                                   .files = files,
                                   .ops = *inner->ops,
                                   .transactions = *inner->transactions,
                                   .locks = *inner->locks};
    io->ops.file_open = decompressed_file_open;
    io->ops.direct_align = decompressed_direct_align;
    io->ops.queue_open = io_forward_queue_open;
    io->ops.close = decompressed_close;
    io->transactions.begin = io_forward_begin;
    io->transactions.join = NULL;
    io->transactions.sweep = NULL;
    io->locks.acquire = NULL;
    io->locks.lock_shared = io_forward_lock_shared;
    io->forward.base = (struct io){.ops = &io->ops,
                                   .names = &name_ops,
                                   .transactions = &io->transactions,
                                   .locks = &io->locks,
                                   .temporaries = inner->temporaries};
    return io;
}

/* ---- Decompression. ---- */

struct job {
    struct io *io;
    const struct convert_options *options;
    const struct compressed_files *files;
    struct io_transaction *transaction; /* under the mutex */
    pthread_mutex_t mutex;
    atomic_uint_least64_t files_done, bytes_done;
    uint64_t bytes, next_progress_ns;
    size_t failed; /* the first file that failed; under the mutex, as its status and err */
    int status;
    struct err err;
};

static int create(struct job *job, size_t number, struct io_file **ret_file, struct err *err)
{
    char name[IO_NAME_BYTES_MAX];
    snprintf(name, sizeof name, "%zu", number);
    pthread_mutex_lock(&job->mutex);
    int status = job->io->transactions->create(job->transaction, name, 0, ret_file, err);
    pthread_mutex_unlock(&job->mutex);
    return status;
}

static int finalize(struct job *job, struct io_file *file, uint64_t bytes, struct err *err)
{
    pthread_mutex_lock(&job->mutex);
    int status = job->io->transactions->finalize(job->transaction, file, bytes, err);
    pthread_mutex_unlock(&job->mutex);
    return status;
}

/* By worker 0 only. */
static void report_progress(struct job *job)
{
    const struct convert_options *options = job->options;
    uint64_t now = clock_now_ns();
    if (!options->progress || now < job->next_progress_ns)
        return;
    job->next_progress_ns = now + (uint64_t)PROGRESS_INTERVAL_MS * 1000000;
    options->progress(options->progress_context, atomic_load(&job->files_done), job->files->count,
                      atomic_load(&job->bytes_done), job->bytes);
}

struct copy {
    struct file_blocks blocks;
    struct decompressor *decompressor;
    struct io_file *file;
    struct io_queue *queue;
    char *block;
    uint64_t bytes; /* written */
};

static int copy_block(struct job *job, struct copy *copy, bool *ret_is_done, struct err *err)
{
    uint64_t read_before = copy->blocks.offset;
    size_t bytes = 0, count = 1;
    int status = 0;
    while (!status && count > 0 && bytes < BLOCK_BYTES) {
        status = decompressor_read(copy->decompressor, copy->block + bytes, BLOCK_BYTES - bytes,
                                   &count, err);
        bytes += status ? 0 : count;
    }
    if (!status && bytes > 0)
        status = io_write_exact(copy->queue, job->io, copy->file,
                                job->io->transactions->staging_path(job->transaction), copy->bytes,
                                copy->block, bytes, err);
    copy->bytes += bytes;
    atomic_fetch_add(&job->bytes_done, copy->blocks.offset - read_before);
    *ret_is_done = count == 0;
    return status;
}

static int decompress(struct job *job, size_t number, unsigned worker, struct copy *copy,
                      struct err *err)
{
    const struct compressed_file *file = &job->files->items[number];
    const atomic_int *stop = job->options->stop;
    bool is_done = false;
    copy->block = malloc(BLOCK_BYTES);
    int status = copy->block ? file_blocks_open(&copy->blocks, job->io, file->source, err)
                             : err_set(err, -ENOMEM, "out of memory for decompressing a file");
    if (!status)
        status = decompressor_open(&copy->blocks, file->compression, &copy->decompressor, err);
    if (!status)
        status = job->io->ops->queue_open(job->io, 1, &copy->queue, err);
    if (!status)
        status = create(job, number, &copy->file, err);
    while (!status && !is_done) {
        status = stop && atomic_load(stop)
                     ? err_set(err, -EINTR, "stopped while files were decompressed")
                     : copy_block(job, copy, &is_done, err);
        if (worker == 0)
            report_progress(job);
    }
    return status ? status : finalize(job, copy->file, copy->bytes, err);
}

static void decompress_task(void *context, size_t number, unsigned worker)
{
    struct job *job = context;
    struct copy copy = {0};
    struct err err = {0};
    pthread_mutex_lock(&job->mutex);
    bool is_needed = number < job->failed;
    pthread_mutex_unlock(&job->mutex);
    int status = is_needed ? decompress(job, number, worker, &copy, &err) : 0;
    if (copy.queue)
        job->io->ops->queue_close(copy.queue);
    decompressor_close(copy.decompressor);
    file_blocks_close(&copy.blocks);
    free(copy.block);
    atomic_fetch_add(&job->files_done, 1);
    if (!status)
        return;
    pthread_mutex_lock(&job->mutex);
    if (number < job->failed) { /* the same error for any number of threads */
        job->failed = number;
        job->status = status;
        job->err = err;
    }
    pthread_mutex_unlock(&job->mutex);
}

static int decompress_all(struct job *job, struct err *err)
{
    struct thread_pool *pool = NULL;
    int status = thread_pool_open(job->options->workers, &pool, err);
    if (status)
        return status;
    pthread_mutex_init(&job->mutex, NULL);
    thread_pool_run(pool, job->files->count, decompress_task, job);
    pthread_mutex_destroy(&job->mutex);
    thread_pool_close(pool);
    if (job->status && err)
        *err = job->err;
    return job->status;
}

/* Continues, and in the end removes, the files that a killed conversion left. */
static int begin(struct decompressed_io *io, const char *target, struct err *err)
{
    char path[IO_PATH_BYTES_MAX];
    const struct io_transaction_options options = {
        .path = path, .replace = true, .owner_id = OUTPUT_OWNER, .resume = IO_RESUME_NOW};
    int status = io_sibling_path(target, ".decompressed", path, err);
    return status ? status
                  : io->forward.inner->transactions->begin(io->forward.inner, &options,
                                                           &io->transaction, err);
}

int decompressed_io_open(struct io *inner, const struct convert_options *options,
                         const struct compressed_files *files, struct io **ret_io, struct err *err)
{
    enum { MIB_BYTES = 1 << 20 };
    if (options->source_io && options->source_io != inner) {
        err_set(err, -EOPNOTSUPP,
                "compressed files are decompressed next to DST, and read only there");
        err_at(err, files->items[0].source, ERR_NO_OFFSET);
        err_advise(err, "copy the source to a local folder");
        return -EOPNOTSUPP;
    }
    struct decompressed_io *io = make_io(inner, files);
    if (!io)
        return err_set(err, -ENOMEM, "out of memory for compressed files");
    int status = begin(io, options->target, err);
    struct job job = {.io = inner,
                      .options = options,
                      .files = files,
                      .transaction = io->transaction,
                      .failed = files->count};
    for (size_t i = 0; i < files->count; i++)
        job.bytes += files->items[i].bytes;
    if (!status) {
        log_line(options->log, LOG_INFO,
                 "decompressing %zu file%s (%" PRIu64 " MiB) to temporary files next to %s",
                 files->count, files->count == 1 ? "" : "s", job.bytes / MIB_BYTES + 1,
                 options->target);
        status = decompress_all(&job, err);
    }
    if (status == -ENOSPC || status == -EDQUOT)
        err_advise(err,
                   "make room for the content of the compressed files on the file system of "
                   "%.100s, or give another DST",
                   options->target);
    if (status)
        decompressed_close(&io->forward.base);
    else
        *ret_io = &io->forward.base;
    return status;
}
