/*
 * launch — builds and runs the mpirun command line, forwarding signals.
 */
#ifndef MILLRACE_CLI_RANKS_LAUNCH_H
#define MILLRACE_CLI_RANKS_LAUNCH_H

#include "base/err.h"
#include "cli/core/signals.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

/* The placement of the ranks. Borrows its strings. */
struct launch_placement {
    unsigned ranks;
    unsigned nodes;           /* ranks are divided evenly among them */
    const char *const *hosts; /* [nodes]; NULL: this machine, or the job scheduler's nodes */
    bool is_job;              /* a Slurm job places the ranks */
    unsigned cpus;            /* per node */
    bool is_root;
};

/* A command line, empty if zeroed. Owns its words; NULL ends them. Owner thread. */
struct launch_command {
    char **words;
    size_t words_count, words_capacity;
    bool out_of_memory;
};

/* Adds mpirun and its options. -EINVAL if the ranks cannot be divided evenly among the nodes. */
int launch_begin(struct launch_command *command, const struct launch_placement *placement,
                 struct err *err);
/* Adds a copy of the word. */
void launch_add_word(struct launch_command *command, const char *word);
/* Adds mpirun's options to export the variables that affect a run. Adds only names: values may be
 * secret, and command lines are visible. except: a variable to omit; NULL: none. */
void launch_add_environment(struct launch_command *command, char *const *environment,
                            const char *except);
/* -ENOMEM if any word could not be added. */
int launch_status(const struct launch_command *command, struct err *err);
/* Leaves the command zeroed. */
void launch_deinit(struct launch_command *command);
int launch_find_program(char program[PATH_MAX], struct err *err);
/* Formats the command for a shell; free() the result. NULL: out of memory. */
char *launch_format(const struct launch_command *command);

/* Runs the command to its end. Returns its exit status, 128 + n if signal n ended it, or -errno. On
 * a stop request the ranks get SIGUSR1, save and stop. A second SIGINT makes mpirun kill them, a
 * third kills mpirun; both return EXIT_INTERRUPTED. mpirun ends with this process. */
int launch_run(const struct launch_command *command, const struct signal_counts *counts,
               struct err *err);

#endif
