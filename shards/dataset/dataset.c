/*
 * dataset — see dataset.h; dataset_open.c parses dataset.json.
 */
#include "shards/dataset/dataset.h"

#include "base/bytes.h"
#include "base/hash.h"
#include "base/json/jsonx_writer.h"
#include "io/file_util.h"
#include "io/local/page_cache.h"
#include "io/zstd/seekable_io.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void dataset_close(struct dataset *dataset)
{
    if (!dataset)
        return;
    for (uint64_t i = 0; dataset->shards && i < dataset->shards_count; i++)
        free(dataset->shards[i].url);
    for (uint64_t i = 0; dataset->classes && i < dataset->classes_count; i++)
        free(dataset->classes[i]);
    free(dataset->shards);
    free(dataset->classes);
    str_deinit(&dataset->options_json);
    free(dataset);
}

uint64_t dataset_file_bytes(const struct dataset *dataset)
{
    uint64_t bytes = 0;
    for (uint64_t i = 0; i < dataset->shards_count; i++)
        bytes += dataset->shards[i].file_bytes;
    return bytes;
}

uint64_t dataset_uncompressed_bytes(const struct dataset *dataset)
{
    uint64_t bytes = 0;
    for (uint64_t i = 0; i < dataset->shards_count; i++)
        bytes += dataset->shards[i].uncompressed_bytes;
    return bytes;
}

bool dataset_is_compressed(const struct dataset *dataset)
{
    for (uint64_t i = 0; i < dataset->shards_count; i++)
        if (seekable_io_is_name(dataset->shards[i].url))
            return true;
    return false;
}

bool dataset_has_field(const struct dataset *dataset, const char *name, size_t name_bytes)
{
    for (uint32_t i = 0; i < dataset->fields_count; i++)
        if (strlen(dataset->fields[i]) == name_bytes &&
            memcmp(dataset->fields[i], name, name_bytes) == 0)
            return true;
    return false;
}

uint64_t dataset_locate(const struct dataset *dataset, uint64_t sample,
                        uint64_t *ret_number_in_shard)
{
    assert(sample < dataset->samples);
    /* Find the last shard that starts at or before the sample. */
    uint64_t low = 0, high = dataset->shards_count;
    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        if (dataset->shards[middle].first_sample <= sample)
            low = middle;
        else
            high = middle;
    }
    *ret_number_in_shard = sample - dataset->shards[low].first_sample;
    return low;
}

int dataset_shard_path(const struct dataset *dataset, uint64_t shard, char *path, struct err *err)
{
    assert(shard < dataset->shards_count);
    const char *url = dataset->shards[shard].url;
    bool absolute = url[0] == '/' || io_scheme_bytes(url) > 0;
    return io_join_path(absolute ? "" : dataset->folder, url, path, err);
}

static int check_against_list(const struct shard *shard, const struct dataset_shard *listed,
                              struct err *err)
{
    const struct shard_trailer *trailer = &shard->trailer;
    if (trailer->samples != listed->samples || shard->identity_crc32c != listed->index_crc32c) {
        err_set(err, -EBADMSG, "the shard does not match dataset.json");
        err_at(err, shard->path, (int64_t)trailer->index_offset);
        err_expected(err, "%" PRIu64 " samples, index CRC %08" PRIx32, listed->samples,
                     listed->index_crc32c);
        err_found(err, "%" PRIu64 " samples, index CRC %08" PRIx32, trailer->samples,
                  shard->identity_crc32c);
        if (shard->is_plain_tar)
            err_advise(err, "copy the file again, as it changed since the list was made, or start "
                            "a new run");
        else
            err_advise(err, "convert the dataset again or copy all of its shards");
        return -EBADMSG;
    }
    if (listed->index_offset > 0 && !shard->is_plain_tar &&
        trailer->index_offset != listed->index_offset) {
        err_set(err, -EBADMSG, "index_offset of the shard differs from dataset.json");
        err_at(err, shard->path, (int64_t)(trailer->file_bytes - SHARD_TRAILER_BYTES));
        err_expected(err, "%" PRIu64 " as in dataset.json", listed->index_offset);
        err_found(err, "%" PRIu64 " in the shard's trailer", trailer->index_offset);
        err_advise(err, "the shard is intact: copy dataset.json again, or convert the dataset "
                        "again");
        return -EBADMSG;
    }
    return 0;
}

int dataset_open_shard(struct io *io, const struct dataset *dataset, uint64_t shard,
                       struct shard **ret_shard, struct err *err)
{
    static const struct salvage silent_salvage = {0};
    const struct dataset_shard *listed = &dataset->shards[shard];
    const struct shard_open_options options = {
        .index_offset = listed->index_offset,
        .salvage = listed->is_partial ? &silent_salvage : NULL,
    };
    char path[IO_PATH_BYTES_MAX];
    struct shard *opened = NULL;
    int status = dataset_shard_path(dataset, shard, path, err);
    if (!status)
        status = shard_open_with(io, path, &options, &opened, err);
    if (!status)
        status = check_against_list(opened, listed, err);
    if (status)
        shard_close(opened);
    else
        *ret_shard = opened;
    return status;
}

int dataset_drop_cache(struct io *io, const char *path, struct err *err)
{
    struct dataset *dataset;
    if (strcmp(io->ops->scheme, "file") != 0) {
        err_set(err, -EINVAL, "only local files are in the page cache");
        err_at(err, path, ERR_NO_OFFSET);
        err_advise(err, "read it without dropping the cache, or read a local copy");
        return -EINVAL;
    }
    /* Damage is ignored here; readers report it. */
    int status = dataset_open_salvaging(io, path, NULL, &dataset, err);
    if (status)
        return status;
    for (uint64_t i = 0; !status && i < dataset->shards_count; i++) {
        char shard[IO_PATH_BYTES_MAX];
        status = dataset_shard_path(dataset, i, shard, err);
        if (!status)
            status = page_cache_drop(shard, err);
    }
    dataset_close(dataset);
    return status;
}

void dataset_set_last_tokens(struct dataset *dataset)
{
    const struct dataset_text *text = &dataset->text;
    for (uint64_t i = 0; i < dataset->shards_count; i++) {
        struct dataset_shard *shard = &dataset->shards[i];
        uint64_t end_sample = shard->first_sample + shard->samples;
        if (shard->samples == 0)
            shard->last_tokens = 0;
        else if (end_sample < dataset->samples)
            shard->last_tokens = text->member_tokens;
        else
            /* adjacent members share a token */
            shard->last_tokens = text->tokens - (end_sample - 1) * (text->member_tokens - 1);
    }
}

int dataset_fingerprint(const struct dataset_shard *shards, uint64_t count,
                        uint64_t *ret_fingerprint, struct err *err)
{
    enum { ENTRY_BYTES = 12 };
    struct hash_stream *hash = hash_stream_open();
    if (!hash)
        return err_set(err, -ENOMEM, "out of memory for a dataset's fingerprint");
    for (uint64_t i = 0; i < count; i++) {
        uint8_t entry[ENTRY_BYTES];
        bytes_put_u64(entry, shards[i].samples);
        bytes_put_u32(entry + 8, shards[i].index_crc32c);
        hash_stream_update(hash, entry, sizeof entry);
    }
    *ret_fingerprint = hash_stream_64(hash);
    hash_stream_close(hash);
    return 0;
}

static void write_shards(struct jsonx_writer *json, const struct dataset *dataset)
{
    jsonx_begin_array(json, "shardlist");
    for (uint64_t i = 0; i < dataset->shards_count; i++) {
        const struct dataset_shard *shard = &dataset->shards[i];
        char crc[9];
        snprintf(crc, sizeof crc, "%08" PRIx32, shard->index_crc32c);
        str_add(json->out, "\n", 1); /* one shard per line, for human readers and diff */
        jsonx_begin_object(json, NULL);
        jsonx_write_string(json, "url", shard->url);
        jsonx_write_u64(json, "nsamples", shard->samples);
        jsonx_write_u64(json, "filesize", shard->file_bytes);
        if (seekable_io_is_name(shard->url))
            jsonx_write_u64(json, "uncompressed_bytes", shard->uncompressed_bytes);
        jsonx_write_hex64(json, "xxh3", shard->xxh3);
        jsonx_write_string(json, "index_crc32c", crc);
        if (shard->index_offset > 0)
            jsonx_write_u64(json, "index_offset", shard->index_offset);
        if (shard->last_tokens > 0)
            jsonx_write_u64(json, "last_tokens", shard->last_tokens);
        jsonx_end_object(json);
    }
    jsonx_end_array(json);
}

static void write_text(struct jsonx_writer *json, const struct dataset_text *text)
{
    jsonx_begin_object(json, "text");
    jsonx_write_string(json, "element", text->element);
    jsonx_write_string(json, "tokenizer", text->tokenizer);
    jsonx_write_u64(json, "vocabulary", text->vocabulary);
    jsonx_write_u64(json, "document_end", text->document_end);
    jsonx_write_u64(json, "tokens", text->tokens);
    jsonx_write_u64(json, "member_tokens", text->member_tokens);
    jsonx_write_u64(json, "header_bytes", text->header_bytes);
    jsonx_end_object(json);
}

int dataset_encode(const struct dataset *dataset, struct str *out, struct err *err)
{
    uint64_t fingerprint;
    int status = dataset_fingerprint(dataset->shards, dataset->shards_count, &fingerprint, err);
    if (status)
        return status;
    struct jsonx_writer json = {.out = out};
    jsonx_begin_object(&json, NULL);
    jsonx_write_string(&json, "__kind__", "wids-shard-index-v1");
    jsonx_write_u64(&json, "wids_version", 1);
    write_shards(&json, dataset);
    jsonx_begin_object(&json, "millrace");
    jsonx_write_u64(&json, "version", DATASET_VERSION);
    jsonx_write_u64(&json, "samples", dataset->samples);
    jsonx_write_hex64(&json, "fingerprint", fingerprint);
    jsonx_write_u64(&json, "mean_sample_bytes", dataset->mean_sample_bytes);
    jsonx_begin_array(&json, "fields");
    for (uint32_t i = 0; i < dataset->fields_count; i++)
        jsonx_write_string(&json, NULL, dataset->fields[i]);
    jsonx_end_array(&json);
    jsonx_begin_array(&json, "classes");
    for (uint64_t i = 0; i < dataset->classes_count; i++)
        jsonx_write_string(&json, NULL, dataset->classes[i]);
    jsonx_end_array(&json);
    if (dataset->text.element[0])
        write_text(&json, &dataset->text);
    if (dataset->options_json.bytes > 0)
        jsonx_write_raw(&json, "options", dataset->options_json.data, dataset->options_json.bytes);
    jsonx_end_object(&json);
    jsonx_end_object(&json);
    str_add(out, "\n", 1);
    if (str_status(out))
        return err_set(err, -ENOMEM, "out of memory for dataset.json");
    if (out->bytes > DATASET_JSON_BYTES_MAX)
        return err_set(err, -EFBIG, "dataset.json would be larger than %d bytes",
                       DATASET_JSON_BYTES_MAX);
    return 0;
}
