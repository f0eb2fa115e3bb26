/*
 * exif — the one thing that we read of EXIF: the orientation (tag 0x0112; CIPA DC-008, TIFF 6.0).
 */
#ifndef MILLRACE_IMAGE_EXIF_H
#define MILLRACE_IMAGE_EXIF_H

#include <stddef.h>
#include <stdint.h>

#define EXIF_PREFIX "Exif\0" /* and its own NUL: what stands before the TIFF header in a JPEG */
enum { EXIF_PREFIX_BYTES = 6 };

/* app1: the payload of an APP1 segment, after its length. 1..8; 1 where there is none or it is
 * invalid. */
uint32_t exif_orientation(const uint8_t *app1, size_t bytes);
/* The same from the TIFF header on, as PNG and WebP store it. */
uint32_t exif_orientation_of_tiff(const uint8_t *tiff, size_t bytes);

#endif
