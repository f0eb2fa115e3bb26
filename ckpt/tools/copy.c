/*
 * copy — copies a step between folders on any two backends. Verifies each block after reading and
 * before writing it, and commits the copy like a save.
 *
 *     buffers, one per block:   free ── being read (blocks.h) ── verified ── being written ── free
 *
 * Files are copied one after another; each is finalized when its last write is done. The manifest
 * is written last, identical byte for byte to the source's.
 */
#include "base/bytes.h"
#include "ckpt/ckpt.h"
#include "ckpt/format/folder.h"
#include "ckpt/load/blocks.h"
#include "ckpt/load/reader.h"
#include "io/file_util.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    WRITES_MAX = 16,
    BUFFERS = BLOCKS_AHEAD_MAX + WRITES_MAX, /* if none is free, some are being written */
};

struct copy_write {
    struct io_request request;
    char *data;
    bool in_use;
};

struct copy {
    const struct ckpt_copy_options *options;
    char source[IO_PATH_BYTES_MAX], target[IO_PATH_BYTES_MAX];
    struct io_shared_lock *source_lock;
    struct io_lock *folder_lock;
    struct io_transaction *transaction;
    struct io_queue *queue;
    struct io_file *target_file;
    struct manifest manifest; /* without files on other nodes */
    char *manifest_text;
    size_t manifest_bytes;
    struct blocks *blocks;
    char *memory;
    struct copy_write writes[BUFFERS];
    unsigned writing_count;
    uint32_t next_file, created_count; /* file to read next; number of files created */
    uint64_t next_block, done_bytes, bytes;
    int queue_status; /* status of the writes that next_block waited for */
    struct err *err;
};

static int reap(struct copy *copy)
{
    struct io *io = copy->options->target_io;
    struct io_request *done[BUFFERS];
    int count = io->ops->reap(copy->queue, done, BUFFERS, 1, IO_FOREVER), status = 0;
    if (count < 0)
        return err_errno(copy->err, count, "could not wait for writes");
    for (int i = 0; i < count; i++) {
        struct copy_write *write = done[i]->user;
        ssize_t result = done[i]->result;
        write->in_use = false;
        copy->writing_count--;
        if (result >= 0 && (size_t)result == done[i]->bytes)
            continue;
        status = err_errno(copy->err, result < 0 ? (int)result : -EIO, "could not write the copy");
        err_at(copy->err, copy->target, (int64_t)done[i]->offset);
    }
    return status;
}

static int finish_file(struct copy *copy)
{
    int status = 0;
    while (copy->writing_count > 0 && !status)
        status = reap(copy);
    if (status || !copy->target_file)
        return status;
    struct io_file *file = copy->target_file;
    copy->target_file = NULL;
    return copy->options->target_io->transactions->finalize(
        copy->transaction, file, copy->manifest.files[copy->created_count - 1].size_bytes,
        copy->err);
}

/* Creates the first `count` files, each after the previous one is finalized. */
static int begin_files(struct copy *copy, uint64_t count)
{
    int status = 0;
    while (copy->created_count < count && !status) {
        status = finish_file(copy);
        if (status)
            break;
        const struct manifest_file *file = &copy->manifest.files[copy->created_count++];
        status = copy->options->target_io->transactions->create(
            copy->transaction, file->name, bytes_round_up(file->size_bytes, IO_ALIGN_BYTES),
            &copy->target_file, copy->err);
    }
    return status;
}

static struct copy_write *find_free_buffer(struct copy *copy)
{
    for (unsigned i = 0; i < BUFFERS; i++)
        if (!copy->writes[i].in_use)
            return &copy->writes[i];
    return NULL;
}

/* Called up to BLOCKS_AHEAD_MAX blocks before take_block. */
static bool next_block(void *context, struct block_request *ret_request)
{
    struct copy *copy = context;
    while (copy->next_file < copy->manifest.files_count &&
           copy->next_block == copy->manifest.files[copy->next_file].blocks_count) {
        copy->next_file++;
        copy->next_block = 0;
    }
    if (copy->next_file == copy->manifest.files_count)
        return false;
    struct copy_write *buffer;
    while (!(buffer = find_free_buffer(copy))) {
        copy->queue_status = reap(copy);
        if (copy->queue_status)
            return false;
    }
    buffer->in_use = true;
    *ret_request = (struct block_request){
        .file = copy->next_file, .block = copy->next_block++, .destination = buffer->data};
    return true;
}

static void report_progress(struct copy *copy, uint64_t bytes)
{
    const struct ckpt_progress *progress = copy->options->progress;
    copy->done_bytes += bytes;
    if (progress && progress->report)
        progress->report(progress->context, copy->done_bytes, copy->bytes);
}

static int take_block(void *context, const struct block_result *result)
{
    struct copy *copy = context;
    struct copy_write *write =
        &copy->writes[(size_t)(result->data - copy->memory) / CKPT_BLOCK_BYTES];
    if (copy->queue_status)
        return copy->queue_status;
    if (result->status) {
        if (copy->err)
            *copy->err = *result->detail;
        return result->status;
    }
    int status = begin_files(copy, result->file + UINT64_C(1));
    if (status)
        return status;
    size_t padded_bytes = bytes_round_up(result->bytes, IO_ALIGN_BYTES);
    memset(write->data + result->bytes, 0, padded_bytes - result->bytes);
    write->request = (struct io_request){.kind = IO_WRITE,
                                         .file = copy->target_file,
                                         .offset = result->block * CKPT_BLOCK_BYTES,
                                         .data = write->data,
                                         .bytes = padded_bytes,
                                         .flags = IO_NOREUSE,
                                         .user = write};
    struct io_request *request = &write->request;
    int taken = copy->options->target_io->ops->submit(copy->queue, &request, 1);
    assert(taken != 0); /* the queue is as deep as there are buffers */
    if (taken < 0)
        return err_errno(copy->err, taken, "could not submit a write");
    copy->writing_count++;
    report_progress(copy, result->bytes);
    return 0;
}

static int copy_files(struct copy *copy)
{
    const struct ckpt_copy_options *o = copy->options;
    struct blocks_options blocks = {
        .io = o->source_io, .path = copy->source, .manifest = &copy->manifest};
    copy->memory = aligned_alloc(IO_ALIGN_BYTES, (size_t)BUFFERS * CKPT_BLOCK_BYTES);
    if (!copy->memory)
        return err_set(copy->err, -ENOMEM, "not enough memory to copy a checkpoint");
    for (unsigned i = 0; i < BUFFERS; i++)
        copy->writes[i].data = copy->memory + (size_t)i * CKPT_BLOCK_BYTES;
    for (uint64_t i = 0; i < copy->manifest.files_count; i++)
        copy->bytes += copy->manifest.files[i].size_bytes;
    int status = o->target_io->ops->queue_open(o->target_io, BUFFERS, &copy->queue, copy->err);
    if (!status)
        status = blocks_open(&blocks, &copy->blocks, copy->err);
    struct blocks_visitor visitor = {next_block, take_block, copy};
    if (!status)
        status = blocks_walk(copy->blocks, &visitor);
    if (!status)
        status = copy->queue_status;
    if (!status)
        status = begin_files(copy, copy->manifest.files_count);
    return status ? status : finish_file(copy);
}

static int copy_manifest(struct copy *copy)
{
    return io_write_transaction_file(copy->options->target_io, copy->transaction, MANIFEST_NAME,
                                     copy->target, copy->manifest_text, copy->manifest_bytes,
                                     copy->err);
}

/* The manifest's text still lists files of other nodes. */
static void drop_absent_files(struct copy *copy)
{
    struct manifest *manifest = &copy->manifest;
    uint64_t kept = 0;
    for (uint64_t i = 0; i < manifest->files_count; i++)
        if (folder_expects_file(copy->options->source_io, copy->source, &manifest->files[i]))
            manifest->files[kept++] = manifest->files[i];
    manifest->files_count = kept;
}

static int open_source(struct copy *copy)
{
    const struct ckpt_copy_options *o = copy->options;
    char path[IO_PATH_BYTES_MAX];
    int status = reader_find(o->source_io, o->source_path, NULL, copy->source, &copy->source_lock,
                             o->log, copy->err);
    if (!status)
        status = io_join_path(copy->source, MANIFEST_NAME, path, copy->err);
    if (!status)
        status = io_read_file(o->source_io, path, MANIFEST_BYTES_MAX, &copy->manifest_text,
                              &copy->manifest_bytes, copy->err);
    if (!status)
        status = manifest_parse(copy->manifest_text, copy->manifest_bytes, path, &copy->manifest,
                                copy->err);
    if (!status)
        drop_absent_files(copy);
    return status;
}

/* Locks out readers of the step to be replaced; -EBUSY if a reader is open. *ret_lock is NULL if
 * the step cannot be read. */
static int lock_target(struct copy *copy, struct io_shared_lock **ret_lock)
{
    struct io *io = copy->options->target_io;
    char path[IO_PATH_BYTES_MAX];
    *ret_lock = NULL;
    int status = io_join_path(copy->target, MANIFEST_NAME, path, copy->err);
    if (!status)
        status = io_lock_shared(io, path, true, ret_lock, copy->err);
    return status == -ENOENT ? 0 : status; /* without a manifest it has no readers */
}

/* Checked before copying, and enforced at the end. */
static int check_target(struct copy *copy)
{
    const struct ckpt_copy_options *o = copy->options;
    struct io_shared_lock *lock = NULL;
    struct io_stat info;
    if (o->target_io->names->stat(o->target_io, copy->target, &info, NULL))
        return 0;
    if (!o->force) {
        err_set(copy->err, -EEXIST, "the folder already has that step");
        err_at(copy->err, copy->target, ERR_NO_OFFSET);
        err_advise(copy->err, "use --force to replace it");
        return -EEXIST;
    }
    int status =
        folder_check_name(o->target_io, copy->target, copy->err); /* a misnamed step is kept */
    if (!status)
        status = lock_target(copy, &lock);
    io_unlock_shared(o->target_io, lock);
    return status;
}

/* Also sweeps the folder, like a saving run. */
static int lock_folder(struct copy *copy)
{
    const struct ckpt_copy_options *o = copy->options;
    struct io *io = o->target_io;
    int status = folder_check_not_step(io, o->target_folder, copy->err);
    if (!status)
        status = io->names->make_folder(io, o->target_folder, copy->err);
    if (!status)
        status = io->locks->acquire(io, o->target_folder, NULL, &copy->folder_lock, copy->err);
    if (!status)
        status = folder_step_path(o->target_folder, copy->manifest.step, copy->target, copy->err);
    if (!status)
        status = check_target(copy);
    int swept_count =
        status ? 0
               : io->transactions->sweep(io, o->target_folder, NULL, folder_is_leftover, copy->err);
    if (swept_count > 0)
        log_line(o->log, LOG_INFO, "%s: removed %d unfinished outputs left by a process that died",
                 o->target_folder, swept_count);
    return swept_count < 0 ? swept_count : status;
}

static int commit(struct copy *copy)
{
    const struct ckpt_copy_options *o = copy->options;
    struct io_shared_lock *lock = NULL;
    int status = o->force ? lock_target(copy, &lock) : 0;
    if (!status) /* after a long pause the process may no longer own the folder */
        status = o->target_io->locks->check(copy->folder_lock, copy->err);
    if (!status) {
        struct io_transaction *transaction = copy->transaction;
        copy->transaction = NULL;
        status = o->target_io->transactions->commit(transaction, copy->err);
    }
    io_unlock_shared(o->target_io, lock);
    return status;
}

static int copy_step(struct copy *copy)
{
    const struct ckpt_copy_options *o = copy->options;
    struct io_transaction_options transaction = {.path = copy->target,
                                                 .replace = o->force,
                                                 .commit_record = MANIFEST_NAME,
                                                 .owner_id = "copy"};
    int status = open_source(copy);
    if (!status)
        status = lock_folder(copy);
    if (!status)
        status = o->target_io->transactions->begin(o->target_io, &transaction, &copy->transaction,
                                                   copy->err);
    if (!status)
        status = copy_files(copy);
    if (!status)
        status = copy_manifest(copy);
    return status ? status : commit(copy);
}

static void close_copy(struct copy *copy)
{
    const struct ckpt_copy_options *o = copy->options;
    blocks_close(copy->blocks);
    if (copy->queue)
        o->target_io->ops->queue_close(copy->queue); /* waits for writes in progress */
    o->target_io->transactions->abort(copy->transaction);
    if (copy->folder_lock)
        o->target_io->locks->release(copy->folder_lock);
    io_unlock_shared(o->source_io, copy->source_lock);
    manifest_deinit(&copy->manifest);
    free(copy->memory);
    free(copy->manifest_text);
}

int ckpt_copy(const struct ckpt_copy_options *options, struct ckpt_copy_result *ret_copied,
              struct err *err)
{
    struct copy *copy = calloc(1, sizeof *copy);
    if (!copy)
        return err_set(err, -ENOMEM, "not enough memory to copy a checkpoint");
    copy->options = options;
    copy->err = err;
    int status = copy_step(copy);
    if (!status) {
        *ret_copied =
            (struct ckpt_copy_result){.step = copy->manifest.step,
                                      .files_count = copy->manifest.files_count + 1,
                                      .written_bytes = copy->bytes + copy->manifest_bytes};
        strcpy(ret_copied->path, copy->target);
    }
    close_copy(copy);
    free(copy);
    return status;
}
