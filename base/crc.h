/*
 * crc — CRC32C (Castagnoli, RFC 3720 appendix B.4), by ISA-L.
 */
#ifndef MILLRACE_BASE_CRC_H
#define MILLRACE_BASE_CRC_H

#include <stddef.h>
#include <stdint.h>

/* The CRC of what crc already covers (0: nothing yet) followed by data. crc32c(0, "123456789", 9) is 0xe3069283. */
uint32_t crc32c(uint32_t crc, const void *data, size_t bytes);

#endif
