/*
 * run_messages — messages of a run to its owner and between its ranks. See run.h.
 */
#include "trainer/run/run.h"

#include "base/clock.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

void run_report(const struct run *run, const struct trainer_report *report)
{
    bool is_own = report->event == TRAINER_SAVE_FAILED || report->event == TRAINER_FAILED;
    if (run->options->report && (run->comm->rank == 0 || is_own))
        run->options->report(run->options->report_context, report);
}

void run_log(const struct run *run, const char *format, ...)
{
    if (!run->options->report || run->comm->rank != 0)
        return;
    char text[LOG_LINE_BYTES_MAX];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    struct trainer_report report = {
        .event = TRAINER_STARTED, .text = text, .step = run->step, .steps = run->steps};
    run_report(run, &report);
}

/* NCCL must not end before a save in progress has: the other ranks would notice, and end the
 * save. */
void run_abort(struct run *run, int status, const struct err *detail)
{
    bool is_printed_elsewhere = detail->code && !detail->what[0]; /* see comm_agree */
    bool is_known = status == -EREMOTEIO || status == -ECONNABORTED || is_printed_elsewhere;
    char text[ERR_LINE_BYTES_MAX];
    if (run->comm->ranks == 1)
        return;
    struct trainer_report line = {.event = TRAINER_FAILED,
                                  .step = run->step,
                                  .steps = run->steps,
                                  .text = err_format(detail, text, sizeof text)};
    if (!is_known)
        run_report(run, &line);
    if (run->saver)
        ckpt_saver_wait(run->saver, NULL);
    if (is_known)
        run_halt_bulk(run);
    /* tells the other ranks before NCCL ends, which may wait for theirs */
    else
        run->bulk->ops->abort(run->bulk);
}

struct comm_options run_comm_options(const struct run *run, const char *what)
{
    uint64_t timeout_ns = run->config->parallel.timeout_ns;
    return (struct comm_options){.deadline_ns = timeout_ns > 0 ? clock_now_ns() + timeout_ns : 0,
                                 .what = what};
}

int run_agree(const struct run *run, int status, const char *what, struct err *err)
{
    if (run->comm->ranks == 1)
        return status;
    struct comm_options options = run_comm_options(run, what);
    return comm_agree(run->comm, status, &options, err);
}
