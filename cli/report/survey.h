/*
 * survey — what is in the samples of a dataset or of one shard: sizes, classes, pixels; exact where
 * they are few, from an even sample where they are many.
 *
 * Of more than SURVEY_SHARDS_MAX shards an even choice is opened. All samples of those count for
 * the fields and sizes, which the index tells; classes and pixel sizes cost a read each and come
 * from at most SURVEY_CLASSES_MAX and SURVEY_SIDES_MAX samples, evenly spread. Item t of T is among
 * the n chosen where floor((t + 1) n / T) is not floor(t n / T): no chance is involved, and the
 * same files give the same survey.
 */
#ifndef MILLRACE_CLI_REPORT_SURVEY_H
#define MILLRACE_CLI_REPORT_SURVEY_H

#include "image/check.h"
#include "shards/dataset.h"

enum {
    SURVEY_SHARDS_MAX = 64,
    SURVEY_CLASSES_MAX = 1 << 15,
    SURVEY_SIDES_MAX = 1 << 12,
    SURVEY_SIZE_BINS = 128,           /* bin i: 2^(i/2) bytes up to 2^((i+1)/2) */
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
    uint64_t shards_count, samples; /* looked at */
    struct survey_field fields[SHARD_FIELDS_MAX];
    uint32_t fields_count;
    uint64_t size_bins[SURVEY_SIZE_BINS]; /* samples by the bytes of all their fields */
    uint64_t *class_counts;               /* [DATASET_CLASSES_MAX] */
    uint64_t classes_end;                 /* the highest number seen, plus one */
    uint64_t labels_count, labels_bad_count;
    struct survey_sides *sides; /* [sides_count] */
    uint64_t sides_count, sides_bad_count;
    /* of the walk */
    struct io *io;
    struct io_queue *queue;
    struct image_checker *checker;
    uint8_t *data; /* what was read last */
    size_t data_capacity_bytes;
};

/* One of the samples that the caller asked for. Lives during the callback. */
struct survey_sample {
    const struct shard *shard;
    uint64_t in_shard;
    const char *key; /* not NUL-terminated */
    uint32_t key_bytes;
    int64_t class_number; /* -1: none, or no number */
};

struct survey_options {
    const struct dataset *dataset; /* NULL: the one shard at path */
    const char *path;
    uint64_t wanted; /* of so many samples, evenly spread, sample is called, in order */
    int (*sample)(void *context, struct survey *survey, const struct survey_sample *sample,
                  struct err *err);
    void *context;
};

/* Blocks. ret_survey is to be deinitialised also after a failure. */
int survey_run(struct io *io, const struct survey_options *options, struct survey *ret_survey,
               struct err *err);
void survey_deinit(struct survey *survey);

/* The first bytes_max bytes (at most SURVEY_READ_BYTES_MAX) of a sample's field, in memory that
 * belongs to the survey until its next read. A field that the sample has not: no bytes. */
int survey_read(struct survey *survey, const struct survey_sample *sample, const char *extension,
                size_t bytes_max, const uint8_t **ret_data, size_t *ret_bytes, struct err *err);

#endif
