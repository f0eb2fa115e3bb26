/*
 * jpeg_memory — memory for libjpeg's small and large objects that is kept from image to image, so
 * that decoding asks malloc for nothing once the largest image was seen. Arrays, of which
 * progressive and CMYK images have some, stay with libjpeg's own memory manager.
 *
 * client_data of the codec points to a struct that begins with a struct jpeg_memory.
 */
#ifndef MILLRACE_IMAGE_JPEG_MEMORY_H
#define MILLRACE_IMAGE_JPEG_MEMORY_H

#include <stddef.h>
#include <stdio.h>

#include <jpeglib.h>

struct jpeg_chunk;

/* Objects of one lifetime. All zero at first. */
struct jpeg_pool {
    struct jpeg_chunk *first, *current; /* those after current are unused */
    size_t used;                        /* bytes of current */
};

struct jpeg_memory {
    struct jpeg_pool pools[JPOOL_NUMPOOLS];
    void (*free_pool)(j_common_ptr codec, int pool); /* libjpeg's */
};

/* Right after jpeg_create_decompress: what the codec asks for from now on comes from memory. */
void jpeg_memory_install(struct jpeg_memory *memory, j_decompress_ptr codec);
/* Gives up what belongs to the last image, its tables included, so that the next one can't use
 * them. */
void jpeg_memory_reset(struct jpeg_memory *memory, j_decompress_ptr codec);
/* After jpeg_destroy_decompress. */
void jpeg_memory_deinit(struct jpeg_memory *memory);

#endif
