/*
 * append_log — see append_log.h.
 */
#include "io/local/append_log.h"

#include "base/bytes.h"
#include "io/local/file_local.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct append_log {
    int descriptor;
    uint64_t bytes; /* size of the complete records */
    char path[IO_PATH_BYTES_MAX];
};

/* Finds the end of the last complete line within the first bytes; 0 if there is none. */
static int find_last_line_end(int descriptor, uint64_t bytes, uint64_t *ret_bytes)
{
    char block[4096];
    while (bytes > 0) {
        size_t block_bytes = bytes % sizeof block ? bytes % sizeof block : sizeof block;
        ssize_t n =
            LOCAL_RETRY(pread(descriptor, block, block_bytes, (off_t)(bytes - block_bytes)));
        if (n != (ssize_t)block_bytes)
            return n < 0 ? -errno : -EIO;
        const char *newline = memrchr(block, '\n', block_bytes);
        if (newline) {
            *ret_bytes = bytes - block_bytes + (uint64_t)(newline - block) + 1;
            return 0;
        }
        bytes -= block_bytes;
    }
    *ret_bytes = 0;
    return 0;
}

static int open_file(const char *path, int flags, const char *failure, struct append_log **ret_log,
                     struct err *err)
{
    int status = local_path(path, &path, err);
    if (status)
        return status;
    struct append_log *log = calloc(1, sizeof *log);
    if (!log)
        return err_set(err, -ENOMEM, "out of memory for a log file");
    log->descriptor = LOCAL_RETRY(open(path, flags | O_CREAT | O_CLOEXEC, 0666));
    if (log->descriptor < 0) {
        status = local_error(err, -errno, path, failure);
        free(log);
        return status;
    }
    snprintf(log->path, sizeof log->path, "%s", path);
    *ret_log = log;
    return 0;
}

static int truncate_to_lines(struct append_log *log, uint64_t keep_bytes, struct err *err)
{
    struct stat info;
    if (fstat(log->descriptor, &info))
        return local_error(err, -errno, log->path, "could not open the file for appending");
    uint64_t bytes = (uint64_t)info.st_size;
    int status = find_last_line_end(log->descriptor, bytes_min(bytes, keep_bytes), &log->bytes);
    if (status)
        return local_error(err, status, log->path, "could not find the end of the last line");
    if (bytes > log->bytes && LOCAL_RETRY(ftruncate(log->descriptor, (off_t)log->bytes)))
        return local_error(err, -errno, log->path, "could not truncate the file");
    return 0;
}

int append_log_open(const char *path, uint64_t keep_bytes, struct append_log **ret_log,
                    struct err *err)
{
    struct append_log *log;
    int status = open_file(path, O_RDWR, "could not open the file for appending", &log, err);
    if (status)
        return status;
    status = truncate_to_lines(log, keep_bytes, err);
    if (status)
        append_log_close(log);
    else
        *ret_log = log;
    return status;
}

int append_log_create(const char *path, struct append_log **ret_log, struct err *err)
{
    return open_file(path, O_WRONLY | O_EXCL, "could not create the file", ret_log, err);
}

int append_log_add(struct append_log *log, const void *record, size_t bytes, struct err *err)
{
    ssize_t written = LOCAL_RETRY(pwrite(log->descriptor, record, bytes, (off_t)log->bytes));
    if (written != (ssize_t)bytes)
        return local_error(err, written < 0 ? -errno : -ENOSPC, log->path,
                           "could not append a record");
    log->bytes += bytes;
    return 0;
}

void append_log_close(struct append_log *log)
{
    if (!log)
        return;
    close(log->descriptor);
    free(log);
}
