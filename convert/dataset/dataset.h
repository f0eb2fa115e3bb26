/*
 * dataset — converts a folder of files, or text, into shards.
 *
 * Three stages: the source lists its items in a fixed order; workers read, check and encode items
 * in parallel; one writer takes them in that order and fills shards. The same input and options
 * therefore give the same bytes for any number of workers, and memory is bounded by the items in
 * progress.
 */
#ifndef MILLRACE_CONVERT_DATASET_DATASET_H
#define MILLRACE_CONVERT_DATASET_DATASET_H

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
    /* Files and folders of the source that were skipped. */
    uint64_t hidden_count, ignored_count;
    uint32_t splits_count;
    struct convert_split_result splits[CONVERT_SPLITS_MAX];
    struct convert_jpegs jpegs; /* zero if an earlier run had completed the dataset */
    double seconds;
    bool is_resumable; /* after -EINTR: complete shards are kept */
};

/* Blocks. Errors:
 *  - -EEXIST: the target exists (and neither force nor resume), or force would remove more than the
 *    dataset there.
 *  - -EBUSY: another process converts into it; the error names that process, and nothing was
 *    touched.
 *  - -EBADMSG names the bad item.
 *  - -EINVAL: one of source and target lies in the other.
 *  - -EINTR: stopped; only ret_result->is_resumable is set.
 *
 * On failure, what was written is removed, or, if the user may --resume, kept as complete shards
 * without dataset.json. With force the existing dataset stays until the new one is complete. */
int convert_dataset(struct io *io, const struct convert_options *options,
                    struct convert_result *ret_result, struct err *err);

#endif
