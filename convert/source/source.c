/*
 * source — see source.h. Code that all sources share.
 */
#include "convert/source/source.h"

#include "base/cipher.h"
#include "base/hash.h"
#include "base/philox.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The first match wins. */
static const struct source_ops *const SOURCES[] = {
    &source_numpy_ops, /* before archives: an .npz file is a zip */
    &source_tfrecord_ops, &source_mds_ops,   &source_litdata_ops, &source_archive_ops,
    &source_shards_ops,   &source_coco_ops,  &source_voc_ops,     &source_yolo_ops,
    &source_tokens_ops,   &source_table_ops, &source_idx_ops,     &source_cifar_ops,
    &source_beton_ops,    &source_text_ops,  &source_classes_ops, &source_files_ops,
};

const struct source_ops *source_find(const struct source_layout *layout)
{
    for (size_t i = 0; i < sizeof SOURCES / sizeof SOURCES[0]; i++)
        if (SOURCES[i]->probe(layout))
            return SOURCES[i];
    return NULL;
}

static int add_index_fields(struct source *source, struct err *err)
{
    const struct convert_options *options = source->options;
    int status = 0;
    if (source->ops->is_stream && options->index_fields.count > 0) {
        err_set(err, -EINVAL, "text has no index fields");
        err_at(err, options->source, ERR_NO_OFFSET);
        err_advise(err, "leave out --index-field");
        return -EINVAL;
    }
    for (size_t i = 0; i < options->index_fields.count && !status; i++)
        status = index_fields_add(&source->index_fields, options->index_fields.items[i],
                                  options->store, err);
    return status;
}

int source_add_split(struct convert_options *options, const char *name, struct err *err)
{
    if (options->splits_count == CONVERT_SPLITS_MAX ||
        strlen(name) >= CONVERT_SPLIT_NAME_BYTES_MAX) {
        err_set(err, -EINVAL, "the splits of the source cannot be used");
        err_at(err, options->source, ERR_NO_OFFSET);
        err_expected(err, "at most %d splits, with names of at most %d bytes", CONVERT_SPLITS_MAX,
                     CONVERT_SPLIT_NAME_BYTES_MAX - 1);
        err_found(err, "\"%.150s\"", name);
        return -EINVAL;
    }
    struct convert_split *split = &options->splits[options->splits_count++];
    *split = (struct convert_split){.fraction = 0};
    strcpy(split->name, name);
    return 0;
}

int source_open(struct io *io, const struct convert_options *options, const struct source_ops *ops,
                struct source **ret_source, struct err *err)
{
    struct source *source = calloc(1, sizeof *source);
    if (!source)
        return err_set(err, -ENOMEM, "out of memory for a source");
    source->ops = ops;
    source->options = options;
    int status = add_index_fields(source, err);
    if (!status)
        status = ops->open(io, source, err);
    if (!status && source->items_count == 0) {
        err_set(err, -ENODATA, "the source has no files to convert");
        err_at(err, options->source, ERR_NO_OFFSET);
        status = -ENODATA;
    }
    if (status)
        source_close(source);
    else
        *ret_source = source;
    return status;
}

void source_close(struct source *source)
{
    if (!source)
        return;
    source->ops->close(source);
    for (uint64_t i = 0; i < source->classes_count; i++)
        free(source->classes[i]);
    free(source->classes);
    free(source);
}

uint32_t source_choose_split(const struct convert_options *options, const char *key)
{
    if (options->splits_count == 0)
        return 0;
    struct philox_block block =
        philox(options->seed, (uint64_t)PHILOX_SPLIT << 32, hash_64(key, strlen(key)));
    double place = (double)(((uint64_t)block.word[0] << 32 | block.word[1]) >> 11) * 0x1p-53,
           end = 0;
    for (uint32_t split = 0; split + 1 < options->splits_count; split++) {
        end += options->splits[split].fraction;
        if (place < end)
            return split;
    }
    return options->splits_count - 1;
}

void source_describe(const struct source *source, uint64_t position, struct source_item *ret_item)
{
    ret_item->number = position;
    ret_item->class_number = SOURCE_NO_CLASS;
    if (!source->ops->is_stream && !source->options->keep_order) {
        struct cipher cipher;
        cipher_init(&cipher, source->items_count,
                    (const uint64_t[4]){source->options->seed, PHILOX_CONVERT, 0, 0});
        ret_item->number = cipher_encrypt(&cipher, position);
    }
    source->ops->describe(source, ret_item->number, ret_item);
}

int source_reader_open(const struct source *source, struct io *io, struct source_reader *ret_reader,
                       struct err *err)
{
    struct source_reader reader = {.source = source, .io = io};
    int status = io->ops->queue_open(io, 1, &reader.queue, err);
    if (!status && source->ops->reader_open)
        status = source->ops->reader_open(&reader, err);
    if (status)
        source_reader_close(&reader);
    else
        *ret_reader = reader;
    return status;
}

void source_reader_close(struct source_reader *reader)
{
    if (!reader->source)
        return;
    if (reader->source->ops->reader_close)
        reader->source->ops->reader_close(reader);
    if (reader->queue)
        reader->io->ops->queue_close(reader->queue);
}

void source_add_field(struct source_sample *sample, const char *extension, size_t at, size_t bytes,
                      const char *path)
{
    assert(sample->fields_count < SHARD_FIELDS_MAX);
    struct sample_field *field = &sample->fields[sample->fields_count++];
    size_t extension_bytes = strnlen(extension, sizeof field->extension - 1);
    memcpy(field->extension, extension, extension_bytes);
    field->extension[extension_bytes] = '\0';
    field->at = at;
    field->bytes = bytes;
    field->path_at = sample->data.bytes;
    str_add(&sample->data, path, strlen(path) + 1);
}

void source_end_field(struct source_sample *sample, const char *extension, size_t start,
                      const char *path)
{
    source_add_field(sample, extension, start, sample->data.bytes - start, path);
}
