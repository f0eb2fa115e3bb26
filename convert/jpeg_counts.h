/*
 * jpeg_counts — counts JPEGs by how a conversion stored them.
 */
#ifndef MILLRACE_CONVERT_JPEG_COUNTS_H
#define MILLRACE_CONVERT_JPEG_COUNTS_H

#include <stdint.h>

/* All zero with --jpeg keep or --store raw. */
struct convert_jpeg_counts {
    uint64_t tiled_count, reencoded_count;
    /* With tile: unchanged because CMYK, already tiled or misnamed. With reencode: not reencoded
     * because smaller or misnamed. */
    uint64_t kept_count;
    uint64_t source_bytes, written_bytes; /* sizes of all counted JPEGs */
};

static inline void convert_jpeg_counts_add(struct convert_jpeg_counts *to,
                                           const struct convert_jpeg_counts *more)
{
    to->tiled_count += more->tiled_count;
    to->reencoded_count += more->reencoded_count;
    to->kept_count += more->kept_count;
    to->source_bytes += more->source_bytes;
    to->written_bytes += more->written_bytes;
}

#endif
