/*
 * file_blocks — see file_blocks.h.
 */
#include "convert/archive/file_blocks.h"

#include "base/bytes.h"
#include "io/file_util.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

int file_blocks_open(struct file_blocks *blocks, struct io *io, const char *path, struct err *err)
{
    blocks->io = io;
    if ((size_t)snprintf(blocks->path, sizeof blocks->path, "%s", path) >= sizeof blocks->path)
        return io_long_path_error("", path, err);
    blocks->block = malloc(FILE_BLOCK_MARGIN_BYTES + FILE_BLOCK_BYTES);
    if (!blocks->block)
        return err_set(err, -ENOMEM, "out of memory for reading a file");
    int status = io->ops->file_open(io, path, &blocks->file, err);
    if (!status)
        status = io->ops->queue_open(io, 1, &blocks->queue, err);
    if (!status)
        blocks->bytes = io->ops->file_size(blocks->file);
    return status;
}

void file_blocks_close(struct file_blocks *blocks)
{
    if (blocks->queue)
        blocks->io->ops->queue_close(blocks->queue);
    if (blocks->file)
        blocks->io->ops->file_close(blocks->file);
    free(blocks->block);
    *blocks = (struct file_blocks){0};
}

int file_blocks_next(struct file_blocks *blocks, uint8_t **ret_data, size_t *ret_bytes,
                     struct err *err)
{
    size_t bytes = (size_t)bytes_min(FILE_BLOCK_BYTES, blocks->bytes - blocks->offset);
    uint8_t *data = blocks->block + FILE_BLOCK_MARGIN_BYTES;
    int status = bytes == 0 ? 0
                            : io_read_exact(blocks->queue, blocks->io, blocks->file, blocks->path,
                                            blocks->offset, data, bytes, err);
    if (status)
        return status;
    blocks->offset += bytes;
    *ret_data = data;
    *ret_bytes = bytes;
    return 0;
}
