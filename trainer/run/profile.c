/*
 * profile — see profile.h.
 */
#include "trainer/run/profile.h"

#include "base/clock.h"
#include "device/profiler.h"
#include "io/file_util.h"
#include "trainer/report/trace_file.h"

#include <inttypes.h>
#include <stdio.h>

void profile_open(struct profile *profile)
{
    struct run *run = profile->run;
    struct trace *trace = run->options->trace;
    run->ranges.track = trace_add_track(trace, "trainer", 0);
    if (trace && run->compute.ops->table->add_tracks)
        run->compute.ops->table->add_tracks(run->compute.ops, trace);
    if (trace)
        comm_add_tracks(run->ranks.comm, trace);
}

int profile_before_step(struct profile *profile, struct err *err)
{
    struct run *run = profile->run;
    const struct trainer_steps *requested = &run->options->profile;
    uint64_t step = run->step + 1;
    if (step < requested->first || step > requested->last || profile->profiled_steps.first > 0)
        return 0;
    int status = run_drain_all(run, err);
    if (status)
        return status;
    if (!run->compute.device->ops->is_host)
        profiler_start();
    profile->profiled_steps.first = step;
    profile->began_ns = clock_now_ns();
    run->ranges.is_measuring = true;
    if (run->options->trace)
        trace_start(run->options->trace);
    return 0;
}

void profile_stop(struct profile *profile)
{
    struct run *run = profile->run;
    if (!run->ranges.is_measuring)
        return;
    run->ranges.is_measuring = false;
    if (run->options->trace)
        trace_stop(run->options->trace);
    profile->duration_ns = clock_now_ns() - profile->began_ns;
    profile->profiled_steps.last = run->step;
    if (!run->compute.device->ops->is_host)
        profiler_stop();
}

/* Only logs a failure to write the trace: it must not end the run. */
static int write_trace(struct profile *profile, struct err *err)
{
    struct run *run = profile->run;
    char name[64], path[IO_PATH_BYTES_MAX];
    struct err detail = {0};
    int write_status;
    snprintf(name, sizeof name, "trace-%" PRIu64 "-%" PRIu64 ".json", profile->profiled_steps.first,
             profile->profiled_steps.last);
    int status = io_join_path(run->config->run.dir, name, path, err);
    if (status)
        return status;
    const struct trace_file file = {.io = run->io,
                                    .path = path,
                                    .trace = run->options->trace,
                                    .comm = run->ranks.comm,
                                    .timeout_ns = run->config->parallel.timeout_ns};
    status = trace_file_write(&file, &write_status, &detail);
    if (status && err)
        *err = detail;
    else if (!status && write_status)
        log_err(run->options->log, LOG_WARN, &detail,
                "could not write the trace of steps %" PRIu64 " to %" PRIu64,
                profile->profiled_steps.first, profile->profiled_steps.last);
    if (!status && !write_status && run->ranks.comm->rank == 0)
        snprintf(profile->trace_path, sizeof profile->trace_path, "%s", path);
    return status;
}

int profile_after_step(struct profile *profile, bool is_end, struct err *err)
{
    struct run *run = profile->run;
    if (!run->ranges.is_measuring || (run->step < run->options->profile.last && !is_end))
        return 0;
    int status = run_drain_all(run, err);
    profile_stop(profile);
    if (!status && run->options->trace)
        status = write_trace(profile, err);
    return status;
}
