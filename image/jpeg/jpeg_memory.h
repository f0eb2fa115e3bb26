/*
 * jpeg_memory — memory for libjpeg's small and large objects, kept across images so that
 * decoding stops allocating after the largest image. libjpeg's own manager still allocates the
 * arrays of progressive and CMYK images.
 *
 * client_data of the codec points to a struct that begins with a struct jpeg_memory.
 */
#ifndef MILLRACE_IMAGE_JPEG_JPEG_MEMORY_H
#define MILLRACE_IMAGE_JPEG_JPEG_MEMORY_H

#include <stddef.h>
#include <stdio.h>

#include <jpeglib.h>

struct jpeg_chunk;

/* Objects of one lifetime. Zero-initialized. */
struct jpeg_pool {
    struct jpeg_chunk *first, *current; /* chunks after current are unused */
    size_t used;                        /* in current */
};

struct jpeg_memory {
    struct jpeg_pool pools[JPOOL_NUMPOOLS];
    void (*free_pool)(j_common_ptr codec, int pool); /* libjpeg's */
};

/* Call it right after jpeg_create_decompress. The codec's later allocations use `memory`. */
void jpeg_memory_install(struct jpeg_memory *memory, j_decompress_ptr codec);
/* Frees the last image's objects, including its tables, so that the next image cannot use them. */
void jpeg_memory_reset(struct jpeg_memory *memory, j_decompress_ptr codec);
/* Call it after jpeg_destroy_decompress. */
void jpeg_memory_deinit(struct jpeg_memory *memory);

#endif
