/*
 * source_shards — the source for uncompressed tars, and for datasets of shards: each sample is an
 * item, with its key and fields.
 *
 * The samples keep their order unless the options shuffle. A sample is read with one request if its
 * fields are adjacent, and compared with the checksums of its shard, if there are any. Memory: the
 * indexes of all shards.
 */
#include "base/crc.h"
#include "base/hash.h"
#include "base/json/jsonx.h"
#include "convert/source/archive_paths.h"
#include "convert/source/field_choice.h"
#include "convert/source/file_names.h"
#include "convert/source/source.h"
#include "convert/source/split_samples.h"
#include "io/file_util.h"
#include "io/zstd/seekable_io.h"
#include "shards/dataset/dataset.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Fields with more bytes between them, such as members that readers skip, are read separately. */
enum { GAP_BYTES_MAX = 1 << 20 };

struct source_shard {
    struct shard_index *index;
    uint64_t file_bytes;
    struct io_identity identity;
    struct field_choice choice;
};

struct shards_source {
    struct dataset *dataset;
    struct source_shard *shards;
};

/* The shard that a reader last read. */
struct open_shard {
    struct io *io;          /* the reader's, or seekable_io */
    struct io *seekable_io; /* NULL unless the dataset is compressed */
    struct io_queue *queue; /* of io */
    struct io_file *file;   /* NULL: none */
    uint64_t shard;
    char path[IO_PATH_BYTES_MAX];
};

static bool is_tar(const char *head, size_t bytes)
{
    enum { MAGIC_AT = 257 };
    return bytes >= MAGIC_AT + 5 && memcmp(head + MAGIC_AT, "ustar", 5) == 0;
}

/* Whether a file begins like a wids list, such as our dataset.json. */
static bool is_shard_list(const char *head, size_t bytes)
{
    size_t at = 0;
    while (at < bytes && strchr(" \t\r\n", head[at]))
        at++;
    return at < bytes && head[at] == '{' &&
           (memmem(head, bytes, "\"shardlist\"", 11) ||
            memmem(head, bytes, "wids-shard-index", 16));
}

static bool is_shards(const struct source_layout *layout)
{
    if (!layout->file)
        return !layout->has_tokenizer && source_layout_has_shards(layout);
    return is_tar(layout->head, layout->head_bytes) ||
           is_shard_list(layout->head, layout->head_bytes) ||
           str_ends_with_nocase(layout->file, ".tar"); /* empty, or from before 1988 */
}

static int open_paths(struct io *io, const struct convert_options *options,
                      struct dataset **ret_dataset, struct err *err)
{
    struct url_list paths = {0};
    int status = archive_paths_list(io, options, name_is_tar_or_archive, &paths, err);
    if (!status)
        status = dataset_open_tars(io, options->source, &paths, ret_dataset, err);
    url_list_deinit(&paths);
    return status;
}

static int open_dataset(struct io *io, const struct convert_options *options,
                        struct dataset **ret_dataset, struct err *err)
{
    char path[IO_PATH_BYTES_MAX];
    struct io_stat info;
    struct io_head head = {0};
    if (io->names->stat(io, options->source, &info, NULL))
        return open_paths(io, options, ret_dataset, err);
    if (info.kind == IO_ENTRY_FOLDER) {
        int status = io_join_path(options->source, DATASET_FILE_NAME, path, err);
        if (status)
            return status;
        return io->names->stat(io, path, &info, NULL)
                   ? open_paths(io, options, ret_dataset, err)
                   : dataset_open(io, options->source, ret_dataset, err);
    }
    int status = io_read_head(io, options->source, SOURCE_HEAD_BYTES, &head, err);
    if (!status)
        status = is_shard_list(head.data, head.bytes)
                     ? dataset_open(io, options->source, ret_dataset, err)
                     : open_paths(io, options, ret_dataset, err);
    free(head.data);
    return status;
}

static int reject_tokens(const struct convert_options *options, struct err *err)
{
    err_set(err, -ENOTSUP, "a dataset of tokens cannot be converted again");
    err_at(err, options->source, ERR_NO_OFFSET);
    err_expected(err, "samples that do not depend on their neighbors");
    err_advise(err, "convert the text itself, with the new --shard-bytes");
    return -ENOTSUP;
}

static int load_shard(struct io *io, struct source *source, uint64_t number,
                      struct chosen_extensions *extensions, struct err *err)
{
    struct shards_source *shards = source->state;
    struct source_shard *loaded = &shards->shards[number];
    struct shard *shard = NULL;
    int status = dataset_open_shard(io, shards->dataset, number, &shard, err);
    if (!status)
        status = io->ops->file_identity(shard->file, &loaded->identity, err);
    if (!status) {
        loaded->index = shard->index;
        shard->index = NULL;
        loaded->file_bytes = shard->trailer.file_bytes;
        field_choice_make(source->options, loaded->index, &loaded->choice);
        for (uint64_t i = 0; i < shard_index_samples(loaded->index); i++)
            source->bytes += field_choice_sample_bytes(&loaded->choice, loaded->index, i);
        if (shard->is_plain_tar)
            status = split_samples_check(loaded->index, shard->path, err);
    }
    if (!status)
        status = chosen_extensions_add(extensions, &loaded->choice, loaded->index,
                                       source->options->source, err);
    shard_close(shard);
    return status;
}

static int check_stop(const struct convert_options *options, struct err *err)
{
    return options->stop && atomic_load(options->stop)
               ? err_set(err, -EINTR, "stopped while shards were opened")
               : 0;
}

static int copy_classes(struct source *source, const struct dataset *dataset, struct err *err)
{
    source->classes = calloc(dataset->classes_count + 1, sizeof *source->classes);
    for (uint64_t i = 0; source->classes && i < dataset->classes_count; i++) {
        source->classes[i] = strdup(dataset->classes[i]);
        if (!source->classes[i])
            break;
        source->classes_count = i + 1;
    }
    return source->classes && source->classes_count == dataset->classes_count
               ? 0
               : err_set(err, -ENOMEM, "out of memory for class names");
}

/* The samples by their shards' index CRCs, their classes, and the chosen fields. */
static int identify(struct source *source, struct err *err)
{
    const struct shards_source *shards = source->state;
    struct hash_stream *hash = hash_stream_open();
    if (!hash)
        return err_set(err, -ENOMEM, "out of memory for the identity of a source");
    hash_stream_update(hash, &shards->dataset->fingerprint, sizeof shards->dataset->fingerprint);
    for (uint64_t i = 0; i < shards->dataset->shards_count; i++)
        hash_stream_update(hash, &shards->shards[i].file_bytes,
                           sizeof shards->shards[i].file_bytes);
    for (uint64_t i = 0; i < source->classes_count; i++)
        hash_stream_update(hash, source->classes[i], strlen(source->classes[i]) + 1);
    field_choice_hash(source->options, hash);
    source->identity = hash_stream_64(hash);
    hash_stream_close(hash);
    return 0;
}

/* Whether the options take one of the fields of which an index field consists. */
static bool takes_any(const struct shards_source *shards, const struct index_field *field)
{
    for (uint64_t i = 0; i < shards->dataset->shards_count; i++)
        for (uint32_t f = 0; f < shard_index_fields(shards->shards[i].index); f++)
            if (shards->shards[i].choice.takes[f] &&
                index_field_takes(field, shard_index_extension(shards->shards[i].index, f)))
                return true;
    return false;
}

/* Adds an index field of the dataset to listed, and to those of the source unless the options give
 * one of its name or leave out what it consists of. */
static int inherit_index_field(struct source *source, const char *text, struct index_fields *listed,
                               struct err *err)
{
    int status = index_fields_add(listed, text, CONVERT_STORE_ENCODED, err);
    if (status) {
        err_at(err, source->options->source, ERR_NO_OFFSET);
        return status;
    }
    const struct index_field *field = &listed->items[listed->count - 1];
    if (index_fields_has(&source->index_fields, field->name))
        return 0;
    if (takes_any(source->state, field))
        return index_fields_add(&source->index_fields, text, source->options->store, err);
    log_line(source->options->log, LOG_WARN,
             "the index field %s is left out: the options leave out its field %s", field->name,
             field->from);
    return 0;
}

/* The values are computed again from the fields, because the options may change images. */
static int inherit_index_fields(struct source *source, struct index_fields *listed, struct err *err)
{
    const struct shards_source *shards = source->state;
    const struct str *text = &shards->dataset->options_json;
    struct json_t *options = NULL;
    int status = text->bytes > 0 ? jsonx_parse(text->data, text->bytes, source->options->source, 0,
                                               &options, err)
                                 : 0;
    const struct json_t *list = jsonx_get(options, "index_fields");
    for (size_t i = 0; i < jsonx_count(list) && !status; i++) {
        const char *item = "";
        (void)jsonx_text(jsonx_at(list, i), &item);
        status = inherit_index_field(source, item, listed, err);
    }
    jsonx_free(options);
    return status;
}

static void warn_of_unknown_numbers(const struct source *source, const struct index_fields *listed)
{
    const struct shards_source *shards = source->state;
    for (uint64_t i = 0; i < shards->dataset->shards_count; i++)
        for (uint32_t n = 0; n < shard_index_numbers(shards->shards[i].index); n++) {
            const char *name = shard_index_number_name(shards->shards[i].index, n);
            if (strcmp(name, INDEX_FIELD_LABEL) == 0 || index_fields_has(listed, name) ||
                index_fields_has(&source->index_fields, name))
                continue;
            log_line(source->options->log, LOG_WARN,
                     "the index field %s is left out: the options of %s do not say where it comes "
                     "from; record it with --index-field FIELD:PATH=%s",
                     name, source->options->source, name);
            return;
        }
}

static void log_source(const struct source *source)
{
    const struct shards_source *shards = source->state;
    log_line(source->options->log, LOG_INFO,
             "%s has %" PRIu64 " samples in %" PRIu64 " tars; their order is %s",
             source->options->source, source->items_count, shards->dataset->shards_count,
             source->options->keep_order ? "kept" : "shuffled");
}

static int shards_open(struct io *io, struct source *source, struct err *err)
{
    struct index_fields listed = {0};
    struct shards_source *shards = source->state = calloc(1, sizeof *shards);
    struct chosen_extensions extensions = {0};
    if (!shards)
        return err_set(err, -ENOMEM, "out of memory for a source");
    int status = open_dataset(io, source->options, &shards->dataset, err);
    const struct dataset *dataset = shards->dataset;
    if (!status && dataset->text.element[0])
        status = reject_tokens(source->options, err);
    if (status)
        return status;
    shards->shards = calloc(dataset->shards_count + 1, sizeof *shards->shards);
    if (!shards->shards)
        return err_set(err, -ENOMEM, "out of memory for a list of shards");
    struct io *shards_io = NULL; /* for the indexes of compressed shards */
    status = seekable_io_open(io, 1, &shards_io, err);
    for (uint64_t i = 0; i < dataset->shards_count && !status; i++) {
        status = check_stop(source->options, err);
        if (!status)
            status = load_shard(shards_io, source, i, &extensions, err);
    }
    io_close(shards_io);
    source->items_count = dataset->samples;
    source->was_shuffled = dataset->is_shuffled;
    if (!status)
        status = inherit_index_fields(source, &listed, err);
    if (!status)
        warn_of_unknown_numbers(source, &listed);
    if (!status)
        status = copy_classes(source, dataset, err);
    if (!status)
        status = identify(source, err);
    if (!status && source->items_count > 0)
        log_source(source);
    return status;
}

static void shards_close(struct source *source)
{
    struct shards_source *shards = source->state;
    if (!shards)
        return;
    for (uint64_t i = 0; shards->shards && i < shards->dataset->shards_count; i++)
        shard_index_close(shards->shards[i].index);
    dataset_close(shards->dataset);
    free(shards->shards);
    free(shards);
}

static void shards_describe(const struct source *source, uint64_t number, struct source_item *item)
{
    const struct shards_source *shards = source->state;
    uint64_t sample, shard = dataset_locate(shards->dataset, number, &sample);
    uint32_t bytes;
    const char *key = shard_index_key(shards->shards[shard].index, sample, &bytes);
    memcpy(item->key, key, bytes);
    item->key[bytes] = '\0';
    item->split = source_choose_split(source->options, item->key);
    item->bytes = field_choice_sample_bytes(&shards->shards[shard].choice,
                                            shards->shards[shard].index, sample);
}

static void close_shard(struct open_shard *open)
{
    if (open->file)
        open->io->ops->file_close(open->file);
    open->file = NULL;
}

static int check_unchanged(const struct open_shard *open, const struct source_shard *shard,
                           struct err *err)
{
    struct io_identity identity;
    int status = open->io->ops->file_identity(open->file, &identity, err);
    if (status || io_identity_is_same(&identity, &shard->identity))
        return status;
    err_set(err, -ESTALE, "the tar changed after it was opened");
    err_at(err, open->path, ERR_NO_OFFSET);
    err_advise(err, "convert again, or continue with --resume, when nothing changes the source");
    return -ESTALE;
}

static int switch_shard(struct source_reader *reader, struct open_shard *open, uint64_t shard,
                        struct err *err)
{
    const struct shards_source *shards = reader->source->state;
    if (open->file && open->shard == shard)
        return 0;
    close_shard(open);
    int status = dataset_shard_path(shards->dataset, shard, open->path, err);
    if (!status)
        status = open->io->ops->file_open(open->io, open->path, &open->file, err);
    if (!status)
        status = check_unchanged(open, &shards->shards[shard], err);
    open->shard = shard;
    if (status)
        close_shard(open);
    return status;
}

static int read_range(const struct open_shard *open, uint64_t offset, uint64_t bytes,
                      struct str *out, struct err *err)
{
    if (str_reserve(out, bytes))
        return err_set(err, -ENOMEM, "out of memory for a sample of %" PRIu64 " bytes", bytes);
    int status = io_read_exact(open->queue, open->io, open->file, open->path, offset,
                               out->data + out->bytes, bytes, err);
    if (!status)
        out->bytes += bytes;
    return status;
}

static int check_crc(const struct shard_field *field, const char *data, const char *path,
                     struct err *err)
{
    uint32_t found = field->has_crc ? crc32c(0, data, field->size_bytes) : field->crc32c;
    if (found == field->crc32c)
        return 0;
    err_set(err, -EBADMSG, "the checksum of a field is wrong: the data was damaged");
    err_at(err, path, (int64_t)field->data_offset);
    err_expected(err, "%08" PRIx32, field->crc32c);
    err_found(err, "%08" PRIx32, found);
    return -EBADMSG;
}

static int read_fields(const struct open_shard *open, const struct source_shard *shard,
                       const struct chosen_fields *chosen, const char *key,
                       struct source_sample *sample, struct err *err)
{
    struct str *data = &sample->data;
    bool is_whole = chosen->end - chosen->begin <= chosen->bytes + GAP_BYTES_MAX;
    int status =
        is_whole ? read_range(open, chosen->begin, chosen->end - chosen->begin, data, err) : 0;
    for (uint32_t i = 0; i < chosen->count && !status; i++) {
        const struct shard_field *field = &chosen->fields[i];
        const char *extension = shard_index_extension(shard->index, chosen->numbers[i]);
        char path[IO_PATH_BYTES_MAX + SHARD_KEY_BYTES_MAX + SHARD_EXTENSION_BYTES_MAX + 4];
        size_t at = is_whole ? (size_t)(field->data_offset - chosen->begin) : data->bytes;
        if (!is_whole)
            status = read_range(open, field->data_offset, field->size_bytes, data, err);
        if (!status)
            status = check_crc(field, data->data + at, open->path, err);
        snprintf(path, sizeof path, "%s: %s.%s", open->path, key, extension);
        source_add_field(sample, extension, at, field->size_bytes, path);
    }
    return status;
}

static int shards_read(struct source_reader *reader, const struct source_item *item,
                       struct source_sample *sample, struct err *err)
{
    const struct shards_source *shards = reader->source->state;
    struct open_shard *open = reader->state;
    uint64_t number, shard = dataset_locate(shards->dataset, item->number, &number);
    struct chosen_fields chosen;
    field_choice_find(&shards->shards[shard].choice, shards->shards[shard].index, number, &chosen);
    int status = switch_shard(reader, open, shard, err);
    if (!status)
        status = chosen_fields_check(&chosen, open->path, item->key, err);
    return status ? status
                  : read_fields(open, &shards->shards[shard], &chosen, item->key, sample, err);
}

static int shards_reader_open(struct source_reader *reader, struct err *err)
{
    const struct shards_source *shards = reader->source->state;
    struct open_shard *open = reader->state = calloc(1, sizeof *open);
    if (!open)
        return err_set(err, -ENOMEM, "out of memory for a reader");
    if (!dataset_is_compressed(shards->dataset)) {
        open->io = reader->io;
        open->queue = reader->queue;
        return 0;
    }
    int status = seekable_io_open(reader->io, 1, &open->seekable_io, err);
    open->io = open->seekable_io;
    return status ? status : open->io->ops->queue_open(open->io, 1, &open->queue, err);
}

static void shards_reader_close(struct source_reader *reader)
{
    struct open_shard *open = reader->state;
    if (!open)
        return;
    close_shard(open);
    if (open->seekable_io && open->queue)
        open->io->ops->queue_close(open->queue);
    io_close(open->seekable_io);
    free(open);
}

const struct source_ops source_shards_ops = {
    .name = "shards",
    .is_ordered = true,
    .probe = is_shards,
    .open = shards_open,
    .close = shards_close,
    .describe = shards_describe,
    .read = shards_read,
    .reader_open = shards_reader_open,
    .reader_close = shards_reader_close,
};
