/*
 * archive_stream — see archive_stream.h.
 */
#include "convert/archive/archive_stream.h"

#include "base/bytes.h"
#include "convert/archive/decompressor.h"
#include "convert/archive/unarchive.h"
#include "shards/format/tar.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A block fits behind the rest of a header. */
enum { BUFFER_BYTES = FILE_BLOCK_BYTES + TAR_BLOCK_BYTES };

struct archive_stream {
    struct file_blocks blocks;
    struct decompressor *decompressor; /* of a compressed tar */
    struct unarchive *zip;             /* of a zip; both NULL: a plain tar */
    /* Decompressed bytes that are not read yet: buffer[begin, end). offset: that of `begin`. */
    uint8_t *buffer;
    size_t begin, end;
    uint64_t offset;
    bool is_at_end;      /* nothing follows the buffer; zip: in this member */
    uint64_t member_end; /* of the last member's data */
    struct tar_scanner scanner;
    struct err read_err;                   /* of scanner.read, which has none */
    char tar_path[IO_PATH_BYTES_MAX + 32]; /* in messages with offsets in the decompressed tar */
};

static bool is_zip(const char *head, size_t bytes)
{
    return bytes >= 4 && (memcmp(head, "PK\x03\x04", 4) == 0 || memcmp(head, "PK\x05\x06", 4) == 0);
}

bool archive_is_compressed(const char *head, size_t bytes)
{
    return is_zip(head, bytes) || compression_of(head, bytes) != COMPRESSION_NONE;
}

static int open_decoder(struct archive_stream *stream, struct err *err)
{
    uint8_t *head = NULL;
    size_t bytes = 0;
    int status = file_blocks_next(&stream->blocks, &head, &bytes, err);
    if (status)
        return status;
    enum compression compression = compression_of((const char *)head, bytes);
    stream->blocks.offset = 0;
    if (is_zip((const char *)head, bytes))
        return unarchive_open(&stream->blocks, UNARCHIVE_ZIP, &stream->zip, err);
    return compression == COMPRESSION_NONE
               ? 0
               : decompressor_open(&stream->blocks, compression, &stream->decompressor, err);
}

static int scanner_read(void *context, uint64_t offset, void *data, size_t bytes);

int archive_stream_open(struct io *io, const char *path, struct archive_stream **ret_stream,
                        struct err *err)
{
    struct archive_stream *stream = calloc(1, sizeof *stream);
    if (stream)
        stream->buffer = malloc(BUFFER_BYTES);
    if (!stream || !stream->buffer) {
        free(stream);
        return err_set(err, -ENOMEM, "out of memory for reading an archive");
    }
    int status = file_blocks_open(&stream->blocks, io, path, err);
    if (!status)
        status = open_decoder(stream, err);
    snprintf(stream->tar_path, sizeof stream->tar_path, "%s%s", path,
             stream->decompressor || stream->zip ? " (decompressed)" : "");
    stream->scanner = (struct tar_scanner){.read = scanner_read,
                                           .context = stream,
                                           .path = stream->tar_path,
                                           .file_bytes = UINT64_MAX};
    if (status)
        archive_stream_close(stream);
    else
        *ret_stream = stream;
    return status;
}

void archive_stream_close(struct archive_stream *stream)
{
    if (!stream)
        return;
    tar_scanner_deinit(&stream->scanner);
    decompressor_close(stream->decompressor);
    unarchive_close(stream->zip);
    file_blocks_close(&stream->blocks);
    free(stream->buffer);
    free(stream);
}

int archive_stream_identity(const struct archive_stream *stream, struct io_identity *ret_identity,
                            struct err *err)
{
    return stream->blocks.io->ops->file_identity(stream->blocks.file, ret_identity, err);
}

uint64_t archive_stream_file_bytes(const struct archive_stream *stream)
{
    return stream->blocks.bytes;
}

uint64_t archive_stream_bytes_done(const struct archive_stream *stream)
{
    return stream->blocks.offset;
}

/* Reads the next data of a tar, or of a zip's member; *ret_bytes is 0 at the end. */
static int decode(struct archive_stream *stream, uint8_t *data, size_t bytes, size_t *ret_bytes,
                  struct err *err)
{
    uint8_t *block;
    if (stream->decompressor)
        return decompressor_read(stream->decompressor, data, bytes, ret_bytes, err);
    if (stream->zip)
        return unarchive_read(stream->zip, data, bytes, ret_bytes, err);
    assert(bytes >= FILE_BLOCK_BYTES);
    int status = file_blocks_next(&stream->blocks, &block, ret_bytes, err);
    if (!status && *ret_bytes > 0)
        memcpy(data, block, *ret_bytes);
    return status;
}

/* Decodes until the buffer holds count bytes, at most a header, or the data ends. */
static int fill(struct archive_stream *stream, size_t count, struct err *err)
{
    int status = 0;
    assert(count <= TAR_BLOCK_BYTES);
    if (stream->end - stream->begin >= count)
        return 0;
    memmove(stream->buffer, stream->buffer + stream->begin, stream->end - stream->begin);
    stream->end -= stream->begin;
    stream->begin = 0;
    while (!status && !stream->is_at_end && stream->end < count) {
        size_t bytes = 0;
        status =
            decode(stream, stream->buffer + stream->end, BUFFER_BYTES - stream->end, &bytes, err);
        stream->is_at_end = !status && bytes == 0;
        stream->end += bytes;
    }
    return status;
}

/* Copies the next bytes to data, or skips them if it is NULL. -ENODATA: the data ends before. */
static int take(struct archive_stream *stream, uint8_t *data, uint64_t bytes, struct err *err)
{
    while (bytes > 0) {
        int status = fill(stream, 1, err);
        if (status)
            return status;
        size_t piece = (size_t)bytes_min(bytes, stream->end - stream->begin);
        if (piece == 0)
            return -ENODATA;
        if (data) {
            memcpy(data, stream->buffer + stream->begin, piece);
            data += piece;
        }
        stream->begin += piece;
        stream->offset += piece;
        bytes -= piece;
    }
    return 0;
}

static int skip_to(struct archive_stream *stream, uint64_t offset, struct err *err)
{
    return offset > stream->offset ? take(stream, NULL, offset - stream->offset, err) : 0;
}

static int truncated(const struct archive_stream *stream, struct err *err)
{
    err_set(err, -EBADMSG, "the archive is truncated: it ends within a member's data");
    err_at(err, stream->tar_path, (int64_t)stream->offset);
    err_expected(err, "%" PRIu64 " more bytes", stream->member_end - stream->offset);
    err_advise(err, "copy or download the file again");
    return -EBADMSG;
}

static int scanner_read(void *context, uint64_t offset, void *data, size_t bytes)
{
    struct archive_stream *stream = context;
    assert(offset >= stream->offset);
    int status = skip_to(stream, offset, &stream->read_err);
    return status ? status : take(stream, data, bytes, &stream->read_err);
}

/* Moves to the next header. Where the data ends before, tells the scanner. */
static int find_header(struct archive_stream *stream, struct err *err)
{
    struct tar_scanner *scanner = &stream->scanner;
    int status = skip_to(stream, stream->member_end, err);
    if (status == -ENODATA)
        return truncated(stream, err);
    if (!status)
        status = skip_to(stream, scanner->offset, err);
    if (status == -ENODATA) { /* only the last member's padding is missing */
        scanner->offset = stream->offset;
        status = 0;
    }
    if (!status)
        status = fill(stream, TAR_BLOCK_BYTES, err);
    if (stream->end - stream->begin < TAR_BLOCK_BYTES)
        scanner->file_bytes = stream->offset + (stream->end - stream->begin);
    return status;
}

static int explain_scan(const struct archive_stream *stream, int status, struct err *err)
{
    if (stream->read_err.code) {
        if (err)
            *err = stream->read_err;
        return stream->read_err.code;
    }
    if (stream->scanner.offset == 0)
        err_advise(err, stream->decompressor ? "its content is not a tar: decompress it"
                                             : "pass a tar or a zip");
    return status;
}

static int tar_next(struct archive_stream *stream, struct archive_member *ret_member,
                    struct err *err)
{
    struct tar_member member;
    do {
        int status = find_header(stream, err);
        if (status)
            return status;
        status = tar_scan(&stream->scanner, &member, err);
        if (status)
            return explain_scan(stream, status, err);
        if (member.kind == TAR_END) {
            status = skip_to(stream, UINT64_MAX, err);
            return status == -ENODATA ? 0 : status;
        }
        stream->member_end = member.data_offset + member.size_bytes;
    } while (member.kind != TAR_FILE);
    *ret_member = (struct archive_member){member.name, member.header_offset, member.data_offset,
                                          member.size_bytes};
    return 1;
}

static int zip_next(struct archive_stream *stream, struct archive_member *ret_member,
                    struct err *err)
{
    struct unarchive_member member;
    int result = unarchive_next(stream->zip, &member, err);
    if (result != 1)
        return result;
    stream->begin = stream->end = 0;
    stream->is_at_end = false;
    stream->offset = bytes_round_up(stream->member_end + 1, TAR_BLOCK_BYTES);
    if (member.bytes > INT64_MAX - stream->offset) {
        err_set(err, -EBADMSG, "the members of a zip are too large");
        err_at(err, stream->blocks.path, ERR_NO_OFFSET);
        return -EBADMSG;
    }
    stream->member_end = stream->offset + member.bytes;
    *ret_member =
        (struct archive_member){member.name, stream->offset, stream->offset, member.bytes};
    return 1;
}

int archive_stream_next(struct archive_stream *stream, struct archive_member *ret_member,
                        struct err *err)
{
    return stream->zip ? zip_next(stream, ret_member, err) : tar_next(stream, ret_member, err);
}

/* Moves to the zip member that holds the offset. */
static int find_zip_member(struct archive_stream *stream, uint64_t offset, struct err *err)
{
    struct archive_member member;
    int result = 1;
    while (result == 1 && offset >= stream->member_end)
        result = zip_next(stream, &member, err);
    return result == 0 ? -ENODATA : result < 0 ? result : 0;
}

/* Reads past the member's last byte, so that its checksum is compared. */
static int end_zip_member(struct archive_stream *stream, struct err *err)
{
    int status = fill(stream, 1, err);
    if (status || stream->begin == stream->end)
        return status;
    err_set(err, -EBADMSG, "a member of the zip is longer than its header says");
    err_at(err, stream->blocks.path, ERR_NO_OFFSET);
    return -EBADMSG;
}

int archive_stream_read(struct archive_stream *stream, uint64_t offset, void *data, size_t bytes,
                        struct err *err)
{
    bool has_members = stream->zip;
    int status = has_members && bytes > 0 ? find_zip_member(stream, offset, err) : 0;
    assert(bytes == 0 || offset >= stream->offset);
    if (!status && bytes > 0)
        status = skip_to(stream, offset, err);
    if (!status)
        status = take(stream, data, bytes, err);
    if (status == -ENODATA) {
        err_set(err, status, "the archive ends before a member's data");
        err_at(err, stream->tar_path, (int64_t)offset);
    }
    return status == 0 && has_members && bytes > 0 && stream->offset == stream->member_end
               ? end_zip_member(stream, err)
               : status;
}
