/*
 * open_files — see open_files.h.
 */
#include "base/os/open_files.h"

#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

uint64_t open_files_max(void)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur == RLIM_INFINITY ? UINT64_MAX
                                                                               : limit.rlim_cur;
}

bool open_files_is_within(enum open_files_fraction fraction, int fd)
{
    uint64_t max = open_files_max();
    return fraction == OPEN_FILES_ALL ||
           (uint64_t)fd <
               max / OPEN_FILES_ALL * fraction + max % OPEN_FILES_ALL * fraction / OPEN_FILES_ALL;
}

bool open_files_next_is_within(enum open_files_fraction fraction)
{
    if (fraction == OPEN_FILES_ALL)
        return true;
    int fd = eventfd(0, EFD_CLOEXEC); /* the cheapest kind of descriptor */
    if (fd < 0)
        return false;
    close(fd);
    return open_files_is_within(fraction, fd);
}

const char *open_files_advice(void)
{
    struct rlimit limit;
    bool is_hard = getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur == limit.rlim_max;
    return is_hard ? "raise the hard limit on open files: /etc/security/limits.conf, a service's "
                     "LimitNOFILE=, a container's --ulimit nofile=N, or `ulimit -Hn` as root"
                   : "raise the limit on open files (ulimit -n)";
}

void open_files_advise(struct err *err)
{
    err_advise(err, "%s", open_files_advice());
}
