/*
 * jpeg_counts — counts of the JPEGs that a conversion tiled, encoded again or kept. Header only.
 */
#ifndef MILLRACE_CONVERT_JPEG_COUNTS_H
#define MILLRACE_CONVERT_JPEG_COUNTS_H

#include <stdint.h>

/* What became of the JPEGs, unless --jpeg keep or --store raw was asked for. */
struct convert_jpegs {
    uint64_t tiled_count, reencoded_count;
    /* To be tiled: stored as they are (CMYK; tiled already; named as no JPEG). To be encoded again:
     * stored with their own pixels, since that is smaller, or named as no JPEG. */
    uint64_t kept_count;
    uint64_t source_bytes, written_bytes; /* of all three */
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
