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

static void report(const struct stop_monitor *monitor, enum trainer_event event, const char *text)
{
    const struct trainer_report line = {.event = event,
                                        .text = text,
                                        .step = atomic_load(&monitor->step),
                                        .steps = monitor->run->steps};
    run_report(monitor->run, &line);
}

static unsigned count_requests(const struct stop_monitor *monitor)
{
    const atomic_uint *requests = monitor->run->options->stop_requests;
    return requests ? atomic_load(requests) : 0;
}

/* The caller of this function and those down to poll_requests holds the mutex. */
static void answer_first_request(struct stop_monitor *monitor)
{
    char text[160], size[STR_SIZE_BYTES], seconds[SECONDS_BYTES];
    uint64_t save_ns = atomic_load(&monitor->save_ns);
    snprintf(text, sizeof text, "stopping after this step, saving (%s%s%s)",
             str_format_size(monitor->state_bytes, size), save_ns > 0 ? ", about " : "",
             save_ns > 0 ? format_seconds(save_ns, seconds) : "");
    monitor->requested_ns = clock_now_ns();
    monitor->answered_count = count_requests(monitor);
    report(monitor, TRAINER_STOPPING, text);
}

static void answer_repeated_request(struct stop_monitor *monitor, unsigned requests)
{
    char text[200], waited[SECONDS_BYTES], size[STR_SIZE_BYTES];
    uint64_t step = atomic_load(&monitor->step);
    format_seconds(clock_now_ns() - monitor->requested_ns, waited);
    if (atomic_load(&monitor->is_saving))
        snprintf(text, sizeof text,
                 "asked to stop %s ago: waiting for the checkpoint of step %" PRIu64
                 " (%s); a second Ctrl-C ends the run without it",
                 waited, step, str_format_size(monitor->state_bytes, size));
    else
        snprintf(text, sizeof text,
                 "asked to stop %s ago: waiting for the work after step %" PRIu64
                 ", then for its checkpoint; a second Ctrl-C ends the run without it",
                 waited, step);
    monitor->answered_count = requests;
    report(monitor, TRAINER_STOPPING, text);
}

static void report_late(struct stop_monitor *monitor)
{
    uint64_t deadline_ns = monitor->run->config->run.stop_deadline_ns;
    uint64_t newest = ckpt_saver_stats(monitor->run->saving.saver).last_step;
    char line[ERR_LINE_BYTES_MAX], limit[SECONDS_BYTES];
    struct err err = {0};
    if (newest == UINT64_MAX)
        newest = monitor->resumed_step;
    err_set(&err, -ETIMEDOUT, "run.stop_deadline passed before step %" PRIu64 " was saved",
            atomic_load(&monitor->step));
    err_expected(&err, "a stop within %s", format_seconds(deadline_ns, limit));
    if (newest > 0)
        err_found(&err, "the newest complete checkpoint at step %" PRIu64, newest);
    else
        err_found(&err, "no complete checkpoint");
    err_advise(
        &err,
        "raise run.stop_deadline if saving takes longer; the same command resumes from there");
    monitor->is_late = true;
    report(monitor, TRAINER_STOP_LATE, err_format(&err, line, sizeof line));
}

static void poll_requests(struct stop_monitor *monitor)
{
    const struct trainer_options *options = monitor->run->options;
    uint64_t deadline_ns = monitor->run->config->run.stop_deadline_ns;
    bool is_requested = options->stop && atomic_load(options->stop) != 0;
    unsigned requests = count_requests(monitor);
    if (monitor->requested_ns == 0 && is_requested)
        answer_first_request(monitor);
    else if (monitor->requested_ns > 0 && requests > monitor->answered_count)
        answer_repeated_request(monitor, requests);
    if (monitor->requested_ns == 0)
        return;
    if (deadline_ns > 0 && !monitor->is_late &&
        clock_now_ns() - monitor->requested_ns >= deadline_ns)
        report_late(monitor);
}

static void *monitor_main(void *argument)
{
    struct stop_monitor *monitor = argument;
    while (!atomic_load(&monitor->quit)) {
        pthread_mutex_lock(&monitor->mutex);
        poll_requests(monitor);
        pthread_mutex_unlock(&monitor->mutex);
        nanosleep(&(struct timespec){.tv_nsec = POLL_INTERVAL_NS}, NULL);
    }
    return NULL;
}

int stop_monitor_open(struct stop_monitor *monitor, const struct run *run, uint64_t save_ns,
                      struct err *err)
{
    *monitor = (struct stop_monitor){.run = run, .resumed_step = run->step};
    if (run->ranks.comm->rank != 0)
        return 0;
    monitor->state_bytes = count_state_bytes(run);
    atomic_store(&monitor->step, run->step);
    atomic_store(&monitor->save_ns, save_ns);
    pthread_mutex_init(&monitor->mutex, NULL);
    int status = thread_start(&monitor->thread, monitor_main, monitor);
    if (status) {
        pthread_mutex_destroy(&monitor->mutex);
        return err_errno(err, status, "could not start the thread that handles stop requests");
    }
    monitor->has_thread = true;
    return 0;
}

void stop_monitor_close(struct stop_monitor *monitor)
{
    if (!monitor->has_thread)
        return;
    atomic_store(&monitor->quit, true);
    pthread_join(monitor->thread, NULL);
    pthread_mutex_destroy(&monitor->mutex);
    monitor->has_thread = false;
}

void stop_monitor_note_step(struct stop_monitor *monitor, uint64_t step)
{
    atomic_store(&monitor->step, step);
}

void stop_monitor_note_save(struct stop_monitor *monitor, uint64_t duration_ns)
{
    atomic_store(&monitor->save_ns, duration_ns);
}

void stop_monitor_begin_last_save(struct stop_monitor *monitor)
{
    if (!monitor->has_thread)
        return;
    pthread_mutex_lock(&monitor->mutex);
    if (monitor->requested_ns == 0)
        answer_first_request(monitor);
    pthread_mutex_unlock(&monitor->mutex);
    atomic_store(&monitor->is_saving, true);
}
