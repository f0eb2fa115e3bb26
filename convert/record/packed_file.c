/*
 * packed_file — see packed_file.h.
 */
#include "convert/record/packed_file.h"

#include "base/bytes.h"
#include "base/json/jsonx.h"
#include "io/file_util.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

int packed_index_reject(const struct packed_index *index, int status, const char *what,
                        const char *expected)
{
    err_set(index->err, status, "%s", what);
    err_at(index->err, index->path, ERR_NO_OFFSET);
    err_expected(index->err, "%s", expected);
    return status;
}

int packed_index_read(struct packed_index *index)
{
    char *text = NULL;
    size_t bytes;
    int status = io_join_path(index->folder, "index.json", index->path, index->err);
    if (!status)
        status = io_read_file(index->io, index->path, JSON_BYTES_MAX, &text, &bytes, index->err);
    if (status == -ENOENT)
        err_advise(index->err, "index.json describes the folder's files: fetch it too");
    if (!status)
        status = jsonx_parse(text, bytes, index->path, 0, &index->root, index->err);
    free(text);
    return status;
}

static int reject_file(const struct packed_index *index, const struct record_file *file,
                       uint64_t offset, const char *expected, uint64_t found)
{
    err_set(index->err, -EBADMSG, "%s is damaged, or does not match index.json", index->what);
    err_at(index->err, file->path, (int64_t)offset);
    err_expected(index->err, "%s", expected);
    err_found(index->err, "%" PRIu64, found);
    err_advise(index->err, "fetch the file and index.json again");
    return -EBADMSG;
}

static int read_offsets(const struct packed_index *index, struct io_queue *queue,
                        struct io_file *handle, uint64_t samples, struct record_file *file)
{
    uint64_t bytes = file->file.bytes;
    if (samples > UINT32_MAX || 4 * (samples + 2) > bytes)
        return reject_file(index, file, 0, "4 bytes of offset for each sample", bytes);
    size_t head_bytes = 4 * (samples + 2);
    uint8_t *head = malloc(head_bytes);
    file->offsets = calloc(samples + 1, sizeof *file->offsets);
    int status =
        head && file->offsets ? 0 : err_set(index->err, -ENOMEM, "out of memory for samples");
    if (!status)
        status =
            io_read_exact(queue, index->io, handle, file->path, 0, head, head_bytes, index->err);
    if (!status && bytes_get_u32(head) != samples)
        status =
            reject_file(index, file, 0, "as many samples as in index.json", bytes_get_u32(head));
    for (uint64_t i = 0; i <= samples && !status; i++) {
        uint64_t offset = file->offsets[i] = bytes_get_u32(head + 4 * (i + 1)),
                 before = i > 0 ? file->offsets[i - 1] : head_bytes;
        if (offset < before || offset > bytes || (i == samples && offset != bytes))
            status = reject_file(index, file, 4 * (i + 1),
                                 "an offset after the one before, within the file", offset);
    }
    file->records_count = samples;
    free(head);
    return status;
}

/* Whether a name stays within its folder. */
static bool is_inside(const char *name)
{
    for (const char *at = name; *at; at += strcspn(at, "/"), at += *at == '/')
        if (strncmp(at, "..", 2) == 0 && (!at[2] || at[2] == '/'))
            return false;
    return *name && *name != '/';
}

int packed_file_list(const struct packed_index *index, struct io_queue *queue,
                     const struct packed_file *described, struct record_file *file)
{
    struct io *io = index->io;
    struct io_file *handle = NULL;
    struct io_stat info;
    char path[IO_PATH_BYTES_MAX];
    if (!is_inside(described->name))
        return packed_index_reject(index, -EBADMSG, "a file has an invalid name",
                                   "a path within the folder");
    int status = io_join_path(index->folder, described->name, path, index->err);
    file->path = status ? NULL : strdup(path);
    if (!status && !file->path)
        status = err_set(index->err, -ENOMEM, "out of memory for a list of files");
    if (!status)
        status = io->names->stat(io, path, &info, index->err);
    if (status)
        return status;
    listed_file_set(&file->file, &info);
    if (info.size_bytes != described->bytes)
        return reject_file(index, file, 0, "as many bytes as in index.json", info.size_bytes);
    status = io->ops->file_open(io, path, &handle, index->err);
    if (!status)
        status = listed_file_check(&file->file, io, handle, path, index->err);
    if (!status)
        status = read_offsets(index, queue, handle, described->samples, file);
    if (handle)
        io->ops->file_close(handle);
    return status;
}
