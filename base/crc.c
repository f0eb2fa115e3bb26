/*
 * crc — see crc.h. The one adapter of ISA-L, which neither inverts nor takes more than an int's worth at once.
 */
#include "base/crc.h"

#include "base/libraries.h"

#include <isa-l.h>
#include <stdio.h>

uint32_t crc32c(uint32_t crc, const void *data, size_t bytes)
{
    enum { CHUNK_BYTES = 1 << 30 };
    const unsigned char *at = data;
    crc = ~crc;
    while (bytes > 0) {
        size_t chunk = bytes < CHUNK_BYTES ? bytes : CHUNK_BYTES;
        /* ISA-L only reads, its prototype forgot the const */
        crc = crc32_iscsi((unsigned char *)(uintptr_t)at, (int)chunk, crc);
        at += chunk;
        bytes -= chunk;
    }
    return ~crc;
}

const char *crc_library(char *text)
{
    snprintf(text, LIBRARY_TEXT_BYTES, "ISA-L %d.%d.%d", ISAL_MAJOR_VERSION, ISAL_MINOR_VERSION,
             ISAL_PATCH_VERSION);
    return text;
}
