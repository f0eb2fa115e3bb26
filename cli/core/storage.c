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
