/*
 * saver — the caller's side of a save, and the writer thread.
 *
 * The caller sets `save_due`. The writer thread begins the transaction, writes the image, commits,
 * and clears `save_due`.
 *
 * Locks: saver->mutex, then snapshot->mutex; never in reverse.
 */
#include "ckpt/save/saver.h"

#include "base/clock.h"
#include "base/json/jsonx.h"

#include <errno.h>
#include <string.h>

/* Runs even after a failure (status, err), since other ranks wait for the boundary bytes. */
static int exchange_boundaries(struct ckpt_saver *saver, int status, struct err *err)
{
    struct err detail = {0};
    if (!saver->consolidated.has_boundaries)
        return status;
    uint64_t began_ns = trace_begin(saver->track);
    snapshot_await_boundary(&saver->snapshot);
    int exchanged = consolidated_exchange(&saver->consolidated, saver->nodes.all, &detail);
    trace_end(saver->track, "exchange", began_ns);
    if (!status && exchanged)
        *err = detail;
    return status ? status : exchanged;
}

static int run_save(struct ckpt_saver *saver, struct err *err)
{
    uint64_t began_ns = trace_begin(saver->track);
    if (saver->refused_status)
        *err = saver->refused_detail;
    int status = commit_begin(&saver->commit, saver->step, saver->refused_status, err);
    trace_end(saver->track, "begin", began_ns);
    status = exchange_boundaries(saver, status, err);
    if (!status)
        status = image_writer_run(&saver->image, saver->commit.files, saver->commit.path, err);
    else
        snapshot_fail(&saver->snapshot, status, err);
    snapshot_end(&saver->snapshot);
    began_ns = trace_begin(saver->track);
    status = commit_finish(&saver->commit, status, str_text(&saver->state_json), err);
    trace_end(saver->track, "commit", began_ns);
    return status;
}

static void record_result(struct ckpt_saver *saver, int status, const struct err *detail)
{
    struct ckpt_saver_stats *stats = &saver->stats;
    if (!saver->refused_status) {
        saver->status = status;
        saver->detail = *detail;
    }
    stats->last_save_ns = clock_now_ns() - saver->begun_ns;
    stats->saves_count += status == 0;
    stats->failures_count += status != 0;
    if (status == 0) {
        stats->written_bytes += saver->layout.image_bytes;
        stats->last_step = saver->step;
    }
}

/* Waits until a save is due. Meanwhile prefaults staging in order of use, so that updates need not
 * wait for page faults. The mutex is held except during prefaulting. */
static void wait_until_save_due(struct ckpt_saver *saver)
{
    const struct snapshot *snapshot = &saver->snapshot;
    while (!saver->save_due && !saver->quit) {
        if (saver->prefaulted_count == snapshot->buffers_count) {
            pthread_cond_wait(&saver->changed, &saver->mutex);
            continue;
        }
        pthread_mutex_unlock(&saver->mutex);
        staging_prefault(&snapshot->staging, snapshot->buffers_count - ++saver->prefaulted_count);
        pthread_mutex_lock(&saver->mutex);
    }
}

void *saver_write(void *context)
{
    struct ckpt_saver *saver = context;
    pthread_mutex_lock(&saver->mutex);
    for (;;) {
        wait_until_save_due(saver);
        if (!saver->save_due)
            break;
        pthread_mutex_unlock(&saver->mutex);
        struct err detail = {0};
        uint64_t began_ns = trace_begin(saver->track);
        int status = run_save(saver, &detail);
        trace_end_with_value(saver->track, "save", began_ns, "step", saver->step);
        if (status &&
            (status != -EREMOTEIO || saver->nodes.all->rank == 0)) /* the failing rank logs why */
            log_err(saver_log(saver), LOG_ERROR, &detail,
                    "the checkpoint of step %llu was not saved", (unsigned long long)saver->step);
        pthread_mutex_lock(&saver->mutex);
        record_result(saver, status, &detail);
        saver->save_due = false;
        pthread_cond_broadcast(&saver->changed);
    }
    pthread_mutex_unlock(&saver->mutex);
    return NULL;
}

/* Returns the status of the last save, once. The mutex is held. */
static int take_status(struct ckpt_saver *saver, struct err *err)
{
    int status = saver->status;
    if (status && err)
        *err = saver->detail;
    saver->status = 0;
    return status;
}

/* Arrays do not change while the caller waits. The mutex is held. */
static void wait_until_idle(struct ckpt_saver *saver)
{
    if (saver->save_due)
        snapshot_freeze(&saver->snapshot);
    while (saver->save_due)
        pthread_cond_wait(&saver->changed, &saver->mutex);
}

static int check_state(const char *state_json, struct err *err)
{
    struct json_t *root;
    int status =
        jsonx_parse(state_json, strlen(state_json), "the state to be saved", 0, &root, err);
    if (status)
        return status;
    if (jsonx_kind(root) != JSON_KIND_OBJECT) {
        status = err_set(err, -EINVAL, "the state to be saved is not a JSON object");
    } else if (jsonx_is_deeper(root,
                               MANIFEST_STATE_DEPTH_MAX)) { /* the manifest would be unreadable */
        status = err_set(err, -EINVAL, "the state to be saved is nested too deeply");
        err_expected(err, "at most %d levels", MANIFEST_STATE_DEPTH_MAX);
    }
    jsonx_free(root);
    return status;
}

static int check_step(uint64_t step, struct err *err)
{
    return step > INT64_MAX ? err_set(err, -EINVAL, "the step is too large") : 0;
}

/* Begins even a refused save, because other ranks wait; it then fails on all ranks. The mutex is
 * held. */
static void begin_save(struct ckpt_saver *saver, uint64_t step, const char *state_json,
                       uint64_t begun_ns)
{
    struct err *detail = &saver->refused_detail;
    /* Also clears an out-of-memory error of the previous save. */
    str_deinit(&saver->state_json);
    saver->refused_status = check_step(step, detail);
    if (!saver->refused_status)
        saver->refused_status = check_state(state_json, detail);
    if (!saver->refused_status) {
        str_add_text(&saver->state_json, state_json);
        if (str_status(&saver->state_json))
            saver->refused_status = err_set(
                detail, -ENOMEM, "out of memory for a state of %zu bytes", strlen(state_json));
    }
    saver->step = step;
    saver->begun_ns = begun_ns;
    snapshot_begin(&saver->snapshot);
    saver->save_due = true;
    pthread_cond_broadcast(&saver->changed);
}

int ckpt_saver_save(struct ckpt_saver *saver, uint64_t step, const char *state_json,
                    struct err *err)
{
    uint64_t begun_ns = clock_now_ns();
    pthread_mutex_lock(&saver->mutex);
    wait_until_idle(saver);
    begin_save(saver, step, state_json, begun_ns);
    int status = saver->refused_status;
    if (!status)
        status = take_status(saver, err);
    else if (err) /* the next call returns the previous save's status */
        *err = saver->refused_detail;
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
    wait_until_idle(saver);
    int status = take_status(saver, err);
    pthread_mutex_unlock(&saver->mutex);
    saver->blocked_ns += clock_now_ns() - begun_ns;
    return status;
}

bool ckpt_saver_is_busy(struct ckpt_saver *saver)
{
    pthread_mutex_lock(&saver->mutex);
    bool is_busy = saver->save_due;
    pthread_mutex_unlock(&saver->mutex);
    return is_busy;
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
