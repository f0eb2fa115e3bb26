/*
 * jpeg_writer — libjpeg-turbo's compressor into a byte string: its destination and errors. What
 * jpeg_encode.c (pixels) and jpeg_tile.c (coefficients) share; nobody outside image/ includes this
 * header. Longjmp is handled as jpeg_reader.h says.
 */
#ifndef MILLRACE_IMAGE_JPEG_WRITER_H
#define MILLRACE_IMAGE_JPEG_WRITER_H

#include "base/err.h"
#include "base/str.h"

#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <jpeglib.h>

enum { JPEG_WRITER_PIECE_BYTES = 16384 };

/* Owner thread. client_data of codec is the writer. */
struct jpeg_writer {
    struct jpeg_compress_struct codec; /* destroyed by deinit */
    struct jpeg_error_mgr errors;
    struct jpeg_destination_mgr destination;
    jmp_buf jump;
    struct str *out;
    size_t bytes_before; /* that out had */
    uint8_t piece[JPEG_WRITER_PIECE_BYTES];
};

/* Makes codec, which will append to out. -ENOMEM. Deinit is due either way. */
int jpeg_writer_init(struct jpeg_writer *writer, struct str *out, struct err *err);
/* Runs a step; after an error out is as it was before init. -ENOMEM; -EINVAL where libjpeg refuses
 * what it was asked for. */
int jpeg_writer_guard(struct jpeg_writer *writer, void (*step)(void *context), void *context,
                      struct err *err);
void jpeg_writer_deinit(struct jpeg_writer *writer);

#endif
