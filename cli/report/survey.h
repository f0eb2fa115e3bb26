/*
 * survey — statistics of the samples of a dataset or shard: sizes, classes, image sizes.
 *
 * Opens at most SURVEY_SHARDS_MAX shards, evenly spread; their indexes give the fields and sizes of
 * all their samples. Classes and image sizes cost a read each, so they come from at most
 * SURVEY_CLASSES_MAX and SURVEY_IMAGES_MAX samples, evenly spread. The choice is reproducible: item
 * t of T is among the n chosen if floor((t + 1) n / T) differs from floor(t n / T).
 */
#ifndef MILLRACE_CLI_REPORT_SURVEY_H
#define MILLRACE_CLI_REPORT_SURVEY_H

#include "image/pipeline/check.h"
#include "shards/dataset/dataset.h"

enum {
    SURVEY_SHARDS_MAX = 64,
    SURVEY_CLASSES_MAX = 1 << 15,
    SURVEY_IMAGES_MAX = 1 << 12,
    SURVEY_SIZE_BINS = 128,           /* bin i: 2^(i/2) bytes to 2^((i+1)/2) */
    SURVEY_READ_BYTES_MAX = 64 << 20, /* of one field */
};

struct survey_field {
    char extension[SHARD_EXTENSION_BYTES_MAX];
    uint64_t count, bytes, min_bytes, max_bytes;
};

struct survey_image_size {
    uint32_t width, height; /* before the EXIF orientation */
};

/* Owner thread. */
struct survey {
    uint64_t shards_count, samples; /* examined */
    struct survey_field fields[SHARD_FIELDS_MAX];
    uint32_t fields_count;
    uint64_t size_bins[SURVEY_SIZE_BINS]; /* samples by total bytes */
    uint64_t *class_counts;               /* [DATASET_CLASSES_MAX] */
    uint64_t classes_end;                 /* the highest class number plus one */
    uint64_t labels_count, labels_bad_count;
    struct survey_image_size *image_sizes; /* [image_sizes_count] */
    uint64_t image_sizes_count, images_bad_count;
    struct io *io;
    struct io_queue *queue;
    struct image_checker *checker;
    uint8_t *data; /* contents of the last read */
    size_t data_capacity_bytes;
};

/* Valid during the callback. */
struct survey_sample {
    const struct shard *shard;
    uint64_t number_in_shard;
    const char *key; /* not NUL-terminated */
    uint32_t key_bytes;
    int64_t class_number; /* -1: no valid class */
};

struct survey_options {
    const struct dataset *dataset; /* NULL: path is a shard */
    const char *path;
    uint64_t calls_max; /* of on_sample, for evenly spread samples in order */
    int (*on_sample)(void *context, struct survey *survey, const struct survey_sample *sample,
                     struct err *err);
    void *context;
};

/* Blocks. Deinitialize *ret_survey even after a failure. */
int survey_run(struct io *io, const struct survey_options *options, struct survey *ret_survey,
               struct err *err);
void survey_deinit(struct survey *survey);

/* Reads the first bytes_max bytes (at most SURVEY_READ_BYTES_MAX) of a field, valid until the
 * survey's next read. *ret_bytes: 0 if the sample lacks the field. */
int survey_read(struct survey *survey, const struct survey_sample *sample, const char *extension,
                size_t bytes_max, const uint8_t **ret_data, size_t *ret_bytes, struct err *err);

#endif
