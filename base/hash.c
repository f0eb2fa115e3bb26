/*
 * hash — see hash.h. The one adapter of libxxhash.
 */
#include "base/hash.h"

#include "base/versions.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <xxhash.h>

struct hash_stream {
    XXH3_state_t *wide;   /* XXH3-128 */
    XXH3_state_t *narrow; /* XXH3-64: its state differs from the first block on */
};

uint64_t hash_64(const void *data, size_t bytes)
{
    return XXH3_64bits(data, bytes);
}

struct hash128 hash_128(const void *data, size_t bytes)
{
    XXH128_hash_t hash = XXH3_128bits(data, bytes);
    return (struct hash128){.high = hash.high64, .low = hash.low64};
}

struct hash_stream *hash_stream_open(void)
{
    struct hash_stream *stream = calloc(1, sizeof *stream);
    if (!stream)
        return NULL;
    stream->wide = XXH3_createState();
    stream->narrow = XXH3_createState();
    if (!stream->wide || !stream->narrow) {
        hash_stream_close(stream);
        return NULL;
    }
    hash_stream_reset(stream);
    return stream;
}

void hash_stream_close(struct hash_stream *stream)
{
    if (!stream)
        return;
    XXH3_freeState(stream->wide);
    XXH3_freeState(stream->narrow);
    free(stream);
}

void hash_stream_reset(struct hash_stream *stream)
{
    XXH3_128bits_reset(stream->wide);
    XXH3_64bits_reset(stream->narrow);
}

void hash_stream_update(struct hash_stream *stream, const void *data, size_t bytes)
{
    if (bytes == 0)
        return;
    XXH3_128bits_update(stream->wide, data, bytes);
    XXH3_64bits_update(stream->narrow, data, bytes);
}

struct hash128 hash_stream_128(const struct hash_stream *stream)
{
    XXH128_hash_t hash = XXH3_128bits_digest(stream->wide);
    return (struct hash128){.high = hash.high64, .low = hash.low64};
}

uint64_t hash_stream_64(const struct hash_stream *stream)
{
    return XXH3_64bits_digest(stream->narrow);
}

const char *hash128_format(struct hash128 hash, char *text)
{
    snprintf(text, HASH128_HEX_BYTES, "%016" PRIx64 "%016" PRIx64, hash.high, hash.low);
    return text;
}

const char *hash_version(char *text)
{
    unsigned version = XXH_versionNumber(); /* 801 is 0.8.1 */
    snprintf(text, VERSION_TEXT_BYTES, "xxHash %u.%u.%u", version / 10000, version / 100 % 100,
             version % 100);
    return text;
}
