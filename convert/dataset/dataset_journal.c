/*
 * dataset_journal — see dataset_journal.h.
 */
#include "convert/dataset/dataset_journal.h"

#include "base/hash.h"
#include "base/json/jsonx.h"
#include "base/json/jsonx_writer.h"
#include "convert/dataset/dataset_options.h"
#include "io/file_util.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { JOURNAL_BYTES_MAX = 1 << 30, JOURNAL_VERSION = 5 };

int journal_identity(const struct source *source, uint64_t *ret_identity, struct err *err)
{
    struct str text = {0};
    str_add_format(&text, "%s %016" PRIx64 " ", MILLRACE_VERSION, source->identity);
    options_write_json(source, -1, NULL, &text);
    int status =
        str_status(&text) ? err_set(err, -ENOMEM, "out of memory for a conversion's identity") : 0;
    if (!status)
        *ret_identity = hash_64(text.data, text.bytes);
    str_deinit(&text);
    return status;
}

static void write_shard(struct jsonx_writer *json, const struct output *output, uint64_t number)
{
    const struct output_shard *shard = output_shard_at(output, number);
    json->needs_comma = false;
    jsonx_begin_object(json, NULL);
    jsonx_write_u64(json, "split", output->split);
    jsonx_write_u64(json, "shard", number);
    jsonx_write_u64(json, "samples_count", shard->summary.samples);
    jsonx_write_u64(json, "file_bytes", shard->summary.file_bytes);
    jsonx_write_u64(json, "uncompressed_bytes", shard->summary.uncompressed_bytes);
    jsonx_write_u64(json, "field_bytes", shard->summary.field_bytes);
    jsonx_write_hex64(json, "xxh3", shard->summary.xxh3);
    jsonx_write_u64(json, "index_crc32c", shard->summary.index_crc32c);
    jsonx_write_u64(json, "index_offset", shard->summary.index_offset);
    jsonx_write_u64(json, "next_item", shard->next_item);
    jsonx_write_u64(json, "skipped_count", shard->skipped_count);
    jsonx_write_u64(json, "source_bytes", shard->source_bytes);
    jsonx_write_u64(json, "jpegs_tiled_count", shard->jpegs.tiled_count);
    jsonx_write_u64(json, "jpegs_reencoded_count", shard->jpegs.reencoded_count);
    jsonx_write_u64(json, "jpegs_kept_count", shard->jpegs.kept_count);
    jsonx_write_u64(json, "jpegs_source_bytes", shard->jpegs.source_bytes);
    jsonx_write_u64(json, "jpegs_written_bytes", shard->jpegs.written_bytes);
    jsonx_begin_array(json, "fields");
    for (uint32_t i = 0; i < output->fields_count; i++)
        jsonx_write_string(json, NULL, output->fields[i]);
    jsonx_end_array(json);
    jsonx_end_object(json);
    str_add(json->out, "\n", 1);
}

static void write_split_names(struct jsonx_writer *json, const struct convert_options *options)
{
    jsonx_begin_array(json, "splits");
    for (uint32_t i = 0; i < options->splits_count; i++)
        jsonx_write_string(json, NULL, options->splits[i].name);
    jsonx_end_array(json);
}

int journal_write(struct io *io, const char *target, uint64_t identity,
                  const struct output *outputs, uint32_t count, struct err *err)
{
    char path[IO_PATH_BYTES_MAX];
    struct str text = {0};
    struct jsonx_writer json = {.out = &text};
    int status = io_join_path(target, JOURNAL_FILE_NAME, path, err);
    if (status)
        return status;
    jsonx_begin_object(&json, NULL);
    jsonx_write_u64(&json, "millrace_convert", JOURNAL_VERSION);
    jsonx_write_hex64(&json, "identity", identity);
    write_split_names(&json, outputs[0].source->options);
    jsonx_end_object(&json);
    str_add(&text, "\n", 1);
    for (uint32_t i = 0; i < count; i++)
        for (uint64_t shard = 0; shard < output_shards_count(&outputs[i]); shard++)
            write_shard(&json, &outputs[i], shard);
    status = str_status(&text) ? err_set(err, -ENOMEM, "out of memory for a journal")
                               : io_write_file(io, path, text.data, text.bytes, true, err);
    str_deinit(&text);
    return status;
}

struct journal_reader {
    struct io *io;
    const char *path;
    uint64_t identity;
    struct output *outputs;
    uint32_t outputs_count;
    struct err *err;
};

static int reject(const struct journal_reader *reader, int code, uint64_t offset, const char *what)
{
    err_set(reader->err, code, "%s", what);
    err_at(reader->err, reader->path, (int64_t)offset);
    err_advise(reader->err, "start over with --force");
    return code;
}

static int check_header(const struct journal_reader *reader, const struct json_t *line)
{
    uint64_t version;
    const char *identity;
    char expected[17];
    snprintf(expected, sizeof expected, "%016" PRIx64, reader->identity);
    if (jsonx_u64(jsonx_get(line, "millrace_convert"), &version) || version != JOURNAL_VERSION ||
        jsonx_text(jsonx_get(line, "identity"), &identity))
        return reject(reader, -EBADMSG, 0, "the journal is from another version");
    if (strcmp(identity, expected) == 0)
        return 0;
    reject(reader, -ESTALE, 0, "the conversion to resume has different files or options");
    err_expected(reader->err, "identity %s", expected);
    err_found(reader->err, "%s", identity);
    err_advise(reader->err, "use the same options, or start over with --force");
    return -ESTALE;
}

/* A listed shard must exist with its listed size. */
static int check_shard(const struct journal_reader *reader, const struct output *output,
                       uint64_t number, const struct output_shard *shard, uint64_t offset)
{
    char name[OUTPUT_SHARD_NAME_BYTES_MAX], path[IO_PATH_BYTES_MAX];
    struct io_stat info;
    output_shard_name(output, number, name);
    int status = io_join_path(output->folder, name, path, reader->err);
    if (status)
        return status;
    if (reader->io->names->stat(reader->io, path, &info, NULL) ||
        info.size_bytes != shard->summary.file_bytes)
        return reject(reader, -EBADMSG, offset,
                      "a shard in the journal is missing or has a different size");
    return 0;
}

static int load_jpegs(const struct json_t *line, struct convert_jpeg_counts *jpegs)
{
    if (jsonx_u64(jsonx_get(line, "jpegs_tiled_count"), &jpegs->tiled_count) ||
        jsonx_u64(jsonx_get(line, "jpegs_reencoded_count"), &jpegs->reencoded_count) ||
        jsonx_u64(jsonx_get(line, "jpegs_kept_count"), &jpegs->kept_count) ||
        jsonx_u64(jsonx_get(line, "jpegs_source_bytes"), &jpegs->source_bytes) ||
        jsonx_u64(jsonx_get(line, "jpegs_written_bytes"), &jpegs->written_bytes))
        return -EBADMSG;
    return 0;
}

/* A plain tar has no index. */
static bool index_offset_is_valid(const struct journal_reader *reader,
                                  const struct shard_summary *summary)
{
    return reader->outputs[0].source->options->format == CONVERT_FORMAT_TAR
               ? summary->index_offset == 0
               : shard_index_offset_is_plausible(summary->index_offset,
                                                 summary->uncompressed_bytes);
}

static int load_shard(const struct journal_reader *reader, const struct json_t *line,
                      uint64_t offset)
{
    struct output_shard shard = {0};
    uint64_t split, number, crc;
    const char *hex;
    const struct json_t *fields = jsonx_get(line, "fields");
    if (jsonx_u64(jsonx_get(line, "split"), &split) || split >= reader->outputs_count ||
        jsonx_u64(jsonx_get(line, "shard"), &number) ||
        jsonx_u64(jsonx_get(line, "samples_count"), &shard.summary.samples) ||
        jsonx_u64(jsonx_get(line, "file_bytes"), &shard.summary.file_bytes) ||
        jsonx_u64(jsonx_get(line, "uncompressed_bytes"), &shard.summary.uncompressed_bytes) ||
        jsonx_u64(jsonx_get(line, "field_bytes"), &shard.summary.field_bytes) ||
        jsonx_text(jsonx_get(line, "xxh3"), &hex) ||
        jsonx_u64(jsonx_get(line, "index_crc32c"), &crc) || crc > UINT32_MAX ||
        jsonx_u64(jsonx_get(line, "index_offset"), &shard.summary.index_offset) ||
        !index_offset_is_valid(reader, &shard.summary) ||
        jsonx_u64(jsonx_get(line, "next_item"), &shard.next_item) ||
        jsonx_u64(jsonx_get(line, "skipped_count"), &shard.skipped_count) ||
        jsonx_u64(jsonx_get(line, "source_bytes"), &shard.source_bytes) ||
        load_jpegs(line, &shard.jpegs) || !fields)
        return reject(reader, -EBADMSG, offset, "a line in the journal is invalid");
    struct output *output = &reader->outputs[split];
    shard.split = (uint32_t)split;
    shard.summary.xxh3 = strtoull(hex, NULL, 16);
    shard.summary.index_crc32c = (uint32_t)crc;
    if (number != output_shards_count(output) || shard.next_item > output->source->items_count ||
        shard.next_item < output->next_item)
        return reject(reader, -EBADMSG, offset, "the shards in the journal are out of order");
    for (size_t i = 0; i < jsonx_count(fields); i++) {
        const char *text;
        if (jsonx_text(jsonx_at(fields, i), &text) || strlen(text) >= SHARD_EXTENSION_BYTES_MAX)
            return reject(reader, -EBADMSG, offset, "a field name in the journal is invalid");
        output_add_field_name(output, text);
    }
    int status = check_shard(reader, output, number, &shard, offset);
    return status ? status : output_restore(output, &shard, reader->err);
}

int journal_load(struct io *io, const char *target, uint64_t identity, struct output *outputs,
                 uint32_t count, struct err *err)
{
    char path[IO_PATH_BYTES_MAX], *text = NULL;
    size_t bytes = 0;
    struct journal_reader reader = {io, path, identity, outputs, count, err};
    int status = io_join_path(target, JOURNAL_FILE_NAME, path, err);
    if (!status)
        status = io_read_file(io, path, JOURNAL_BYTES_MAX, &text, &bytes, err);
    if (status)
        return status;
    for (size_t at = 0; at < bytes && !status;) {
        const char *end = memchr(text + at, '\n', bytes - at);
        size_t line_bytes = end ? (size_t)(end - text) - at : bytes - at;
        struct json_t *line = NULL;
        status = jsonx_parse(text + at, line_bytes, path, (int64_t)at, &line, err);
        if (!status)
            status = at == 0 ? check_header(&reader, line) : load_shard(&reader, line, at);
        jsonx_free(line);
        at += line_bytes + 1;
    }
    free(text);
    return status;
}

/* Accepts only plain names, because folders with these names will be cleared. */
static void load_split_names(const struct json_t *names, struct convert_split *splits,
                             uint32_t *ret_count)
{
    uint32_t count = 0;
    for (size_t i = 0; i < jsonx_count(names) && count < CONVERT_SPLITS_MAX; i++) {
        const char *name;
        if (jsonx_text(jsonx_at(names, i), &name) == 0 && *name && *name != '.' &&
            !strchr(name, '/') && strlen(name) < sizeof splits[0].name)
            strcpy(splits[count++].name, name);
    }
    *ret_count = count;
}

int journal_read_splits(struct io *io, const char *target,
                        struct convert_split splits[CONVERT_SPLITS_MAX], uint32_t *ret_count,
                        struct err *err)
{
    char path[IO_PATH_BYTES_MAX], *text = NULL;
    size_t bytes = 0;
    struct io_stat info;
    struct json_t *line = NULL;
    *ret_count = 0;
    int status = io_join_path(target, JOURNAL_FILE_NAME, path, err);
    if (status || io->names->stat(io, path, &info, NULL))
        return status;
    status = io_read_file(io, path, JOURNAL_BYTES_MAX, &text, &bytes, err);
    if (status)
        return status;
    const char *end = memchr(text, '\n', bytes);
    if (jsonx_parse(text, end ? (size_t)(end - text) : bytes, path, 0, &line, NULL) == 0)
        load_split_names(jsonx_get(line, "splits"), splits, ret_count);
    jsonx_free(line);
    free(text);
    return 0;
}
