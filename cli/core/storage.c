#include "cli/core/storage.h"

#include "cli/core/temporary_files.h"
#include "io/faults/io_fault.h"

#include <stdlib.h>

int storage_open_with_faults(const char *path_or_url, const struct io_options *options,
                             const char *faults, struct io **ret_io, struct err *err)
{
    struct io_options all = options ? *options : (struct io_options){0};
    all.temporaries = &temporary_files;
    return io_fault_open(path_or_url, &all, faults ? faults : getenv("MILLRACE_FAULT"), ret_io,
                         err);
}

int storage_open(const char *path_or_url, const struct io_options *options, struct io **ret_io,
                 struct err *err)
{
    return storage_open_with_faults(path_or_url, options, NULL, ret_io, err);
}

int storage_open_target(const char *path_or_url, struct io **ret_io, struct err *err)
{
    int status = io_check_target(path_or_url, err);
    return status ? status : storage_open(path_or_url, NULL, ret_io, err);
}

int storage_open_two(const char *source, const char *target, struct io **ret_source_io,
                     struct io **ret_target_io, struct err *err)
{
    struct io *source_io, *target_io;
    int status = storage_open_target(target, &target_io, err);
    if (status)
        return status;
    if (io_serves(target_io, source))
        source_io = target_io;
    else
        status = storage_open(source, NULL, &source_io, err);
    if (status) {
        io_close(target_io);
        return status;
    }
    *ret_source_io = source_io;
    *ret_target_io = target_io;
    return 0;
}

void storage_close_two(struct io *source_io, struct io *target_io)
{
    if (source_io != target_io)
        io_close(source_io);
    io_close(target_io);
}
