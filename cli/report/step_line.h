/*
 * step_line — the progress line of a training run: step, loss, rate, time by part, time left.
 */
#ifndef MILLRACE_CLI_REPORT_STEP_LINE_H
#define MILLRACE_CLI_REPORT_STEP_LINE_H

#include "base/str.h"
#include "trainer/trainer.h"

/* Formats a TRAINER_STEP without a newline. To fit `columns`, leaves out, in this order: all time
 * parts but the largest, learning rate and gradient norm, device metrics. Replaces the content of
 * out. */
void step_line_format(const struct trainer_report *report, unsigned columns, struct str *out);

#endif
