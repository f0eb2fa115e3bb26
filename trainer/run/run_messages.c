/*
 * run_messages — messages from a run to its owner. See run.h.
 */
#include "trainer/run/run.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

void run_report(const struct run *run, const struct trainer_report *report)
{
    bool is_own = report->event == TRAINER_SAVE_FAILED || report->event == TRAINER_FAILED;
    if (run->options->report && (run->ranks.comm->rank == 0 || is_own))
        run->options->report(run->options->report_context, report);
}

void run_log(const struct run *run, const char *format, ...)
{
    if (!run->options->report || run->ranks.comm->rank != 0)
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

/* Waits for the save first, because closing NCCL would make other ranks abort it. */
void run_abort(struct run *run, int status, const struct err *detail)
{
    bool is_printed_elsewhere = detail->code && !detail->what[0]; /* see comm_agree */
    bool is_known = status == -EREMOTEIO || status == -ECONNABORTED || is_printed_elsewhere;
    char text[ERR_LINE_BYTES_MAX];
    if (run->ranks.comm->ranks == 1)
        return;
    struct trainer_report line = {.event = TRAINER_FAILED,
                                  .step = run->step,
                                  .steps = run->steps,
                                  .text = err_format(detail, text, sizeof text)};
    if (!is_known)
        run_report(run, &line);
    if (run->saving.saver)
        ckpt_saver_wait(run->saving.saver, NULL);
    if (is_known)
        run_ranks_abort_nccl(&run->ranks);
    /* notifies the other ranks first, as closing NCCL may wait for them */
    else
        run->ranks.bulk_comm->ops->abort(run->ranks.bulk_comm);
}
