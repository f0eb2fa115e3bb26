/*
 * jpeg_headers — reads the segments before a JPEG's first scan without decoding (ITU T.81, annex
 * B), for file information and jpeg_cut.h.
 *
 * It skips tables and also describes kinds of JPEG that jpeg.h rejects (lossless, 12 bits, two
 * components). Use jpeg_probe to find out whether a file can be decoded.
 */
#ifndef MILLRACE_IMAGE_JPEG_JPEG_HEADERS_H
#define MILLRACE_IMAGE_JPEG_JPEG_HEADERS_H

#include "base/err.h"
#include "image/jpeg/jpeg.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum jpeg_process {
    JPEG_BASELINE,
    JPEG_EXTENDED,
    JPEG_PROGRESSIVE,
    JPEG_LOSSLESS,
    JPEG_PROCESS_COUNT
};

struct jpeg_headers {
    uint32_t width, height; /* stored pixels */
    uint32_t precision_bits;
    enum jpeg_process process;
    bool arithmetic, hierarchical;
    uint32_t components;
    uint32_t h_samp[JPEG_COMPONENTS_MAX], v_samp[JPEG_COMPONENTS_MAX]; /* 1..4 */
    uint32_t restart_interval;                                         /* in MCUs, 0: none */
    bool has_exif;
    uint32_t orientation; /* as in jpeg_info */
    bool has_jfif;
    uint32_t jfif_major, jfif_minor;
    bool has_adobe;
    uint32_t adobe_transform; /* 0: RGB or CMYK, 1: YCbCr, 2: YCCK */
    uint32_t icc_chunks;
    uint32_t icc_chunks_expected;       /* according to the first chunk */
    uint64_t icc_bytes;                 /* of the profile, in the chunks found */
    uint64_t stray_bytes;               /* between segments */
    uint32_t scan_components;           /* in the first scan */
    uint64_t frame_offset, scan_offset; /* markers of the frame and the first scan */
    uint64_t header_bytes;              /* offset of the first scan's data */
};

const char *jpeg_process_name(enum jpeg_process process); /* for example "baseline" */
/* "4:2:0" and the like; NULL for factors without such a name or without chroma. */
const char *jpeg_subsampling_name(const struct jpeg_headers *headers);

/* data: the first bytes of a file of file_bytes. -ENODATA, without detail: call again with more
 * bytes. -EBADMSG with the offset. path (may be NULL) is for messages. */
int jpeg_read_headers(const void *data, size_t bytes, uint64_t file_bytes, const char *path,
                      struct jpeg_headers *ret_headers, struct err *err);

#endif
