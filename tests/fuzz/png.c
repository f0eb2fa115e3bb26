/*
 * png — fuzz target: a PNG (image/formats/png.h). The target corrects the checksums of chunks
 * first, since hardly any mutation would pass them.
 */
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/pixels.h"

enum { SIGNATURE_BYTES = 8, CHUNK_BYTES = 12 };

static uint32_t get_u32(const uint8_t *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

/* The CRC of PNG's annex D, bit by bit. */
static uint32_t crc_of(const uint8_t *data, size_t bytes)
{
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < bytes; i++) {
        crc ^= data[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
    }
    return ~crc;
}

static void fix_checksums(uint8_t *data, size_t bytes)
{
    for (size_t at = SIGNATURE_BYTES; at < bytes && bytes - at >= CHUNK_BYTES;) {
        size_t length = get_u32(data + at);
        if (length > bytes - at - CHUNK_BYTES)
            return;
        uint32_t crc = crc_of(data + at + 4, length + 4);
        for (int i = 0; i < 4; i++)
            data[at + 8 + length + (size_t)i] = (uint8_t)(crc >> (24 - 8 * i));
        at += CHUNK_BYTES + length;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    uint8_t *copy = malloc(bytes + 1);
    if (!copy)
        return 0;
    memcpy(copy, data, bytes);
    fix_checksums(copy, bytes);
    fuzz_pixels(IMAGE_PNG, copy, bytes);
    free(copy);
    return 0;
}
