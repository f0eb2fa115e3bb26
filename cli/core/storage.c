/*
 * storage — see storage.h.
 */
#include "cli/core/storage.h"

#include "io/faults/io_fault.h"

#include <stdlib.h>

int storage_open(const char *path_or_url, const struct io_options *options, struct io **ret_io,
                 struct err *err)
{
    return io_fault_open(path_or_url, options, getenv("MILLRACE_FAULT"), ret_io, err);
}
