/*
 * commit — see commit.h. existing.c handles an earlier save of the same step.
 */
#include "ckpt/save/commit.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "ckpt/ckpt.h"
#include "ckpt/collective.h"
#include "ckpt/format/folder.h"
#include "ckpt/tools/prune.h"
#include "io/file_util.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int commit_init(struct commit *commit, struct err *err)
{
    commit->staging_reports =
        calloc((size_t)commit->nodes->node->ranks, sizeof *commit->staging_reports);
    return commit->staging_reports
               ? 0
               : err_set(err, -ENOMEM, "out of memory for %d ranks", commit->nodes->node->ranks);
}

void commit_deinit(struct commit *commit)
{
    if (commit->gather_failed)
        comm_retain(commit->staging_reports);
    else
        free(commit->staging_reports);
    str_deinit(&commit->manifest_text);
    commit->staging_reports = NULL;
}

/* The first rank creates the consolidated file before the others receive the path. */
static int create_consolidated_file(struct commit *commit, struct err *err)
{
    uint64_t bytes = commit->file_bytes[LAYOUT_CONSOLIDATED];
    return bytes == 0
               ? 0
               : commit->io->transactions->create(commit->transaction, CONSOLIDATED_FILE_NAME,
                                                  bytes_round_up(bytes, IO_ALIGN_BYTES),
                                                  &commit->files[LAYOUT_CONSOLIDATED], err);
}

static int open_consolidated_file(struct commit *commit, struct err *err)
{
    return commit->file_bytes[LAYOUT_CONSOLIDATED] == 0
               ? 0
               : commit->io->transactions->open(commit->transaction, CONSOLIDATED_FILE_NAME,
                                                &commit->files[LAYOUT_CONSOLIDATED], err);
}

/* Begins the transaction, on a node's first rank. */
static int create_staging(struct commit *commit, struct err *err)
{
    struct io *io = commit->io;
    struct io_stat info;
    int status = io->locks->check(commit->lock, err);
    if (status)
        return status;
    commit->exists = io->names->stat(io, commit->path, &info, NULL) == 0;
    status = folder_backup_path(commit->folder, commit->step, commit->backup_path, err);
    if (status)
        return status;
    struct io_transaction_options options = {.path = commit->path,
                                             .replace = commit->exists,
                                             .backup = commit->exists ? commit->backup_path : NULL,
                                             .commit_record = MANIFEST_NAME,
                                             .owner_id = commit->run_id,
                                             .attempt = commit->attempt};
    status = io->transactions->begin(io, &options, &commit->transaction, err);
    if (status)
        return status;
    const char *staging_path = io->transactions->staging_path(commit->transaction);
    if (strlen(staging_path) >= sizeof commit->staging_reports[0].path)
        return io_long_path_error("", staging_path, err);
    strcpy(commit->staging_reports[0].path, staging_path);
    commit->staging_reports[0].exists = commit->exists;
    return 0;
}

static int join_staging(struct commit *commit, struct err *err)
{
    const struct staging_report *first = &commit->staging_reports[0];
    if (!memchr(first->path, '\0', sizeof first->path))
        return err_set(err, -EPROTO, "the staging path from rank 0 of the node is not terminated");
    if (first->status)
        return err_set(err, -EREMOTEIO, "the first rank could not begin the save");
    struct io_transaction_options options = {
        .path = commit->path, .owner_id = commit->run_id, .attempt = commit->attempt};
    int status = commit->io->transactions->join(commit->io, &options, first->path,
                                                &commit->transaction, err);
    if (status == -ENOENT)
        err_advise(
            err, "let all nodes share the folder, or give each its own (checkpoint.shared: false)");
    return status;
}

/* Step 1: all ranks of a node enter one staging folder. */
static int enter_staging(struct commit *commit, uint64_t step, bool has_consolidated_file,
                         int status, struct err *err)
{
    struct comm *node = commit->nodes->node;
    struct staging_report *own = &commit->staging_reports[node->rank];
    bool is_first = nodes_is_first_rank(commit->nodes);
    commit->step = step;
    commit->attempt++;
    *own = (struct staging_report){0};
    if (!status)
        status = folder_step_path(commit->folder, step, commit->path, err);
    if (!status && is_first)
        status = create_staging(commit, err);
    if (!status && is_first && has_consolidated_file)
        status = create_consolidated_file(commit, err);
    own->status = status;
    struct err detail = {0};
    int gathered = collective_gather(node, commit->staging_reports, sizeof *own,
                                     "beginning a checkpoint", &detail);
    commit->gather_failed |= gathered != 0;
    commit->exists = gathered == 0 && commit->staging_reports[0].exists;
    if (!status && gathered) {
        status = gathered;
        if (err)
            *err = detail;
    }
    if (!status && !is_first)
        status = join_staging(commit, err);
    if (!status && !is_first && has_consolidated_file)
        status = open_consolidated_file(commit, err);
    return status;
}

static void leave_transaction(struct commit *commit)
{
    if (nodes_is_first_rank(commit->nodes))
        commit->io->transactions->abort(commit->transaction);
    else if (commit->transaction)
        commit->io->transactions->leave(commit->transaction);
    commit->transaction = NULL;
    for (int i = 0; i < LAYOUT_FILES; i++)
        commit->files[i] = NULL;
}

int commit_check_folder_is_shared(struct commit *commit, struct err *err)
{
    int status = commit->nodes->node->ranks > 1 ? enter_staging(commit, 0, false, 0, err) : 0;
    status =
        collective_agree(commit->nodes->all, status, "checking the folder of checkpoints", err);
    leave_transaction(commit); /* no more ranks will join */
    return status;
}

int commit_begin(struct commit *commit, uint64_t step, int status, struct err *err)
{
    char name[GLOBAL_PLAN_NAME_BYTES_MAX];
    status = enter_staging(commit, step, true, status, err);
    if (!status)
        status = commit->io->transactions->create(
            commit->transaction, global_plan_file_name(commit->nodes->all->rank, name),
            bytes_round_up(commit->file_bytes[LAYOUT_OWN], IO_ALIGN_BYTES),
            &commit->files[LAYOUT_OWN], err);
    return status;
}

static int write_manifest(struct commit *commit, const char *state_json, struct err *err)
{
    struct manifest *manifest = &commit->global->manifest;
    char path[IO_PATH_BYTES_MAX];
    manifest->step = commit->step;
    manifest->wall_ns = clock_wall_ns();
    manifest->numerics_id = commit->numerics_id;
    /* Also clears an out-of-memory error of the previous save. */
    str_deinit(&commit->manifest_text);
    int status = io_join_path(commit->path, MANIFEST_NAME, path, err);
    if (!status)
        status = manifest_encode(manifest, state_json, &commit->global->tensors_text,
                                 &commit->manifest_text, err);
    return status ? status
                  : io_write_transaction_file(commit->io, commit->transaction, MANIFEST_NAME, path,
                                              commit->manifest_text.data,
                                              commit->manifest_text.bytes, err);
}

/* Step 5 up to the rename. */
static int compare_and_write_manifest(struct commit *commit, const char *state_json,
                                      struct err *err)
{
    commit->comparison = COMMIT_DIFFERENT;
    int status = commit->exists ? commit_compare_existing(commit, state_json, err) : 0;
    if (status || !nodes_is_first_rank(commit->nodes) || commit->comparison == COMMIT_SAME)
        return status;
    return write_manifest(commit, state_json, err);
}

/* Renames the step on a node's first rank, once all ranks' files are durable. Consumes the
 * transaction unless it returns before the commit. */
static int commit_step(struct commit *commit, struct err *err)
{
    struct io *io = commit->io;
    if (commit->comparison == COMMIT_SAME) {
        log_line(commit->log, LOG_INFO, "%s already exists with the same contents and is kept",
                 commit->path);
        return 0; /* leave_transaction aborts it */
    }
    /* If a process locks the folder after this check, it sweeps the transaction; commit fails. */
    int status = io->locks->check(commit->lock, err);
    if (status)
        return status;
    status = io->transactions->commit(commit->transaction, err);
    commit->transaction = NULL;
    return status;
}

/* Failures are logged; the next save tries again. */
static void apply_retention(struct commit *commit)
{
    struct ckpt_prune_options options = {.keep = commit->keep, .log = commit->log};
    struct err detail = {0};
    if (commit->keep.last > 0 &&
        prune_folder(commit->io, commit->folder, &options, commit->lock, commit->step, &detail) &&
        detail.what[0])
        log_err(commit->log, LOG_WARN, &detail, "old checkpoints were not removed");
}

/* Makes this rank's files durable; stops at the first failure. */
static int finalize_files(struct commit *commit, struct err *err)
{
    int status = 0;
    for (int i = 0; i < LAYOUT_FILES && !status; i++) {
        struct io_file *file = commit->files[i];
        commit->files[i] = NULL;
        if (file)
            status = commit->io->transactions->finalize(commit->transaction, file,
                                                        commit->file_bytes[i], err);
    }
    return status;
}

/* If the lock was lost since the commit, the steps belong to another owner and must stay. */
static bool still_owns_folder(const struct commit *commit)
{
    return commit->io->locks->check(commit->lock, NULL) == 0;
}

/* If the save failed because another owner swept it, returns -EBUSY, naming the owner. */
static int classify_failure(const struct commit *commit, int status, struct err *err)
{
    struct err detail = {0};
    if (commit->io->locks->check(commit->lock, &detail) != -EBUSY)
        return status;
    if (err)
        *err = detail;
    return -EBUSY;
}

int commit_finish(struct commit *commit, int status, const char *state_json, struct err *err)
{
    struct comm *all = commit->nodes->all;
    bool is_first = nodes_is_first_rank(commit->nodes);
    if (!status)
        status = finalize_files(commit, err);
    if (status && is_first)
        status = classify_failure(commit, status, err);
    status = collective_agree(all, status, "agreeing on a checkpoint", err);
    if (!status)
        status = global_plan_gather(commit->global, all, err);
    if (!status)
        status = compare_and_write_manifest(commit, state_json, err);
    if (commit->nodes->count > 1) /* no node commits until all nodes can */
        status = collective_agree(all, status, "writing the manifests", err);
    if (!status && is_first)
        status = commit_step(commit, err);
    if (status && is_first)
        status = classify_failure(commit, status, err);
    status = collective_agree(all, status, "committing a checkpoint", err);
    leave_transaction(commit);
    if (!status && is_first && commit->exists)
        commit_prune_backup(commit, state_json);
    if (!status && is_first && still_owns_folder(commit))
        apply_retention(commit);
    return status;
}
