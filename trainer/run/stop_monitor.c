/*
 * stop_monitor — see stop_monitor.h.
 */
#include "trainer/run/stop_monitor.h"

#include "base/clock.h"
#include "base/os/thread.h"
#include "base/str.h"
#include "trainer/run/run.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { POLL_INTERVAL_NS = 20 * 1000 * 1000, SECONDS_BYTES = 32 };

static uint64_t count_state_bytes(const struct run *run)
{
    uint64_t elements = 0, moments = optimizer_moments_count(&run->update.optimizer.options);
    for (uint64_t i = 0; i < run->compute.params->count; i++) {
        const struct param *param = &run->compute.params->list[i];
        elements += param->count * (param->frozen ? 1 : 1 + moments);
    }
    return elements * ops_master_bytes(run->compute.ops);
}

static const char *format_seconds(uint64_t ns, char text[SECONDS_BYTES])
{
    double seconds = clock_seconds(ns);
    snprintf(text, SECONDS_BYTES, seconds < 10 ? "%.1f s" : "%.0f s", seconds);
    return text;
}

static void report(const struct stop_monitor *watch, enum trainer_event event, const char *text)
{
    const struct trainer_report line = {.event = event,
                                        .text = text,
                                        .step = atomic_load(&watch->step),
                                        .steps = watch->run->steps};
    run_report(watch->run, &line);
}

static unsigned count_requests(const struct stop_monitor *watch)
{
    const atomic_uint *requests = watch->run->options->stop_requests;
    return requests ? atomic_load(requests) : 0;
}

/* With the mutex held. */
static void answer_first(struct stop_monitor *watch)
{
    char text[160], size[STR_SIZE_BYTES], seconds[SECONDS_BYTES];
    uint64_t save_ns = atomic_load(&watch->save_ns);
    snprintf(text, sizeof text, "stopping after this step, saving (%s%s%s)",
             str_format_size(watch->state_bytes, size), save_ns > 0 ? ", about " : "",
             save_ns > 0 ? format_seconds(save_ns, seconds) : "");
    watch->requested_ns = clock_now_ns();
    watch->requests = count_requests(watch);
    report(watch, TRAINER_STOPPING, text);
}

/* With the mutex held. */
static void answer_again(struct stop_monitor *watch, unsigned requests)
{
    char text[200], waited[SECONDS_BYTES], size[STR_SIZE_BYTES];
    uint64_t step = atomic_load(&watch->step);
    format_seconds(clock_now_ns() - watch->requested_ns, waited);
    if (atomic_load(&watch->is_saving))
        snprintf(text, sizeof text,
                 "asked to stop %s ago: waiting for the checkpoint of step %" PRIu64
                 " (%s); a second Ctrl-C ends the run without it",
                 waited, step, str_format_size(watch->state_bytes, size));
    else
        snprintf(text, sizeof text,
                 "asked to stop %s ago: waiting for the work after step %" PRIu64
                 ", then for its checkpoint; a second Ctrl-C ends the run without it",
                 waited, step);
    watch->requests = requests;
    report(watch, TRAINER_STOPPING, text);
}

/* With the mutex held. */
static void report_late(struct stop_monitor *watch)
{
    uint64_t deadline_ns = watch->run->config->run.stop_deadline_ns;
    uint64_t newest = ckpt_saver_stats(watch->run->saving.saver).last_step;
    char line[ERR_LINE_BYTES_MAX], limit[SECONDS_BYTES];
    struct err err = {0};
    if (newest == UINT64_MAX)
        newest = watch->first_step;
    err_set(&err, -ETIMEDOUT, "run.stop_deadline passed before step %" PRIu64 " was saved",
            atomic_load(&watch->step));
    err_expected(&err, "a stop within %s", format_seconds(deadline_ns, limit));
    if (newest > 0)
        err_found(&err, "the newest complete checkpoint at step %" PRIu64, newest);
    else
        err_found(&err, "no complete checkpoint");
    err_advise(
        &err,
        "raise run.stop_deadline if saving takes longer; the same command resumes from there");
    watch->is_late = true;
    report(watch, TRAINER_STOP_LATE, err_format(&err, line, sizeof line));
}

/* With the mutex held. */
static void poll_requests(struct stop_monitor *watch)
{
    const struct trainer_options *options = watch->run->options;
    uint64_t deadline_ns = watch->run->config->run.stop_deadline_ns;
    bool is_asked = options->stop && atomic_load(options->stop) != 0;
    unsigned requests = count_requests(watch);
    if (watch->requested_ns == 0 && is_asked)
        answer_first(watch);
    else if (watch->requested_ns > 0 && requests > watch->requests)
        answer_again(watch, requests);
    if (watch->requested_ns == 0)
        return;
    if (deadline_ns > 0 && !watch->is_late && clock_now_ns() - watch->requested_ns >= deadline_ns)
        report_late(watch);
}

static void *watch_main(void *argument)
{
    struct stop_monitor *watch = argument;
    while (!atomic_load(&watch->quit)) {
        pthread_mutex_lock(&watch->mutex);
        poll_requests(watch);
        pthread_mutex_unlock(&watch->mutex);
        nanosleep(&(struct timespec){.tv_nsec = POLL_INTERVAL_NS}, NULL);
    }
    return NULL;
}

int stop_monitor_open(struct stop_monitor *watch, const struct run *run, uint64_t save_ns,
                      struct err *err)
{
    *watch = (struct stop_monitor){.run = run, .first_step = run->step};
    if (run->ranks.comm->rank != 0)
        return 0;
    watch->state_bytes = count_state_bytes(run);
    atomic_store(&watch->step, run->step);
    atomic_store(&watch->save_ns, save_ns);
    pthread_mutex_init(&watch->mutex, NULL);
    int status = thread_start(&watch->thread, watch_main, watch);
    if (status) {
        pthread_mutex_destroy(&watch->mutex);
        return err_errno(err, status, "could not start the thread that handles stop requests");
    }
    watch->has_thread = true;
    return 0;
}

void stop_monitor_close(struct stop_monitor *watch)
{
    if (!watch->has_thread)
        return;
    atomic_store(&watch->quit, true);
    pthread_join(watch->thread, NULL);
    pthread_mutex_destroy(&watch->mutex);
    watch->has_thread = false;
}

void stop_monitor_note_step(struct stop_monitor *watch, uint64_t step)
{
    atomic_store(&watch->step, step);
}

void stop_monitor_note_save(struct stop_monitor *watch, uint64_t ns)
{
    atomic_store(&watch->save_ns, ns);
}

void stop_monitor_begin_last_save(struct stop_monitor *watch)
{
    if (!watch->has_thread)
        return;
    pthread_mutex_lock(&watch->mutex);
    if (watch->requested_ns == 0)
        answer_first(watch);
    pthread_mutex_unlock(&watch->mutex);
    atomic_store(&watch->is_saving, true);
}
