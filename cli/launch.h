/*
 * launch — mpirun, typed for the user: its command line, and a life with it: signals passed on, restarts after failures.
 */
#ifndef MILLRACE_CLI_LAUNCH_H
#define MILLRACE_CLI_LAUNCH_H

#include "base/err.h"
#include "cli/signals.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

enum { LAUNCH_WORDS_MAX = 160, LAUNCH_TEXT_BYTES = 4096 };

/* Where the ranks go. Borrowed texts. */
struct launch_place {
    unsigned ranks;
    unsigned nodes;           /* they are divided evenly */
    const char *const *hosts; /* [nodes], NULL: this machine, or what the job scheduler gave */
    bool is_job;              /* within one of Slurm's, which says how many ranks go where */
    unsigned cpus;            /* of a node */
    bool is_root;
};

/* A command line. words end in NULL and are borrowed, but for those that lie in text. */
struct launch_command {
    const char *words[LAUNCH_WORDS_MAX + 1];
    size_t words_count;
    char text[LAUNCH_TEXT_BYTES];
    size_t text_bytes;
};

/* All of mpirun's words before the program's. -EINVAL where nodes do not divide the ranks, -E2BIG. Pure. */
int launch_begin(struct launch_command *command, const struct launch_place *place, struct err *err);
/* -E2BIG. */
int launch_add(struct launch_command *command, const char *word, struct err *err);
/* The path of this program, for ranks to run it. */
int launch_own_program(char program[PATH_MAX], struct err *err);
/* As a shell takes it. The caller frees; NULL: no memory. */
char *launch_format(const struct launch_command *command);

/* Runs it to its end: its exit status, 128 + n where signal n ended it, or -errno. With each wish to stop the ranks are sent SIGUSR1, on
 * which they save and stop. A second SIGINT has mpirun end them at once, a third ends mpirun, and the status is EXIT_INTERRUPTED. It does not
 * outlive this process. */
int launch_run(const struct launch_command *command, const struct signals_counts *counts, struct err *err);

#endif
