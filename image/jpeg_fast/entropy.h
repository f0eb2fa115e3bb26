/*
 * entropy — decodes the Huffman-coded blocks of up to ENTROPY_STREAMS_MAX streams in one loop, a
 * symbol of each in turn.
 *
 * Each symbol needs the length of the one before it, so a single stream leaves most of a core
 * idle; streams, restart segments of a JPEG, do not depend on each other. The end of a block is
 * not a branch, because it would be mispredicted about once per block.
 *
 * A stream is a range of bits in data from which stuffing has been removed (scan_segments.h). The
 * caller lays out the blocks, each with its tables, and decodes until a stream has filled its
 * range. DC coefficients are differences, as stored.
 *
 * Invalid data makes entropy_decode return false or ends past the stream's last bit; the caller
 * must check both. A stream reads at most ENTROPY_BLOCK_BYTES_MAX for each of its blocks, from
 * where it began, and ENTROPY_READ_BYTES more: so much memory must be readable.
 */
#ifndef MILLRACE_IMAGE_JPEG_FAST_ENTROPY_H
#define MILLRACE_IMAGE_JPEG_FAST_ENTROPY_H

#include "image/jpeg_fast/huffman_lookup.h"
#include "image/kernels/kernels.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    ENTROPY_STREAMS_MAX = 3,
    ENTROPY_BLOCK_BYTES_MAX = 64 * HUFFMAN_SYMBOL_BITS_MAX / 8, /* 64 symbols */
    ENTROPY_READ_BYTES = 8,
};

/* Coefficients in natural order: index 8 v + u, with v the vertical frequency. All are zero before
 * the block is decoded. */
struct entropy_block {
    /* The eight after the 64 are written by end-of-block symbols and never read. */
    _Alignas(32) int16_t coefficient[64 + 8];
    const struct huffman_entry *dc, *ac; /* dc: also of the block at `end` */
};

struct entropy_stream {
    uint64_t position_bits;            /* in data */
    uint64_t k;                        /* position in the block's zigzag order */
    struct entropy_block *block, *end; /* being decoded; end of the range to fill */
};

/* Decodes until one or more of the streams have filled their ranges (block == end). None may be
 * full before. False: a stream is invalid. */
bool entropy_decode(enum image_kernels kernels, const uint8_t *data, struct entropy_stream *streams,
                    uint32_t count);

#endif
