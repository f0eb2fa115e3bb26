/*
 * conversion — the state of a running conversion, and its ownership of the target.
 */
#ifndef MILLRACE_CONVERT_DATASET_CONVERSION_H
#define MILLRACE_CONVERT_DATASET_CONVERSION_H

#include "convert/dataset/dataset_output.h"

struct conversion {
    struct io *io;
    const struct convert_options *options;
    const struct source_ops *ops;
    struct source *source;
    struct io_lock *lock; /* the target's; NULL: not acquired yet */
    struct output *outputs;
    uint32_t outputs_count;
    uint64_t identity;
    /* An earlier conversion left complete shards, and this one will resume. */
    bool will_resume;
    bool replaces; /* replaces an existing dataset, which stays until the new one is complete */
    uint64_t next_progress_ns;
    uint64_t bytes_done;
};

/* Checks the target before the source is read, since counting the tokens of much text takes long.
 * If another conversion is running there, reports that first, whatever the options say about
 * leftovers. Creates no missing target: inside the source it would become a class. */
int conversion_look_at_target(struct conversion *conversion, struct err *err);
/* Prepares the target: fresh with an empty journal, as the journal left it, or with a temporary
 * sibling of what is to be replaced. *ret_complete: nothing is left to do. */
int conversion_prepare_target(struct conversion *conversion, bool *ret_complete, struct err *err);
/* Checks that we still own the target. Call it before anything there gets its final name. */
int conversion_check_owned(const struct conversion *conversion, struct err *err);
/* Removes the lock's files from the dataset, which is copied and compared as a folder, unless
 * another conversion has taken the target over. Then unlocks. */
void conversion_disown_target(struct conversion *conversion);

#endif
