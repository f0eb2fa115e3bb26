/*
 * dataset — converts photos, other files or text into shards.
 *
 * The source lists items in a fixed order, threads read and encode them in parallel, and one of
 * them also fills shards in that order. The output therefore does not depend on the number of
 * threads. Memory is bounded by the items in progress.
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
    uint64_t hidden_count, ignored_count;
    uint32_t splits_count;
    struct convert_split_result splits[CONVERT_SPLITS_MAX];
    struct convert_jpeg_counts jpegs; /* zero if an earlier run completed the dataset */
    double seconds;
    bool is_resumable; /* after -EINTR: --resume can continue */
};

/* Blocks. Errors:
 * - -EEXIST: the target exists without force or resume, or force would remove more than its
 *   dataset.
 * - -EBUSY: another process is converting into the target; nothing was changed.
 * - -EBADMSG names the bad item.
 * - -EINVAL: source and target overlap.
 * - -EINTR: stopped; only ret_result->is_resumable is set.
 *
 * A failure removes the written files, or keeps complete shards if --resume can continue. With
 * force, the existing dataset stays until the new one is complete. */
int convert_dataset(struct io *io, const struct convert_options *options,
                    struct convert_result *ret_result, struct err *err);

#endif
