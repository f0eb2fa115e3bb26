/*
 * exif — reads the orientation from EXIF (tag 0x0112; CIPA DC-008, TIFF 6.0).
 */
#ifndef MILLRACE_IMAGE_FORMATS_EXIF_H
#define MILLRACE_IMAGE_FORMATS_EXIF_H

#include <stddef.h>
#include <stdint.h>

#define EXIF_PREFIX "Exif\0" /* with the implicit NUL; precedes the TIFF header in a JPEG */
enum { EXIF_PREFIX_BYTES = 6 };

/* app1: the payload of an APP1 segment. Returns 1..8; 1 if absent or invalid. */
uint32_t exif_orientation(const uint8_t *app1, size_t bytes);
/* Like exif_orientation, but for data that starts at the TIFF header, as in PNG and WebP. */
uint32_t exif_orientation_of_tiff(const uint8_t *tiff, size_t bytes);

#endif
