/*
 * doctor — the checks of `millrace doctor`, as tables: one group per file, one function per check.
 *
 * A check fills a finding: text, facts for --json, and possibly advice. It calls the code that
 * makes millrace's own choices, prints nothing and leaves no files behind.
 */
#ifndef MILLRACE_CLI_DOCTOR_DOCTOR_H
#define MILLRACE_CLI_DOCTOR_DOCTOR_H

#include "base/err.h"
#include "base/json/jsonx_writer.h"
#include "base/str.h"
#include "cli/doctor/io_probe.h"

#include <stdbool.h>
#include <stddef.h>

enum doctor_state {
    DOCTOR_OK,
    DOCTOR_NOTE,    /* works, but could be better */
    DOCTOR_MISSING, /* a requirement is missing */
};

/* A folder to check; immutable during its checks. */
struct doctor_folder {
    const char *path;
    bool for_outputs; /* requires features for writing */
    int status;       /* of the probe */
    struct err err;
    struct io_probe probe; /* valid if status is 0 */
    size_t checks_count;   /* that apply, from the first of doctor_disk */
};

/* Zero except folder and json; json is inside the object of facts. Owner thread. */
struct doctor_finding {
    const struct doctor_folder *folder; /* NULL except in doctor_disk */
    enum doctor_state state;
    struct str found, advice;
    struct jsonx_writer json;
};

/* Appends to found. */
void doctor_report(struct doctor_finding *finding, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Keeps the worst state and the first advice. */
void doctor_advise(struct doctor_finding *finding, enum doctor_state state, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Records an error with its advice. */
void doctor_report_error(struct doctor_finding *finding, enum doctor_state state,
                         const struct err *err);

struct doctor_check {
    const char *name;
    void (*run)(struct doctor_finding *finding);
};

/* Immutable. */
struct doctor_group {
    const char *name;
    const struct doctor_check *checks;
    size_t count;
};

extern const struct doctor_group doctor_machine;
extern const struct doctor_group doctor_software;
extern const struct doctor_group doctor_gpu;
extern const struct doctor_group doctor_disk; /* its checks need a folder */

void doctor_probe_folder(const char *path, bool for_outputs, struct doctor_folder *ret_folder);

#endif
