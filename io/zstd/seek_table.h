/*
 * seek_table — zstd's seekable format (contrib/seekable_format in zstd's repository, version
 * 0.1.0): independent frames, followed by a skippable frame that holds their sizes.
 *
 *     content   |    frame 0    |  frame 1  |  frame 2  |    tail    |
 *                       |             |           |            | stored as it is
 *     file      |  frame 0  | frame 1 |  frame 2  |header| tail  | seek table |
 *
 * `zstd -d` ignores skippable frames. Here, one between the frames and the seek table adds its
 * bytes, the tail, to the content: a shard keeps its index in it, which is then read without
 * decompressing anything.
 */
#ifndef MILLRACE_IO_ZSTD_SEEK_TABLE_H
#define MILLRACE_IO_ZSTD_SEEK_TABLE_H

#include "base/err.h"
#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    SEEK_TABLE_FRAME_BYTES_MAX = 64 << 20, /* of a frame and its content: bounds memory */
    SEEK_TABLE_FRAMES_MAX = 1 << 27,       /* the format's limit */
    SEEK_TABLE_FOOTER_BYTES = 9,
    SEEK_TABLE_HEADER_BYTES = 8, /* of a skippable frame */
};

/* Zero-initialize. */
struct seek_table {
    uint32_t frames_count;
    /* Where each frame begins in the content and in the file; [frames_count]: where they end. */
    uint64_t *content_at, *stored_at;
    uint64_t tail_bytes; /* 0: no tail */
};

void seek_table_deinit(struct seek_table *table);

/* Returns the size of the seek table whose footer ends the file; 0: the file has none. */
uint64_t seek_table_bytes(const uint8_t footer[SEEK_TABLE_FOOTER_BYTES]);
/* bytes: the whole seek table. The result has no tail yet. -EBADMSG with the offset: it does not
 * describe a file of this size, or a frame exceeds SEEK_TABLE_FRAME_BYTES_MAX. -ENOMEM. */
int seek_table_decode(const uint8_t *bytes, uint64_t bytes_count, uint64_t file_bytes,
                      const char *path, struct seek_table *ret_table, struct err *err);

/* Whether the last frame has no content, so that it may be the tail's. */
bool seek_table_ends_empty(const struct seek_table *table);
/* Makes that frame the tail, if header, its first bytes in the file, is a tail's. */
void seek_table_set_tail(struct seek_table *table, const uint8_t header[SEEK_TABLE_HEADER_BYTES]);

uint64_t seek_table_content_bytes(const struct seek_table *table); /* the tail included */
/* Where the tail begins in the file. */
uint64_t seek_table_tail_at(const struct seek_table *table);
/* Returns the frame that contains the byte of the content, which lies before the tail. */
uint32_t seek_table_find(const struct seek_table *table, uint64_t content_offset);

/* For writing: the entries of frames, in their order. */
void seek_table_add_frame(struct str *entries, uint32_t stored_bytes, uint32_t content_bytes);
/* Appends the header of a skippable frame with a tail of this size, and its entry to entries. */
void seek_table_add_tail_header(struct str *entries, uint32_t tail_bytes, struct str *out);
/* Appends the seek table. */
void seek_table_encode(const struct str *entries, struct str *out);

#endif
