/*
 * saver_open — ckpt_saver_open and ckpt_saver_close.
 */
#include "ckpt/save/saver.h"

#include "base/os/thread.h"
#include "ckpt/collective.h"
#include "ckpt/format/folder.h"
#include "io/file_util.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STAGING_DEFAULT_BYTES = 64 << 20 };

static const char operation[] = "opening the checkpoint folder";

/* On a node's first rank. Once locked, all temporary files in the folder belong to dead owners. */
static int lock_and_sweep(struct ckpt_saver *saver, const struct io_lock_options *lock,
                          struct err *err)
{
    struct io *io = saver->io;
    int status = io->names->make_folder(io, saver->folder, err);
    if (!status)
        status = io->locks->acquire(io, saver->folder, lock, &saver->lock, err);
    if (status)
        return status;
    status = io->transactions->sweep(io, saver->folder, NULL, folder_is_leftover, err);
    if (status > 0)
        log_line(saver_log(saver), LOG_INFO,
                 "%s: removed %d unfinished outputs left by a process that died", saver->folder,
                 status);
    return status < 0 ? status : 0;
}

static int copy_options(struct ckpt_saver *saver, const struct ckpt_saver_options *options,
                        struct err *err)
{
    saver->io = options->io;
    saver->folder = strdup(options->folder);
    saver->run_id = strdup(options->run_id ? options->run_id : "0");
    saver->numerics_id = strdup(options->numerics_id ? options->numerics_id : "");
    if (options->log) {
        saver->log = *options->log;
        saver->has_log = true;
    }
    saver->keep = options->keep;
    if (options->keep.best.metric)
        saver->keep.best.metric = saver->metric = strdup(options->keep.best.metric);
    if (!saver->folder || !saver->run_id || !saver->numerics_id ||
        (options->keep.best.metric && !saver->metric))
        return err_set(err, -ENOMEM, "out of memory for a saver");
    saver->layout_kind = options->layout;
    if (options->layout == CKPT_CONSOLIDATED && options->per_node) {
        err_set(err, -EINVAL, "checkpoint: the full layout needs one folder that all ranks share");
        err_advise(err, "let all nodes share the folder of checkpoints, or use the sharded layout");
        return -EINVAL;
    }
    return 0;
}

/* Fails now, not at the first save, if the longest path of a save does not fit. */
static int check_path_lengths(const struct ckpt_saver *saver, struct err *err)
{
    char step[FOLDER_STEP_NAME_BYTES], file[GLOBAL_PLAN_NAME_BYTES_MAX], name[IO_NAME_BYTES_MAX],
        path[IO_PATH_BYTES_MAX];
    snprintf(name, sizeof name, IO_TEMPORARY_PREFIX "%s-%s-%020d-%016d/%s",
             folder_step_name(INT64_MAX, step), saver->run_id, 0, 0,
             global_plan_file_name(saver->nodes.all->rank, file));
    return io_join_path(saver->folder, name, path, err);
}

static int agree(struct ckpt_saver *saver, int status, struct err *err)
{
    return collective_agree(saver->nodes.all, status, operation, err);
}

static int plan_files(struct ckpt_saver *saver, const struct ckpt_saver_options *options,
                      const struct ckpt_tensor *tensors, uint64_t tensors_count, struct err *err)
{
    struct layout_options layout = {
        .tensors = tensors,
        .tensors_count = tensors_count,
        .groups_count = options->groups_count,
        .rank = saver->nodes.all->rank,
        .ranks = saver->nodes.all->ranks,
        .node_rank = saver->nodes.node->rank,
        .node_ranks = saver->nodes.node->ranks,
        .consolidated = saver->layout_kind == CKPT_CONSOLIDATED ? &saver->consolidated : NULL};
    const struct consolidated_tensors own = {tensors, tensors_count};
    int status = layout.consolidated
                     ? consolidated_init(&saver->consolidated, &own, options->groups_count,
                                         saver->nodes.all, err)
                     : 0;
    if (!status)
        status = agree(saver, layout_init(&saver->layout, &layout, err), err);
    return status ? status : global_plan_init(&saver->global, &saver->layout, &saver->nodes, err);
}

static int prepare_writer(struct ckpt_saver *saver, const struct ckpt_saver_options *options,
                          struct err *err)
{
    uint64_t staging = options->staging_bytes ? options->staging_bytes : STAGING_DEFAULT_BYTES;
    unsigned buffers;
    int status = snapshot_count_buffers(&saver->layout, staging, &buffers, err);
    if (!status)
        status = snapshot_init(&saver->snapshot, &saver->layout, options->device, options->updates,
                               buffers, err);
    if (!status)
        status = image_writer_init(&saver->image, &saver->snapshot,
                                   global_plan_checksums(&saver->global, saver->nodes.all->rank),
                                   saver->io, err);
    if (status)
        return status;
    saver->image.file_names[LAYOUT_OWN] = saver->global.file_names[saver->nodes.all->rank];
    saver->image.file_names[LAYOUT_CONSOLIDATED] = CONSOLIDATED_FILE_NAME;
    saver->commit =
        (struct commit){.io = saver->io,
                        .nodes = &saver->nodes,
                        .lock = saver->lock,
                        .global = &saver->global,
                        .folder = saver->folder,
                        .run_id = saver->run_id,
                        .numerics_id = saver->numerics_id,
                        .log = saver_log(saver),
                        .keep = saver->keep,
                        .file_bytes = {saver->layout.file_bytes, saver->consolidated.file_bytes}};
    return commit_init(&saver->commit, err);
}

/* The saver must be zeroed except for its nodes. */
static int open_saver(struct ckpt_saver *saver, const struct ckpt_saver_options *options,
                      const struct ckpt_tensor *tensors, uint64_t tensors_count, struct err *err)
{
    int local = copy_options(saver, options, err);
    if (!local)
        local = check_path_lengths(saver, err);
    if (!local && nodes_is_first_rank(&saver->nodes))
        local = lock_and_sweep(saver, &options->lock, err);
    int status = agree(saver, local, err);
    if (!status)
        status = plan_files(saver, options, tensors, tensors_count, err);
    if (!status)
        status = agree(saver, prepare_writer(saver, options, err), err);
    if (!status)
        status = commit_check_folder_is_shared(&saver->commit, err);
    if (status)
        return status;
    saver->track = saver->image.track = trace_add_track(options->trace, "checkpoint", 0);
    status = thread_start(&saver->thread, saver_write, saver);
    saver->has_thread = status == 0;
    if (status)
        err_errno(err, status, "could not start a thread to write checkpoints");
    return agree(saver, status, err);
}

int ckpt_saver_open(const struct ckpt_saver_options *options, const struct ckpt_tensor *tensors,
                    uint64_t tensors_count, struct ckpt_saver **ret_saver, struct err *err)
{
    struct nodes nodes = {0};
    /* First, so that other ranks learn of later failures here. */
    int status = nodes_init(&nodes, options, err);
    if (status) {
        nodes_deinit(&nodes);
        return status;
    }
    struct ckpt_saver *saver = calloc(1, sizeof *saver);
    status = saver ? 0 : err_set(err, -ENOMEM, "out of memory for a saver");
    status = collective_agree(nodes.all, status, operation, err);
    if (status) {
        nodes_deinit(&nodes);
        free(saver);
        return status;
    }
    pthread_mutex_init(&saver->mutex, NULL);
    pthread_cond_init(&saver->changed, NULL);
    saver->stats.last_step = UINT64_MAX;
    saver->nodes = nodes;
    status = open_saver(saver, options, tensors, tensors_count, err);
    if (status)
        ckpt_saver_close(saver);
    else
        *ret_saver = saver;
    return status;
}

void ckpt_saver_close(struct ckpt_saver *saver)
{
    if (!saver)
        return;
    if (saver->has_thread) {
        pthread_mutex_lock(&saver->mutex);
        saver->quit = true;
        pthread_cond_broadcast(&saver->changed);
        pthread_mutex_unlock(&saver->mutex);
        pthread_join(saver->thread, NULL); /* ends after the save in progress */
    }
    commit_deinit(&saver->commit);
    if (saver->image.snapshot)
        image_writer_deinit(&saver->image);
    if (saver->snapshot.layout)
        snapshot_deinit(&saver->snapshot);
    global_plan_deinit(&saver->global);
    layout_deinit(&saver->layout);
    consolidated_deinit(&saver->consolidated);
    if (saver->lock)
        saver->io->locks->release(saver->lock);
    nodes_deinit(&saver->nodes);
    str_deinit(&saver->state_json);
    free(saver->folder);
    free(saver->run_id);
    free(saver->numerics_id);
    free(saver->metric);
    pthread_cond_destroy(&saver->changed);
    pthread_mutex_destroy(&saver->mutex);
    free(saver);
}
