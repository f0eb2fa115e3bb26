/*
 * hash — 64-bit and 128-bit XXH3 hashes (https://github.com/Cyan4973/xxHash), computed by
 * libxxhash. A stream hashes data incrementally.
 */
#ifndef MILLRACE_BASE_HASH_H
#define MILLRACE_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct hash128 {
    uint64_t high, low;
};

enum { HASH128_HEX_BYTES = 33 };

uint64_t hash_64(const void *data, size_t bytes);
struct hash128 hash_128(const void *data, size_t bytes);

/* open returns NULL if out of memory; close accepts NULL. Owner thread. */
struct hash_stream;
struct hash_stream *hash_stream_open(void);
void hash_stream_close(struct hash_stream *stream);
void hash_stream_reset(struct hash_stream *stream);
void hash_stream_update(struct hash_stream *stream, const void *data, size_t bytes);
struct hash128 hash_stream_128(const struct hash_stream *stream);
uint64_t hash_stream_64(const struct hash_stream *stream); /* XXH3-64 of the same bytes */

/* Writes 32 lower-case digits, high half first (as `xxh128sum` prints), into text
 * (HASH128_HEX_BYTES). Returns text. */
const char *hash128_format(struct hash128 hash, char *text);

#ifdef __cplusplus
}
#endif

#endif
