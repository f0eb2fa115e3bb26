/*
 * jpeg_writer — libjpeg-turbo's compressor, writing to a byte string, for jpeg_encode.c (pixels)
 * and jpeg_tile.c (coefficients). It handles longjmp as in jpeg_reader.h.
 */
#ifndef MILLRACE_IMAGE_JPEG_JPEG_WRITER_H
#define MILLRACE_IMAGE_JPEG_JPEG_WRITER_H

#include "base/err.h"
#include "base/str.h"

#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <jpeglib.h>

enum { JPEG_WRITER_BUFFER_BYTES = 16384 };

/* One thread at a time. codec.client_data is the writer. */
struct jpeg_writer {
    struct jpeg_compress_struct codec; /* destroyed by jpeg_writer_deinit */
    struct jpeg_error_mgr errors;
    struct jpeg_destination_mgr destination;
    jmp_buf jump;
    struct str *out;
    size_t bytes_before; /* initial size of out */
    uint8_t buffer[JPEG_WRITER_BUFFER_BYTES];
};

/* Creates codec, which appends to out. -ENOMEM. Always call jpeg_writer_deinit. */
int jpeg_writer_init(struct jpeg_writer *writer, struct str *out, struct err *err);
/* Runs a step. On error, restores out to its state before jpeg_writer_init. -ENOMEM; -EINVAL if
 * libjpeg rejects the request. */
int jpeg_writer_guard(struct jpeg_writer *writer, void (*step)(void *context), void *context,
                      struct err *err);
void jpeg_writer_deinit(struct jpeg_writer *writer);

#endif
