/*
 * page_cache — see page_cache.h.
 */
#include "io/local/page_cache.h"

#include "io/local/file_local.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* From <linux/mman.h> of Linux 6.5 and later; the number is the same on all architectures. */
#ifndef __NR_cachestat
#define __NR_cachestat 451
#endif
struct cache_range {
    uint64_t offset, bytes;
};
struct cache_pages {
    uint64_t cached, dirty, writeback, evicted, recently_evicted;
};

int page_cache_bytes(int fd, uint64_t offset, uint64_t bytes, uint64_t *ret_cached_bytes)
{
    struct cache_range range = {.offset = offset, .bytes = bytes};
    struct cache_pages pages = {0};
    if (syscall(__NR_cachestat, fd, &range, &pages, 0))
        return -errno;
    *ret_cached_bytes = pages.cached * (uint64_t)sysconf(_SC_PAGESIZE);
    return 0;
}

int page_cache_drop(const char *path, struct err *err)
{
    int status = local_path(path, &path, err);
    if (status)
        return status;
    int fd = LOCAL_RETRY(open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
    if (fd < 0)
        return local_error(err, -errno, path, "could not open the file");
    status = LOCAL_RETRY(fdatasync(fd)) ? -errno : -posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    close(fd);
    return status ? local_error(err, status, path, "could not drop the file from the page cache")
                  : 0;
}
