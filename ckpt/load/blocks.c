/*
 * blocks — reads blocks ahead through a ring of `ahead` slots:
 *
 *     taken ... [read, done or in progress] ... submitted
 */
#include "ckpt/load/blocks.h"

#include "base/crc.h"
#include "ckpt/format/folder.h"
#include "io/file_util.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct block_slot {
    struct io_request request;
    struct block_request wanted;
    char *buffer; /* CKPT_BLOCK_BYTES */
    bool done, verified;
    int status;
    struct err detail;
};

struct blocks {
    struct blocks_options options;
    struct io_queue *queue;
    struct io_file **files; /* [files_count]; NULL: not open */
    unsigned open_count;
    char *memory;
    struct block_slot slots[BLOCKS_AHEAD_MAX];
    uint64_t submitted, taken; /* totals over all walks */
    struct block_slot *last;   /* its buffer holds the last block taken; NULL: none */
};

int blocks_open(const struct blocks_options *options, struct blocks **ret_blocks, struct err *err)
{
    struct blocks *blocks = calloc(1, sizeof *blocks);
    if (!blocks)
        return err_set(err, -ENOMEM, "not enough memory to read a checkpoint");
    blocks->options = *options;
    if (options->ahead == 0)
        blocks->options.ahead = BLOCKS_AHEAD_MAX;
    unsigned ahead = blocks->options.ahead;
    assert(ahead <= BLOCKS_AHEAD_MAX);
    blocks->files = calloc(options->manifest->files_count + 1, sizeof(struct io_file *));
    blocks->memory = aligned_alloc(IO_ALIGN_BYTES, (size_t)ahead * CKPT_BLOCK_BYTES);
    int status = 0;
    if (!blocks->files || !blocks->memory)
        status = err_set(err, -ENOMEM, "not enough memory to read a checkpoint");
    for (unsigned i = 0; i < ahead && !status; i++)
        blocks->slots[i].buffer = blocks->memory + (size_t)i * CKPT_BLOCK_BYTES;
    if (!status)
        status = options->io->ops->queue_open(options->io, ahead, &blocks->queue, err);
    if (status)
        blocks_close(blocks);
    else
        *ret_blocks = blocks;
    return status;
}

void blocks_close(struct blocks *blocks)
{
    if (!blocks)
        return;
    const struct io_ops *ops = blocks->options.io->ops;
    if (blocks->queue)
        ops->queue_close(blocks->queue);
    for (uint64_t i = 0; blocks->files && i < blocks->options.manifest->files_count; i++)
        if (blocks->files[i])
            ops->file_close(blocks->files[i]);
    free(blocks->files);
    free(blocks->memory);
    free(blocks);
}

static int file_path(const struct blocks *blocks, uint32_t file, char *path, struct err *err)
{
    if (!blocks->options.is_file)
        return io_join_path(blocks->options.path, blocks->options.manifest->files[file].name, path,
                            err);
    strcpy(path, blocks->options.path); /* fits: the file was opened by this path */
    return 0;
}

/* Closes the files that have no reads in progress. */
static void close_idle_files(struct blocks *blocks)
{
    for (uint64_t i = 0; i < blocks->options.manifest->files_count; i++) {
        bool used = false;
        for (uint64_t s = blocks->taken; s < blocks->submitted; s++)
            used |= blocks->slots[s % blocks->options.ahead].wanted.file == i;
        if (blocks->files[i] && !used) {
            blocks->options.io->ops->file_close(blocks->files[i]);
            blocks->files[i] = NULL;
            blocks->open_count--;
        }
    }
}

/* A file without checksums must not have changed since its header was read. */
static int check_identity(const struct blocks *blocks, uint32_t file, const char *path,
                          struct err *err)
{
    const struct io_identity *wanted = &blocks->options.manifest->files[file].identity;
    struct io_identity found;
    if (wanted->bytes_count == 0)
        return 0;
    int status = blocks->options.io->ops->file_identity(blocks->files[file], &found, err);
    if (status || io_identity_is_same(wanted, &found))
        return status;
    err_set(err, -ESTALE, "the file changed while it was being read");
    err_at(err, path, ERR_NO_OFFSET);
    err_advise(err, "run the same command again when nothing is writing the file");
    return -ESTALE;
}

static int ensure_file_open(struct blocks *blocks, uint32_t file, struct err *err)
{
    struct io *io = blocks->options.io;
    char path[IO_PATH_BYTES_MAX];
    if (blocks->files[file])
        return 0;
    if (blocks->open_count >= BLOCKS_FILES_OPEN_MAX)
        close_idle_files(blocks);
    int status = file_path(blocks, file, path, err);
    if (!status)
        status = io->ops->file_open(io, path, &blocks->files[file], err);
    if (status == -ENOENT && blocks->options.manifest->files[file].is_elsewhere)
        err_advise(err, "another node wrote it to its own folder: copy the files of this step from "
                        "all nodes into one folder, and read that folder");
    if (status)
        return status;
    uint64_t found = io->ops->file_size(blocks->files[file]),
             size_bytes = blocks->options.manifest->files[file].size_bytes;
    if (found == size_bytes) {
        status = check_identity(blocks, file, path, err);
    } else {
        status = err_set(err, -EBADMSG, "the size of a checkpoint file differs from its manifest");
        err_at(err, path, ERR_NO_OFFSET);
        err_expected(err, "%" PRIu64 " bytes", size_bytes);
        err_found(err, "%" PRIu64, found);
    }
    if (!status) {
        blocks->open_count++;
        return 0;
    }
    io->ops->file_close(blocks->files[file]);
    blocks->files[file] = NULL;
    return status;
}

static bool is_last_taken(const struct blocks *blocks, const struct block_request *wanted)
{
    return blocks->last && blocks->last->wanted.file == wanted->file &&
           blocks->last->wanted.block == wanted->block;
}

/* False if the destination's alignment would force the read through the page cache. */
static bool is_destination_aligned(const struct blocks *blocks, const struct block_slot *slot)
{
    struct io *io = blocks->options.io;
    unsigned align =
        io->ops->direct_align ? io->ops->direct_align(io, blocks->files[slot->wanted.file]) : 0;
    return align == 0 || (uintptr_t)slot->wanted.destination % align == 0;
}

/* Begins a read. An immediate failure is reported when the slot is taken. */
static void start_read(struct blocks *blocks, struct block_slot *slot,
                       const struct block_request *wanted)
{
    const struct io_ops *ops = blocks->options.io->ops;
    struct block_slot *last = blocks->last;
    bool reuse = is_last_taken(blocks, wanted);
    blocks->last = NULL;
    if (reuse && slot != last) {
        char *buffer = slot->buffer;
        slot->buffer = last->buffer;
        last->buffer = buffer;
    }
    slot->wanted = *wanted;
    slot->status = 0;
    slot->done = slot->verified = reuse;
    if (reuse) {
        slot->wanted.destination = NULL;
        return;
    }
    slot->status = ensure_file_open(blocks, wanted->file, &slot->detail);
    const struct manifest_file *file = &blocks->options.manifest->files[wanted->file];
    assert(wanted->block < file->blocks_count);
    if (!slot->status && !is_destination_aligned(blocks, slot))
        slot->wanted.destination = NULL;
    slot->request = (struct io_request){
        .kind = IO_READ,
        .file = blocks->files[wanted->file],
        .offset = wanted->block * CKPT_BLOCK_BYTES,
        .data = slot->wanted.destination ? slot->wanted.destination : slot->buffer,
        .bytes = manifest_block_bytes(file->size_bytes, wanted->block),
        .flags = slot->wanted.destination ? IO_NOREUSE : IO_NOREUSE | IO_PADDED,
        .user = slot};
    struct io_request *request = &slot->request;
    int taken = slot->status ? 0 : ops->submit(blocks->queue, &request, 1);
    if (taken < 0)
        slot->status = err_errno(&slot->detail, taken, "could not submit a read");
    assert(slot->status || taken == 1); /* the queue is as deep as the ring */
    slot->done = slot->status != 0;
}

static void wait_for(struct blocks *blocks, struct block_slot *slot)
{
    struct io_request *done[BLOCKS_AHEAD_MAX];
    while (!slot->done) {
        int count =
            blocks->options.io->ops->reap(blocks->queue, done, BLOCKS_AHEAD_MAX, 1, IO_FOREVER);
        for (int i = 0; i < count; i++)
            ((struct block_slot *)done[i]->user)->done = true;
        if (count < 0) { /* the queue is broken; closing it ends the reads in progress */
            slot->status = err_errno(&slot->detail, count, "could not wait for reads");
            return;
        }
    }
}

static void verify(struct blocks *blocks, struct block_slot *slot)
{
    const struct manifest_file *file = &blocks->options.manifest->files[slot->wanted.file];
    const struct io_request *request = &slot->request;
    char path[IO_PATH_BYTES_MAX] = "";
    file_path(blocks, slot->wanted.file, path, NULL);
    if (request->result < 0) {
        slot->status = err_errno(&slot->detail, (int)request->result, "could not read");
        err_at(&slot->detail, path, (int64_t)request->offset);
        return;
    }
    if ((size_t)request->result != request->bytes) {
        slot->status = err_set(&slot->detail, -ENODATA, "the file ends within a block");
        err_at(&slot->detail, path, (int64_t)request->offset);
        return;
    }
    if (!file->block_crc32c)
        return;
    uint32_t found = crc32c(0, request->data, request->bytes),
             expected = file->block_crc32c[slot->wanted.block];
    if (found == expected)
        return;
    slot->status = err_set(&slot->detail, -EBADMSG, "a block does not match its checksum");
    err_at(&slot->detail, path, (int64_t)request->offset);
    err_expected(&slot->detail, "%08x", expected);
    err_found(&slot->detail, "%08x", found);
    err_advise(&slot->detail, "the checkpoint is damaged: use another one");
}

static int deliver_block(struct blocks *blocks, struct block_slot *slot,
                         const struct blocks_visitor *visitor)
{
    const struct blocks_options *options = &blocks->options;
    if (!slot->status && !slot->verified)
        verify(blocks, slot);
    if (slot->status && !options->is_file)
        slot->status = folder_classify_failure(options->io, options->path, options->manifest,
                                               slot->status, &slot->detail);
    const struct manifest_file *file = &options->manifest->files[slot->wanted.file];
    struct block_result result = {
        .file = slot->wanted.file,
        .block = slot->wanted.block,
        .data = slot->wanted.destination ? slot->wanted.destination : slot->buffer,
        .bytes = manifest_block_bytes(file->size_bytes, slot->wanted.block),
        .status = slot->status,
        .detail = &slot->detail};
    blocks->last = slot->status || slot->wanted.destination ? NULL : slot;
    return visitor->take_block(visitor->context, &result);
}

int blocks_walk(struct blocks *blocks, const struct blocks_visitor *visitor)
{
    int status = 0;
    bool more = true;
    for (;;) {
        while (more && !status && blocks->submitted - blocks->taken < blocks->options.ahead) {
            struct block_request wanted = {0};
            more = visitor->next_request(visitor->context, &wanted);
            if (more)
                start_read(blocks, &blocks->slots[blocks->submitted++ % blocks->options.ahead],
                           &wanted);
        }
        if (blocks->taken == blocks->submitted)
            return status;
        struct block_slot *slot = &blocks->slots[blocks->taken % blocks->options.ahead];
        wait_for(blocks, slot);
        if (!status)
            status = deliver_block(blocks, slot, visitor);
        blocks->taken++;
    }
}
