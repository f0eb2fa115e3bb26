/*
 * scalars — the numbers of a progress line or an evaluation in metrics.jsonl, `--json` and
 * TensorBoard.
 *
 * Names end in their unit. Unknown machine metrics are omitted.
 */
#ifndef MILLRACE_TRAINER_REPORT_SCALARS_H
#define MILLRACE_TRAINER_REPORT_SCALARS_H

#include "base/json/jsonx_writer.h"
#include "trainer/report/report.h"

struct scalar {
    const char *name; /* static */
    double value;
    bool is_count; /* an integer */
};

enum { SCALARS_MAX = 32 };
#define SCALARS_VALIDATION_PREFIX "val_"

/* Returns the number of scalars; 0 unless the event is TRAINER_PROGRESS or TRAINER_EVALUATED. */
size_t scalars_from_report(const struct trainer_report *report, struct scalar scalars[SCALARS_MAX]);
void scalars_write(struct jsonx_writer *json, const struct scalar *scalars, size_t count);

#endif
