#include "cli/core/first_line.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SILENCE_MS_MAX = 5000 };

extern char **environ;

/* Reads until a newline, the end of the output, or the timeout. */
static int read_line(int fd, char *text, size_t bytes)
{
    size_t used = 0;
    while (used + 1 < bytes && !memchr(text, '\n', used)) {
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        int count = poll(&ready, 1, SILENCE_MS_MAX);
        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0)
            return count < 0 ? -errno : -ETIMEDOUT;
        ssize_t n = read(fd, text + used, bytes - 1 - used);
        if (n < 0)
            return -errno;
        if (n == 0)
            break;
        used += (size_t)n;
    }
    text[used] = '\0';
    text[strcspn(text, "\n")] = '\0';
    return *text ? 0 : -ENODATA;
}

static int spawn(char *const *argv, int write_end, pid_t *ret_child)
{
    posix_spawn_file_actions_t actions;
    int status = posix_spawn_file_actions_init(&actions);
    if (status)
        return -status;
    status = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    if (!status)
        status = posix_spawn_file_actions_adddup2(&actions, write_end, STDOUT_FILENO);
    if (!status)
        status =
            posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    if (!status)
        status = posix_spawnp(ret_child, argv[0], &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    return -status;
}

int first_line_read(char *const *argv, char *text, size_t bytes)
{
    int pipe_ends[2];
    pid_t child;
    if (pipe2(pipe_ends, O_CLOEXEC))
        return -errno;
    int status = spawn(argv, pipe_ends[1], &child);
    close(pipe_ends[1]);
    if (!status) {
        status = read_line(pipe_ends[0], text, bytes);
        kill(child, SIGKILL);
        while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    close(pipe_ends[0]);
    return status;
}
