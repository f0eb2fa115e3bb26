/*
 * line_log — see line_log.h.
 */
#include "io/local/line_log.h"

#include "io/local/file_local.h"

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

/* The end of the last complete line within the first bytes; 0 if there is none. */
static int find_last_line_end(int descriptor, uint64_t bytes, uint64_t *ret_bytes)
{
    char block[4096];
    while (bytes > 0) {
        size_t part = bytes % sizeof block ? bytes % sizeof block : sizeof block;
        ssize_t n = LOCAL_RETRY(pread(descriptor, block, part, (off_t)(bytes - part)));
        if (n != (ssize_t)part)
            return n < 0 ? -errno : -EIO;
        const char *newline = memrchr(block, '\n', part);
        if (newline) {
            *ret_bytes = bytes - part + (uint64_t)(newline - block) + 1;
            return 0;
        }
        bytes -= part;
    }
    *ret_bytes = 0;
    return 0;
}

int line_log_open(const char *path, uint64_t keep_bytes, struct line_log **ret_log, struct err *err)
{
    int status = local_path(path, &path, err);
    if (status)
        return status;
    struct line_log *log = calloc(1, sizeof *log);
    if (!log)
        return err_set(err, -ENOMEM, "out of memory for a log file");
    uint64_t bytes = 0;
    struct stat info;
    log->descriptor = LOCAL_RETRY(open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666));
    if (log->descriptor < 0 || fstat(log->descriptor, &info)) {
        status = local_fail(err, -errno, path, "could not open the file for appending");
        goto out;
    }
    bytes = (uint64_t)info.st_size < keep_bytes ? (uint64_t)info.st_size : keep_bytes;
    status = find_last_line_end(log->descriptor, bytes, &log->bytes);
    if (status) {
        status = local_fail(err, status, path, "could not find the end of the last line");
        goto out;
    }
    if ((uint64_t)info.st_size > log->bytes &&
        LOCAL_RETRY(ftruncate(log->descriptor, (off_t)log->bytes))) {
        status = local_fail(err, -errno, path, "could not truncate the file");
        goto out;
    }
    snprintf(log->path, sizeof log->path, "%s", path);
    *ret_log = log;
    log = NULL;
out:
    line_log_close(log);
    return status;
}

int line_log_add(struct line_log *log, const char *text, size_t bytes, struct err *err)
{
    struct iovec parts[2] = {{.iov_base = (void *)(uintptr_t)text, .iov_len = bytes},
                             {.iov_base = (void *)(uintptr_t) "\n", .iov_len = 1}};
    ssize_t written = LOCAL_RETRY(pwritev(log->descriptor, parts, 2, (off_t)log->bytes));
    if (written != (ssize_t)bytes + 1)
        return local_fail(err, written < 0 ? -errno : -ENOSPC, log->path,
                          "could not append a line");
    log->bytes += bytes + 1;
    return 0;
}

void line_log_close(struct line_log *log)
{
    if (!log)
        return;
    if (log->descriptor >= 0)
        close(log->descriptor);
    free(log);
}
