/*
 * cmd_launch — `millrace launch -n RANKS CONFIG.yaml`: runs `millrace train` with mpirun.
 */
#include "base/clock.h"
#include "base/os/cpu_share.h"
#include "base/os/thread_pool.h"
#include "ckpt/ckpt.h"
#include "cli/core/signals.h"
#include "cli/core/start_time.h"
#include "cli/core/storage.h"
#include "cli/ranks/launch.h"
#include "cli/verbs/verbs.h"
#include "device/device_cuda.h"
#include "io/file_util.h"
#include "trainer/config/config.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { RANKS_MAX = 65536 };

struct launch_args {
    struct common_args common;
    uint64_t ranks, nodes, node_rank, restarts;
    struct option_list hosts, set;
    const char *resume, *profile;
    bool dry_run;
};

#define AT(member) offsetof(struct launch_args, member)
static const struct option option_rows[] = {
    {"ranks", 'n', OPTION_COUNT, AT(ranks), "N", NULL,
     "total number of processes over all nodes (default: one per GPU of a node, or without GPUs "
     "one per NUMA node)",
     .min = 1, .max = RANKS_MAX},
    {"nnodes", 0, OPTION_COUNT, AT(nodes), "N", "1",
     "number of machines; ranks are divided evenly among them", .min = 1, .max = RANKS_MAX},
    {"node-rank", 0, OPTION_COUNT, AT(node_rank), "N", "0",
     "number of this machine: 0 starts all ranks, and the others have nothing to do",
     .max = RANKS_MAX - 1},
    {"hosts", 0, OPTION_LIST, AT(hosts), "NAME,...", NULL,
     "machines, this one first, reachable with ssh (default: this machine, or those of the Slurm "
     "job)"},
    {"restarts", 0, OPTION_COUNT, AT(restarts), "N", "0",
     "number of restarts after a failure, from the newest checkpoint"},
    {"dry-run", 0, OPTION_FLAG, AT(dry_run), .help = "print the command and exit"},
    {"set", 0, OPTION_REPEAT, AT(set), "KEY=VALUE", NULL, "as for train"},
    {"resume", 0, OPTION_TEXT, AT(resume), "auto|never|PATH", NULL,
     "as for train; a restart resumes from the newest checkpoint of the run, if it is newer than "
     "PATH"},
    {"profile", 0, OPTION_TEXT, AT(profile), "A:B", NULL, "as for train"},
};

struct launch {
    const struct invocation *invocation;
    const struct launch_args *args;
    struct launch_placement placement;
    char program[PATH_MAX];
    /* START_TIME_VARIABLE=...; "": no time limit */
    char start_variable[64];
    char run_dir[IO_PATH_BYTES_MAX], checkpoint_folder[IO_PATH_BYTES_MAX];
    struct launch_command command;
};

static int check_nodes(const struct launch_args *args, struct err *err)
{
    if (args->node_rank >= args->nodes) {
        err_set(err, -EINVAL, "--node-rank is not a node of --nnodes");
        err_expected(err, "a node from 0 to %" PRIu64, args->nodes - 1);
        err_found(err, "%" PRIu64, args->node_rank);
        return -EINVAL;
    }
    if (args->hosts.count == 0 ? args->nodes == 1 || getenv("SLURM_JOB_ID")
                               : args->hosts.count == args->nodes)
        return 0;
    err_set(err, -EINVAL, "--hosts names %zu machines", args->hosts.count);
    err_expected(err, "%" PRIu64 ", as in --nnodes", args->nodes);
    return -EINVAL;
}

static void add_option(struct launch_command *command, const char *name, const char *value)
{
    if (!value)
        return;
    launch_add_word(command, name);
    launch_add_word(command, value);
}

static int make_command(struct launch *launch, const char *resume, struct err *err)
{
    const struct launch_args *args = launch->args;
    struct launch_command *command = &launch->command;
    bool has_start_time = launch->start_variable[0] != '\0',
         uses_other_machines = launch->placement.hosts || launch->placement.is_job;
    launch_deinit(command);
    int status = launch_begin(command, &launch->placement, err);
    if (uses_other_machines) /* ranks on this machine inherit it */
        launch_add_environment(command, environ, has_start_time ? START_TIME_VARIABLE : NULL);
    add_option(command, "-x", has_start_time ? launch->start_variable : NULL);
    launch_add_word(command, launch->program);
    launch_add_word(command, "train");
    launch_add_word(command, launch->invocation->positional[0]);
    for (size_t i = 0; i < args->set.count; i++)
        add_option(command, "--set", args->set.items[i]);
    add_option(command, "--resume", resume);
    add_option(command, "--profile", args->profile);
    if (args->common.json)
        launch_add_word(command, "--json");
    if (args->common.quiet)
        launch_add_word(command, "--quiet");
    if (args->common.verbose)
        launch_add_word(command, "--verbose");
    return status ? status : launch_status(command, err);
}

static int set_folders(struct launch *launch, const struct train_config *config, struct err *err)
{
    snprintf(launch->run_dir, sizeof launch->run_dir, "%s", config->run.dir);
    if (!config->checkpoint.dir[0])
        return io_join_path(config->run.dir, CKPT_FOLDER_NAME, launch->checkpoint_folder, err);
    snprintf(launch->checkpoint_folder, sizeof launch->checkpoint_folder, "%s",
             config->checkpoint.dir);
    return 0;
}

/* All attempts share run.max_time. The command of a dry run may run later, so it sets no time. */
static int set_start_time(struct launch *launch, const struct train_config *config, struct err *err)
{
    const char *start_time = getenv(START_TIME_VARIABLE);
    uint64_t before_ns, wall_ns = clock_wall_ns();
    int status = start_time_parse(start_time, wall_ns, &before_ns, err);
    if (!status && config->run.max_time_ns > 0 && !launch->args->dry_run)
        snprintf(launch->start_variable, sizeof launch->start_variable,
                 START_TIME_VARIABLE "=%" PRIu64, (wall_ns - before_ns) / CLOCK_NS_PER_S);
    return status;
}

/* Whether the run saved a newer step than `from`. */
static bool has_newer_step(const struct launch *launch, const char *from)
{
    char path[IO_PATH_BYTES_MAX];
    uint64_t newest_step = 0, from_step = 0;
    struct io *io;
    if (storage_open(launch->run_dir, NULL, &io, NULL))
        return false;
    bool is_newer = !ckpt_find(io, launch->checkpoint_folder, path, &newest_step, NULL, NULL) &&
                    !ckpt_find(io, from, path, &from_step, NULL, NULL) && newest_step > from_step;
    io_close(io);
    return is_newer;
}

static const char *choose_resume(const struct launch *launch)
{
    const char *resume = launch->args->resume;
    bool is_path = resume && strcmp(resume, "auto") != 0 && strcmp(resume, "never") != 0;
    return is_path && !has_newer_step(launch, resume) ? resume : "auto";
}

/* One rank per GPU of a node or, without GPUs, per NUMA node. */
static int choose_ranks(const struct launch *launch, const struct train_config *config,
                        unsigned *ret_ranks, struct err *err)
{
    const char *device = config_device_name(config->device);
    unsigned nodes = (unsigned)launch->args->nodes, numa_nodes = numa_nodes_count("");
    int gpus = 0, status = 0;
    if (strcmp(device, "cuda") == 0)
        status = device_cuda_count(&gpus, err);
    else if (strcmp(device, "auto") == 0)
        status = device_auto_gpu_count("", &gpus, err);
    if (status)
        return status;
    unsigned ranks_per_node = gpus > 0 ? (unsigned)gpus : numa_nodes;
    console_line(launch->invocation->console, "-n %u: one rank for each %s (%u%s)",
                 ranks_per_node * nodes, gpus > 0 ? "GPU" : "NUMA node", ranks_per_node,
                 nodes > 1 ? " on each machine" : " on this machine");
    *ret_ranks = ranks_per_node * nodes;
    return 0;
}

static int prepare(struct launch *launch, struct err *err)
{
    const struct launch_args *args = launch->args;
    struct train_config config;
    int status = check_nodes(args, err);
    if (!status)
        status = config_load(launch->invocation->positional[0],
                             (const char *const *)args->set.items, args->set.count, &config, err);
    unsigned ranks = (unsigned)args->ranks;
    if (!status && ranks == 0)
        status = choose_ranks(launch, &config, &ranks, err);
    if (status)
        return status;
    launch->placement = (struct launch_placement){
        .ranks = ranks,
        .nodes = (unsigned)args->nodes,
        .hosts = args->hosts.count > 0 ? (const char *const *)args->hosts.items : NULL,
        .is_job = getenv("SLURM_JOB_ID") != NULL,
        .cpus = thread_pool_cpu_count(),
        .is_root = geteuid() == 0};
    status = launch_find_program(launch->program, err);
    if (!status)
        status = set_start_time(launch, &config, err);
    if (!status)
        status = set_folders(launch, &config, err);
    return status ? status : make_command(launch, args->resume, err);
}

static bool is_final(int status)
{
    return status < 0 || status == EXIT_DONE || status == EXIT_USAGE || status == EXIT_STOPPED ||
           status == EXIT_INTERRUPTED;
}

/* The cause of a quick failure may be transient. False after a stop request. */
static bool pause_before_restart(const struct signal_counts *counts)
{
    if (atomic_load(&counts->stops) == 0)
        nanosleep(&(struct timespec){.tv_sec = 1}, NULL);
    return atomic_load(&counts->stops) == 0;
}

static int run_with_restarts(struct launch *launch, struct err *err)
{
    const struct signal_counts *counts = signals_install_counting();
    uint64_t restarts = launch->args->restarts;
    for (uint64_t n = 0;; n++) {
        int status = launch_run(&launch->command, counts, err);
        if (is_final(status))
            return status;
        if (n == restarts || !pause_before_restart(counts)) {
            err_set(err, -EIO, "the run failed: mpirun ended with status %d%s", status,
                    restarts > 0 && n == restarts ? ", and no restarts are left" : "");
            return EXIT_FAILED;
        }
        log_line(launch->invocation->log, LOG_WARN,
                 "mpirun ended with status %d: restart %" PRIu64 " of %" PRIu64, status, n + 1,
                 restarts);
        int command_status = make_command(launch, choose_resume(launch), err);
        if (command_status)
            return command_status;
    }
}

static int show_and_run(struct launch *launch, struct err *err)
{
    const struct launch_args *args = launch->args;
    char *line = launch_format(&launch->command);
    if (!line)
        return err_set(err, -ENOMEM, "out of memory for the command");
    if (args->dry_run)
        puts(line);
    else if (args->common.verbose)
        log_line(launch->invocation->log, LOG_INFO, "%s", line);
    free(line);
    if (args->dry_run)
        return EXIT_DONE;
    if (args->node_rank > 0) {
        console_line(launch->invocation->console,
                     "node %" PRIu64 " has nothing to do: the first node starts all ranks",
                     args->node_rank);
        return EXIT_DONE;
    }
    return run_with_restarts(launch, err);
}

static int run(const struct invocation *invocation, struct err *err)
{
    struct launch launch = {.invocation = invocation, .args = invocation->args};
    int status = prepare(&launch, err);
    if (!status)
        status = show_and_run(&launch, err);
    launch_deinit(&launch.command);
    return status;
}

static const char *const examples[] = {
    "millrace launch train.yaml",
    "millrace launch -n 2 train.yaml --set run.dir=runs/e",
    "millrace launch -n 2 train.yaml --set run.dir=runs/d --set run.steps=4 --restarts 3",
    "millrace launch -n 8 --nnodes 2 --hosts node1,node2 train.yaml --dry-run",
    NULL,
};

const struct verb verb_launch = {
    .name = "launch",
    .arguments = {"CONFIG.yaml", 1, 1},
    .summary = "Train on several ranks with mpirun.",
    .details =
        "Runs `millrace train CONFIG.yaml` with Open MPI's mpirun, adding the options needed "
        "for root and for ranks that share cores. -v and --dry-run show the command. Ranks on "
        "other machines inherit the variables NCCL_*, UCX_*, FI_*, OMP_*, OPENBLAS_*, "
        "MILLRACE_*, CUDA_* and AWS_* of this machine.\n"
        "Ctrl-C, SIGTERM and SIGUSR1 are forwarded to all ranks; they save and exit with "
        "status 75. A second Ctrl-C ends them immediately with status 130. With --restarts, a "
        "run that fails for any reason other than wrong usage (status 2) is started again and "
        "resumes from its newest checkpoint, within the remaining run.max_time.",
    .options = OPTION_TABLE(option_rows),
    .examples = examples,
    .args_bytes = sizeof(struct launch_args),
    .run = run,
};
