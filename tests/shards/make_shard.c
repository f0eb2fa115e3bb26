/*
 * make_shard — see make_shard.h.
 */
#include "tests/shards/make_shard.h"

#include <stdlib.h>

#define TEN     "0123456789"
#define HUNDRED TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN

const struct make_shard_sample make_shard_variety[] = {
    {"a", {{"cls", 1}, {"jpg", 513}}},
    {"dress/b.c/d", {{"cls", 2}, {"jpg", 512}, {"txt", 0}}},
    {"big", {{"jpg", 3 * SHARD_BLOCK_BYTES + 1}}},
    {"one-block", {{"jpg", SHARD_BLOCK_BYTES}}},
    {"only-text", {{"txt", 7}}},
    {HUNDRED "/split-by-prefix", {{"cls", 1}}},
    {HUNDRED "-longer-than-a-name-without-slash", {{"cls", 1}}},
    {HUNDRED "/" HUNDRED "/" HUNDRED "/deep", {{"jpg", 70000}}},
    {"Gr\xc3\xb6\xc3\x9f"
     "e/\xe6\xb0\xb4\xe8\xbb\x8a",
     {{"cls", 1}}},
    {HUNDRED "\xe6\xb0\xb4\xe8\xbb\x8a" HUNDRED "/" HUNDRED, {{"cls", 2}, {"jpg", 1}}},
};
const size_t make_shard_variety_count = sizeof make_shard_variety / sizeof make_shard_variety[0];

uint8_t *make_shard_data(size_t sample, size_t field, size_t bytes)
{
    uint8_t *data = malloc(bytes + 1);
    assert_non_null(data);
    uint32_t state = (uint32_t)(sample * 7919 + field * 104729 + 1);
    for (size_t i = 0; i < bytes; i++) {
        state = state * 1664525u + 1013904223u;
        data[i] = (uint8_t)(state >> 24);
    }
    return data;
}

struct shard_summary make_shard(struct io *io, const char *path,
                                const struct make_shard_sample *samples, size_t count)
{
    struct err err;
    struct shard_writer *writer;
    struct shard_summary summary;
    assert_ok(shard_writer_open(io, path, false, &writer, &err), &err);
    for (size_t s = 0; s < count; s++) {
        assert_ok(shard_writer_begin_sample(writer, samples[s].key, &err), &err);
        for (size_t f = 0; f < MAKE_SHARD_FIELDS_MAX && samples[s].fields[f].extension; f++) {
            size_t bytes = samples[s].fields[f].bytes;
            uint8_t *data = make_shard_data(s, f, bytes);
            assert_ok(
                shard_writer_add_field(writer, samples[s].fields[f].extension, data, bytes, &err),
                &err);
            free(data);
        }
    }
    assert_ok(shard_writer_commit(writer, &summary, &err), &err);
    return summary;
}
