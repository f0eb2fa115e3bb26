/*
 * io_uring_absent — replaces io_uring.c in a build without liburing.
 */
#include "io/io.h"

#include <errno.h>

int io_ring_open(const struct io_options *options, struct io **ret_io, struct err *err)
{
    (void)options;
    (void)ret_io;
    err_set(err, -ENOSYS, "this build has no io_uring");
    err_advise(err, "read with threads, or rebuild with liburing installed (`scripts/setup`)");
    return -ENOSYS;
}
