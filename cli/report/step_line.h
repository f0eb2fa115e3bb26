/*
 * step_line — the progress line of a training run: step, loss, rate, time by category, time left.
 */
#ifndef MILLRACE_CLI_REPORT_STEP_LINE_H
#define MILLRACE_CLI_REPORT_STEP_LINE_H

#include "base/str.h"
#include "trainer/trainer.h"

/* Formats a TRAINER_PROGRESS report, without a newline, into out. To fit `columns`, omits first all
 * times but the largest, then learning rate and gradient norm, then device metrics. */
void step_line_format(const struct trainer_report *report, unsigned columns, struct str *out);

#endif
