/*
 * verify — see verify.h.
 */
#include "shards/verify.h"

#include "base/hash.h"
#include "shards/verification.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

/* The bytes from the index on are covered by its CRC and the trailer's, but for the padding between. */
static int check_tail(struct verification *v, const struct dataset_shard *expected)
{
    const struct shard *shard = v->stream.shard;
    const struct shard_trailer *trailer = &shard->trailer;
    uint64_t at = v->stream.buffer_offset + v->stream.buffer_bytes;
    int status = 0;
    if (!shard->is_foreign && at < trailer->index_offset + trailer->index_bytes)
        status = verification_read(v, at, NULL, trailer->index_offset + trailer->index_bytes - at);
    uint64_t padding_at = trailer->index_offset + trailer->index_bytes;
    if (!status && !shard->is_foreign && padding_at >= v->stream.buffer_offset)
        status = verification_check_zeros(v, "", padding_at, v->stream.file_bytes - SHARD_TRAILER_BYTES);
    at = v->stream.buffer_offset + v->stream.buffer_bytes;
    if (!status && at < v->stream.file_bytes)
        status = verification_read(v, at, NULL, v->stream.file_bytes - at);
    if (status || !expected)
        return status;
    uint64_t xxh3 = hash_stream_64(v->stream.hash);
    if (!expected->lacks_xxh3 && xxh3 != expected->xxh3)
        verification_complain_sum(v, "", 0, "XXH3 of the shard is not that of dataset.json", 16,
                                  expected->xxh3, xxh3);
    if (v->stream.file_bytes != expected->file_bytes)
        verification_complain(v, "", 0, "size of the shard is not that of dataset.json", expected->file_bytes,
                              v->stream.file_bytes);
    if (trailer->samples != expected->samples)
        verification_complain(v, "", 0, "shard has not as many samples as dataset.json says",
                              expected->samples, trailer->samples);
    if (shard->identity_crc32c != expected->index_crc32c)
        verification_complain_sum(v, "", trailer->index_offset,
                                  "CRC of the index is not that of dataset.json", 8, expected->index_crc32c,
                                  shard->identity_crc32c);
    return 0;
}

struct hashed_key {
    uint64_t hash, sample;
};

static int compare_hashes(const void *a, const void *b)
{
    const struct hashed_key *left = a, *right = b;
    if (left->hash != right->hash)
        return left->hash < right->hash ? -1 : 1;
    return left->sample < right->sample ? -1 : left->sample > right->sample;
}

/* Equal keys have equal hashes; of 64 bits, other keys hardly ever. */
static int check_keys(struct verification *v)
{
    const struct shard_index *index = v->stream.shard->index;
    uint64_t samples = shard_index_samples(index);
    struct hashed_key *keys = malloc((samples + 1) * sizeof *keys);
    if (!keys)
        return err_set(v->err, -ENOMEM, "out of memory for the keys of %" PRIu64 " samples", samples);
    for (uint64_t s = 0; s < samples; s++) {
        uint32_t bytes;
        const char *key = shard_index_key(index, s, &bytes);
        keys[s] = (struct hashed_key){hash_64(key, bytes), s};
    }
    qsort(keys, samples, sizeof *keys, compare_hashes);
    for (uint64_t i = 1; i < samples; i++) {
        if (keys[i].hash != keys[i - 1].hash)
            continue;
        char key[SHARD_KEY_BYTES_MAX];
        struct shard_field field;
        v->sample = keys[i].sample;
        v->field = 0;
        verification_key(v, key);
        uint64_t at = verification_next_field(v, &field) ? field.data_offset : 0;
        verification_complain(v, key, at, "key stands twice in the shard: numbers of the samples",
                              keys[i - 1].sample, keys[i].sample);
    }
    free(keys);
    return 0;
}

/* Shards that can't be opened are a problem; that memory is out or the disk fails is not theirs. */
static bool is_shards_fault(int status)
{
    return status == -EBADMSG || status == -ENOENT || status == -ENODATA || status == -EISDIR;
}

static int verify_one(struct verification *v, const struct dataset_shard *expected)
{
    struct err err;
    v->result->shards_count++;
    int status = shard_open(v->io, v->path, &v->stream.shard, &err);
    if (is_shards_fault(status)) {
        verification_report(v, "", &err);
        return 0;
    }
    if (status) {
        if (v->err)
            *v->err = err;
        return status;
    }
    v->result->samples_count += v->stream.shard->trailer.samples;
    status = verification_open(v);
    if (!status)
        status = verify_archive(v);
    if (!status)
        status = check_tail(v, expected);
    if (!status)
        status = check_keys(v);
    return status;
}

int verify_shard(struct io *io, const char *path, const struct dataset_shard *expected,
                 const struct verify_options *options, struct verify_result *result, struct err *err)
{
    struct verification v = {.io = io, .options = options, .result = result, .err = err, .path = path};
    struct io_stat info;
    v.bytes_total = expected                               ? expected->file_bytes
                    : io->ops->stat(io, path, &info, NULL) ? 0
                                                           : info.size_bytes;
    int status = verify_one(&v, expected);
    verification_close(&v);
    return status;
}

int verify_dataset(struct io *io, const struct dataset *dataset, const struct verify_options *options,
                   struct verify_result *result, struct err *err)
{
    uint64_t bytes_total = 0, bytes_before = 0;
    for (uint64_t i = 0; i < dataset->shards_count; i++)
        bytes_total += dataset->shards[i].file_bytes;
    for (uint64_t i = 0; i < dataset->shards_count; i++) {
        char path[IO_PATH_BYTES_MAX];
        struct verification v = {.io = io, .options = options, .result = result, .err = err, .path = path};
        v.bytes_total = bytes_total;
        v.bytes_before = bytes_before;
        int status = dataset_shard_path(dataset, i, path, err);
        if (!status)
            status = verify_one(&v, &dataset->shards[i]);
        verification_close(&v);
        if (status)
            return status;
        bytes_before += dataset->shards[i].file_bytes;
    }
    return 0;
}
