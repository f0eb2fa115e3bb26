/*
 * archive — fuzz target: compressed tars and zips (convert/archive/archive_stream.h). Every listed
 * member can be read in a second pass, or the data is damaged; members do not overlap. And the same
 * input as a compressed file (convert/archive/decompressor.h).
 */
#include "convert/archive/archive_stream.h"
#include "convert/archive/decompressor.h"
#include "tests/fuzz/fuzz.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { MEMBERS_MAX = 64, MEMBER_BYTES_MAX = 1 << 20, CONTENT_BYTES_MAX = 4 << 20 };

struct members {
    struct archive_member items[MEMBERS_MAX];
    size_t count;
};

static void list(struct io *io, struct members *members)
{
    struct archive_stream *stream;
    struct archive_member member;
    struct err err;
    uint64_t end = 0;
    if (archive_stream_open(io, "input", &stream, &err))
        return;
    while (archive_stream_next(stream, &member, &err) == 1) {
        if (member.data_offset < end || !member.name || member.data_offset % 512 != 0)
            abort();
        end = member.data_offset + member.bytes;
        if (members->count < MEMBERS_MAX && member.bytes <= MEMBER_BYTES_MAX)
            members->items[members->count++] = member;
    }
    archive_stream_close(stream);
}

static void read_members(struct io *io, const struct members *members)
{
    struct archive_stream *stream;
    struct err err;
    char *data = malloc(MEMBER_BYTES_MAX);
    if (!data || archive_stream_open(io, "input", &stream, &err))
        abort();
    for (size_t i = 0; i < members->count; i++) {
        const struct archive_member *member = &members->items[i];
        int status = archive_stream_read(stream, member->data_offset, data, member->bytes, &err);
        if (status && (err.code != status || !err.what[0]))
            abort();
    }
    archive_stream_close(stream);
    free(data);
}

static void decompress(struct io *io, enum compression compression)
{
    struct file_blocks blocks = {0};
    struct decompressor *decompressor = NULL;
    struct err err = {0};
    static char data[64 << 10];
    size_t bytes = 0, total = 0;
    int status = file_blocks_open(&blocks, io, "input", &err);
    if (!status)
        status = decompressor_open(&blocks, compression, &decompressor, &err);
    while (!status && total < CONTENT_BYTES_MAX) {
        status = decompressor_read(decompressor, data, sizeof data, &bytes, &err);
        if (!status && (bytes == 0 || bytes > sizeof data))
            break;
        total += bytes;
    }
    if (bytes > sizeof data || (status && (err.code != status || !err.what[0])))
        abort();
    decompressor_close(decompressor);
    file_blocks_close(&blocks);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct members members = {0};
    struct memory_io memory;
    /* An xz file may ask for a dictionary of 4 GiB, which exceeds the fuzzer's memory. */
    if (bytes >= 6 && memcmp(data, "\xfd\x37zXZ", 6) == 0)
        return 0;
    memory_io_init(&memory, data, bytes);
    list(&memory.io, &members);
    if (members.count > 0)
        read_members(&memory.io, &members);
    enum compression compression = compression_of((const char *)data, bytes);
    if (compression != COMPRESSION_NONE)
        decompress(&memory.io, compression);
    else if (bytes >= 2 && data[0] == 0x78)
        decompress(&memory.io, COMPRESSION_ZLIB);
    else if (bytes >= 4 && memcmp(data, "PK\3\4", 4) == 0)
        decompress(&memory.io, COMPRESSION_ZIP);
    return 0;
}
