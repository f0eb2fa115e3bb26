/*
 * doctor — the checks of `millrace doctor`, as tables: one group a file, one function a check.
 *
 * A check looks at one thing and fills a finding: what was found, in words and as facts for --json,
 * and, where something is to be done, what. Where a choice is millrace's, it asks the code that
 * chooses. It leaves nothing behind and prints nothing.
 */
#ifndef MILLRACE_CLI_DOCTOR_DOCTOR_H
#define MILLRACE_CLI_DOCTOR_DOCTOR_H

#include "base/err.h"
#include "base/jsonx_writer.h"
#include "base/str.h"
#include "io/probe.h"

#include <stdbool.h>
#include <stddef.h>

enum doctor_state {
    DOCTOR_OK,
    DOCTOR_NOTE, /* works, but could be better or should be known */
    DOCTOR_LACK, /* millrace needs it */
};

/* Zero but for json, which stands within the object of facts; names end in their unit. Owner
 * thread. */
struct doctor_finding {
    enum doctor_state state;
    struct str found, advice;
    struct jsonx_writer json;
};

/* What was found, as the beginning of a sentence; pieces follow each other. */
void doctor_found(struct doctor_finding *finding, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* The finding is no longer ok: the worse of its state and this one counts, and the first advice. */
void doctor_advise(struct doctor_finding *finding, enum doctor_state state, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* A failure as a finding: what, found and the error's own advice. */
void doctor_fail(struct doctor_finding *finding, enum doctor_state state, const struct err *err);

/* A folder that is looked at; immutable during its checks. */
struct doctor_folder {
    const char *path; /* as it was given */
    bool for_outputs; /* something will be written there: what that needs is a must */
    int status;       /* of looking */
    struct err err;
    struct io_probe probe; /* where status is 0 */
    size_t checks_count;   /* the first so many of doctor_disk's have something to ask */
};

struct doctor_check {
    const char *name;
    void (*run)(const struct doctor_folder *folder,
                struct doctor_finding *finding); /* folder: NULL but in its group */
};

/* Immutable. */
struct doctor_group {
    const char *name;
    const struct doctor_check *checks;
    size_t count;
};

extern const struct doctor_group doctor_machine;  /* doctor_machine.c */
extern const struct doctor_group doctor_software; /* doctor_software.c */
extern const struct doctor_group doctor_gpu;      /* doctor_gpu.c */
extern const struct doctor_group doctor_disk;     /* doctor_disk.c; its checks want a folder */

/* Looks at the folder, which doctor_disk's checks then tell about. */
void doctor_look(const char *path, bool for_outputs, struct doctor_folder *ret_folder);

#endif
