/*
 * saver — ckpt.h's saving half: the caller's side and the writer thread.
 *
 * The caller hands a save over by `due` and goes on; the writer thread begins the set, writes the image, commits, and clears
 * `due`. What lies between is snapshot's (bytes), image's (writing) and commit's (the folder).
 *
 * Locks: saver->mutex, then snapshot->mutex; never the other way round.
 */
#include "base/clock.h"
#include "base/json.h"
#include "base/thread.h"
#include "ckpt/ckpt.h"
#include "ckpt/collective.h"
#include "ckpt/commit.h"
#include "ckpt/folder.h"
#include "ckpt/image_writer.h"
#include "ckpt/layout.h"
#include "ckpt/nodes.h"
#include "ckpt/roster.h"
#include "ckpt/snapshot.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { STAGING_DEFAULT_BYTES = 64 << 20 };

struct ckpt_saver {
    struct io *io; /* immutable after open, as all down to commit; borrowed where options lent them */
    struct nodes nodes;
    struct io_lock *lock; /* of the first rank of a node */
    char *folder, *run_id, *numerics_id, *metric;
    struct ckpt_keep keep; /* its metric is ours */
    struct log log;
    bool has_log;
    struct layout layout;
    struct roster roster;
    struct snapshot snapshot;
    struct image_writer image; /* the writer's while a save is due */
    unsigned touched_count;    /* the writer's: buffers that staging_touch was called for */
    struct commit commit;
    struct trace_track *track; /* the writer's; NULL: no trace */
    pthread_t thread;
    bool has_thread;

    _Atomic uint64_t blocked_ns; /* the caller's */

    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool due, quit; /* guarded by mutex, as all below */
    uint64_t step, begun_ns;
    struct str state_json; /* the writer's while due */
    int refused; /* why this rank's part of the save can't be: told at once, and to the others where they agree */
    struct err refused_detail;
    int status; /* of the last save, until it is told */
    struct err detail;
    struct ckpt_saver_stats stats;
};

static const struct log *log_of(const struct ckpt_saver *saver)
{
    return saver->has_log ? &saver->log : NULL;
}

/* One save, on the writer thread. */
static int run_save(struct ckpt_saver *saver, struct err *err)
{
    struct io_file *file = NULL;
    struct commit_request request = {.file_bytes = saver->layout.file_bytes,
                                     .state_json = str_text(&saver->state_json)};
    uint64_t began_ns = trace_begin(saver->track);
    int status = commit_begin(&saver->commit, saver->step, request.file_bytes, &file, err);
    trace_end(saver->track, "begin", began_ns);
    if (!status && saver->refused) {
        status = saver->refused;
        *err = saver->refused_detail;
    }
    if (!status)
        status = image_writer_run(&saver->image, file, saver->commit.path, err);
    else
        snapshot_fail(&saver->snapshot, status, err);
    snapshot_end(&saver->snapshot);
    began_ns = trace_begin(saver->track);
    status = commit_finish(&saver->commit, status, &request, err);
    trace_end(saver->track, "commit", began_ns);
    return status;
}

static void record(struct ckpt_saver *saver, int status, const struct err *detail)
{
    struct ckpt_saver_stats *stats = &saver->stats;
    if (!saver->refused) {
        saver->status = status;
        saver->detail = *detail;
    }
    stats->last_save_ns = clock_now_ns() - saver->begun_ns;
    stats->saves_count += status == 0;
    stats->failures_count += status != 0;
    if (status == 0) {
        stats->written_bytes += saver->layout.file_bytes;
        stats->last_step = saver->step;
    }
}

/* Until a save is due. Meanwhile staging is taken from the kernel, what is used first in front, which else would be done while an update
 * waits for its copies. The mutex is held, but not while that is done. */
static void await_due(struct ckpt_saver *saver)
{
    const struct snapshot *snapshot = &saver->snapshot;
    while (!saver->due && !saver->quit) {
        if (saver->touched_count == snapshot->buffers_count) {
            pthread_cond_wait(&saver->changed, &saver->mutex);
            continue;
        }
        pthread_mutex_unlock(&saver->mutex);
        staging_touch(&snapshot->staging, snapshot->buffers_count - ++saver->touched_count);
        pthread_mutex_lock(&saver->mutex);
    }
}

static void *write_saves(void *context)
{
    struct ckpt_saver *saver = context;
    pthread_mutex_lock(&saver->mutex);
    for (;;) {
        await_due(saver);
        if (!saver->due)
            break;
        pthread_mutex_unlock(&saver->mutex);
        struct err detail = {0};
        char line[ERR_LINE_BYTES_MAX];
        uint64_t began_ns = trace_begin(saver->track);
        int status = run_save(saver, &detail);
        trace_end_with(saver->track, "save", began_ns, "step", saver->step);
        if (status && (status != -EREMOTEIO || saver->nodes.all->rank == 0)) /* others tell why */
            log_line(log_of(saver), LOG_ERROR, "the checkpoint of step %llu was not saved: %s",
                     (unsigned long long)saver->step, err_format(&detail, line, sizeof line));
        pthread_mutex_lock(&saver->mutex);
        record(saver, status, &detail);
        saver->due = false;
        pthread_cond_broadcast(&saver->changed);
    }
    pthread_mutex_unlock(&saver->mutex);
    return NULL;
}

/* The first rank of a node makes the folder its own; a step's temporary in it is then a dead owner's. */
static int own_folder(struct ckpt_saver *saver, const struct io_lock_options *lock, struct err *err)
{
    struct io *io = saver->io;
    int status = io->ops->make_folder(io, saver->folder, err);
    if (!status)
        status = io->ops->lock_acquire(io, saver->folder, lock, &saver->lock, err);
    if (status)
        return status;
    status = io->ops->sweep(io, saver->folder, NULL, folder_is_leftover, err);
    if (status > 0)
        log_line(log_of(saver), LOG_INFO, "%s: swept %d unfinished outputs of a run that died", saver->folder,
                 status);
    return status < 0 ? status : 0;
}

static int copy_options(struct ckpt_saver *saver, const struct ckpt_saver_options *options, struct err *err)
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
    return 0;
}

static int agree(struct ckpt_saver *saver, int status, struct err *err)
{
    return collective_agree(saver->nodes.all, status, "opening the checkpoint folder", err);
}

static int plan(struct ckpt_saver *saver, const struct ckpt_saver_options *options,
                const struct ckpt_tensor *tensors, uint64_t tensors_count, struct err *err)
{
    struct layout_options layout = {.tensors = tensors,
                                    .tensors_count = tensors_count,
                                    .groups_count = options->groups_count,
                                    .rank = saver->nodes.all->rank,
                                    .ranks = saver->nodes.all->ranks,
                                    .node_rank = saver->nodes.node->rank,
                                    .node_ranks = saver->nodes.node->ranks};
    int status = agree(saver, layout_init(&saver->layout, &layout, err), err);
    return status ? status : roster_init(&saver->roster, &saver->layout, &saver->nodes, err);
}

static int prepare(struct ckpt_saver *saver, const struct ckpt_saver_options *options, struct err *err)
{
    uint64_t staging = options->staging_bytes ? options->staging_bytes : STAGING_DEFAULT_BYTES;
    uint64_t buffers = staging / CKPT_BLOCK_BYTES;
    if (buffers < SNAPSHOT_BUFFERS_MIN)
        return err_set(err, -EINVAL, "checkpoint: staging needs %d MiB at least", SNAPSHOT_BUFFERS_MIN);
    if (buffers > saver->layout.blocks_count + SNAPSHOT_BUFFERS_MIN) /* more would never be used */
        buffers = saver->layout.blocks_count + SNAPSHOT_BUFFERS_MIN;
    int status = snapshot_init(&saver->snapshot, &saver->layout, options->device, options->updates,
                               (unsigned)buffers, err);
    if (!status)
        status = image_writer_init(&saver->image, &saver->snapshot,
                                   roster_checksums(&saver->roster, saver->nodes.all->rank), saver->io, err);
    if (status)
        return status;
    saver->commit = (struct commit){.io = saver->io,
                                    .nodes = &saver->nodes,
                                    .lock = saver->lock,
                                    .roster = &saver->roster,
                                    .folder = saver->folder,
                                    .run_id = saver->run_id,
                                    .numerics_id = saver->numerics_id,
                                    .log = log_of(saver),
                                    .keep = saver->keep};
    return commit_init(&saver->commit, err);
}

int ckpt_saver_open(const struct ckpt_saver_options *options, const struct ckpt_tensor *tensors,
                    uint64_t tensors_count, struct ckpt_saver **ret_saver, struct err *err)
{
    struct ckpt_saver *saver = calloc(1, sizeof *saver);
    if (!saver)
        return err_set(err, -ENOMEM, "out of memory for a saver");
    pthread_mutex_init(&saver->mutex, NULL);
    pthread_cond_init(&saver->changed, NULL);
    saver->stats.last_step = UINT64_MAX;
    int status = nodes_init(&saver->nodes, options, err), local;
    if (status)
        goto out;
    local = copy_options(saver, options, err);
    if (!local && nodes_is_first(&saver->nodes))
        local = own_folder(saver, &options->lock, err);
    status = agree(saver, local, err);
    if (!status)
        status = plan(saver, options, tensors, tensors_count, err);
    if (status)
        goto out;
    status = agree(saver, prepare(saver, options, err), err);
    if (status)
        goto out;
    saver->track = saver->image.track = trace_add_track(options->trace, "checkpoint", 0);
    status = thread_start(&saver->thread, write_saves, saver);
    saver->has_thread = status == 0;
    if (status)
        err_errno(err, status, "no thread for writing checkpoints");
    status = agree(saver, status, err);
    if (!status)
        *ret_saver = saver;
out:
    if (status)
        ckpt_saver_close(saver);
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
        pthread_join(saver->thread, NULL); /* after the save under way */
    }
    commit_deinit(&saver->commit);
    if (saver->image.snapshot)
        image_writer_deinit(&saver->image);
    if (saver->snapshot.layout)
        snapshot_deinit(&saver->snapshot);
    roster_deinit(&saver->roster);
    layout_deinit(&saver->layout);
    if (saver->lock)
        saver->io->ops->lock_release(saver->lock);
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

/* The status of the last save, told once. The mutex is held. */
static int take_status(struct ckpt_saver *saver, struct err *err)
{
    int status = saver->status;
    if (status && err)
        *err = saver->detail;
    saver->status = 0;
    return status;
}

/* The caller waits, so nothing of it changes meanwhile. The mutex is held. */
static void await_idle(struct ckpt_saver *saver)
{
    if (saver->due)
        snapshot_be_quiet(&saver->snapshot);
    while (saver->due)
        pthread_cond_wait(&saver->changed, &saver->mutex);
}

static int check_state(const char *state_json, struct err *err)
{
    struct json_t *root;
    int status = json_parse(state_json, strlen(state_json), "the state to be saved", 0, &root, err);
    if (status)
        return status;
    if (json_kind(root) != JSON_KIND_OBJECT)
        status = err_set(err, -EINVAL, "the state to be saved is no JSON object");
    json_free(root);
    return status;
}

/* The others wait for this rank's word: a save that can't be is begun all the same, and fails on all. The mutex is held. */
static void begin_save(struct ckpt_saver *saver, uint64_t step, const char *state_json, uint64_t begun_ns)
{
    struct err *detail = &saver->refused_detail;
    str_deinit(&saver->state_json); /* and with it that the save before may have failed for want of memory */
    saver->refused = check_state(state_json, detail);
    if (!saver->refused) {
        str_add_text(&saver->state_json, state_json);
        if (str_status(&saver->state_json))
            saver->refused =
                err_set(detail, -ENOMEM, "out of memory for a state of %zu bytes", strlen(state_json));
    }
    saver->step = step;
    saver->begun_ns = begun_ns;
    snapshot_begin(&saver->snapshot);
    saver->due = true;
    pthread_cond_broadcast(&saver->changed);
}

int ckpt_saver_save(struct ckpt_saver *saver, uint64_t step, const char *state_json, struct err *err)
{
    uint64_t begun_ns = clock_now_ns();
    if (step > INT64_MAX) /* on all ranks */
        return err_set(err, -EINVAL, "a step beyond 2^63");
    pthread_mutex_lock(&saver->mutex);
    await_idle(saver);
    int status = take_status(saver, err);
    begin_save(saver, step, state_json, begun_ns);
    if (saver->refused) {
        status = saver->refused;
        if (err)
            *err = saver->refused_detail;
    }
    pthread_mutex_unlock(&saver->mutex);
    saver->blocked_ns += clock_now_ns() - begun_ns;
    return status;
}

void ckpt_saver_before_update(struct ckpt_saver *saver, uint32_t group)
{
    uint64_t begun_ns = clock_now_ns();
    snapshot_before_update(&saver->snapshot, group);
    saver->blocked_ns += clock_now_ns() - begun_ns;
}

int ckpt_saver_wait(struct ckpt_saver *saver, struct err *err)
{
    uint64_t begun_ns = clock_now_ns();
    pthread_mutex_lock(&saver->mutex);
    await_idle(saver);
    int status = take_status(saver, err);
    pthread_mutex_unlock(&saver->mutex);
    saver->blocked_ns += clock_now_ns() - begun_ns;
    return status;
}

bool ckpt_saver_busy(struct ckpt_saver *saver)
{
    pthread_mutex_lock(&saver->mutex);
    bool due = saver->due;
    pthread_mutex_unlock(&saver->mutex);
    return due;
}

struct ckpt_saver_stats ckpt_saver_stats(struct ckpt_saver *saver)
{
    pthread_mutex_lock(&saver->mutex);
    struct ckpt_saver_stats stats = saver->stats;
    pthread_mutex_unlock(&saver->mutex);
    stats.blocked_ns = saver->blocked_ns;
    struct snapshot_stats copies = snapshot_stats(&saver->snapshot);
    stats.copied_bytes = copies.copied_bytes;
    stats.ahead_bytes = copies.ahead_bytes;
    stats.buffer_waits_count = copies.buffer_waits_count;
    return stats;
}
