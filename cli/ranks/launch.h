/*
 * launch — mpirun, typed for the user: its command line, and a life with it: signals passed on,
 * restarts after failures.
 */
#ifndef MILLRACE_CLI_RANKS_LAUNCH_H
#define MILLRACE_CLI_RANKS_LAUNCH_H

#include "base/err.h"
#include "cli/core/signals.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

/* Where the ranks go. Borrowed texts. */
struct launch_place {
    unsigned ranks;
    unsigned nodes;           /* they are divided evenly */
    const char *const *hosts; /* [nodes], NULL: this machine, or what the job scheduler gave */
    bool is_job;              /* within one of Slurm's, which says how many ranks go where */
    unsigned cpus;            /* of a node */
    bool is_root;
};

/* A command line, empty where zeroed. words, if any, are owned and end in NULL. Owner thread. */
struct launch_command {
    char **words;
    size_t words_count, words_capacity;
};

/* All of mpirun's words before the program's. -EINVAL where nodes do not divide the ranks,
 * -ENOMEM. */
int launch_begin(struct launch_command *command, const struct launch_place *place, struct err *err);
/* A copy of the word. -ENOMEM. */
int launch_add(struct launch_command *command, const char *word, struct err *err);
/* mpirun's options that give ranks of other machines the variables of this process that affect a
 * run: NCCL_*, UCX_*, FI_*, OMP_*, OPENBLAS_*, MILLRACE_*, CUDA_* and AWS_*. By name alone, so
 * that no value, which may be a secret, stands on a command line. except: a variable that is
 * left out; NULL: none. -ENOMEM. */
int launch_add_environment(struct launch_command *command, char *const *environment,
                           const char *except, struct err *err);
void launch_deinit(struct launch_command *command); /* safe on a zeroed one, which it leaves */
/* The path of this program, for ranks to run it. */
int launch_own_program(char program[PATH_MAX], struct err *err);
/* As a shell takes it. The caller frees; NULL: no memory. */
char *launch_format(const struct launch_command *command);

/* Runs it to its end: its exit status, 128 + n where signal n ended it, or -errno. With each wish
 * to stop the ranks are sent SIGUSR1, on which they save and stop. A second SIGINT has mpirun end
 * them at once, a third ends mpirun, and the status is EXIT_INTERRUPTED. It does not outlive this
 * process. */
int launch_run(const struct launch_command *command, const struct signals_counts *counts,
               struct err *err);

#endif
