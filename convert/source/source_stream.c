/*
 * source_stream — the source for a stream of samples (sample_stream.h).
 */
#include "base/hash.h"
#include "base/json/jsonx.h"
#include "convert/source/sample_stream.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The names of all fields so far. */
struct stream_fields {
    uint32_t count;
    char names[SHARD_FIELDS_MAX][SHARD_EXTENSION_BYTES_MAX];
};

static int reject_header(const struct source *source, const char *expected, struct err *err)
{
    err_set(err, -EPROTO, "the header of the stream of samples is invalid");
    err_at(err, source->options->source, ERR_NO_OFFSET);
    err_expected(err, "%s", expected);
    return -EPROTO;
}

static int read_classes(const struct json_t *list, struct source *source, struct err *err)
{
    size_t count = jsonx_count(list);
    if (list && jsonx_kind(list) != JSON_KIND_ARRAY)
        return reject_header(source, "an array of texts as \"classes\"", err);
    source->classes = calloc(count + 1, sizeof *source->classes);
    if (!source->classes)
        return err_set(err, -ENOMEM, "out of memory for class names");
    for (size_t i = 0; i < count; i++) {
        const char *name;
        if (jsonx_text(jsonx_at(list, i), &name))
            return reject_header(source, "an array of texts as \"classes\"", err);
        source->classes[i] = strdup(name);
        if (!source->classes[i])
            return err_set(err, -ENOMEM, "out of memory for class names");
        source->classes_count = i + 1;
    }
    return 0;
}

static int stream_open(struct io *io, struct source *source, struct err *err)
{
    const struct str *header = sample_stream_header(source->options->stream);
    struct json_t *root = NULL;
    const char *identity;
    (void)io;
    source->items_count = SOURCE_COUNT_UNKNOWN;
    source->identity = hash_64(str_text(header), header->bytes);
    source->state = calloc(1, sizeof(struct stream_fields));
    if (!source->state)
        return err_set(err, -ENOMEM, "out of memory for a source");
    int status =
        jsonx_parse(str_text(header), header->bytes, source->options->source, 0, &root, err);
    if (!status && jsonx_text(jsonx_get(root, "identity"), &identity))
        status = reject_header(source, "a text as \"identity\"", err);
    if (!status)
        status = read_classes(jsonx_get(root, "classes"), source, err);
    jsonx_free(root);
    return status == -EBADMSG ? -EPROTO : status;
}

static void stream_close(struct source *source)
{
    free(source->state);
}

static int add_fields(struct stream_fields *fields, const struct source_sample *sample,
                      struct err *err)
{
    for (uint32_t i = 0; i < sample->fields_count; i++) {
        const char *name = sample->fields[i].extension;
        uint32_t at = 0;
        while (at < fields->count && strcmp(fields->names[at], name) != 0)
            at++;
        if (at < fields->count)
            continue;
        if (fields->count == SHARD_FIELDS_MAX) {
            err_set(err, -EPROTO, "the samples have too many fields");
            err_expected(err, "at most %d different ones", SHARD_FIELDS_MAX);
            err_found(err, "also \"%s\"", name);
            return -EPROTO;
        }
        strcpy(fields->names[fields->count++], name);
    }
    return 0;
}

static int stream_next(struct source_reader *reader, uint64_t position, struct source_item *item,
                       struct source_sample *sample, struct err *err)
{
    const struct convert_options *options = reader->source->options;
    int result = sample_stream_next(options->stream, item->key, sample, err);
    if (result <= 0)
        return result;
    item->number = position;
    item->class_number = SOURCE_NO_CLASS;
    item->split = source_choose_split(options, item->key);
    item->bytes = 0;
    for (uint32_t i = 0; i < sample->fields_count; i++)
        item->bytes += sample->fields[i].bytes;
    int status = add_fields(reader->source->state, sample, err);
    return status ? status : 1;
}

const struct source_ops source_stream_ops = {
    .name = "samples",
    .is_ordered = true,
    .is_sequential = true,
    .open = stream_open,
    .close = stream_close,
    .next = stream_next,
};
