/*
 * jpeg_fast — decodes sequential Huffman-coded JPEG scans to planes, to the same bytes as
 * libjpeg-turbo's JDCT_ISLOW but faster, especially with restart markers: it decodes three restart
 * segments at a time in one thread (entropy.h).
 *
 * It accepts only what libjpeg would decode without a warning. At anything unusual it returns
 * -ENOTSUP, and the caller decodes the part with libjpeg, whose verdict counts. Unusual are a
 * segment that is not consumed exactly, an invalid code, a marker out of order, fill bytes, and
 * values that libjpeg's C and SIMD code may treat differently (inverse_dct.h).
 *
 *     jpeg_fast_open(&fast, kernels, err);
 *     jpeg_fast_decode(fast, &scan, part, skip, planes);
 *     jpeg_fast_close(fast);
 */
#ifndef MILLRACE_IMAGE_JPEG_FAST_JPEG_FAST_H
#define MILLRACE_IMAGE_JPEG_FAST_JPEG_FAST_H

#include "base/err.h"
#include "image/jpeg_fast/huffman_lookup.h"
#include "image/kernels/kernels.h"
#include "image/rect.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { JPEG_FAST_COMPONENTS_MAX = 3, JPEG_FAST_MCU_BLOCKS_MAX = 10 };

struct jpeg_fast_component {
    uint32_t h_samp, v_samp; /* 1..4; 1 if it is the only component */
    const uint16_t *quant;   /* 64 factors in natural order */
    struct huffman_table dc, ac;
};

/* A scan of all components, 8 bits, sequential. Pointers are borrowed for the call. */
struct jpeg_fast_scan {
    uint32_t width, height;         /* of the image in pixels */
    uint32_t mcu_width, mcu_height; /* in pixels: 8 x the largest h_samp and v_samp */
    uint32_t components;            /* 1 or 3, in the order of the scan */
    struct jpeg_fast_component component[JPEG_FAST_COMPONENTS_MAX];
    uint32_t restart_interval; /* in MCUs; 0: none */
    const uint8_t *data;       /* entropy-coded data to the end of the file */
    size_t bytes;
};

/* Whole blocks of a component; the caller's memory. */
struct jpeg_fast_plane {
    uint8_t *data; /* the sample at the part's left top */
    size_t stride_bytes;
};

struct jpeg_fast; /* one thread at a time */
int jpeg_fast_open(struct jpeg_fast **ret_fast, enum image_kernels kernels, struct err *err);
void jpeg_fast_close(struct jpeg_fast *fast); /* NULL is fine */
void jpeg_fast_use_kernels(struct jpeg_fast *fast, enum image_kernels kernels);

/* Decodes the MCUs of part, in MCUs. Planes hold part.width * h_samp by part.height * v_samp blocks
 * of 8 x 8, except those beyond the edge of the image, which are not written. Other MCUs down to
 * the part's last row are decoded, but not transformed. skip: segments outside of the part are
 * not decoded; only their markers are checked. -ENOTSUP: use libjpeg. -ENOMEM. */
int jpeg_fast_decode(struct jpeg_fast *fast, const struct jpeg_fast_scan *scan,
                     struct image_rect part, bool skip, const struct jpeg_fast_plane *planes);

#endif
