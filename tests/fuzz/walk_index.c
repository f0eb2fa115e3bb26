/*
 * walk_index — see fuzz.h.
 */
#include "base/bytes.h"
#include "tests/fuzz/fuzz.h"

#include <math.h>
#include <stdlib.h>

static uint64_t read_field(const struct shard_index *index, uint64_t sample, uint32_t number,
                           uint64_t archive_end)
{
    struct shard_field field;
    uint64_t sum = 0;
    shard_index_field(index, sample, number, &field);
    if (!field.present)
        return 0;
    if (field.data_offset > archive_end || field.size_bytes > archive_end - field.data_offset)
        abort();
    for (uint64_t b = 0; field.block_crc32c && b * SHARD_BLOCK_BYTES < field.size_bytes; b++)
        sum += bytes_get_u32(field.block_crc32c + 4 * b);
    return sum;
}

void fuzz_walk_index(const struct shard_index *index, uint64_t archive_end)
{
    uint32_t fields = shard_index_fields(index);
    uint64_t sum = 0;
    for (uint64_t i = 0; i < shard_index_samples(index); i++) {
        uint32_t key_bytes;
        const char *key = shard_index_key(index, i, &key_bytes);
        for (uint32_t k = 0; k < key_bytes; k++)
            sum += (unsigned char)key[k];
        for (uint32_t f = 0; f < fields; f++)
            sum += read_field(index, i, f, archive_end);
    }
    for (uint32_t n = 0; n < shard_index_numbers(index); n++) {
        if (shard_index_find_number(index, shard_index_number_name(index, n)) != (int)n)
            abort();
        for (uint64_t i = 0; i < shard_index_samples(index); i++)
            if (isinf(shard_index_number(index, i, n)))
                abort();
    }
    for (uint32_t f = 0; f < fields; f++) {
        if (shard_index_find(index, shard_index_extension(index, f)) != (int)f)
            abort();
    }
    /* keeps the compiler from removing reads */
    if (sum == UINT64_MAX)
        abort();
}
