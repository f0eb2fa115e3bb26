/*
 * survey — what the samples of a dataset or of one shard contain: sizes, classes, pixels. Exact for
 * few samples, from an even subset for many.
 *
 * At most SURVEY_SHARDS_MAX shards, evenly spread, are opened. All their samples count for fields
 * and sizes, which the index has. Classes and image sizes cost a read each and come from at most
 * SURVEY_CLASSES_MAX and SURVEY_SIDES_MAX samples, evenly spread. Item t of T is among the n chosen
 * if floor((t + 1) n / T) is not floor(t n / T), so the same files give the same survey.
 */
#ifndef MILLRACE_CLI_REPORT_SURVEY_H
#define MILLRACE_CLI_REPORT_SURVEY_H

#include "image/pipeline/check.h"
#include "shards/dataset/dataset.h"

enum {
    SURVEY_SHARDS_MAX = 64,
    SURVEY_CLASSES_MAX = 1 << 15,
    SURVEY_SIDES_MAX = 1 << 12,
    SURVEY_SIZE_BINS = 128,           /* bin i: 2^(i/2) bytes to 2^((i+1)/2) */
    SURVEY_READ_BYTES_MAX = 64 << 20, /* of one field */
};

struct survey_field {
    char extension[SHARD_EXTENSION_BYTES_MAX];
    uint64_t count, bytes, least_bytes, most_bytes;
};

struct survey_sides {
    uint32_t width, height; /* as stored, before the EXIF orientation */
};

/* Owner thread. */
struct survey {
    uint64_t shards_count, samples; /* examined */
    struct survey_field fields[SHARD_FIELDS_MAX];
    uint32_t fields_count;
    uint64_t size_bins[SURVEY_SIZE_BINS]; /* samples by their bytes, all fields */
    uint64_t *class_counts;               /* [DATASET_CLASSES_MAX] */
    uint64_t classes_end;                 /* the highest number seen plus one */
    uint64_t labels_count, labels_bad_count;
    struct survey_sides *sides; /* [sides_count] */
    uint64_t sides_count, sides_bad_count;
    /* used during the walk */
    struct io *io;
    struct io_queue *queue;
    struct image_checker *checker;
    uint8_t *data; /* of the last read */
    size_t data_capacity_bytes;
};

/* A sample passed to the callback. Valid during the callback. */
struct survey_sample {
    const struct shard *shard;
    uint64_t in_shard;
    const char *key; /* not NUL-terminated */
    uint32_t key_bytes;
    int64_t class_number; /* -1: none, or not a number */
};

struct survey_options {
    const struct dataset *dataset; /* NULL: the one shard at path */
    const char *path;
    uint64_t wanted; /* sample is called for this many samples, evenly spread and in order */
    int (*sample)(void *context, struct survey *survey, const struct survey_sample *sample,
                  struct err *err);
    void *context;
};

/* Blocks. Deinitialize ret_survey even after a failure. */
int survey_run(struct io *io, const struct survey_options *options, struct survey *ret_survey,
               struct err *err);
void survey_deinit(struct survey *survey);

/* Reads the first bytes_max bytes (at most SURVEY_READ_BYTES_MAX) of a sample's field, into memory
 * owned by the survey until its next read. *ret_bytes is 0 if the sample lacks the field. */
int survey_read(struct survey *survey, const struct survey_sample *sample, const char *extension,
                size_t bytes_max, const uint8_t **ret_data, size_t *ret_bytes, struct err *err);

#endif
