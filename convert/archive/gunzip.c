/*
 * gunzip — see gunzip.h.
 */
#include "convert/archive/gunzip.h"

#include "base/bytes.h"
#include "base/zero_upper.h"

#include <assert.h>
#include <errno.h>
#include <isa-l/igzip_lib.h>
#include <stdlib.h>
#include <string.h>

enum { READ_BYTES_MAX = 1 << 30 /* igzip counts bytes in 32 bits */ };

struct gunzip {
    struct file_blocks *blocks;
    bool is_zlib;
    bool is_in_member, is_at_end;
    struct inflate_state state;
};

int gunzip_open(struct file_blocks *blocks, enum gunzip_format format, struct gunzip **ret_gunzip,
                struct err *err)
{
    struct gunzip *gunzip = calloc(1, sizeof *gunzip);
    if (!gunzip)
        return err_set(err, -ENOMEM, "out of memory for decompressing a file");
    gunzip->blocks = blocks;
    gunzip->is_zlib = format == GUNZIP_ZLIB;
    isal_inflate_init(&gunzip->state);
    *ret_gunzip = gunzip;
    return 0;
}

void gunzip_close(struct gunzip *gunzip)
{
    free(gunzip);
}

static int damaged(const struct gunzip *gunzip, const char *what, struct err *err)
{
    err_set(err, -EBADMSG, "%s", what);
    err_at(err, gunzip->blocks->path, (int64_t)(gunzip->blocks->offset - gunzip->state.avail_in));
    err_advise(err, "copy or download the file again");
    return -EBADMSG;
}

/* Reads the next block if the last one is used up. avail_in stays 0 at the end of the file. */
static int fill_input(struct gunzip *gunzip, struct err *err)
{
    size_t bytes = 0;
    if (gunzip->state.avail_in > 0)
        return 0;
    int status = file_blocks_next(gunzip->blocks, &gunzip->state.next_in, &bytes, err);
    gunzip->state.avail_in = (uint32_t)bytes;
    return status;
}

/* Puts the bytes that igzip has read after a member before the rest of the block, where the margin
 * has room for them. */
static void unread_input(struct inflate_state *state)
{
    uint64_t bits = state->read_in >> (state->read_in_length % 8);
    uint32_t count = (uint32_t)state->read_in_length / 8;
    static_assert(sizeof bits <= FILE_BLOCK_MARGIN_BYTES, "the margin has room for all bits");
    state->next_in -= count;
    state->avail_in += count;
    for (uint32_t i = 0; i < count; i++)
        state->next_in[i] = (uint8_t)(bits >> 8 * i);
}

static void begin_member(struct gunzip *gunzip)
{
    struct inflate_state *state = &gunzip->state;
    uint8_t *next_in = state->next_in;
    uint32_t avail_in = state->avail_in;
    isal_inflate_reset(state);
    state->next_in = next_in;
    state->avail_in = avail_in;
    state->crc_flag = gunzip->is_zlib ? ISAL_ZLIB : ISAL_GZIP;
    gunzip->is_in_member = true;
}

/* Between members, and after the last one. Tools pad files with zeros. */
static int find_member(struct gunzip *gunzip, struct err *err)
{
    struct inflate_state *state = &gunzip->state;
    bool is_padding = false;
    int status;
    while (!(status = fill_input(gunzip, err)) && state->avail_in > 0) {
        if (*state->next_in != 0 &&
            (is_padding || *state->next_in != (gunzip->is_zlib ? 0x78 : 0x1f)))
            return damaged(gunzip, "the compressed file has other data after its end", err);
        if (*state->next_in != 0) {
            begin_member(gunzip);
            return 0;
        }
        is_padding = true;
        state->next_in++;
        state->avail_in--;
    }
    gunzip->is_at_end = !status;
    return status;
}

static const char *describe(int result)
{
    switch (result) {
    case ISAL_INVALID_WRAPPER:
        return "a gzip or zlib header is damaged";
    case ISAL_UNSUPPORTED_METHOD:
        return "data is compressed with an unknown method";
    case ISAL_INCORRECT_CHECKSUM:
        return "the checksum of compressed data is wrong: the data was damaged";
    default:
        return "compressed data is damaged";
    }
}

/* Decompresses into data until it is full, or the input block or the member ends. */
static int inflate_some(struct gunzip *gunzip, void *data, size_t bytes, size_t *ret_bytes,
                        struct err *err)
{
    struct inflate_state *state = &gunzip->state;
    int status = fill_input(gunzip, err);
    if (status)
        return status;
    bool is_file_end = state->avail_in == 0;
    state->next_out = data;
    state->avail_out = (uint32_t)bytes;
    int result = isal_inflate(state);
    zero_upper();
    if (result != ISAL_DECOMP_OK && result != ISAL_END_INPUT)
        return damaged(gunzip, describe(result), err);
    *ret_bytes = bytes - state->avail_out;
    if (state->block_state == ISAL_BLOCK_FINISH &&
        state->tmp_out_processed == state->tmp_out_valid) {
        unread_input(state);
        gunzip->is_in_member = false;
    } else if (is_file_end && *ret_bytes == 0) {
        return damaged(gunzip, "the compressed file is truncated", err);
    }
    return 0;
}

int gunzip_read(struct gunzip *gunzip, void *data, size_t bytes, size_t *ret_bytes, struct err *err)
{
    int status = 0;
    size_t count = 0;
    while (!status && count == 0 && bytes > 0 && !gunzip->is_at_end) {
        if (!gunzip->is_in_member)
            status = find_member(gunzip, err);
        else
            status = inflate_some(gunzip, data, bytes_min(bytes, READ_BYTES_MAX), &count, err);
    }
    if (!status)
        *ret_bytes = count;
    return status;
}
