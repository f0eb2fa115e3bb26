/*
 * shard — see shard.h; shard_writer.c writes shards.
 */
#include "shards/format/shard.h"

#include "base/bytes.h"
#include "io/file_util.h"
#include "shards/format/index_cache.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* tail: the end of the file; the index is read only if the tail does not contain it. */
static int load_index(struct shard *shard, struct io_queue *queue, const uint8_t *tail,
                      uint64_t tail_offset, struct err *err)
{
    const struct shard_trailer *trailer = &shard->trailer;
    if (trailer->index_offset >= tail_offset)
        return shard_index_decode(tail + (trailer->index_offset - tail_offset),
                                  trailer->index_bytes, trailer, shard->path, &shard->index, err);
    uint8_t *bytes = malloc(trailer->index_bytes + 1);
    if (!bytes)
        return err_set(err, -ENOMEM, "out of memory for a shard index of %" PRIu64 " bytes",
                       trailer->index_bytes);
    int status = io_read_exact(queue, shard->io, shard->file, shard->path, trailer->index_offset,
                               bytes, trailer->index_bytes, err);
    if (!status)
        status = shard_index_decode(bytes, trailer->index_bytes, trailer, shard->path,
                                    &shard->index, err);
    free(bytes);
    return status;
}

/* Decodes the index and frees found. */
static int set_plain_index(struct shard *shard, struct plain_tar_index *found, struct err *err)
{
    int status = shard_index_decode((const uint8_t *)found->index.data, found->index.bytes,
                                    &found->trailer, shard->path, &shard->index, err);
    if (!status) {
        shard->trailer = found->trailer;
        shard->identity_crc32c = found->identity_crc32c;
        shard->is_plain_tar = true;
        shard->is_partial = found->is_partial;
    }
    plain_tar_index_deinit(found);
    return status;
}

static struct index_cache_tar cache_tar(const struct shard *shard, struct io_queue *queue)
{
    return (struct index_cache_tar){shard->io, shard->file, queue, shard->path};
}

/* Walks the tar and caches the index. An unwritable cache is not an error; the next open walks
 * again. */
static int walk_and_cache(struct shard *shard, struct io_queue *queue,
                          const struct salvage *salvage, struct err *err)
{
    const struct plain_tar_options options = {.salvage = salvage};
    const struct index_cache_tar tar = cache_tar(shard, queue);
    struct plain_tar_index found = {0};
    struct io_identity identity;
    int status = shard->io->ops->file_identity(shard->file, &identity, err);
    if (!status)
        status = plain_tar_index_build(shard->io, shard->file, shard->path, &options, &found, err);
    if (status)
        return status;
    (void)index_cache_store(&tar, &identity, &found, NULL);
    return set_plain_index(shard, &found, err);
}

static int load_plain_tar(struct shard *shard, struct io_queue *queue,
                          const struct salvage *salvage, struct err *err)
{
    const struct index_cache_tar tar = cache_tar(shard, queue);
    struct plain_tar_index found = {0};
    struct io_work_lock *lock;
    bool accept_partial = salvage && !salvage->on_skip;
    if (index_cache_load_or_begin(&tar, accept_partial, &found, &lock) == 0)
        return set_plain_index(shard, &found, err);
    int status = walk_and_cache(shard, queue, salvage, err);
    io_work_lock_release(lock);
    return status;
}

/* tail: the end of the file, including the trailer. */
static int load_from_tail(struct shard *shard, struct io_queue *queue, const uint8_t *tail,
                          uint64_t tail_bytes, const struct salvage *salvage, struct err *err)
{
    const uint8_t *trailer = tail + tail_bytes - SHARD_TRAILER_BYTES;
    uint64_t file_bytes = shard->io->ops->file_size(shard->file);
    struct plain_tar_index found = {0};
    const struct index_cache_tar tar = cache_tar(shard, queue);
    if (!shard_trailer_has_magic(trailer))
        return load_plain_tar(shard, queue, salvage, err);
    int status = shard_trailer_decode(trailer, file_bytes, shard->path, &shard->trailer, err);
    if (!status)
        status = load_index(shard, queue, tail, file_bytes - tail_bytes, err);
    shard->identity_crc32c = shard->trailer.index_crc32c;
    if (status == -EBADMSG && index_cache_load(&tar, false, &found) == 0)
        status = set_plain_index(shard, &found, err);
    return status;
}

static int load_tail(struct shard *shard, struct io_queue *queue,
                     const struct shard_open_options *options, struct err *err)
{
    uint64_t file_bytes = shard->io->ops->file_size(shard->file);
    if (file_bytes < SHARD_TRAILER_BYTES)
        return load_plain_tar(shard, queue, options->salvage, err);
    uint64_t tail_bytes = shard_index_offset_is_plausible(options->index_offset, file_bytes)
                              ? file_bytes - options->index_offset
                              : bytes_min(file_bytes, SHARD_TAIL_BYTES);
    uint8_t *tail = malloc(tail_bytes);
    if (!tail)
        return err_set(err, -ENOMEM, "out of memory for a shard's tail of %" PRIu64 " bytes",
                       tail_bytes);
    int status = io_read_exact(queue, shard->io, shard->file, shard->path, file_bytes - tail_bytes,
                               tail, tail_bytes, err);
    if (!status)
        status = load_from_tail(shard, queue, tail, tail_bytes, options->salvage, err);
    free(tail);
    return status;
}

int shard_open(struct io *io, const char *path, struct shard **ret_shard, struct err *err)
{
    return shard_open_with(io, path, &(struct shard_open_options){0}, ret_shard, err);
}

int shard_open_with(struct io *io, const char *path, const struct shard_open_options *options,
                    struct shard **ret_shard, struct err *err)
{
    struct io_queue *queue = NULL;
    struct shard *shard = calloc(1, sizeof *shard);
    if (!shard)
        return err_set(err, -ENOMEM, "out of memory for a shard");
    shard->io = io;
    int status = 0;
    if ((size_t)snprintf(shard->path, sizeof shard->path, "%s", path) >= sizeof shard->path)
        status = io_long_path_error("", path, err);
    if (!status)
        status = io->ops->file_open(io, path, &shard->file, err);
    if (!status)
        status = io->ops->queue_open(io, 1, &queue, err);
    if (!status)
        status = load_tail(shard, queue, options, err);
    if (queue)
        io->ops->queue_close(queue);
    if (status)
        shard_close(shard);
    else
        *ret_shard = shard;
    return status;
}

int shard_has_trailer(struct io *io, const char *path, bool *ret_has_trailer, struct err *err)
{
    struct io_file *file = NULL;
    struct io_queue *queue = NULL;
    uint8_t trailer[SHARD_TRAILER_BYTES] = {0};
    int status = io->ops->file_open(io, path, &file, err);
    if (status)
        return status;
    uint64_t file_bytes = io->ops->file_size(file);
    status = io->ops->queue_open(io, 1, &queue, err);
    if (!status && file_bytes >= sizeof trailer)
        status = io_read_exact(queue, io, file, path, file_bytes - sizeof trailer, trailer,
                               sizeof trailer, err);
    if (!status)
        *ret_has_trailer = shard_trailer_has_magic(trailer);
    if (queue)
        io->ops->queue_close(queue);
    io->ops->file_close(file);
    return status;
}

int shard_reindex(struct io *io, const char *path, const struct plain_tar_options *options,
                  struct err *err)
{
    struct index_cache_tar tar = {.io = io, .path = path};
    struct io_identity identity;
    struct plain_tar_index found = {0};
    int status = io->ops->file_open(io, path, &tar.file, err);
    if (status)
        return status;
    status = io->ops->file_identity(tar.file, &identity, err);
    if (!status)
        status = io->ops->queue_open(io, 1, &tar.queue, err);
    if (!status)
        status = plain_tar_index_build(io, tar.file, path, options, &found, err);
    if (!status)
        status = index_cache_store(&tar, &identity, &found, err);
    plain_tar_index_deinit(&found);
    if (tar.queue)
        io->ops->queue_close(tar.queue);
    io->ops->file_close(tar.file);
    return status;
}

void shard_close(struct shard *shard)
{
    if (!shard)
        return;
    shard_index_close(shard->index);
    if (shard->file)
        shard->io->ops->file_close(shard->file);
    free(shard);
}
