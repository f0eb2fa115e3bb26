#include "cli/ranks/local_ranks.h"

#include "base/os/thread_pool.h"
#include "cli/core/signals.h"
#include "cli/ranks/launch.h"
#include "comm/ranks/ranks.h"

#include <errno.h>

#include <stdlib.h>
#include <unistd.h>

static const char *get_variable(const char *name)
{
    return getenv(name);
}

static int make_command(const struct invocation *invocation, unsigned ranks, const char *program,
                        struct launch_command *command, struct err *err)
{
    struct launch_placement placement = {.ranks = ranks,
                                         .nodes = 1,
                                         .is_job = getenv("SLURM_JOB_ID") != NULL,
                                         .cpus = thread_pool_cpu_count(),
                                         .is_root = geteuid() == 0};
    int status = launch_begin(command, &placement, err);
    launch_add_word(command, program);
    for (size_t i = 0; invocation->words[i]; i++)
        launch_add_word(command, invocation->words[i]);
    return status ? status : launch_status(command, err);
}

int local_ranks_run(const struct invocation *invocation, unsigned ranks, bool *ret_done,
                    struct err *err)
{
    struct ranks detected_ranks;
    struct launch_command command = {0};
    char program[PATH_MAX];
    int status = ranks_detect(get_variable, &detected_ranks, err);
    *ret_done = false;
    if (status || detected_ranks.launcher != RANKS_SINGLE || ranks == 1)
        return status;
    status = launch_find_program(program, err);
    if (!status)
        status = make_command(invocation, ranks, program, &command, err);
    if (!status)
        status = launch_run(&command, signals_install_counting(), err);
    launch_deinit(&command);
    *ret_done = true;
    bool is_millrace_status =
        status <= EXIT_USAGE || status == EXIT_STOPPED || status == EXIT_INTERRUPTED;
    if (is_millrace_status) /* the ranks have printed the error */
        return status;
    err_set(err, -EIO, "mpirun ended with status %d", status);
    return EXIT_FAILED;
}
