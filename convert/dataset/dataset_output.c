/*
 * dataset_output — see dataset_output.h.
 */
#include "convert/dataset/dataset_output.h"

#include "convert/dataset/dataset_options.h"
#include "image/formats/ppm.h"
#include "io/file_util.h"
#include "shards/format/tar.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int output_init(struct output *output, struct io *io, const struct source *source,
                uint64_t identity, uint32_t split, struct err *err)
{
    const struct convert_options *options = source->options;
    *output = (struct output){.io = io,
                              .source = source,
                              .identity = identity,
                              .split = split,
                              .replace = options->force || options->resume};
    return options->splits_count
               ? io_join_path(options->target, options->splits[split].name, output->folder, err)
               : io_join_path("", options->target, output->folder, err);
}

void output_deinit(struct output *output)
{
    shard_writer_abort(output->writer);
    if (output->transaction)
        output->io->transactions->abort(output->transaction);
    str_deinit(&output->shards);
    name_set_deinit(&output->keys);
}

int output_begin_replacement(struct output *output, struct err *err)
{
    struct io_transaction_options options = {.path = output->folder,
                                             .replace = true,
                                             .commit_record = DATASET_FILE_NAME,
                                             .owner_id = OUTPUT_OWNER};
    return output->io->transactions->begin(output->io, &options, &output->transaction, err);
}

int output_commit_replacement(struct output *output, struct err *err)
{
    struct io_transaction *transaction = output->transaction;
    output->transaction = NULL;
    return output->io->transactions->commit(transaction, err);
}

static int append_shard(struct output *output, const struct output_shard *shard, struct err *err)
{
    str_add(&output->shards, shard, sizeof *shard);
    if (str_status(&output->shards))
        return err_set(err, -ENOMEM, "out of memory for a list of shards");
    if (output_shards_count(output) > DATASET_SHARDS_MAX) {
        err_set(err, -E2BIG, "there would be more than %d shards", DATASET_SHARDS_MAX);
        err_advise(err, "use larger shards (--shard-bytes)");
        return -E2BIG;
    }
    return 0;
}

int output_restore(struct output *output, const struct output_shard *shard, struct err *err)
{
    output->next_item = shard->next_item;
    output->skipped_count = shard->skipped_count;
    output->source_bytes = shard->source_bytes;
    output->jpegs = shard->jpegs;
    return append_shard(output, shard, err);
}

void output_add_field_name(struct output *output, const char *extension)
{
    uint32_t at = 0;
    while (at < output->fields_count && strcmp(output->fields[at], extension) < 0)
        at++;
    if ((at < output->fields_count && strcmp(output->fields[at], extension) == 0) ||
        output->fields_count == SHARD_FIELDS_MAX) /* sources never exceed this */
        return;
    memmove(output->fields[at + 1], output->fields[at],
            (output->fields_count - at) * sizeof output->fields[0]);
    snprintf(output->fields[at], sizeof output->fields[at], "%s", extension);
    output->fields_count++;
}

static int restore_shards(struct output *output, const struct dataset *dataset, struct err *err)
{
    int status = 0;
    for (uint64_t i = 0; i < dataset->shards_count && !status; i++) {
        struct output_shard shard = {.split = output->split,
                                     .next_item = output->source->items_count};
        shard.summary.samples = dataset->shards[i].samples;
        shard.summary.file_bytes = dataset->shards[i].file_bytes;
        status = output_restore(output, &shard, err);
    }
    return status;
}

static void write_options(const struct output *output, struct str *out)
{
    int split = output->source->options->splits_count ? (int)output->split : -1;
    options_write_json(output->source, split, &output->identity, out);
}

int output_find_complete(struct output *output, bool *ret_is_complete, struct err *err)
{
    char path[IO_PATH_BYTES_MAX];
    struct io_stat info;
    struct dataset *dataset = NULL;
    struct str options = {0};
    *ret_is_complete = false;
    int status = io_join_path(output->folder, DATASET_FILE_NAME, path, err);
    if (status || output->io->names->stat(output->io, path, &info, NULL))
        return status;
    write_options(output, &options);
    status = dataset_open(output->io, path, &dataset, err);
    if (!status && str_status(&options))
        status = err_set(err, -ENOMEM, "out of memory for options");
    if (!status && strcmp(str_text(&options), str_text(&dataset->options_json)) == 0) {
        *ret_is_complete = true;
        status = restore_shards(output, dataset, err);
    }
    dataset_close(dataset);
    str_deinit(&options);
    return status;
}

bool output_has_key(const struct output *output, const char *key)
{
    uint32_t number;
    return output->writer && name_set_find(&output->keys, key, strlen(key), &number);
}

static int add_key(struct output *output, const char *key, struct err *err)
{
    uint32_t number;
    bool is_new;
    return output->source->ops->is_ordered
               ? name_set_add(&output->keys, key, strlen(key), &number, &is_new, err)
               : 0;
}

bool output_is_full(const struct output *output, const struct pipeline_item *item)
{
    const struct convert_options *options = output->source->options;
    uint64_t limit = options->shard_bytes ? options->shard_bytes : CONVERT_SHARD_BYTES_DEFAULT;
    if (!output->writer || shard_writer_samples(output->writer) == 0)
        return false;
    uint64_t bytes =
        item->encoded.data.bytes + 2 * TAR_BLOCK_BYTES * (uint64_t)item->encoded.fields_count;
    return output_has_key(output, item->item.key) ||
           shard_writer_bytes(output->writer) + bytes > limit ||
           (options->shard_samples &&
            shard_writer_samples(output->writer) >= options->shard_samples);
}

void output_shard_name(const struct output *output, uint64_t shard, char *name)
{
    snprintf(name, OUTPUT_SHARD_NAME_BYTES_MAX, "shard-%06" PRIu64 ".tar%s", shard,
             output->source->options->zstd_level > 0 ? ".zst" : "");
}

bool output_is_shard_name(const char *name)
{
    size_t digits = strncmp(name, "shard-", 6) == 0 ? strspn(name + 6, "0123456789") : 0;
    const char *end = name + 6 + digits;
    return digits >= 6 && (strcmp(end, ".tar") == 0 || strcmp(end, ".tar.zst") == 0);
}

static int begin_shard(struct output *output, struct err *err)
{
    const struct convert_options *options = output->source->options;
    char name[OUTPUT_SHARD_NAME_BYTES_MAX], path[IO_PATH_BYTES_MAX];
    output_shard_name(output, output_shards_count(output), name);
    int status = io_join_path(output->folder, name, path, err);
    if (!status && output->transaction)
        status =
            shard_writer_open_in(output->io, output->transaction, name, path, &output->writer, err);
    else if (!status)
        status = shard_writer_open(output->io, path, output->replace, &output->writer, err);
    if (!status && options->zstd_level > 0)
        status = shard_writer_compress(output->writer, options->zstd_level, options->workers, err);
    return status;
}

/* Whether the field is a PPM whose rows can be read separately. Small files are read whole. */
static bool find_raw_image(const void *data, size_t bytes, struct shard_raw_image *ret_image)
{
    struct ppm ppm;
    struct pixels_info info;
    struct err ignored;
    if (bytes <= SHARD_BLOCK_BYTES || image_kind_of(data, bytes) != IMAGE_PPM ||
        ppm_begin(&ppm, data, bytes, NULL, &info, &ignored) ||
        bytes - ppm.header_bytes != 3 * (uint64_t)ppm.width * ppm.height)
        return false;
    *ret_image = (struct shard_raw_image){.width = ppm.width, .pixels_offset = ppm.header_bytes};
    return true;
}

/* Plain tars have no index for rows and numbers. */
static bool is_plain(const struct output *output)
{
    return output->source->options->format == CONVERT_FORMAT_TAR;
}

static int add_field(struct output *output, const struct encoded_field *field, const char *data,
                     struct err *err)
{
    struct shard_raw_image image;
    if (!is_plain(output) && find_raw_image(data, field->bytes, &image))
        return shard_writer_add_raw_image(output->writer, field->extension, data, field->bytes,
                                          image, err);
    return shard_writer_add_field(output->writer, field->extension, data, field->bytes, err);
}

static int add_numbers(struct output *output, const double *numbers, struct err *err)
{
    const struct index_fields *fields = &output->source->index_fields;
    int status = 0;
    for (uint32_t i = 0; i < fields->count && !status; i++)
        status = shard_writer_add_number(output->writer, fields->items[i].name, numbers[i], err);
    double label = numbers[fields->count];
    if (!status && !isnan(label) && !index_fields_has(fields, INDEX_FIELD_LABEL))
        status = shard_writer_add_number(output->writer, INDEX_FIELD_LABEL, label, err);
    return status;
}

int output_add(struct output *output, const struct pipeline_item *item, struct err *err)
{
    int status = output->writer ? 0 : begin_shard(output, err);
    if (!status)
        status = add_key(output, item->item.key, err);
    if (!status)
        status = shard_writer_begin_sample(output->writer, item->item.key, err);
    for (uint32_t i = 0; i < item->encoded.fields_count && !status; i++) {
        const struct encoded_field *field = &item->encoded.fields[i];
        output_add_field_name(output, field->extension);
        status = add_field(output, field, item->encoded.data.data + field->at, err);
    }
    if (!status && !is_plain(output))
        status = add_numbers(output, item->encoded.numbers, err);
    output->source_bytes += item->item.bytes;
    convert_jpeg_counts_add(&output->jpegs, &item->encoded.jpegs);
    return status;
}

int output_end_shard(struct output *output, uint64_t next_item, bool *ret_ended, struct err *err)
{
    struct output_shard shard = {.split = output->split, .next_item = next_item};
    *ret_ended = false;
    if (!output->writer)
        return 0;
    struct shard_writer *writer = output->writer;
    output->writer = NULL;
    name_set_deinit(&output->keys);
    output->keys = (struct name_set){0};
    int status = is_plain(output) ? shard_writer_commit_plain(writer, &shard.summary, err)
                                  : shard_writer_commit(writer, &shard.summary, err);
    if (status)
        return status;
    shard.skipped_count = output->skipped_count;
    shard.source_bytes = output->source_bytes;
    shard.jpegs = output->jpegs;
    output->next_item = next_item;
    *ret_ended = true;
    return append_shard(output, &shard, err);
}

static int fill_shards(const struct output *output, struct dataset *dataset, struct err *err)
{
    uint64_t count = output_shards_count(output), field_bytes = 0;
    dataset->shards = calloc(count + 1, sizeof *dataset->shards);
    if (!dataset->shards)
        return err_set(err, -ENOMEM, "out of memory for a list of shards");
    for (uint64_t i = 0; i < count; i++) {
        char name[OUTPUT_SHARD_NAME_BYTES_MAX];
        const struct shard_summary *summary = &output_shard_at(output, i)->summary;
        struct dataset_shard *shard = &dataset->shards[i];
        output_shard_name(output, i, name);
        shard->url = strdup(name);
        if (!shard->url)
            return err_set(err, -ENOMEM, "out of memory for a list of shards");
        shard->samples = summary->samples;
        shard->file_bytes = summary->file_bytes;
        shard->uncompressed_bytes = summary->uncompressed_bytes;
        shard->xxh3 = summary->xxh3;
        shard->index_crc32c = summary->index_crc32c;
        shard->index_offset = summary->index_offset;
        shard->first_sample = dataset->samples;
        dataset->samples += summary->samples;
        dataset->shards_count = i + 1;
        field_bytes += summary->field_bytes;
    }
    dataset->mean_sample_bytes = dataset->samples ? field_bytes / dataset->samples : 0;
    return 0;
}

static int fill_classes(const struct source *source, struct dataset *dataset, struct err *err)
{
    dataset->classes = calloc(source->classes_count + 1, sizeof *dataset->classes);
    for (uint64_t i = 0; dataset->classes && i < source->classes_count; i++) {
        dataset->classes[i] = strdup(source->classes[i]);
        if (!dataset->classes[i])
            break;
        dataset->classes_count = i + 1;
    }
    return dataset->classes_count == source->classes_count
               ? 0
               : err_set(err, -ENOMEM, "out of memory for class names");
}

static void warn_of_missing_numbers(const struct output *output)
{
    const struct index_fields *fields = &output->source->index_fields;
    for (uint32_t i = 0; i < fields->count; i++) {
        uint32_t at = 0;
        while (at < output->fields_count &&
               !index_field_takes(&fields->items[i], output->fields[at]))
            at++;
        if (at == output->fields_count)
            log_line(output->source->options->log, LOG_WARN,
                     "the index field %s is empty: no sample of %s has a field %s",
                     fields->items[i].name, output->folder, fields->items[i].from);
    }
}

int output_commit(struct output *output, struct err *err)
{
    const struct source *source = output->source;
    char path[IO_PATH_BYTES_MAX];
    struct str text = {0};
    struct dataset *dataset = calloc(1, sizeof *dataset);
    if (!dataset)
        return err_set(err, -ENOMEM, "out of memory for dataset.json");
    int status = fill_shards(output, dataset, err);
    if (!status)
        status = fill_classes(source, dataset, err);
    if (status)
        goto out;
    memcpy(dataset->fields, output->fields, sizeof dataset->fields);
    dataset->fields_count = output->fields_count;
    if (source->ops->fill_text) {
        source->ops->fill_text(source, output->split, &dataset->text);
        dataset_set_last_tokens(dataset);
    }
    write_options(output, &dataset->options_json);
    if (str_status(&dataset->options_json))
        status = err_set(err, -ENOMEM, "out of memory for dataset.json");
    if (!status)
        status = dataset_encode(dataset, &text, err);
    if (!status)
        status = io_join_path(output->folder, DATASET_FILE_NAME, path, err);
    if (!status && output->transaction)
        status = io_write_transaction_file(output->io, output->transaction, DATASET_FILE_NAME, path,
                                           text.data, text.bytes, err);
    else if (!status)
        status = io_write_file(output->io, path, text.data, text.bytes, output->replace, err);
    if (!status)
        warn_of_missing_numbers(output);
out:
    str_deinit(&text);
    dataset_close(dataset);
    return status;
}
