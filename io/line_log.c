/*
 * line_log — see line_log.h.
 */
#include "io/line_log.h"

#include "io/io.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

struct line_log {
    int descriptor;
    uint64_t bytes;
    char path[IO_PATH_BYTES_MAX];
};

static int failed(struct err *err, int code, const char *path, const char *what)
{
    err_errno(err, code, "could not %s", what);
    err_at(err, path, ERR_NO_OFFSET);
    return code;
}

int line_log_open(const char *path, uint64_t keep_bytes, struct line_log **ret_log, struct err *err)
{
    struct line_log *log = calloc(1, sizeof *log);
    if (!log)
        return err_set(err, -ENOMEM, "out of memory for a log file");
    int status = 0;
    struct stat info;
    log->descriptor = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (log->descriptor < 0)
        status = failed(err, -errno, path, "open the file for appending");
    else if (fstat(log->descriptor, &info))
        status = failed(err, -errno, path, "look at the file");
    else if ((uint64_t)info.st_size > keep_bytes && ftruncate(log->descriptor, (off_t)keep_bytes))
        status = failed(err, -errno, path, "cut the file back");
    if (status) {
        line_log_close(log);
        return status;
    }
    log->bytes = (uint64_t)info.st_size < keep_bytes ? (uint64_t)info.st_size : keep_bytes;
    snprintf(log->path, sizeof log->path, "%s", path);
    *ret_log = log;
    return 0;
}

int line_log_add(struct line_log *log, const char *text, size_t bytes, struct err *err)
{
    struct iovec parts[2] = {{.iov_base = (void *)(uintptr_t)text, .iov_len = bytes},
                             {.iov_base = (void *)(uintptr_t) "\n", .iov_len = 1}};
    ssize_t written;
    do {
        written = pwritev(log->descriptor, parts, 2, (off_t)log->bytes);
    } while (written < 0 && errno == EINTR);
    if (written != (ssize_t)bytes + 1)
        return failed(err, written < 0 ? -errno : -ENOSPC, log->path, "append a line");
    log->bytes += bytes + 1;
    return 0;
}

uint64_t line_log_bytes(const struct line_log *log)
{
    return log->bytes;
}

void line_log_close(struct line_log *log)
{
    if (!log)
        return;
    if (log->descriptor >= 0)
        close(log->descriptor);
    free(log);
}
