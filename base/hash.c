/*
 * hash — see hash.h. The only adapter of libxxhash.
 */
#include "base/hash.h"

#include "base/versions.h"

#include <inttypes.h>
#include <stdio.h>
#include <xxhash.h>

uint64_t hash_64(const void *data, size_t bytes)
{
    return XXH3_64bits(data, bytes);
}

struct hash128 hash_128(const void *data, size_t bytes)
{
    XXH128_hash_t hash = XXH3_128bits(data, bytes);
    return (struct hash128){.high = hash.high64, .low = hash.low64};
}

/* XXH3-64 and XXH3-128 share a state and differ only in the final step. */
struct hash_stream *hash_stream_open(void)
{
    XXH3_state_t *state = XXH3_createState();
    if (state)
        XXH3_128bits_reset(state);
    return (struct hash_stream *)state;
}

void hash_stream_close(struct hash_stream *stream)
{
    XXH3_freeState((XXH3_state_t *)stream);
}

void hash_stream_reset(struct hash_stream *stream)
{
    XXH3_128bits_reset((XXH3_state_t *)stream);
}

void hash_stream_update(struct hash_stream *stream, const void *data, size_t bytes)
{
    if (bytes > 0)
        XXH3_128bits_update((XXH3_state_t *)stream, data, bytes);
}

struct hash128 hash_stream_128(const struct hash_stream *stream)
{
    XXH128_hash_t hash = XXH3_128bits_digest((const XXH3_state_t *)stream);
    return (struct hash128){.high = hash.high64, .low = hash.low64};
}

uint64_t hash_stream_64(const struct hash_stream *stream)
{
    return XXH3_64bits_digest((const XXH3_state_t *)stream);
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
