/*
 * standard_input — see standard_input.h.
 */
#include "convert/source/standard_input.h"

#include "io/file_util.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCK_BYTES = 1 << 20, POLL_MS = 100 };

static int begin_copy(struct standard_input *input, const char *target, struct io_file **ret_file,
                      struct err *err)
{
    char path[IO_PATH_BYTES_MAX];
    const struct io_transaction_options options = {.path = path, .single_file = true};
    int status = io_sibling_path(target, ".stdin", path, err);
    if (!status)
        status = input->io->transactions->begin(input->io, &options, &input->transaction, err);
    if (!status)
        status = input->io->transactions->create(input->transaction, "", 0, ret_file, err);
    return status;
}

/* Fills the block, or reads up to the end. *ret_bytes: less than a block only at the end. */
static int read_block(int fd, const atomic_int *stop, char *block, size_t *ret_bytes,
                      struct err *err)
{
    size_t bytes = 0;
    while (bytes < BLOCK_BYTES) {
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        if (stop && atomic_load(stop))
            return err_set(err, -EINTR, "stopped while standard input was read");
        if (poll(&ready, 1, POLL_MS) == 0)
            continue;
        ssize_t count = read(fd, block + bytes, BLOCK_BYTES - bytes);
        if (count == 0)
            break;
        if (count < 0 && errno != EINTR && errno != EAGAIN)
            return err_errno(err, -errno, "could not read standard input");
        bytes += count > 0 ? (size_t)count : 0;
    }
    *ret_bytes = bytes;
    return 0;
}

static int copy_blocks(struct standard_input *input, int fd, const atomic_int *stop,
                       struct io_file *file, struct err *err)
{
    struct io_queue *queue = NULL;
    uint64_t offset = 0;
    size_t bytes = BLOCK_BYTES;
    const char *path = input->io->transactions->staging_path(input->transaction);
    char *block = malloc(BLOCK_BYTES);
    int status = block ? input->io->ops->queue_open(input->io, 1, &queue, err)
                       : err_set(err, -ENOMEM, "out of memory for standard input");
    while (!status && bytes == BLOCK_BYTES) {
        status = read_block(fd, stop, block, &bytes, err);
        if (!status && bytes > 0)
            status = io_write_exact(queue, input->io, file, path, offset, block, bytes, err);
        offset += bytes;
    }
    if (queue)
        input->io->ops->queue_close(queue);
    free(block);
    return status ? status
                  : input->io->transactions->finalize(input->transaction, file, offset, err);
}

int standard_input_copy(struct standard_input *input, struct io *io, int fd, const char *target,
                        const atomic_int *stop, struct err *err)
{
    struct io_file *file;
    input->io = io;
    int status = begin_copy(input, target, &file, err);
    if (!status)
        status = copy_blocks(input, fd, stop, file, err);
    if (!status)
        input->path = io->transactions->staging_path(input->transaction);
    return status;
}

void standard_input_remove(struct standard_input *input)
{
    if (input->transaction)
        input->io->transactions->abort(input->transaction);
    input->transaction = NULL;
    input->path = NULL;
}
