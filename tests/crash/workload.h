/*
 * workload — the saves that the crash tests interrupt: ranks follow a plan and save versions of the
 * same arrays as steps in a folder.
 *
 *     struct plan plan = {
 *         .name = "keep one", .ranks = 3, .keep = 1, .saves = {{1, 1}, {2, 2}}, .saves_count = 2};
 *     workload_run(&plan, io, folder, NULL);
 *
 * The ranks are threads of this process (thread_comm.h), or real ranks that each run one part
 * (workload_run_rank). The bytes of each array depend only on the version, which is stored in the
 * state, so that a step's version and integrity can be checked.
 *
 * The workload reports progress as notes to the recorder (recorder_note) and in `notes_count`:
 * WORKLOAD_BEGUN(i) before save i begins, WORKLOAD_DONE(i) once ckpt_saver_wait has reported it
 * durable.
 */
#ifndef MILLRACE_TESTS_CRASH_WORKLOAD_H
#define MILLRACE_TESTS_CRASH_WORKLOAD_H

#include "base/err.h"
#include "comm/comm.h"
#include "io/io.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { PLAN_SAVES_MAX = 12 };

struct plan_save {
    uint64_t step, version;
    bool reopens; /* first close the saver and let another owner acquire the folder */
};

struct plan {
    const char *name;
    int ranks;
    uint32_t keep;        /* how many of the latest steps to keep; 0: all */
    uint64_t rows;        /* of the largest array, at 132 bytes each; 0: 96 */
    bool is_consolidated; /* the first array is stored in the file that all ranks write */
    bool refuses_rename_flags;
    struct plan_save saves[PLAN_SAVES_MAX];
    unsigned saves_count;
};

#define WORKLOAD_BEGUN(i) (2 * (i))
#define WORKLOAD_DONE(i)  (2 * (i) + 1)

/* Runs all saves in order. After a failed save, calls revive and continues with a new saver; revive
 * NULL: a failed save ends the run. Unless notes_count is NULL, *notes_count is the newest note
 * plus one. Returns the number of failed saves, including failures to open. */
unsigned workload_run(const struct plan *plan, struct io *io, const char *folder,
                      void (*revive)(void), atomic_uint *notes_count);

/* Runs all saves in order as one of the communicator's ranks; plan.ranks is ignored. Stops at the
 * first failure. */
int workload_run_rank(const struct plan *plan, struct io *io, const char *folder, struct comm *comm,
                      atomic_uint *notes_count, struct err *err);

/* Saves one version as a single rank, with the plan's retention. */
int workload_save_once(const struct plan *plan, struct io *io, const char *folder,
                       struct plan_save save, struct err *err);
/* Acquires and releases the folder, as every run does when it starts. */
int workload_acquire_once(const struct plan *plan, struct io *io, const char *folder,
                          struct err *err);

/* Loads the whole step and returns its version. -EBADMSG if the bytes are not that version's. */
int workload_load(const struct plan *plan, struct io *io, const char *step_path,
                  uint64_t *ret_version, struct err *err);
/* Like workload_load, but loads only the part held by `rank` of `ranks`. */
int workload_load_part(const struct plan *plan, struct io *io, const char *step_path, int rank,
                       int ranks, uint64_t *ret_version, struct err *err);

#endif
