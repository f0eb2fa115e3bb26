/*
 * append_file — see append_file.h.
 */
#include "io/local/append_file.h"

#include "io/local/file_local.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct append_file {
    int descriptor;
    uint64_t bytes; /* of complete records */
    char path[IO_PATH_BYTES_MAX];
};

int append_file_open(const char *path, struct append_file **ret_file, struct err *err)
{
    int status = local_path(path, &path, err);
    if (status)
        return status;
    struct append_file *file = calloc(1, sizeof *file);
    if (!file)
        return err_set(err, -ENOMEM, "out of memory for a log file");
    file->descriptor = LOCAL_RETRY(open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (file->descriptor < 0) {
        status = local_fail(err, -errno, path, "could not create the file");
        free(file);
        return status;
    }
    snprintf(file->path, sizeof file->path, "%s", path);
    *ret_file = file;
    return 0;
}

int append_file_add(struct append_file *file, const void *record, size_t bytes, struct err *err)
{
    ssize_t written = LOCAL_RETRY(pwrite(file->descriptor, record, bytes, (off_t)file->bytes));
    if (written != (ssize_t)bytes)
        return local_fail(err, written < 0 ? -errno : -ENOSPC, file->path,
                          "could not append a record");
    file->bytes += bytes;
    return 0;
}

void append_file_close(struct append_file *file)
{
    if (!file)
        return;
    close(file->descriptor);
    free(file);
}
