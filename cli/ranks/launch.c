/*
 * launch — see launch.h.
 */
#include "cli/ranks/launch.h"

#include "base/str.h"
#include "cli/verbs/verb.h"

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

enum { POLL_INTERVAL_NS = 20 * 1000 * 1000, WORDS_FIRST = 32 };

struct signals_sent {
    unsigned stops, interrupts;
};

/* Reserves space for a word and the final NULL. */
static bool reserve_word(struct launch_command *command)
{
    size_t capacity = command->words_capacity > 0 ? 2 * command->words_capacity : WORDS_FIRST;
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
    char *copy = command->is_short || !reserve_word(command) ? NULL : strndup(word, bytes);
    command->is_short = !copy;
    if (!copy)
        return;
    command->words[command->words_count++] = copy;
    command->words[command->words_count] = NULL;
}

void launch_add(struct launch_command *command, const char *word)
{
    add_bytes(command, word, strlen(word));
}

int launch_status(const struct launch_command *command, struct err *err)
{
    return command->is_short ? err_set(err, -ENOMEM, "out of memory for a command line") : 0;
}

void launch_deinit(struct launch_command *command)
{
    for (size_t i = 0; i < command->words_count; i++)
        free(command->words[i]);
    free(command->words);
    *command = (struct launch_command){0};
}

static void add_hosts(struct launch_command *command, const struct launch_place *place)
{
    struct str text = {0};
    for (unsigned i = 0; i < place->nodes; i++)
        str_add_format(&text, "%s%s:%u", i ? "," : "", place->hosts[i],
                       place->ranks / place->nodes);
    launch_add(command, "--host");
    launch_add(command, str_text(&text));
    command->is_short = command->is_short || str_status(&text);
    str_deinit(&text);
}

/* Whether the variable, "NAME=value", affects a run. mpirun cannot forward other names, such as
 * exported shell functions. */
static bool is_forwarded(const char *variable, size_t name_bytes)
{
    static const char *const prefixes[] = {"NCCL_",     "UCX_",      "FI_",   "OMP_",
                                           "OPENBLAS_", "MILLRACE_", "CUDA_", "AWS_"};
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_";
    if (strspn(variable, letters) != name_bytes)
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
        launch_add(command, "-x");
        add_bytes(command, *at, bytes);
    }
}

int launch_begin(struct launch_command *command, const struct launch_place *place, struct err *err)
{
    char count[16];
    if (place->ranks % place->nodes != 0) {
        err_set(err, -EINVAL, "cannot divide the ranks evenly among the nodes");
        err_expected(err, "-n a multiple of %u", place->nodes);
        err_found(err, "%u", place->ranks);
        return -EINVAL;
    }
    snprintf(count, sizeof count, "%u", place->ranks);
    launch_add(command, "mpirun");
    if (place->is_root)
        launch_add(command, "--allow-run-as-root");
    launch_add(command, "-np");
    launch_add(command, count);
    if (place->hosts)
        add_hosts(command, place);
    /* mpirun's slots are cores; millrace's CPUs are hardware threads */
    bool shares = place->ranks / place->nodes > place->cpus,
         has_places = place->hosts || place->is_job;
    if (shares || !has_places)
        launch_add(command, "--oversubscribe");
    /* a waiting rank must yield to computing ones */
    const char *const sharing[] = {"--mca", "mpi_yield_when_idle", "1"};
    for (size_t i = 0; shares && i < sizeof sharing / sizeof sharing[0]; i++)
        launch_add(command, sharing[i]);
    /* binding would confine a rank's threads to one core */
    launch_add(command, "--bind-to");
    launch_add(command, "none");
    return 0;
}

int launch_own_program(char program[PATH_MAX], struct err *err)
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

/* In the child: leaves the parent's process group, so that Ctrl-C reaches it only through the
 * parent, and dies with the parent. */
static void exec_command(const struct launch_command *command, int failed)
{
    int nothing = open("/dev/null", O_RDONLY);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (nothing >= 0)
        dup2(nothing, STDIN_FILENO);
    execvp(command->words[0], command->words);
    int code = errno;
    ssize_t written = write(failed, &code, sizeof code);
    (void)written;
    _exit(127);
}

static int start(const struct launch_command *command, pid_t *ret_pid, struct err *err)
{
    int ends[2], code = 0;
    if (pipe2(ends, O_CLOEXEC))
        return err_errno(err, -errno, "cannot create a pipe to %s", command->words[0]);
    /* an inherited SIG_IGN would discard the child's exit status */
    signal(SIGCHLD, SIG_DFL);
    pid_t pid = fork();
    if (pid == 0)
        exec_command(command, ends[1]);
    close(ends[1]);
    ssize_t read_bytes =
        pid > 0 ? read(ends[0], &code, sizeof code) : 0; /* nothing if exec succeeded */
    close(ends[0]);
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

/* Forwards signals not yet sent. mpirun passes SIGUSR1 on to the ranks, but kills them on
 * SIGTERM. */
static void forward_signals(pid_t pid, const struct signals_counts *counts,
                            struct signals_sent *sent)
{
    unsigned stops = atomic_load(&counts->stops), interrupts = atomic_load(&counts->interrupts);
    if (interrupts != sent->interrupts && interrupts > 1)
        kill(pid, interrupts == 2 ? SIGTERM : SIGKILL);
    else if (stops != sent->stops && interrupts < 2)
        kill(pid, SIGUSR1);
    *sent = (struct signals_sent){stops, interrupts};
}

/* A second Ctrl-C may arrive when only mpirun is still running. */
static int status_of(int ended, unsigned interrupts)
{
    bool is_done =
        WIFEXITED(ended) && (WEXITSTATUS(ended) == EXIT_DONE || WEXITSTATUS(ended) == EXIT_STOPPED);
    if (interrupts > 1 && !is_done)
        return EXIT_INTERRUPTED;
    return WIFEXITED(ended) ? WEXITSTATUS(ended) : 128 + WTERMSIG(ended);
}

int launch_run(const struct launch_command *command, const struct signals_counts *counts,
               struct err *err)
{
    struct signals_sent sent = {0};
    pid_t pid = -1;
    int ended = 0;
    int status = start(command, &pid, err);
    if (status)
        return status;
    for (;;) {
        pid_t waited = waitpid(pid, &ended, WNOHANG);
        if (waited == pid)
            return status_of(ended, atomic_load(&counts->interrupts));
        if (waited < 0 && errno != EINTR)
            return err_errno(err, -errno, "cannot get the exit status of %s", command->words[0]);
        forward_signals(pid, counts, &sent);
        nanosleep(&(struct timespec){.tv_nsec = POLL_INTERVAL_NS}, NULL);
    }
}
