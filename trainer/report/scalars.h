/*
 * scalars — the numbers of a line of progress or of an evaluation, by name: what metrics.jsonl,
 * `--json` and TensorBoard show.
 *
 * Names end in their unit. What is not known of a machine is left out.
 */
#ifndef MILLRACE_TRAINER_REPORT_SCALARS_H
#define MILLRACE_TRAINER_REPORT_SCALARS_H

#include "base/jsonx_writer.h"
#include "trainer/report/report.h"

struct scalar {
    const char *name; /* static */
    double value;
    bool is_count; /* a whole number */
};

enum { SCALARS_MAX = 32 };
#define SCALARS_VALIDATION_PREFIX "val_" /* of the names of an evaluation's own numbers */

/* Of TRAINER_STEP and TRAINER_EVALUATED; of other events none. Returns how many. step and the time
 * are not among them. */
size_t scalars_of(const struct trainer_report *report, struct scalar scalars[SCALARS_MAX]);
/* As fields of an object that is open. */
void scalars_write(struct jsonx_writer *json, const struct scalar *scalars, size_t count);

#endif
