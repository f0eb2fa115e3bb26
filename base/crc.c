/*
 * crc — see crc.h. The only adapter of ISA-L, which does not invert the CRC32C and takes at most
 * INT_MAX bytes of it per call.
 */
#include "base/crc.h"

#include "base/versions.h"
#include "base/zero_upper.h"

#include <isa-l.h>
#include <stdio.h>

uint32_t crc32c(uint32_t crc, const void *data, size_t bytes)
{
    enum { CHUNK_BYTES = 1 << 30 };
    const unsigned char *at = data;
    crc = ~crc;
    while (bytes > 0) {
        size_t chunk = bytes < CHUNK_BYTES ? bytes : CHUNK_BYTES;
        /* ISA-L does not write; its prototype lacks const */
        crc = crc32_iscsi((unsigned char *)(uintptr_t)at, (int)chunk, crc);
        at += chunk;
        bytes -= chunk;
    }
    zero_upper(); /* ISA-L's AVX-512 code does not */
    return ~crc;
}

uint32_t crc32_zip(uint32_t crc, const void *data, size_t bytes)
{
    crc = crc32_gzip_refl(crc, data, bytes);
    zero_upper();
    return crc;
}

/* Polynomial product modulo CRC32C's polynomial; bit 31 is the coefficient of x^0. */
static uint32_t multiply_polynomials(uint32_t a, uint32_t b)
{
    const uint32_t polynomial = 0x82f63b78;
    uint32_t product = 0;
    for (uint32_t bit = UINT32_C(1) << 31; bit; bit >>= 1) {
        product ^= a & bit ? b : 0;
        b = b & 1 ? b >> 1 ^ polynomial : b >> 1;
    }
    return product;
}

/* Each appended byte multiplies the CRC by x^8. */
uint32_t crc32c_join(uint32_t first, uint32_t second, uint64_t second_bytes)
{
    uint32_t shift = UINT32_C(1) << 31, square = UINT32_C(1) << 23;
    for (; second_bytes > 0; second_bytes >>= 1) {
        if (second_bytes & 1)
            shift = multiply_polynomials(shift, square);
        square = multiply_polynomials(square, square);
    }
    return multiply_polynomials(first, shift) ^ second;
}

const char *crc_version(char *text)
{
    snprintf(text, VERSION_TEXT_BYTES, "ISA-L %d.%d.%d", ISAL_MAJOR_VERSION, ISAL_MINOR_VERSION,
             ISAL_PATCH_VERSION);
    return text;
}
