#include "ckpt/tools/prune.h"

#include "ckpt/format/folder.h"
#include "ckpt/tools/retention.h"
#include "io/file_util.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct candidate {
    uint64_t step, size_bytes;
    bool is_complete, is_removed;
};

struct prune {
    struct io *io;
    const char *folder;
    const struct ckpt_prune_options *options;
    struct io_lock *lock;
    uint64_t saved_step;
    struct candidate *candidates; /* [count] every step, ascending */
    struct retention_step *complete_steps;
    size_t count, complete_count;
    int status;
    struct err *err;
};

static void inspect_candidate(struct prune *prune, struct candidate *candidate)
{
    const struct ckpt_keep_rules *keep = &prune->options->keep;
    char path[IO_PATH_BYTES_MAX];
    struct manifest manifest;
    struct err detail = {0};
    int status = folder_step_path(prune->folder, candidate->step, path, &detail);
    if (!status)
        status = folder_read_step(prune->io, path, &manifest, &candidate->size_bytes, &detail);
    if (status) {
        log_err(prune->options->log, LOG_WARN, &detail,
                "an incomplete step is neither counted nor removed");
        return;
    }
    struct retention_step *complete = &prune->complete_steps[prune->complete_count++];
    *complete = (struct retention_step){.step = candidate->step,
                                        .is_saved = candidate->step == prune->saved_step};
    if (keep->best.metric)
        complete->has_metric =
            ckpt_get_metric(manifest.state, keep->best.metric, complete->step, &complete->metric);
    candidate->is_complete = true;
    manifest_deinit(&manifest);
}

/* A step without a manifest has no readers. */
int prune_remove_unread(struct io *io, struct io_lock *lock, const char *path, bool *ret_has_reader,
                        struct err *err)
{
    char manifest[IO_PATH_BYTES_MAX];
    struct io_shared_lock *manifest_lock = NULL;
    *ret_has_reader = false;
    int status = io->locks->check(lock, err);
    if (!status)
        status = io_join_path(path, MANIFEST_NAME, manifest, err);
    if (status)
        return status;
    status = io_lock_shared(io, manifest, true, &manifest_lock, err);
    if (status == -EBUSY) {
        *ret_has_reader = true;
        return 0;
    }
    if (!status || status == -ENOENT)
        status = io->names->remove(io, path, err);
    io_unlock_shared(io, manifest_lock);
    return status;
}

static void remove_step(struct prune *prune, struct ckpt_verdict *verdict)
{
    struct err detail = {0};
    bool has_reader;
    verdict->status =
        prune_remove_unread(prune->io, prune->lock, verdict->path, &has_reader, &detail);
    if (has_reader)
        verdict->reasons = CKPT_KEPT_READ;
    if (!verdict->status)
        return;
    log_err(prune->options->log, LOG_WARN, &detail, "could not remove an old checkpoint");
    if (!prune->status && prune->err)
        *prune->err = detail;
    prune->status = prune->status ? prune->status : verdict->status;
}

static int apply_verdict(struct prune *prune, struct candidate *candidate, unsigned reasons,
                         struct err *err)
{
    const struct ckpt_prune_options *options = prune->options;
    char path[IO_PATH_BYTES_MAX];
    struct ckpt_verdict verdict = {.step = candidate->step,
                                   .path = path,
                                   .size_bytes = candidate->size_bytes,
                                   .reasons = reasons};
    int status = folder_step_path(prune->folder, candidate->step, path, err);
    if (status)
        return status;
    if (reasons == 0 && !options->dry_run)
        remove_step(prune, &verdict);
    candidate->is_removed = verdict.reasons == 0 && verdict.status == 0;
    if (options->verdict)
        options->verdict(options->context, &verdict);
    return 0;
}

static int remove_backup(void *context, const struct io_entry *entry)
{
    struct prune *prune = context;
    char path[IO_PATH_BYTES_MAX];
    struct err detail = {0};
    uint64_t step;
    bool has_reader;
    if (entry->kind != IO_ENTRY_FOLDER || !folder_parse_backup(entry->name, &step))
        return 0;
    for (size_t i = 0; i < prune->count; i++)
        if (prune->candidates[i].step == step && !prune->candidates[i].is_removed)
            return 0;
    int status = io_join_path(prune->folder, entry->name, path, &detail);
    if (!status)
        status = prune_remove_unread(prune->io, prune->lock, path, &has_reader, &detail);
    if (status)
        log_err(prune->options->log, LOG_WARN, &detail,
                "could not remove a checkpoint that was set aside");
    return 0;
}

static int decide_and_remove(struct prune *prune, struct err *err)
{
    for (size_t i = 0; i < prune->count; i++)
        inspect_candidate(prune, &prune->candidates[i]);
    retention_decide(&prune->options->keep, prune->complete_steps, prune->complete_count);
    const struct retention_step *complete = prune->complete_steps;
    int status = 0;
    for (size_t i = 0; i < prune->count && !status; i++) {
        struct candidate *candidate = &prune->candidates[i];
        status =
            apply_verdict(prune, candidate,
                          candidate->is_complete ? complete++->reasons : CKPT_KEPT_INCOMPLETE, err);
    }
    if (!status && !prune->options->dry_run)
        status = prune->io->names->list(prune->io, prune->folder, remove_backup, prune, err);
    return status ? status : prune->status;
}

int prune_folder(struct io *io, const char *folder, const struct ckpt_prune_options *options,
                 struct io_lock *lock, uint64_t saved_step, struct err *err)
{
    struct prune prune = {.io = io,
                          .folder = folder,
                          .options = options,
                          .lock = lock,
                          .saved_step = saved_step,
                          .err = err};
    uint64_t *steps;
    int status = folder_list_steps(io, folder, &steps, &prune.count, err);
    if (status)
        return status;
    prune.candidates = calloc(prune.count + 1, sizeof *prune.candidates);
    prune.complete_steps = calloc(prune.count + 1, sizeof *prune.complete_steps);
    if (!prune.candidates || !prune.complete_steps)
        status = err_set(err, -ENOMEM, "out of memory for %zu steps", prune.count);
    for (size_t i = 0; i < prune.count && !status; i++)
        prune.candidates[i].step = steps[i];
    if (!status)
        status = decide_and_remove(&prune, err);
    free(prune.complete_steps);
    free(prune.candidates);
    free(steps);
    return status;
}

int ckpt_prune(struct io *io, const char *folder, const struct ckpt_prune_options *options,
               struct err *err)
{
    struct io_lock *lock = NULL;
    int status = folder_check_has_steps(io, folder, err);
    if (!status && !options->dry_run)
        status = io->locks->acquire(io, folder, NULL, &lock, err);
    if (!status)
        status = prune_folder(io, folder, options, lock, UINT64_MAX, err);
    if (lock)
        io->locks->release(lock);
    return status;
}
