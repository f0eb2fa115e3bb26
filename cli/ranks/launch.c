#include "cli/ranks/launch.h"

#include "base/str.h"
#include "cli/core/exit_status.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { POLL_INTERVAL_NS = 20 * 1000 * 1000, WORDS_CAPACITY_FIRST = 32 };

struct signals_sent {
    unsigned stops, interrupts;
};

/* Reserves space for a word and the final NULL. */
static bool reserve_word(struct launch_command *command)
{
    size_t capacity =
        command->words_capacity > 0 ? 2 * command->words_capacity : WORDS_CAPACITY_FIRST;
    if (command->words_count + 1 < command->words_capacity)
        return true;
    char **words = realloc(command->words, capacity * sizeof *words);
    if (!words)
        return false;
    command->words = words;
    command->words_capacity = capacity;
    return true;
}

static void add_bytes(struct launch_command *command, const char *word, size_t bytes)
{
    char *copy = command->out_of_memory || !reserve_word(command) ? NULL : strndup(word, bytes);
    command->out_of_memory = !copy;
    if (!copy)
        return;
    command->words[command->words_count++] = copy;
    command->words[command->words_count] = NULL;
}

void launch_add_word(struct launch_command *command, const char *word)
{
    add_bytes(command, word, strlen(word));
}

int launch_status(const struct launch_command *command, struct err *err)
{
    return command->out_of_memory ? err_set(err, -ENOMEM, "out of memory for a command line") : 0;
}

void launch_deinit(struct launch_command *command)
{
    for (size_t i = 0; i < command->words_count; i++)
        free(command->words[i]);
    free(command->words);
    *command = (struct launch_command){0};
}

static void add_hosts(struct launch_command *command, const struct launch_placement *placement)
{
    struct str text = {0};
    for (unsigned i = 0; i < placement->nodes; i++)
        str_add_format(&text, "%s%s:%u", i ? "," : "", placement->hosts[i],
                       placement->ranks / placement->nodes);
    launch_add_word(command, "--host");
    launch_add_word(command, str_text(&text));
    command->out_of_memory = command->out_of_memory || str_status(&text);
    str_deinit(&text);
}

/* Whether the variable, "NAME=value", affects a run and mpirun can forward it, unlike an exported
 * shell function. */
static bool is_forwarded(const char *variable, size_t name_bytes)
{
    static const char *const prefixes[] = {"NCCL_",     "UCX_",      "FI_",   "OMP_",
                                           "OPENBLAS_", "MILLRACE_", "CUDA_", "AWS_"};
    static const char name_characters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_";
    if (strspn(variable, name_characters) != name_bytes)
        return false;
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++)
        if (strncmp(variable, prefixes[i], strlen(prefixes[i])) == 0)
            return true;
    return false;
}

void launch_add_environment(struct launch_command *command, char *const *environment,
                            const char *except)
{
    for (char *const *at = environment; *at; at++) {
        size_t bytes = strcspn(*at, "=");
        bool is_except = except && strlen(except) == bytes && strncmp(*at, except, bytes) == 0;
        if (is_except || !is_forwarded(*at, bytes))
            continue;
        launch_add_word(command, "-x");
        add_bytes(command, *at, bytes);
    }
}

int launch_begin(struct launch_command *command, const struct launch_placement *placement,
                 struct err *err)
{
    char count[16];
    if (placement->ranks % placement->nodes != 0) {
        err_set(err, -EINVAL, "cannot divide the ranks evenly among the nodes");
        err_expected(err, "-n a multiple of %u", placement->nodes);
        err_found(err, "%u", placement->ranks);
        return -EINVAL;
    }
    snprintf(count, sizeof count, "%u", placement->ranks);
    launch_add_word(command, "mpirun");
    if (placement->is_root)
        launch_add_word(command, "--allow-run-as-root");
    launch_add_word(command, "-np");
    launch_add_word(command, count);
    if (placement->hosts)
        add_hosts(command, placement);
    /* slots are cores; cpus counts hardware threads */
    bool oversubscribes = placement->ranks / placement->nodes > placement->cpus,
         has_slots = placement->hosts || placement->is_job;
    if (oversubscribes || !has_slots)
        launch_add_word(command, "--oversubscribe");
    /* a waiting rank must yield to computing ones */
    const char *const yield_options[] = {"--mca", "mpi_yield_when_idle", "1"};
    for (size_t i = 0; oversubscribes && i < sizeof yield_options / sizeof yield_options[0]; i++)
        launch_add_word(command, yield_options[i]);
    /* binding would confine a rank's threads to one core */
    launch_add_word(command, "--bind-to");
    launch_add_word(command, "none");
    return 0;
}

int launch_find_program(char program[PATH_MAX], struct err *err)
{
    ssize_t bytes = readlink("/proc/self/exe", program, PATH_MAX - 1);
    if (bytes < 0)
        return err_errno(err, -errno, "cannot find the path of this program");
    program[bytes] = '\0';
    return 0;
}

char *launch_format(const struct launch_command *command)
{
    struct str text = {0};
    for (size_t i = 0; i < command->words_count; i++) {
        const char *word = command->words[i];
        bool is_plain =
            *word && strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                  "-_./:=,+@%") == strlen(word);
        str_add_format(&text, "%s%s", i ? " " : "", is_plain ? word : "'");
        for (const char *c = word; !is_plain && *c; c++)
            str_add_format(&text, *c == '\'' ? "'\\''" : "%c", *c);
        if (!is_plain)
            str_add_format(&text, "'");
    }
    char *copy = str_status(&text) ? NULL : strdup(str_text(&text));
    str_deinit(&text);
    return copy;
}

/* Runs in the child. It leaves the parent's process group, so that Ctrl-C arrives only through the
 * parent, and dies with the parent. */
static void exec_command(const struct launch_command *command, int error_fd)
{
    int null_fd = open("/dev/null", O_RDONLY);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (null_fd >= 0)
        dup2(null_fd, STDIN_FILENO);
    execvp(command->words[0], command->words);
    int code = errno;
    ssize_t written = write(error_fd, &code, sizeof code);
    (void)written;
    _exit(127);
}

static int start_command(const struct launch_command *command, pid_t *ret_pid, struct err *err)
{
    int pipe_ends[2], code = 0;
    if (pipe2(pipe_ends, O_CLOEXEC))
        return err_errno(err, -errno, "cannot create a pipe to %s", command->words[0]);
    /* an inherited SIG_IGN would discard the child's exit status */
    signal(SIGCHLD, SIG_DFL);
    pid_t pid = fork();
    if (pid == 0)
        exec_command(command, pipe_ends[1]);
    close(pipe_ends[1]);
    ssize_t read_bytes =
        pid > 0 ? read(pipe_ends[0], &code, sizeof code) : 0; /* nothing if exec succeeded */
    close(pipe_ends[0]);
    if (pid > 0 && read_bytes <= 0) {
        *ret_pid = pid;
        return 0;
    }
    if (pid > 0)
        waitpid(pid, NULL, 0);
    int status = code > 0 ? -code : -EAGAIN;
    err_errno(err, status, "cannot start %s", command->words[0]);
    err_advise(err, "install Open MPI (openmpi-bin)");
    return status;
}

/* mpirun passes SIGUSR1 on to the ranks, but kills them on SIGTERM. */
static void forward_signals(pid_t pid, const struct signal_counts *counts,
                            struct signals_sent *sent_signals)
{
    unsigned stops = atomic_load(&counts->stops), interrupts = atomic_load(&counts->interrupts);
    if (interrupts != sent_signals->interrupts && interrupts > 1)
        kill(pid, interrupts == 2 ? SIGTERM : SIGKILL);
    else if (stops != sent_signals->stops && interrupts < 2)
        kill(pid, SIGUSR1);
    *sent_signals = (struct signals_sent){stops, interrupts};
}

/* A second Ctrl-C may arrive when only mpirun is still running. */
static int command_status(int wait_status, unsigned interrupts)
{
    bool is_done = WIFEXITED(wait_status) && (WEXITSTATUS(wait_status) == EXIT_DONE ||
                                              WEXITSTATUS(wait_status) == EXIT_STOPPED);
    if (interrupts > 1 && !is_done)
        return EXIT_INTERRUPTED;
    return WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 128 + WTERMSIG(wait_status);
}

int launch_run(const struct launch_command *command, const struct signal_counts *counts,
               struct err *err)
{
    struct signals_sent sent_signals = {0};
    pid_t pid = -1;
    int wait_status = 0;
    int status = start_command(command, &pid, err);
    if (status)
        return status;
    for (;;) {
        pid_t waited = waitpid(pid, &wait_status, WNOHANG);
        if (waited == pid)
            return command_status(wait_status, atomic_load(&counts->interrupts));
        if (waited < 0 && errno != EINTR)
            return err_errno(err, -errno, "cannot get the exit status of %s", command->words[0]);
        forward_signals(pid, counts, &sent_signals);
        nanosleep(&(struct timespec){.tv_nsec = POLL_INTERVAL_NS}, NULL);
    }
}
