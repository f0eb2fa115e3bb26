/*
 * dataset_options — see dataset_options.h.
 */
#include "convert/dataset/dataset_options.h"

#include "base/json/jsonx_writer.h"
#include "convert/dataset/encode_image.h"
#include "io/zstd/frame_writer.h"

#include <errno.h>
#include <math.h>
#include <string.h>

static int reject(struct err *err, const char *what, const char *expected)
{
    err_set(err, -EINVAL, "%s", what);
    err_expected(err, "%s", expected);
    return -EINVAL;
}

static int check_splits(const struct convert_options *options, struct err *err)
{
    double sum = 0;
    if (options->splits_count == 0)
        return 0;
    if (options->splits_count > CONVERT_SPLITS_MAX)
        return reject(err, "too many splits", "at most 16");
    for (uint32_t i = 0; i < options->splits_count; i++) {
        const struct convert_split *split = &options->splits[i];
        if (!split->name[0] || split->name[0] == '.' || strchr(split->name, '/'))
            return reject(err, "the name of a split is invalid", "a folder name");
        if (!(split->fraction > 0 && split->fraction <= 1))
            return reject(err, "the fraction of a split is invalid", "more than 0, at most 1");
        for (uint32_t j = 0; j < i; j++)
            if (strcmp(options->splits[j].name, split->name) == 0)
                return reject(err, "two splits have the same name", "different names");
        sum += split->fraction;
    }
    return fabs(sum - 1) < 1e-6
               ? 0
               : reject(err, "the fractions of the splits do not add up to 1", "a sum of 1");
}

int options_check(const struct convert_options *options, struct err *err)
{
    if (!options->source || !options->source[0] || !options->target || !options->target[0])
        return reject(err, "the source or target is missing", "two paths");
    if (options->keep_order && options->shuffle)
        return reject(err, "the order cannot be kept and shuffled", "one of them");
    if (options->resume && options->force)
        return reject(err, "--resume cannot be combined with --force", "one of them");
    if (options->jpeg == CONVERT_JPEG_REENCODE && options->quality > 100)
        return reject(err, "the quality is invalid", "1 to 100");
    if (options->store == CONVERT_STORE_RAW && options->jpeg != CONVERT_JPEG_TILE)
        return reject(err, "--store raw cannot be combined with --jpeg keep or reencode",
                      "one of --store raw and --jpeg");
    if (options->format != CONVERT_FORMAT_SHARDS && options->index_fields.count > 0)
        return reject(err, "--index-field needs shards: tars and folders have no index",
                      "--format shards, or no --index-field");
    if (options->format == CONVERT_FORMAT_FOLDER && options->zstd_level > 0)
        return reject(err, "--zstd compresses shards and tars, not folders",
                      "--format shards or tar, or no --zstd");
    if (options->stream && options->format == CONVERT_FORMAT_FOLDER)
        return reject(err, "a stream of samples cannot become a folder", "--format shards or tar");
    if (options->stream && options->errors_max_fraction > 0)
        return reject(err, "--max-errors cannot be a part of a stream of samples", "a number");
    if (options->format == CONVERT_FORMAT_FOLDER && options->resume) {
        reject(err, "--format folder cannot be resumed", "no --resume");
        err_advise(err, "run the command again without it: it starts over");
        return -EINVAL;
    }
    return check_splits(options, err);
}

int options_check_source(const struct convert_options *options, const struct source_ops *ops,
                         struct err *err)
{
    if (options->format == CONVERT_FORMAT_SHARDS || !ops->is_stream)
        return 0;
    err_set(err, -ENOTSUP, "--format is for samples, not for text");
    err_at(err, options->source, ERR_NO_OFFSET);
    err_advise(err, "leave out --format: shards of text are tars of NumPy files, too");
    return -ENOTSUP;
}

static void write_splits(struct jsonx_writer *json, const struct convert_options *options,
                         int split)
{
    if (options->splits_count == 0)
        return;
    if (split >= 0)
        jsonx_write_string(json, "split", options->splits[split].name);
    jsonx_begin_array(json, "splits");
    for (uint32_t i = 0; i < options->splits_count; i++) {
        jsonx_begin_object(json, NULL);
        jsonx_write_string(json, "name", options->splits[i].name);
        if (!source_has_split_folders(options))
            jsonx_write_f64(json, "fraction", options->splits[i].fraction);
        jsonx_end_object(json);
    }
    jsonx_end_array(json);
}

static void write_index_fields(struct jsonx_writer *json, const struct index_fields *fields)
{
    if (fields->count == 0)
        return;
    jsonx_begin_array(json, "index_fields");
    for (uint32_t i = 0; i < fields->count; i++) {
        struct str text = {0};
        index_field_format(&fields->items[i], &text);
        jsonx_write_string(json, NULL, str_text(&text));
        str_merge_status(json->out, &text);
        str_deinit(&text);
    }
    jsonx_end_array(json);
}

static void write_image_options(struct jsonx_writer *json, const struct source *source)
{
    const struct convert_options *options = source->options;
    static const char *const jpeg[] = {[CONVERT_JPEG_TILE] = "tile",
                                       [CONVERT_JPEG_KEEP] = "keep",
                                       [CONVERT_JPEG_REENCODE] = "reencode"};
    bool raw = options->store == CONVERT_STORE_RAW,
         reencode = options->jpeg == CONVERT_JPEG_REENCODE;
    jsonx_write_bool(json, "keep_order", options->keep_order);
    if (options->keep_order && source->was_shuffled)
        jsonx_write_bool(json, "source_was_shuffled", true);
    jsonx_write_string(json, "store", raw ? "raw" : "encoded");
    if (!raw)
        jsonx_write_string(json, "jpeg", jpeg[options->jpeg]);
    if (raw || reencode)
        jsonx_write_u64(json, "max_side", options->max_side);
    if (reencode)
        jsonx_write_u64(json, "quality",
                        options->quality ? options->quality : ENCODE_QUALITY_DEFAULT);
}

void options_write_json(const struct source *source, int split, const uint64_t *identity,
                        struct str *out)
{
    const struct convert_options *options = source->options;
    struct jsonx_writer json = {.out = out};
    jsonx_begin_object(&json, NULL);
    jsonx_write_string(&json, "source_kind", source->ops->name);
    if (options->format == CONVERT_FORMAT_TAR)
        jsonx_write_string(&json, "format", "tar");
    jsonx_write_u64(&json, "shard_bytes",
                    options->shard_bytes ? options->shard_bytes : CONVERT_SHARD_BYTES_DEFAULT);
    jsonx_write_u64(&json, "shard_samples", options->shard_samples);
    if (options->zstd_level > 0) {
        jsonx_write_u64(&json, "zstd_level", (uint64_t)options->zstd_level);
        jsonx_write_u64(&json, "zstd_version", frame_writer_version());
    }
    jsonx_write_u64(&json, "seed", options->seed);
    if (source->ops->write_options)
        source->ops->write_options(source, &json);
    else
        write_image_options(&json, source);
    write_index_fields(&json, &source->index_fields);
    write_splits(&json, options, split);
    if (identity)
        jsonx_write_hex64(&json, "conversion_identity", *identity);
    jsonx_end_object(&json);
}
