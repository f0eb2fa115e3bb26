/*
 * file_transfer — see file_transfer.h.
 */
#include "io/engines/file_transfer.h"

#include "io/local/page_cache.h"

#include "base/os/open_files.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* Values of io_file.direct other than descriptor + 1. */
enum { WRITEBACK_BYTES_MIN = 256 << 10 /* for less, a system call is not worth it */ };

enum {
    DIRECT_UNKNOWN = 0,
    DIRECT_NONE = -1,    /* transfers use the page cache and keep their bytes there */
    DIRECT_DROPPED = -2, /* like DIRECT_NONE, but IO_NOREUSE reads drop their bytes */
};

/* Whether at least half of the file's first half is in the page cache. Ignores the rest because
 * opening may read its end. False if unknown. */
static bool is_cached(const struct io_file *file)
{
    uint64_t half = file->size_bytes / 2 + 1, cached;
    return page_cache_bytes(file->fd, 0, half, &cached) == 0 && cached >= half / 2;
}

/* The memory alignment for transfers of IO_ALIGN_BYTES blocks; IO_ALIGN_BYTES if the file system
 * does not report it (before Linux 6.1). 0: such blocks are not supported. */
static unsigned query_align(int fd)
{
#ifdef STATX_DIOALIGN
    struct statx info;
    if (statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &info) || !(info.stx_mask & STATX_DIOALIGN))
        return IO_ALIGN_BYTES;
    if (info.stx_dio_offset_align > 0 && IO_ALIGN_BYTES % info.stx_dio_offset_align == 0 &&
        info.stx_dio_mem_align > 0 && IO_ALIGN_BYTES % info.stx_dio_mem_align == 0)
        return info.stx_dio_mem_align;
    return 0;
#else
    (void)fd;
    return IO_ALIGN_BYTES;
#endif
}

/* Reopens the open file, not its path, which may now name another file. Returns -1 on failure, and
 * for files opened for reading near the process's descriptor limit, because there may be thousands
 * of them. */
static int open_direct(struct io_file *file)
{
    char self[64];
    unsigned align = query_align(file->fd);
    if (align == 0)
        return -1;
    /* Must be set before direct. */
    atomic_store_explicit(&file->direct_align, align, memory_order_relaxed);
    snprintf(self, sizeof self, "/proc/self/fd/%d", file->fd);
    int fd = LOCAL_RETRY(
        open(self, (file->transaction ? O_RDWR : O_RDONLY) | O_DIRECT | O_CLOEXEC | O_NOCTTY));
    if (fd < 0 || file->transaction || open_files_is_within(OPEN_FILES_SEVEN_EIGHTHS, fd))
        return fd;
    close(fd);
    return -1;
}

static int find_direct_state(struct io_file *file, enum io_cache cache)
{
    bool avoids_cache = cache == IO_CACHE_AUTO && !file->transaction;
    if (avoids_cache && is_cached(file))
        return DIRECT_NONE;
    int fd = open_direct(file);
    if (fd >= 0)
        return fd + 1;
    if (!avoids_cache)
        return DIRECT_NONE;
    /* Bytes that the kernel reads ahead would never be dropped. */
    posix_fadvise(file->fd, 0, 0, POSIX_FADV_RANDOM);
    return DIRECT_DROPPED;
}

static int direct_fd(struct io_file *file, enum io_cache cache)
{
    int known = atomic_load_explicit(&file->direct, memory_order_acquire);
    if (known == DIRECT_UNKNOWN) {
        int found = find_direct_state(file, cache);
        if (atomic_compare_exchange_strong(&file->direct, &known, found))
            known = found;
        else if (found > 0) /* another thread was first */
            close(found - 1);
    }
    return known > 0 ? known - 1 : -1;
}

unsigned file_direct_align(struct io_file *file, enum io_cache cache)
{
    if (cache == IO_CACHE_ALL || direct_fd(file, cache) < 0)
        return 0;
    return atomic_load_explicit(&file->direct_align, memory_order_relaxed);
}

void file_direct_close(struct io_file *file)
{
    int known = atomic_load(&file->direct);
    if (known > 0)
        close(known - 1);
}

/* Whether whole blocks can move in place, with memory aligned to align. */
static bool is_block_aligned(const struct io_request *request, unsigned align)
{
    uintptr_t at = (uintptr_t)request->data;
    if (request->kind == IO_READ && request->flags & IO_PADDED)
        return at % IO_ALIGN_BYTES == request->offset % IO_ALIGN_BYTES;
    return at % align == 0 && request->offset % IO_ALIGN_BYTES == 0 &&
           request->bytes % IO_ALIGN_BYTES == 0;
}

enum file_progress file_transfer_begin(struct file_transfer *transfer, struct io_request *request,
                                       enum io_cache cache)
{
    *transfer = (struct file_transfer){.request = request, .direct_fd = -1};
    if (request->bytes > SSIZE_MAX || request->offset > (uint64_t)INT64_MAX - request->bytes) {
        request->result = -EINVAL;
        return FILE_DONE;
    }
    if (request->bytes == 0) {
        request->result = 0;
        return FILE_DONE;
    }
    bool may_bypass =
        cache == IO_CACHE_NONE || (cache == IO_CACHE_AUTO && request->flags & IO_NOREUSE);
    if (may_bypass && is_block_aligned(request, 1)) {
        unsigned align = file_direct_align(request->file, cache);
        if (align > 0 && is_block_aligned(request, align))
            transfer->direct_fd = direct_fd(request->file, cache);
    }
    return FILE_CONTINUE;
}

struct file_call file_transfer_next(struct file_transfer *transfer)
{
    const struct io_request *request = transfer->request;
    uint64_t offset = request->offset + transfer->moved_bytes;
    size_t bytes = request->bytes - transfer->moved_bytes;
    bool is_direct = transfer->direct_fd >= 0;
    transfer->head_bytes = is_direct ? offset % IO_ALIGN_BYTES : 0;
    if (bytes > FILE_CALL_BYTES_MAX - IO_ALIGN_BYTES)
        bytes = FILE_CALL_BYTES_MAX - IO_ALIGN_BYTES;
    if (is_direct)
        bytes =
            (transfer->head_bytes + bytes + IO_ALIGN_BYTES - 1) / IO_ALIGN_BYTES * IO_ALIGN_BYTES;
    transfer->call_bytes = bytes;
    return (struct file_call){.fd = is_direct ? transfer->direct_fd : request->file->fd,
                              .data = (char *)request->data + transfer->moved_bytes -
                                      transfer->head_bytes,
                              .bytes = bytes,
                              .offset = (off_t)(offset - transfer->head_bytes)};
}

/* Also drops other bytes in the first and last blocks; they are read again when needed. */
static void drop_cached_blocks(const struct file_transfer *transfer)
{
    const struct io_request *request = transfer->request;
    uint64_t head = request->offset % IO_ALIGN_BYTES;
    uint64_t bytes =
        (head + transfer->moved_bytes + IO_ALIGN_BYTES - 1) / IO_ALIGN_BYTES * IO_ALIGN_BYTES;
    posix_fadvise(request->file->fd, (off_t)(request->offset - head), (off_t)bytes,
                  POSIX_FADV_DONTNEED);
}

static bool drops_cache(const struct io_request *request)
{
    return request->kind == IO_READ && request->flags & IO_NOREUSE &&
           atomic_load_explicit(&request->file->direct, memory_order_relaxed) == DIRECT_DROPPED;
}

/* Outputs are made durable soon. The disk then writes while the caller computes, instead of during
 * the fsync. A failure has no effect: the fsync reports write errors. */
static void start_writeback(const struct file_transfer *transfer)
{
    const struct io_request *request = transfer->request;
    if (transfer->direct_fd < 0)
        sync_file_range(request->file->fd, (off_t)request->offset, (off_t)request->bytes,
                        SYNC_FILE_RANGE_WRITE);
}

static enum file_progress finish(struct file_transfer *transfer, ssize_t result)
{
    if (transfer->moved_bytes > 0 && drops_cache(transfer->request))
        drop_cached_blocks(transfer);
    if (result >= WRITEBACK_BYTES_MIN && transfer->request->kind == IO_WRITE)
        start_writeback(transfer);
    transfer->request->result = result;
    return FILE_DONE;
}

enum file_progress file_transfer_advance(struct file_transfer *transfer, ssize_t result)
{
    const struct io_request *request = transfer->request;
    bool was_direct = transfer->direct_fd >= 0;
    if (result == -EINTR)
        return FILE_CONTINUE;
    if (result == -EAGAIN)
        return FILE_RETRY_LATER;
    /* At the file's end, or if O_DIRECT fails, continue through the page cache. */
    if (was_direct && (result == -EINVAL || (result >= 0 && (size_t)result < transfer->call_bytes &&
                                             result % IO_ALIGN_BYTES != 0)))
        transfer->direct_fd = -1;
    if (was_direct && result == -EINVAL)
        return FILE_CONTINUE;
    if (result < 0)
        return finish(transfer, local_map_errno((int)result));
    size_t useful =
        (size_t)result > transfer->head_bytes ? (size_t)result - transfer->head_bytes : 0;
    size_t left = request->bytes - transfer->moved_bytes;
    transfer->moved_bytes += useful < left ? useful : left;
    if (transfer->moved_bytes == request->bytes)
        return finish(transfer, (ssize_t)transfer->moved_bytes);
    if (useful > 0)
        return FILE_CONTINUE;
    if (was_direct) {
        transfer->direct_fd = -1;
        return FILE_CONTINUE;
    }
    /* a write that moves no bytes would otherwise be repeated forever */
    return finish(transfer, request->kind == IO_WRITE ? -EIO : (ssize_t)transfer->moved_bytes);
}
