/*
 * index_layout — byte layout of an index; docs/reference/shards.md defines it.
 */
#ifndef MILLRACE_SHARDS_FORMAT_INDEX_LAYOUT_H
#define MILLRACE_SHARDS_FORMAT_INDEX_LAYOUT_H

#include "base/bytes.h"
#include "shards/format/index.h"

enum {
    /* u32 version, u32 fields, u64 samples, u64 key_bytes, u64 block_crcs */
    INDEX_HEADER_BYTES = 32,
    INDEX_FIELD_BYTES = 64, /* char extension[48], u32 size_width, u32 flags, u64 present */
    /* Field flag: the columns end with width and pixels_offset. */
    INDEX_FIELD_RAW_IMAGES = 1,
    INDEX_ALIGN_BYTES = 8,  /* alignment of every column */
    INDEX_UNIT_BYTES = 512, /* unit of data offsets: a tar block */
};

static_assert(SHARD_EXTENSION_BYTES_MAX + 16 == INDEX_FIELD_BYTES,
              "an entry of the field table is 64 bytes");

static inline uint64_t index_block_crcs(uint64_t size_bytes)
{
    return size_bytes > SHARD_BLOCK_BYTES ? (size_bytes + SHARD_BLOCK_BYTES - 1) / SHARD_BLOCK_BYTES
                                          : 0;
}

/* Whether whole rows of 3 * width bytes fill the field from pixels_offset to its end; zeros are
 * valid. */
static inline bool index_raw_image_fits(struct shard_raw_image picture, uint64_t size_bytes)
{
    if (picture.width == 0 || picture.pixels_offset >= size_bytes)
        return picture.width == 0 && picture.pixels_offset == 0;
    return (size_bytes - picture.pixels_offset) % (3 * (uint64_t)picture.width) == 0;
}

#endif
