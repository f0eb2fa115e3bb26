/*
 * launch — builds the mpirun command line and runs it, forwarding signals.
 */
#ifndef MILLRACE_CLI_RANKS_LAUNCH_H
#define MILLRACE_CLI_RANKS_LAUNCH_H

#include "base/err.h"
#include "cli/core/signals.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

/* Where the ranks run. Borrows its texts. */
struct launch_place {
    unsigned ranks;
    unsigned nodes;           /* ranks are divided evenly among them */
    const char *const *hosts; /* [nodes]; NULL: this machine, or the job scheduler's nodes */
    bool is_job;              /* inside a Slurm job, which places the ranks */
    unsigned cpus;            /* per node */
    bool is_root;
};

/* A command line, empty if zeroed. words are owned and end in NULL. Owner thread. */
struct launch_command {
    char **words;
    size_t words_count, words_capacity;
    bool is_short; /* out of memory: words are missing */
};

/* Adds mpirun's words before the program. -EINVAL if nodes do not divide the ranks. */
int launch_begin(struct launch_command *command, const struct launch_place *place, struct err *err);
/* Adds a copy of the word. */
void launch_add(struct launch_command *command, const char *word);
/* Adds mpirun's options that export to other machines the variables that affect a run. Only names
 * are passed, because a value may be a secret and command lines are visible. except: a variable to
 * leave out; NULL: none. */
void launch_add_environment(struct launch_command *command, char *const *environment,
                            const char *except);
/* -ENOMEM if a word could not be added. Check it once all are. */
int launch_status(const struct launch_command *command, struct err *err);
/* safe on a zeroed command; leaves it zeroed */
void launch_deinit(struct launch_command *command);
/* The path of this program, for the ranks to run. */
int launch_own_program(char program[PATH_MAX], struct err *err);
/* Formats the command for a shell. The caller frees; NULL: out of memory. */
char *launch_format(const struct launch_command *command);

/* Runs the command to its end. Returns its exit status, 128 + n if signal n ended it, or -errno. A
 * stop request sends the ranks SIGUSR1, on which they save and stop. A second SIGINT makes mpirun
 * kill them, a third kills mpirun; the status is then EXIT_INTERRUPTED. mpirun does not outlive
 * this process. */
int launch_run(const struct launch_command *command, const struct signals_counts *counts,
               struct err *err);

#endif
