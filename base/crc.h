/*
 * crc — CRC32C (Castagnoli, RFC 3720 appendix B.4) and the CRC-32 of zip and gzip (RFC 1952,
 * section 8), computed by ISA-L.
 */
#ifndef MILLRACE_BASE_CRC_H
#define MILLRACE_BASE_CRC_H

#include <stddef.h>
#include <stdint.h>

/* Extends crc (0: no bytes yet) by data. crc32c(0, "123456789", 9) is 0xe3069283. */
uint32_t crc32c(uint32_t crc, const void *data, size_t bytes);
/* Computes the CRC of the concatenation of two byte strings from their CRCs. */
uint32_t crc32c_join(uint32_t first, uint32_t second, uint64_t second_bytes);
/* Extends crc (0: no bytes yet) by data. crc32_zip(0, "123456789", 9) is 0xcbf43926. */
uint32_t crc32_zip(uint32_t crc, const void *data, size_t bytes);

#endif
