/*
 * index_layout — where things stand in an index's bytes, for its builder and its reader. docs/shard.md is the contract.
 */
#ifndef MILLRACE_SHARDS_INDEX_LAYOUT_H
#define MILLRACE_SHARDS_INDEX_LAYOUT_H

#include "base/bytes.h"
#include "shards/index.h"

enum {
    INDEX_HEADER_BYTES = 32, /* u32 version, u32 fields, u64 samples, u64 key_bytes, u64 block_crcs */
    INDEX_FIELD_BYTES = 64,  /* char extension[48], u32 size_width, u32 zero, u64 present */
    INDEX_ALIGN_BYTES = 8,   /* every column starts at a multiple */
    INDEX_UNIT_BYTES = 512,  /* of the data offsets: tar's block */
};

static_assert(SHARD_EXTENSION_BYTES_MAX + 16 == INDEX_FIELD_BYTES, "an entry of the field table is 64 bytes");

/* Block CRCs that a field of the size has. */
static inline uint64_t index_block_crcs(uint64_t size_bytes)
{
    return size_bytes > SHARD_BLOCK_BYTES ? (size_bytes + SHARD_BLOCK_BYTES - 1) / SHARD_BLOCK_BYTES : 0;
}

#endif
