/*
 * standard_input — see standard_input.h.
 */
#include "convert/source/standard_input.h"

#include "io/file_util.h"

#include <assert.h>
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

int standard_input_read_some(int fd, const atomic_int *stop, void *data, size_t bytes_max,
                             size_t *ret_bytes, struct err *err)
{
    ssize_t count = -1;
    while (count < 0) {
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        if (stop && atomic_load(stop))
            return err_set(err, -EINTR, "stopped while standard input was read");
        if (poll(&ready, 1, POLL_MS) <= 0)
            continue;
        count = read(fd, data, bytes_max);
        if (count < 0 && errno != EINTR && errno != EAGAIN)
            return err_errno(err, -errno, "could not read standard input");
    }
    *ret_bytes = (size_t)count;
    return 0;
}

int standard_input_read(int fd, const atomic_int *stop, char *data, size_t bytes_max,
                        size_t *ret_bytes, struct err *err)
{
    size_t bytes = 0, count = 1;
    int status = 0;
    while (bytes < bytes_max && count > 0 && !status) {
        status = standard_input_read_some(fd, stop, data + bytes, bytes_max - bytes, &count, err);
        bytes += status ? 0 : count;
    }
    *ret_bytes = bytes;
    return status;
}

static int copy_blocks(struct standard_input *input, const char *head, size_t head_bytes, int fd,
                       const atomic_int *stop, struct io_file *file, struct err *err)
{
    struct io_queue *queue = NULL;
    uint64_t offset = 0;
    size_t bytes = BLOCK_BYTES, begin = head_bytes;
    const char *path = input->io->transactions->staging_path(input->transaction);
    char *block = malloc(BLOCK_BYTES);
    int status = block ? input->io->ops->queue_open(input->io, 1, &queue, err)
                       : err_set(err, -ENOMEM, "out of memory for standard input");
    if (!status)
        memcpy(block, head, head_bytes);
    while (!status && bytes == BLOCK_BYTES) {
        status = standard_input_read(fd, stop, block + begin, BLOCK_BYTES - begin, &bytes, err);
        bytes += begin;
        begin = 0;
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

int standard_input_copy(struct standard_input *input, struct io *io, const char *head,
                        size_t head_bytes, int fd, const char *target, const atomic_int *stop,
                        struct err *err)
{
    assert(head_bytes < BLOCK_BYTES);
    struct io_file *file;
    input->io = io;
    int status = begin_copy(input, target, &file, err);
    if (!status)
        status = copy_blocks(input, head, head_bytes, fd, stop, file, err);
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
