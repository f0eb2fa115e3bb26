#include "cli/report/survey.h"

#include "base/bytes.h"
#include "io/file_util.h"
#include "io/zstd/seekable_io.h"
#include "shards/dataset/class_number.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEAD_BYTES = 16 << 10 };

/* Whether item t of total is among `count` evenly spread items. total < 2^44, count < 2^20. */
static bool is_chosen(uint64_t t, uint64_t total, uint64_t count)
{
    return count >= total || (t + 1) * count / total != t * count / total;
}

int survey_read(struct survey *survey, const struct survey_sample *sample, const char *extension,
                size_t bytes_max, const uint8_t **ret_data, size_t *ret_bytes, struct err *err)
{
    const struct shard *shard = sample->shard;
    struct shard_field field = {0};
    assert(bytes_max <= SURVEY_READ_BYTES_MAX);
    int number = shard_index_find(shard->index, extension);
    if (number >= 0)
        shard_index_field(shard->index, sample->number_in_shard, (uint32_t)number, &field);
    uint64_t bytes = bytes_min(field.size_bytes, bytes_max);
    if (bytes > survey->data_capacity_bytes) {
        uint8_t *data = realloc(survey->data, bytes);
        if (!data)
            return err_set(err, -ENOMEM, "out of memory for a field");
        survey->data = data;
        survey->data_capacity_bytes = bytes;
    }
    int status = bytes == 0 ? 0
                            : io_read_exact(survey->queue, survey->io, shard->file, shard->path,
                                            field.data_offset, survey->data, bytes, err);
    if (status)
        return status;
    *ret_data = survey->data;
    *ret_bytes = bytes;
    return 0;
}

static void add_field(struct survey *survey, const char *extension, uint64_t bytes)
{
    uint32_t i = 0;
    while (i < survey->fields_count && strcmp(survey->fields[i].extension, extension) != 0)
        i++;
    if (i == SHARD_FIELDS_MAX)
        return;
    struct survey_field *field = &survey->fields[i];
    if (i == survey->fields_count) {
        survey->fields_count++;
        snprintf(field->extension, sizeof field->extension, "%s", extension);
        field->min_bytes = UINT64_MAX;
    }
    field->count++;
    field->bytes += bytes;
    field->min_bytes = bytes_min(field->min_bytes, bytes);
    field->max_bytes = bytes > field->max_bytes ? bytes : field->max_bytes;
}

static void add_sizes(struct survey *survey, const struct shard_index *index, uint64_t sample)
{
    uint64_t bytes = 0;
    for (uint32_t f = 0; f < shard_index_fields(index); f++) {
        struct shard_field field;
        shard_index_field(index, sample, f, &field);
        if (field.present)
            add_field(survey, shard_index_extension(index, f), field.size_bytes);
        bytes += field.size_bytes;
    }
    unsigned bin = bytes > 1 ? (unsigned)(2 * log2((double)bytes)) : 0;
    survey->size_bins[bin < SURVEY_SIZE_BINS ? bin : SURVEY_SIZE_BINS - 1]++;
    survey->samples++;
}

/* *ret_class is -1 if the sample has no valid label. */
static int read_label(struct survey *survey, const struct survey_sample *sample, int64_t *ret_class,
                      struct err *err)
{
    const uint8_t *data;
    size_t bytes;
    int32_t number;
    int status = survey_read(survey, sample, "cls", CLASS_NUMBER_BYTES_MAX + 1, &data, &bytes, err);
    *ret_class = -1;
    if (status || bytes == 0)
        return status;
    if (class_number_parse(data, bytes, DATASET_CLASSES_MAX, &number) == 0)
        *ret_class = number;
    return 0;
}

static int count_label(struct survey *survey, const struct survey_sample *sample, struct err *err)
{
    int64_t number;
    int status = read_label(survey, sample, &number, err);
    if (status)
        return status;
    survey->labels_count++;
    if (number < 0) {
        survey->labels_bad_count++;
        return 0;
    }
    survey->class_counts[number]++;
    if ((uint64_t)number >= survey->classes_end)
        survey->classes_end = (uint64_t)number + 1;
    return 0;
}

static int measure_image(struct survey *survey, const struct survey_sample *sample,
                         const char *extension, struct err *err)
{
    const uint8_t *data;
    size_t bytes;
    struct pixels_info info;
    int status = survey_read(survey, sample, extension, HEAD_BYTES, &data, &bytes, err);
    if (status || bytes == 0)
        return status;
    bool has_size = image_check_headers(survey->checker, data, bytes, NULL, &info, NULL) == 0;
    if (!has_size && bytes == HEAD_BYTES) { /* profiles or thumbnails make headers longer */
        status = survey_read(survey, sample, extension, SURVEY_READ_BYTES_MAX, &data, &bytes, err);
        if (status)
            return status;
        has_size = image_check_headers(survey->checker, data, bytes, NULL, &info, NULL) == 0;
    }
    if (has_size && survey->image_sizes_count < SURVEY_IMAGES_MAX)
        survey->image_sizes[survey->image_sizes_count++] =
            (struct survey_image_size){.width = info.width, .height = info.height};
    survey->images_bad_count += !has_size;
    return 0;
}

static const char *find_image_field(const struct shard_index *index)
{
    size_t i = 0;
    while (image_extensions[i] && shard_index_find(index, image_extensions[i]) < 0)
        i++;
    return image_extensions[i];
}

static int examine_sample(struct survey *survey, const struct survey_options *options,
                          const struct survey_sample *sample, uint64_t total, struct err *err)
{
    const struct shard_index *index = sample->shard->index;
    uint64_t t = survey->samples;
    int status = 0;
    add_sizes(survey, index, sample->number_in_shard);
    if (shard_index_find(index, "cls") >= 0 && is_chosen(t, total, SURVEY_CLASSES_MAX))
        status = count_label(survey, sample, err);
    const char *image = find_image_field(index);
    if (!status && image && is_chosen(t, total, SURVEY_IMAGES_MAX))
        status = measure_image(survey, sample, image, err);
    if (status || !is_chosen(t, total, options->calls_max))
        return status;
    struct survey_sample labeled_sample = *sample;
    status = read_label(survey, sample, &labeled_sample.class_number, err);
    return status ? status : options->on_sample(options->context, survey, &labeled_sample, err);
}

/* Closes the shard. total: samples of all examined shards. */
static int examine_shard(struct survey *survey, const struct survey_options *options,
                         struct shard *shard, uint64_t total, struct err *err)
{
    uint64_t samples = shard_index_samples(shard->index);
    int status = 0;
    for (uint64_t s = 0; s < samples && !status; s++) {
        struct survey_sample sample = {.shard = shard, .number_in_shard = s};
        sample.key = shard_index_key(shard->index, s, &sample.key_bytes);
        status = examine_sample(survey, options, &sample, total, err);
    }
    survey->shards_count++;
    shard_close(shard);
    return status;
}

static int examine_dataset(struct survey *survey, const struct survey_options *options,
                           struct err *err)
{
    const struct dataset *dataset = options->dataset;
    struct shard *shard;
    uint64_t total = 0;
    int status = 0;
    for (uint64_t i = 0; i < dataset->shards_count; i++)
        if (is_chosen(i, dataset->shards_count, SURVEY_SHARDS_MAX))
            total += dataset->shards[i].samples;
    for (uint64_t i = 0; i < dataset->shards_count && !status; i++) {
        if (!is_chosen(i, dataset->shards_count, SURVEY_SHARDS_MAX))
            continue;
        status = dataset_open_shard(survey->io, dataset, i, &shard, err);
        if (!status)
            status = examine_shard(survey, options, shard, total, err);
    }
    return status;
}

static int examine_single_shard(struct survey *survey, const struct survey_options *options,
                                struct err *err)
{
    struct shard *shard;
    int status = shard_open(survey->io, options->path, &shard, err);
    return status ? status
                  : examine_shard(survey, options, shard, shard_index_samples(shard->index), err);
}

int survey_run(struct io *io, const struct survey_options *options, struct survey *ret_survey,
               struct err *err)
{
    struct survey *survey = ret_survey;
    *survey = (struct survey){0};
    survey->class_counts = calloc(DATASET_CLASSES_MAX, sizeof *survey->class_counts);
    survey->image_sizes = calloc(SURVEY_IMAGES_MAX, sizeof *survey->image_sizes);
    if (!survey->class_counts || !survey->image_sizes)
        return err_set(err, -ENOMEM, "out of memory for a survey of the samples");
    int status = seekable_io_open(io, 1, &survey->io, err);
    if (!status)
        status = survey->io->ops->queue_open(survey->io, 1, &survey->queue, err);
    if (!status)
        status = image_checker_open(&survey->checker, err);
    if (status)
        return status;
    return options->dataset ? examine_dataset(survey, options, err)
                            : examine_single_shard(survey, options, err);
}

void survey_deinit(struct survey *survey)
{
    if (survey->queue)
        survey->io->ops->queue_close(survey->queue);
    io_close(survey->io);
    image_checker_close(survey->checker);
    free(survey->class_counts);
    free(survey->image_sizes);
    free(survey->data);
    *survey = (struct survey){0};
}
