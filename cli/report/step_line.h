/*
 * step_line — the line of progress of a training run: step, loss, rate, what the time went to, how
 * long it will take.
 */
#ifndef MILLRACE_CLI_REPORT_STEP_LINE_H
#define MILLRACE_CLI_REPORT_STEP_LINE_H

#include "base/str.h"
#include "trainer/trainer.h"

/* Of a TRAINER_STEP, without its line end. A terminal of fewer columns gets less: of the time only
 * the largest part, then neither rate nor norm of the update, then nothing of the device. In the
 * place of what out holds. */
void step_line_format(const struct trainer_report *report, unsigned columns, struct str *out);

#endif
