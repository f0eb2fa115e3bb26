/*
 * saver — state of a ckpt_saver. saver_open.c opens and closes it, saver.c saves.
 */
#ifndef MILLRACE_CKPT_SAVE_SAVER_H
#define MILLRACE_CKPT_SAVE_SAVER_H

#include "base/os/trace.h"
#include "base/str.h"
#include "ckpt/ckpt.h"
#include "ckpt/save/commit.h"
#include "ckpt/save/consolidated.h"
#include "ckpt/save/global_plan.h"
#include "ckpt/save/image_writer.h"
#include "ckpt/save/layout.h"
#include "ckpt/save/nodes.h"
#include "ckpt/save/snapshot.h"

#include <pthread.h>

struct ckpt_saver {
    /* Immutable after open, down to commit. Pointers from the options are borrowed. */
    struct io *io;
    struct nodes nodes;
    struct io_lock *lock; /* on a node's first rank */
    char *folder, *run_id, *numerics_id, *metric;
    struct ckpt_keep_rules keep; /* owns its metric */
    struct log log;
    bool has_log;
    enum ckpt_layout layout_kind;
    struct consolidated consolidated;
    struct layout layout;
    struct global_plan global;
    struct snapshot snapshot;
    struct image_writer image; /* used by the writer while a save is due */
    unsigned
        prefaulted_count; /* used by the writer; number of buffers passed to staging_prefault */
    struct commit commit;
    struct trace_track *track; /* used by the writer; NULL: no trace */
    pthread_t thread;
    bool has_thread;

    _Atomic uint64_t blocked_ns; /* while the caller was blocked */

    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool save_due, quit; /* from here on guarded by mutex */
    uint64_t step, begun_ns;
    struct str state_json; /* used by the writer while save_due */
    /* Why this rank refused the save. Its caller gets the error at once. Other ranks get it when
     * they agree on the save. */
    int refused_status;
    struct err refused_detail;
    int status; /* status of the last save, until it is returned */
    struct err detail;
    struct ckpt_saver_stats stats;
};

static inline const struct log *saver_log(const struct ckpt_saver *saver)
{
    return saver->has_log ? &saver->log : NULL;
}

/* The writer thread; runs until saver->quit. context: the saver. */
void *saver_write(void *context);

#endif
