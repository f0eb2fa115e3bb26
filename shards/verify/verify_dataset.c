/*
 * verify_dataset — see verify.h.
 */
#include "shards/verify/verify.h"

#include "base/hash.h"
#include "io/zstd/seekable_io.h"
#include "shards/verify/verification.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* CRCs cover everything from the index on, except the padding before the trailer. */
static int check_tail(struct verification *v, const struct dataset_shard *expected)
{
    const struct shard *shard = v->stream.shard;
    const struct shard_trailer *trailer = &shard->trailer;
    uint64_t at = v->stream.buffer_offset + v->stream.buffer_bytes;
    int status = 0;
    if (!shard->is_plain_tar && at < trailer->index_offset + trailer->index_bytes)
        status = verification_read(v, at, NULL, trailer->index_offset + trailer->index_bytes - at);
    uint64_t padding_at = trailer->index_offset + trailer->index_bytes;
    if (!status && !shard->is_plain_tar && padding_at >= v->stream.buffer_offset)
        status =
            verification_check_zeros(v, "", padding_at, v->stream.file_bytes - SHARD_TRAILER_BYTES);
    at = v->stream.buffer_offset + v->stream.buffer_bytes;
    if (!status && at < v->stream.file_bytes)
        status = verification_read(v, at, NULL, v->stream.file_bytes - at);
    uint64_t xxh3 = hash_stream_64(v->stream.hash), file_bytes = v->stream.file_bytes;
    bool is_compressed = seekable_io_is_name(v->path);
    if (!status && expected && is_compressed)
        status = verification_hash_stored(v, &xxh3, &file_bytes);
    if (status || !expected)
        return status;
    if (!expected->lacks_xxh3 && xxh3 != expected->xxh3)
        verification_report_checksum_mismatch(
            v, "", 0, "XXH3 of the shard differs from dataset.json", 16, expected->xxh3, xxh3);
    if (file_bytes != expected->file_bytes)
        verification_report_mismatch(v, "", 0, "size of the shard differs from dataset.json",
                                     expected->file_bytes, file_bytes);
    if (is_compressed && v->stream.file_bytes != expected->uncompressed_bytes)
        verification_report_mismatch(v, "", 0,
                                     "uncompressed size of the shard differs from dataset.json",
                                     expected->uncompressed_bytes, v->stream.file_bytes);
    if (trailer->samples != expected->samples)
        verification_report_mismatch(v, "", 0, "the shard's sample count differs from dataset.json",
                                     expected->samples, trailer->samples);
    if (shard->identity_crc32c != expected->index_crc32c)
        verification_report_checksum_mismatch(v, "", trailer->index_offset,
                                              "CRC of the index differs from dataset.json", 8,
                                              expected->index_crc32c, shard->identity_crc32c);
    if (expected->index_offset > 0 && !shard->is_plain_tar &&
        trailer->index_offset != expected->index_offset)
        verification_report_mismatch(v, "", v->stream.file_bytes - SHARD_TRAILER_BYTES,
                                     "index_offset of the shard differs from dataset.json",
                                     expected->index_offset, trailer->index_offset);
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

const char *verify_kind_name(enum verify_kind kind)
{
    static const char *const names[VERIFY_KIND_COUNT] = {"checksum", "archive", "fields",
                                                         "label",    "image",   "tokens"};
    return names[kind];
}

/* Fields required in each sample: an image and a label, if the dataset (for a single shard, any
 * sample) has one. Samples may lack other fields, such as a caption. Bits are the shard's field
 * numbers. */
struct required_fields {
    const char *names[SHARD_FIELDS_MAX + 1];
    uint64_t any_of[SHARD_FIELDS_MAX + 1]; /* fields that satisfy the requirement */
    uint32_t count;
    uint64_t unknown; /* fields that the dataset does not list */
};

static const char label_field[] = "cls";

static void require_field(struct required_fields *required, const struct verify_options *options,
                          const char *name)
{
    bool is_image = options->is_alternative && options->is_alternative(name, name) &&
                    !strchr(name, '.'); /* seg.png is another field than the image */
    if (!is_image && strcmp(name, label_field) != 0)
        return;
    for (uint32_t i = 0; i < required->count; i++)
        if (strcmp(required->names[i], name) == 0)
            return;
    required->names[required->count++] = name;
}

static struct required_fields find_required(const struct verification *v,
                                            const struct dataset *dataset)
{
    const struct shard_index *index = v->stream.shard->index;
    bool (*is_alternative)(const char *, const char *) = v->options->is_alternative;
    struct required_fields required = {.count = 0};
    uint32_t fields = shard_index_fields(index);
    for (uint32_t f = 0; dataset && f < dataset->fields_count; f++)
        require_field(&required, v->options, dataset->fields[f]);
    for (uint32_t f = 0; !dataset && f < fields; f++)
        require_field(&required, v->options, shard_index_extension(index, f));
    for (uint32_t f = 0; f < fields; f++) {
        const char *name = shard_index_extension(index, f);
        if (dataset && !dataset_has_field(dataset, name, strlen(name)))
            required.unknown |= UINT64_C(1) << f;
        for (uint32_t i = 0; i < required.count; i++)
            if (strcmp(required.names[i], name) == 0 ||
                (is_alternative && is_alternative(required.names[i], name)))
                required.any_of[i] |= UINT64_C(1) << f;
    }
    return required;
}

/* *ret_at: offset of the sample's first field. */
static uint64_t present_fields(const struct shard_index *index, uint64_t sample, uint64_t *ret_at)
{
    uint64_t present = 0;
    *ret_at = 0;
    for (uint32_t f = 0; f < shard_index_fields(index); f++) {
        struct shard_field field;
        shard_index_field(index, sample, f, &field);
        if (field.present && present == 0)
            *ret_at = field.data_offset;
        if (field.present)
            present |= UINT64_C(1) << f;
    }
    return present;
}

static void report_fields(struct verification *v, uint64_t at, enum verify_kind kind,
                          const char *what, const char *name)
{
    char key[SHARD_KEY_BYTES_MAX];
    struct err err;
    verification_key(v, key);
    err_set(&err, -EBADMSG, "%s \"%s\"", what, name);
    err_at(&err, v->path, (int64_t)at);
    verification_report(v, kind, key, &err);
}

static void check_fields(struct verification *v, const struct dataset *dataset)
{
    const struct shard_index *index = v->stream.shard->index;
    const struct required_fields required = find_required(v, dataset);
    for (v->sample = 0; v->sample < shard_index_samples(index); v->sample++) {
        uint64_t at, present = present_fields(index, v->sample, &at);
        for (uint32_t i = 0; i < required.count; i++)
            if (!(present & required.any_of[i]))
                report_fields(v, at,
                              strcmp(required.names[i], label_field) == 0 ? VERIFY_LABEL
                                                                          : VERIFY_FIELDS,
                              "the sample lacks the field", required.names[i]);
        for (uint32_t f = 0; f < shard_index_fields(index); f++)
            if (present & required.unknown & UINT64_C(1) << f)
                report_fields(v, at, VERIFY_FIELDS,
                              "the field of the sample is not listed in the dataset",
                              shard_index_extension(index, f));
    }
}

/* Compares 64-bit hashes of keys; collisions are very unlikely. */
static int check_keys(struct verification *v)
{
    const struct shard_index *index = v->stream.shard->index;
    uint64_t samples = shard_index_samples(index);
    struct hashed_key *keys = malloc((samples + 1) * sizeof *keys);
    if (!keys)
        return err_set(v->err, -ENOMEM, "out of memory for the keys of %" PRIu64 " samples",
                       samples);
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
        verification_report_mismatch(v, key, at, "key occurs twice in the shard: sample numbers",
                                     keys[i - 1].sample, keys[i].sample);
    }
    free(keys);
    return 0;
}

/* Whether the shard caused the error; lack of memory, for example, has other causes. */
static bool is_shard_error(int status)
{
    return status == -EBADMSG || status == -ENOENT || status == -ENODATA || status == -EISDIR;
}

static int verify_contents(struct verification *v, const struct dataset *dataset,
                           const struct dataset_shard *expected)
{
    int status = verification_open(v);
    if (!status)
        status = verify_archive(v);
    if (!status)
        status = check_tail(v, expected);
    if (!status && v->options->requires_fields)
        check_fields(v, dataset);
    return status ? status : check_keys(v);
}

static int verify_open_shard(struct verification *v, const struct dataset *dataset,
                             const struct dataset_shard *expected)
{
    const struct shard_open_options options = {.index_offset =
                                                   expected ? expected->index_offset : 0};
    struct err err, *caller_err = v->err;
    v->result->shards_count++;
    v->err = &err;
    int status = seekable_io_open(v->stored_io, 1, &v->io, &err);
    if (!status)
        status = shard_open_with(v->io, v->path, &options, &v->stream.shard, &err);
    bool is_damaged = is_shard_error(status);
    if (!status) {
        v->result->samples_count += v->stream.shard->trailer.samples;
        if (v->bytes_total == 0) /* of a single shard */
            v->bytes_total = v->io->ops->file_size(v->stream.shard->file);
        status = verify_contents(v, dataset, expected);
        is_damaged = status == -EBADMSG; /* the rest of the compressed shard cannot be read */
    }
    v->err = caller_err;
    if (is_damaged)
        verification_report(v, VERIFY_ARCHIVE, "", &err);
    else if (status && caller_err)
        *caller_err = err;
    return is_damaged ? 0 : status;
}

int verify_shard(struct io *io, const char *path, const struct dataset_shard *expected,
                 const struct verify_options *options, struct verify_result *result,
                 struct err *err)
{
    struct verification v = {
        .stored_io = io, .options = options, .result = result, .err = err, .path = path};
    int status = verify_open_shard(&v, NULL, expected);
    verification_close(&v);
    return status;
}

int verify_dataset(struct io *io, const struct dataset *dataset,
                   const struct verify_options *options, struct verify_result *result,
                   struct err *err)
{
    uint64_t bytes_total = dataset_uncompressed_bytes(dataset), bytes_before = 0;
    for (uint64_t i = 0; i < dataset->shards_count; i++) {
        char path[IO_PATH_BYTES_MAX];
        struct verification v = {
            .stored_io = io, .options = options, .result = result, .err = err, .path = path};
        v.bytes_total = bytes_total;
        v.bytes_before = bytes_before;
        int status = dataset_shard_path(dataset, i, path, err);
        if (!status)
            status = verify_open_shard(&v, dataset, &dataset->shards[i]);
        verification_close(&v);
        if (status)
            return status;
        bytes_before += dataset->shards[i].uncompressed_bytes;
    }
    return 0;
}
