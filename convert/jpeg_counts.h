/*
 * jpeg_counts — counts what a conversion did with JPEGs.
 */
#ifndef MILLRACE_CONVERT_JPEG_COUNTS_H
#define MILLRACE_CONVERT_JPEG_COUNTS_H

#include <stdint.h>

/* Zero with --jpeg keep or --store raw. */
struct convert_jpegs {
    uint64_t tiled_count, reencoded_count;
    /* With tile: stored unchanged (CMYK, already tiled, or misnamed). With reencode: not reencoded,
     * because the original is smaller or misnamed. */
    uint64_t kept_count;
    uint64_t source_bytes, written_bytes; /* sizes of all counted JPEGs */
};

static inline void convert_jpegs_add(struct convert_jpegs *to, const struct convert_jpegs *more)
{
    to->tiled_count += more->tiled_count;
    to->reencoded_count += more->reencoded_count;
    to->kept_count += more->kept_count;
    to->source_bytes += more->source_bytes;
    to->written_bytes += more->written_bytes;
}

#endif
