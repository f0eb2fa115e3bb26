/*
 * file_transfer — splits a request into system calls, which use or bypass the page cache, and
 * interprets their results. Internal to io/; shared by all engines.
 *
 *     file_transfer_begin(&transfer, request, cache);
 *     do {
 *         call = file_transfer_next(&transfer);
 *         // or pwrite: -errno or bytes
 *         result = pread(call.fd, call.data, call.bytes, call.offset);
 *     // then request->result is set
 *     } while ((progress = file_transfer_advance(&transfer, result)) != FILE_DONE);
 *
 * With O_DIRECT, whole blocks of IO_ALIGN_BYTES move between disk and the caller's memory without a
 * copy:
 *
 *     file       |........xxxx|xxxxxxxxxxxx|xxxxx.......|    x: requested bytes
 *     memory     |--head--xxxx|xxxxxxxxxxxx|xxxxx--tail-|    -: may be overwritten (IO_PADDED)
 *
 * Everything else goes through the page cache: unaligned memory, mostly cached files, file systems
 * without O_DIRECT, and the rest of a request after a call that moved no whole block (at the file's
 * end, or if O_DIRECT is rejected). If a file cannot be opened with O_DIRECT, IO_NOREUSE reads drop
 * their bytes from the page cache, and kernel read-ahead is off. After a large write to the page
 * cache, the kernel is asked to start writing to disk.
 *
 * Threads: a transfer has one owner; any thread may open a file's direct descriptor.
 */
#ifndef MILLRACE_IO_ENGINES_FILE_TRANSFER_H
#define MILLRACE_IO_ENGINES_FILE_TRANSFER_H

#include "io/local/file_local.h"

/* Owner thread. */
struct file_transfer {
    struct io_request *request;
    size_t moved_bytes; /* bytes of the request */
    int direct_fd;      /* -1: through the page cache */
    size_t head_bytes;  /* last call: bytes before the requested ones */
    size_t call_bytes;  /* last call */
};

struct file_call {
    int fd;
    void *data;
    size_t bytes; /* at most FILE_CALL_BYTES_MAX */
    off_t offset;
};

enum { FILE_CALL_BYTES_MAX = 1 << 30 }; /* Linux moves less than 2^31 per call */

enum file_progress {
    FILE_CONTINUE,    /* make the next call */
    FILE_RETRY_LATER, /* retry after FILE_RETRY_NS: the kernel lacked resources */
    FILE_DONE,
};
enum { FILE_RETRY_NS = 1000000 };

/* FILE_DONE: nothing to move, or an invalid byte range (-EINVAL). */
enum file_progress file_transfer_begin(struct file_transfer *transfer, struct io_request *request,
                                       enum io_cache cache);
struct file_call file_transfer_next(struct file_transfer *transfer);
/* result: bytes moved by the call, or -errno. */
enum file_progress file_transfer_advance(struct file_transfer *transfer, ssize_t result);

/* See direct_align in io.h; cache: the queue's setting. */
unsigned file_direct_align(struct io_file *file, enum io_cache cache);
void file_direct_close(struct io_file *file);

#endif
