/*
 * exit_status — the exit statuses of the program; docs/reference/output.md has the table for users.
 */
#ifndef MILLRACE_CLI_CORE_EXIT_STATUS_H
#define MILLRACE_CLI_CORE_EXIT_STATUS_H

enum exit_status {
    EXIT_DONE = 0,
    EXIT_FAILED = 1,        /* bad data or I/O; stderr has the reason */
    EXIT_USAGE = 2,         /* the command line or the configuration is wrong */
    EXIT_STOPPED = 75,      /* on request, with everything saved; the same command resumes */
    EXIT_INTERRUPTED = 130, /* by a second Ctrl-C, immediately */
};

#endif
