/*
 * jpeg_reader — libjpeg-turbo's decompressor for bytes in memory: source, errors and warnings,
 * checked headers. jpeg_decode.c reads planes from it, jpeg_tile.c coefficients.
 *
 * libjpeg reports errors by longjmp. All calls to it are in step functions, which keep their
 * state in their context and run only under jpeg_reader_guard, so no local variable changes
 * between a setjmp and its longjmp. Warnings about lost or contradictory data are errors
 * (jpeg.h).
 *
 *     jpeg_reader_init(&reader, JPEG_MARKERS_SKIP);
 *     jpeg_reader_begin(&reader, data, bytes, path, &info, err);
 *     jpeg_reader_guard(&reader, step, context, err);  // calls that use reader.codec
 *     jpeg_reader_end(&reader);
 *     jpeg_reader_deinit(&reader);
 */
#ifndef MILLRACE_IMAGE_JPEG_JPEG_READER_H
#define MILLRACE_IMAGE_JPEG_JPEG_READER_H

#include "image/jpeg/jpeg.h"
#include "image/jpeg/jpeg_memory.h"

#include <setjmp.h>
#include <stdio.h>

#include <jpeglib.h>

enum jpeg_markers {
    JPEG_MARKERS_SKIP, /* skips APPn and comments, but reads the EXIF orientation */
    JPEG_MARKERS_SAVE, /* saves both in codec.marker_list; does not read the orientation */
};

/* One thread at a time. codec.client_data is the reader. */
struct jpeg_reader {
    struct jpeg_memory memory;           /* must be first (jpeg_memory.h) */
    struct jpeg_decompress_struct codec; /* created by the first jpeg_reader_begin */
    bool is_codec_created;
    struct jpeg_error_mgr errors;
    struct jpeg_source_mgr source;
    struct jpeg_progress_mgr progress;
    jmp_buf jump;
    const uint8_t *data; /* borrowed from begin to end */
    size_t bytes;
    const uint8_t *window_end; /* end of the data visible to libjpeg */
    const char *path;
    uint32_t warnings; /* number of harmless ones since jpeg_reader_begin */
    uint32_t orientation;
    enum jpeg_markers markers;
    uint64_t pixels_max; /* limit on libjpeg's memory, in pixels */
};

void jpeg_reader_init(struct jpeg_reader *reader, enum jpeg_markers markers);
void jpeg_reader_deinit(struct jpeg_reader *reader); /* may follow jpeg_reader_end */

/* Reads the headers. Borrows data and path until jpeg_reader_end, which it calls itself on
 * error. -EBADMSG, -ENOMEM. */
int jpeg_reader_begin(struct jpeg_reader *reader, const void *data, size_t bytes, const char *path,
                      struct jpeg_info *ret_info, struct err *err);
/* Discards all state except tables and reads the headers of another file, which may lack tables
 * (the abbreviated format for compressed image data: ITU-T T.81, B.4). Borrows data until
 * jpeg_reader_end. */
int jpeg_reader_begin_abbreviated(struct jpeg_reader *reader, const void *data, size_t bytes,
                                  struct err *err);
int jpeg_reader_guard(struct jpeg_reader *reader, void (*step)(void *context), void *context,
                      struct err *err);
void jpeg_reader_end(struct jpeg_reader *reader);

#endif
