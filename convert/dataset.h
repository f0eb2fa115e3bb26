/*
 * dataset — a folder of files, or text, into shards.
 *
 * Three stages: the source lists its items in a fixed order; workers read, check and encode items
 * side by side; one writer takes them back in that order and cuts shards. So the same input and
 * options give the same bytes whatever the number of workers, and memory is bounded by the items
 * in progress.
 */
#ifndef MILLRACE_CONVERT_DATASET_H
#define MILLRACE_CONVERT_DATASET_H

#include "base/err.h"
#include "base/log.h"
#include "convert/jpeg_counts.h"
#include "convert/options.h"
#include "io/io.h"

#include <stdbool.h>
#include <stdint.h>

struct convert_split_result {
    char name[CONVERT_SPLIT_NAME_BYTES_MAX];
    uint64_t samples_count, skipped_count, shards_count;
};

struct convert_result {
    uint64_t samples_count, skipped_count, shards_count, source_bytes, written_bytes;
    uint64_t classes_count;
    uint64_t hidden_count,
        ignored_count; /* files and folders of the source that were passed over */
    uint32_t splits_count;
    struct convert_split_result splits[CONVERT_SPLITS_MAX];
    struct convert_jpegs jpegs; /* zero where an earlier run had made the dataset whole */
    double seconds;
    bool is_resumable; /* of -EINTR: whole shards are kept */
};

/* Blocks. -EEXIST where the target is there (and neither force nor resume), or where force would
 * remove more than the dataset there; -EBUSY, with nothing touched, where another process converts
 * into it, naming that one; -EBADMSG naming the bad item, -EINTR. What was written before a failure
 * is removed, or, where the user may --resume, kept as whole shards without dataset.json. With
 * force the dataset that is there stays until the new one is whole. -EINVAL where one of source and
 * target lies in the other. On -EINTR ret_result->is_resumable alone is set. */
int convert_dataset(struct io *io, const struct convert_options *options,
                    struct convert_result *ret_result, struct err *err);

#endif
