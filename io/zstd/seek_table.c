/*
 * seek_table — see seek_table.h.
 *
 *     u32 0x184D2A5E   u32 size of the rest
 *     for each frame: u32 stored bytes, u32 content bytes, u32 checksum if the descriptor's bit 7
 *     u32 frames   u8 descriptor   u32 0x8F92EAB1
 */
#include "io/zstd/seek_table.h"

#include "base/bytes.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#define TABLE_MAGIC  UINT32_C(0x184D2A5E)
#define TAIL_MAGIC   UINT32_C(0x184D2A5D)
#define FOOTER_MAGIC UINT32_C(0x8F92EAB1)

enum {
    ENTRY_BYTES = 8,
    CHECKSUM_BYTES = 4,
    HAS_CHECKSUMS = 0x80, /* in the descriptor */
    RESERVED_BITS = 0x7c,
};

void seek_table_deinit(struct seek_table *table)
{
    free(table->content_at);
    free(table->stored_at);
    *table = (struct seek_table){0};
}

static unsigned entry_bytes(uint8_t descriptor)
{
    return ENTRY_BYTES + (descriptor & HAS_CHECKSUMS ? CHECKSUM_BYTES : 0);
}

uint64_t seek_table_bytes(const uint8_t footer[SEEK_TABLE_FOOTER_BYTES])
{
    uint64_t frames = bytes_get_u32(footer);
    if (bytes_get_u32(footer + 5) != FOOTER_MAGIC || footer[4] & RESERVED_BITS ||
        frames > SEEK_TABLE_FRAMES_MAX)
        return 0;
    return SEEK_TABLE_HEADER_BYTES + frames * entry_bytes(footer[4]) + SEEK_TABLE_FOOTER_BYTES;
}

static int bad_table(const char *path, uint64_t offset, const char *what, struct err *err)
{
    err_set(err, -EBADMSG, "%s", what);
    err_at(err, path, (int64_t)offset);
    err_advise(err, "the file was truncated or damaged: copy it again");
    return -EBADMSG;
}

/* Frames without content, such as skippable ones, are never decompressed. */
static int add_entry(struct seek_table *table, uint32_t stored_bytes, uint32_t content_bytes)
{
    uint32_t frame = table->frames_count;
    table->content_at[frame + 1] = table->content_at[frame] + content_bytes;
    table->stored_at[frame + 1] = table->stored_at[frame] + stored_bytes;
    table->frames_count++;
    bool is_large =
        stored_bytes > SEEK_TABLE_FRAME_BYTES_MAX || content_bytes > SEEK_TABLE_FRAME_BYTES_MAX;
    return content_bytes > 0 && is_large ? -EBADMSG : 0;
}

int seek_table_decode(const uint8_t *bytes, uint64_t bytes_count, uint64_t file_bytes,
                      const char *path, struct seek_table *ret_table, struct err *err)
{
    const uint8_t *footer = bytes + bytes_count - SEEK_TABLE_FOOTER_BYTES;
    uint64_t table_at = file_bytes - bytes_count;
    struct seek_table table = {0};
    assert(bytes_count == seek_table_bytes(footer) && bytes_count <= file_bytes);
    if (bytes_get_u32(bytes) != TABLE_MAGIC ||
        bytes_get_u32(bytes + 4) != bytes_count - SEEK_TABLE_HEADER_BYTES)
        return bad_table(path, table_at, "the seek table does not begin where it should", err);
    uint32_t count = bytes_get_u32(footer);
    table.content_at = calloc((size_t)count + 1, sizeof *table.content_at);
    table.stored_at = calloc((size_t)count + 1, sizeof *table.stored_at);
    int status =
        table.content_at && table.stored_at
            ? 0
            : err_set(err, -ENOMEM, "out of memory for a seek table of %" PRIu32 " frames", count);
    for (uint32_t i = 0; i < count && !status; i++) {
        uint64_t at = SEEK_TABLE_HEADER_BYTES + (uint64_t)i * entry_bytes(footer[4]);
        status = add_entry(&table, bytes_get_u32(bytes + at), bytes_get_u32(bytes + at + 4));
        if (status) {
            bad_table(path, table_at + at, "a frame is too large to read parts of the file", err);
            err_expected(err, "at most %d MiB in a frame", SEEK_TABLE_FRAME_BYTES_MAX >> 20);
            err_advise(err, "compress it again with smaller frames");
        }
    }
    uint64_t end = status ? 0 : table.stored_at[count];
    if (!status && end != table_at) {
        status = bad_table(path, table_at, "the seek table does not match the file's size", err);
        err_expected(err, "frames of %" PRIu64 " bytes before it", end);
        err_found(err, "%" PRIu64 " bytes", table_at);
    }
    if (status)
        seek_table_deinit(&table);
    else
        *ret_table = table;
    return status;
}

bool seek_table_ends_empty(const struct seek_table *table)
{
    uint32_t count = table->frames_count;
    return count > 0 && table->content_at[count - 1] == table->content_at[count] &&
           table->stored_at[count] - table->stored_at[count - 1] > SEEK_TABLE_HEADER_BYTES;
}

void seek_table_set_tail(struct seek_table *table, const uint8_t header[SEEK_TABLE_HEADER_BYTES])
{
    const uint64_t *stored_at = &table->stored_at[table->frames_count - 1];
    uint64_t bytes = stored_at[1] - stored_at[0] - SEEK_TABLE_HEADER_BYTES;
    if (bytes_get_u32(header) != TAIL_MAGIC || bytes_get_u32(header + 4) != bytes)
        return;
    table->frames_count--;
    table->tail_bytes = bytes;
}

uint64_t seek_table_content_bytes(const struct seek_table *table)
{
    return table->content_at[table->frames_count] + table->tail_bytes;
}

uint64_t seek_table_tail_at(const struct seek_table *table)
{
    return table->stored_at[table->frames_count] + SEEK_TABLE_HEADER_BYTES;
}

uint32_t seek_table_find(const struct seek_table *table, uint64_t content_offset)
{
    assert(content_offset < table->content_at[table->frames_count]);
    uint32_t low = 0, high = table->frames_count; /* low begins at or before, high after it */
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (table->content_at[middle] <= content_offset)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static void add_u32(struct str *out, uint32_t value)
{
    uint8_t bytes[4];
    bytes_put_u32(bytes, value);
    str_add(out, bytes, sizeof bytes);
}

void seek_table_add_frame(struct str *entries, uint32_t stored_bytes, uint32_t content_bytes)
{
    add_u32(entries, stored_bytes);
    add_u32(entries, content_bytes);
}

void seek_table_add_tail_header(struct str *entries, uint32_t tail_bytes, struct str *out)
{
    add_u32(out, TAIL_MAGIC);
    add_u32(out, tail_bytes);
    seek_table_add_frame(entries, tail_bytes + SEEK_TABLE_HEADER_BYTES, 0);
}

void seek_table_encode(const struct str *entries, struct str *out)
{
    uint8_t descriptor = 0;
    add_u32(out, TABLE_MAGIC);
    add_u32(out, (uint32_t)entries->bytes + SEEK_TABLE_FOOTER_BYTES);
    str_add(out, entries->data, entries->bytes);
    add_u32(out, (uint32_t)(entries->bytes / ENTRY_BYTES));
    str_add(out, &descriptor, sizeof descriptor);
    add_u32(out, FOOTER_MAGIC);
}
