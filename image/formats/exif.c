/*
 * exif — see exif.h. The segment consists of `Exif\0\0` and a TIFF header (byte order, 42,
 * offset of the first directory). The directory consists of a count and 12-byte entries {tag
 * u16, type u16, count u32, value}.
 */
#include "image/formats/exif.h"

#include <stdbool.h>
#include <string.h>

enum {
    TIFF_HEADER_BYTES = 8,
    ENTRY_BYTES = 12,
    TIFF_MAGIC = 42,
    TAG_ORIENTATION = 0x0112,
    TYPE_SHORT = 3,
    ORIENTATION_NONE = 1,
    ORIENTATION_MAX = 8,
};

static uint32_t get_u16(const uint8_t *at, bool big_endian)
{
    return big_endian ? (uint32_t)at[0] << 8 | at[1] : (uint32_t)at[1] << 8 | at[0];
}

static uint32_t get_u32(const uint8_t *at, bool big_endian)
{
    return big_endian ? get_u16(at, big_endian) << 16 | get_u16(at + 2, big_endian)
                      : get_u16(at + 2, big_endian) << 16 | get_u16(at, big_endian);
}

static uint32_t orientation_of_entry(const uint8_t *entry, bool big_endian)
{
    uint32_t value = get_u16(entry + 8, big_endian);
    if (get_u16(entry + 2, big_endian) != TYPE_SHORT || get_u32(entry + 4, big_endian) != 1)
        return ORIENTATION_NONE;
    return value >= 1 && value <= ORIENTATION_MAX ? value : ORIENTATION_NONE;
}

uint32_t exif_orientation_of_tiff(const uint8_t *tiff, size_t tiff_bytes)
{
    if (tiff_bytes < TIFF_HEADER_BYTES)
        return ORIENTATION_NONE;
    bool big_endian = tiff[0] == 'M';
    if (tiff[0] != tiff[1] || (tiff[0] != 'I' && tiff[0] != 'M') ||
        get_u16(tiff + 2, big_endian) != TIFF_MAGIC)
        return ORIENTATION_NONE;
    size_t at = get_u32(tiff + 4, big_endian);
    if (at > tiff_bytes || tiff_bytes - at < 2)
        return ORIENTATION_NONE;
    uint32_t entries = get_u16(tiff + at, big_endian);
    at += 2;
    for (uint32_t i = 0; i < entries && tiff_bytes - at >= ENTRY_BYTES; i++, at += ENTRY_BYTES)
        if (get_u16(tiff + at, big_endian) == TAG_ORIENTATION)
            return orientation_of_entry(tiff + at, big_endian);
    return ORIENTATION_NONE;
}

uint32_t exif_orientation(const uint8_t *app1, size_t bytes)
{
    if (bytes < EXIF_PREFIX_BYTES || memcmp(app1, EXIF_PREFIX, EXIF_PREFIX_BYTES))
        return ORIENTATION_NONE;
    return exif_orientation_of_tiff(app1 + EXIF_PREFIX_BYTES, bytes - EXIF_PREFIX_BYTES);
}
