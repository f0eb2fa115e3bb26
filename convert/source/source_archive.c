/*
 * source_archive — the source for compressed tars and for zips: each sample is an item, with its
 * key and fields, as in source_shards.c.
 *
 * The archives are read twice: once to list their members, in parallel, and once in order for the
 * data. Memory: the indexes of all archives.
 */
#include "base/bytes.h"
#include "base/crc.h"
#include "base/hash.h"
#include "base/os/thread_pool.h"
#include "convert/archive/archive_stream.h"
#include "convert/source/archive_paths.h"
#include "convert/source/field_choice.h"
#include "convert/source/file_names.h"
#include "convert/source/source.h"
#include "convert/source/split_samples.h"
#include "io/file_util.h"
#include "shards/format/member_name.h"
#include "shards/format/tar.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct listed_archive {
    const char *path; /* in paths */
    struct shard_index *index;
    struct field_choice choice;
    struct io_identity identity;
    uint64_t file_bytes, first_sample;
    uint32_t index_crc32c;
    /* Of its listing. */
    int status;
    struct err err;
};

struct archives {
    struct url_list paths;
    struct listed_archive *items;
    uint64_t count;
};

/* The archive that the reader has open; its reads go forward only. */
struct open_archive {
    struct archive_stream *stream; /* NULL: none */
    uint64_t number;
};

static bool is_archive(const struct source_layout *layout)
{
    return layout->file ? archive_is_compressed(layout->head, layout->head_bytes)
                        : !layout->has_tokenizer && source_layout_has_archives(layout);
}

static int add_member(struct shard_index_builder *builder, const struct listed_archive *archive,
                      const struct archive_member *member, struct err *err)
{
    struct member_name name;
    bool is_field = false;
    struct shard_field field = {.data_offset = member->data_offset, .size_bytes = member->bytes};
    int status = member_name_split(member->name, &name, &is_field, err);
    if (!status && is_field)
        status = shard_index_builder_add_member(builder, &name, &field, err);
    if (status && status != -ENOMEM) {
        err_at(err, archive->path, ERR_NO_OFFSET);
        err_found(err, "the member \"%.200s\"", member->name);
    }
    return status;
}

static int end_index(const struct shard_index_builder *builder, struct listed_archive *archive,
                     uint64_t end, struct err *err)
{
    struct str bytes = {0};
    struct shard_trailer trailer = {.version = SHARD_VERSION,
                                    .flags = SHARD_FLAG_NO_CRCS,
                                    .samples = shard_index_builder_samples(builder),
                                    .archive_end = end,
                                    .file_bytes = end};
    int status = shard_index_builder_encode(builder, false, &bytes, &trailer.fields, err);
    trailer.index_offset = end;
    trailer.index_bytes = bytes.bytes;
    trailer.index_crc32c = archive->index_crc32c = crc32c(0, bytes.data, bytes.bytes);
    if (!status)
        status = shard_index_decode((const uint8_t *)bytes.data, bytes.bytes, &trailer,
                                    archive->path, &archive->index, err);
    str_deinit(&bytes);
    return status;
}

static int list_members(struct archive_stream *stream, const struct convert_options *options,
                        struct listed_archive *archive, struct err *err)
{
    struct shard_index_builder *builder = NULL;
    struct archive_member member;
    uint64_t end = 0;
    int result = 1, status = shard_index_builder_open(&builder, err);
    while (!status && result == 1) {
        if (options->stop && atomic_load(options->stop))
            status = err_set(err, -EINTR, "stopped while archives were listed");
        else
            result = archive_stream_next(stream, &member, err);
        if (result < 0)
            status = result;
        if (status || result == 0)
            continue;
        end = bytes_round_up(member.data_offset + member.bytes, TAR_BLOCK_BYTES);
        status = add_member(builder, archive, &member, err);
    }
    if (!status)
        status = end_index(builder, archive, end, err);
    shard_index_builder_close(builder);
    return status;
}

static int list_archive(struct io *io, const struct convert_options *options,
                        struct listed_archive *archive, struct err *err)
{
    struct archive_stream *stream = NULL;
    int status = archive_stream_open(io, archive->path, &stream, err);
    if (!status)
        status = archive_stream_identity(stream, &archive->identity, err);
    if (!status) {
        archive->file_bytes = archive_stream_file_bytes(stream);
        status = list_members(stream, options, archive, err);
    }
    archive_stream_close(stream);
    if (!status)
        status = split_samples_check(archive->index, archive->path, err);
    if (!status)
        field_choice_make(options, archive->index, &archive->choice);
    return status;
}

struct listing {
    struct io *io;
    const struct convert_options *options;
    struct archives *archives;
};

static void list_task(void *context, size_t task, unsigned worker)
{
    const struct listing *listing = context;
    struct listed_archive *archive = &listing->archives->items[task];
    (void)worker;
    err_clear(&archive->err);
    archive->status = list_archive(listing->io, listing->options, archive, &archive->err);
}

/* The first archive with an error counts, whatever the threads do. */
static int list_archives(struct io *io, struct source *source, struct err *err)
{
    struct archives *archives = source->state;
    struct listing listing = {io, source->options, archives};
    struct chosen_extensions extensions = {0};
    struct thread_pool *pool = NULL;
    int status = thread_pool_open(source->options->workers, &pool, err);
    if (status)
        return status;
    thread_pool_run(pool, archives->count, list_task, &listing);
    thread_pool_close(pool);
    for (uint64_t i = 0; i < archives->count && !status; i++) {
        struct listed_archive *archive = &archives->items[i];
        status = archive->status;
        if (status) {
            if (err)
                *err = archive->err;
            break;
        }
        archive->first_sample = source->items_count;
        source->items_count += shard_index_samples(archive->index);
        for (uint64_t sample = 0; sample < shard_index_samples(archive->index); sample++)
            source->bytes += field_choice_sample_bytes(&archive->choice, archive->index, sample);
        status = chosen_extensions_add(&extensions, &archive->choice, archive->index,
                                       source->options->source, err);
    }
    return status;
}

static int identify(struct source *source, struct err *err)
{
    const struct archives *archives = source->state;
    struct hash_stream *hash = hash_stream_open();
    if (!hash)
        return err_set(err, -ENOMEM, "out of memory for the identity of a source");
    for (uint64_t i = 0; i < archives->count; i++) {
        const struct listed_archive *archive = &archives->items[i];
        hash_stream_update(hash, &archive->file_bytes, sizeof archive->file_bytes);
        hash_stream_update(hash, &archive->index_crc32c, sizeof archive->index_crc32c);
    }
    field_choice_hash(source->options, hash);
    source->identity = hash_stream_64(hash);
    hash_stream_close(hash);
    return 0;
}

static int archives_open(struct io *io, struct source *source, struct err *err)
{
    struct archives *archives = source->state = calloc(1, sizeof *archives);
    if (!archives)
        return err_set(err, -ENOMEM, "out of memory for a source");
    int status =
        archive_paths_list(io, source->options, name_is_tar_or_archive, &archives->paths, err);
    if (status)
        return status;
    archives->items = calloc(archives->paths.count + 1, sizeof *archives->items);
    if (!archives->items)
        return err_set(err, -ENOMEM, "out of memory for a list of archives");
    archives->count = archives->paths.count;
    for (uint64_t i = 0; i < archives->count; i++)
        archives->items[i].path = archives->paths.urls[i];
    log_line(source->options->log, LOG_INFO, "%s: listing %" PRIu64 " archives",
             source->options->source, archives->count);
    status = list_archives(io, source, err);
    if (!status)
        status = identify(source, err);
    if (!status && source->items_count > 0)
        log_line(source->options->log, LOG_INFO,
                 "%s has %" PRIu64 " samples in %" PRIu64 " archives; their order is kept",
                 source->options->source, source->items_count, archives->count);
    return status;
}

static void archives_close(struct source *source)
{
    struct archives *archives = source->state;
    if (!archives)
        return;
    for (uint64_t i = 0; i < archives->count; i++)
        shard_index_close(archives->items[i].index);
    url_list_deinit(&archives->paths);
    free(archives->items);
    free(archives);
}

/* Returns the number of the archive that holds the sample. */
static uint64_t locate(const struct archives *archives, uint64_t sample)
{
    uint64_t low = 0, high = archives->count;
    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        if (archives->items[middle].first_sample <= sample)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static void archives_describe(const struct source *source, uint64_t number,
                              struct source_item *item)
{
    const struct archives *archives = source->state;
    const struct listed_archive *archive = &archives->items[locate(archives, number)];
    uint64_t sample = number - archive->first_sample;
    uint32_t bytes;
    const char *key = shard_index_key(archive->index, sample, &bytes);
    memcpy(item->key, key, bytes);
    item->key[bytes] = '\0';
    item->split = source_choose_split(source->options, item->key);
    item->bytes = field_choice_sample_bytes(&archive->choice, archive->index, sample);
}

static int check_unchanged(const struct archive_stream *stream,
                           const struct listed_archive *archive, struct err *err)
{
    struct io_identity identity;
    int status = archive_stream_identity(stream, &identity, err);
    if (status || io_identity_is_same(&identity, &archive->identity))
        return status;
    err_set(err, -ESTALE, "the archive changed after it was listed");
    err_at(err, archive->path, ERR_NO_OFFSET);
    err_advise(err, "convert again, or continue with --resume, when nothing changes the source");
    return -ESTALE;
}

static int switch_archive(struct source_reader *reader, uint64_t number, struct err *err)
{
    const struct archives *archives = reader->source->state;
    struct open_archive *open = reader->state;
    if (open->stream && open->number == number)
        return 0;
    archive_stream_close(open->stream);
    open->stream = NULL;
    open->number = number;
    int status = archive_stream_open(reader->io, archives->items[number].path, &open->stream, err);
    return status ? status : check_unchanged(open->stream, &archives->items[number], err);
}

static int archives_read(struct source_reader *reader, const struct source_item *item,
                         struct source_sample *sample, struct err *err)
{
    const struct archives *archives = reader->source->state;
    const struct open_archive *open = reader->state;
    uint64_t number = locate(archives, item->number);
    const struct listed_archive *archive = &archives->items[number];
    struct chosen_fields chosen;
    field_choice_find(&archive->choice, archive->index, item->number - archive->first_sample,
                      &chosen);
    int status = switch_archive(reader, number, err);
    if (!status)
        status = chosen_fields_check(&chosen, archive->path, item->key, err);
    for (uint32_t i = 0; i < chosen.count && !status; i++) {
        const struct shard_field *field = &chosen.fields[i];
        const char *extension = shard_index_extension(archive->index, chosen.numbers[i]);
        char path[IO_PATH_BYTES_MAX + SHARD_KEY_BYTES_MAX + SHARD_EXTENSION_BYTES_MAX + 4];
        size_t at = sample->data.bytes;
        status = str_reserve(&sample->data, field->size_bytes)
                     ? err_set(err, -ENOMEM, "out of memory for a sample")
                     : archive_stream_read(open->stream, field->data_offset, sample->data.data + at,
                                           field->size_bytes, err);
        if (status)
            break;
        sample->data.bytes += field->size_bytes;
        snprintf(path, sizeof path, "%s: %s.%s", archive->path, item->key, extension);
        source_add_field(sample, extension, at, field->size_bytes, path);
    }
    return status;
}

static int archives_reader_open(struct source_reader *reader, struct err *err)
{
    reader->state = calloc(1, sizeof(struct open_archive));
    return reader->state ? 0 : err_set(err, -ENOMEM, "out of memory for a reader");
}

static void archives_reader_close(struct source_reader *reader)
{
    struct open_archive *open = reader->state;
    if (!open)
        return;
    archive_stream_close(open->stream);
    free(open);
}

const struct source_ops source_archive_ops = {
    .name = "archive",
    .is_ordered = true,
    .is_sequential = true,
    .probe = is_archive,
    .open = archives_open,
    .close = archives_close,
    .describe = archives_describe,
    .read = archives_read,
    .reader_open = archives_reader_open,
    .reader_close = archives_reader_close,
};
