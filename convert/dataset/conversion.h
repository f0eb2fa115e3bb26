/*
 * conversion — the state of a conversion, and ownership of its target.
 */
#ifndef MILLRACE_CONVERT_DATASET_CONVERSION_H
#define MILLRACE_CONVERT_DATASET_CONVERSION_H

#include "convert/dataset/compressed_files.h"
#include "convert/dataset/dataset_output.h"

struct conversion {
    struct io *io;
    struct io *source_io; /* reads the source: io, or that of compressed (decompressed_io.h) */
    struct compressed_files compressed;
    const struct convert_options *options;
    const struct source_ops *ops;
    struct source *source;
    struct io_lock *lock; /* on the target; NULL: not acquired */
    struct output *outputs;
    uint32_t outputs_count;
    uint64_t identity;
    bool will_resume;    /* --resume can continue after a failure */
    bool is_replacement; /* keep the existing dataset until the new one is complete */
    uint64_t next_progress_ns;
    uint64_t bytes_done;
};

/* Checks the target before the source is read, because counting tokens may take a long time. If
 * another process owns the target, that error takes precedence. Creates no folder: inside the
 * source, it would become a class. */
int conversion_check_target(struct conversion *conversion, struct err *err);
/* Creates an empty target, restores the state of the journal, or creates a staging folder to
 * replace an existing dataset. *ret_is_complete: nothing is left to do. */
int conversion_prepare_target(struct conversion *conversion, bool *ret_is_complete,
                              struct err *err);
/* Fails if another conversion has taken over the target. Call before committing anything. */
int conversion_check_ownership(const struct conversion *conversion, struct err *err);
/* Removes the lock's files, because users copy and compare the dataset's folder, then unlocks.
 * Keeps the files if another conversion has taken over the target. */
void conversion_release_target(struct conversion *conversion);

#endif
