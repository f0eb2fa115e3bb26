/*
 * recorder_calls — see recorder.h: the wrappers that the linker's --wrap substitutes.
 */
#include "tests/crash/recorder_internal.h"

#include "io/engines/file_transfer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define REAL(name, ...) __real_##name(__VA_ARGS__)
#define DECLARE(type, name, ...)                                                                   \
    type __real_##name(__VA_ARGS__);                                                               \
    type __wrap_##name(__VA_ARGS__);                                                               \
    type __wrap_##name(__VA_ARGS__)

static int failed(void)
{
    errno = EIO;
    return -1;
}

/* ---- Names. ---- */

/* Begins a call on names. Returns false if the call must fail; the lock is then not held. */
static bool begin_call(void)
{
    if (recorder_before_call(NULL, NULL) == CALL_FAILS)
        return false;
    recorder_lock();
    return true;
}

/* Preserves errno. */
static void end_call(void)
{
    int code = errno;
    recorder_unlock();
    errno = code;
}

int __real_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...)
{
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = flags & O_CREAT ? va_arg(arguments, mode_t) : 0;
    va_end(arguments);
    if (!(flags & O_CREAT) || (!(flags & O_EXCL) && access(path, F_OK) == 0))
        return REAL(open64, path, flags, mode);
    if (!begin_call())
        return failed();
    bool is_new = access(path, F_OK) != 0;
    int fd = REAL(open64, path, flags, mode);
    if (fd >= 0 && is_new && recorder_is_on())
        recorder_new_node(path, false);
    end_call();
    return fd;
}

DECLARE(int, mkdir, const char *path, mode_t mode)
{
    if (!begin_call())
        return failed();
    int result = REAL(mkdir, path, mode);
    if (result == 0 && recorder_is_on())
        recorder_new_node(path, true);
    end_call();
    return result;
}

DECLARE(int, link, const char *from, const char *to)
{
    if (!begin_call())
        return failed();
    int result = REAL(link, from, to);
    if (result == 0 && recorder_is_on())
        recorder_add_name_op(HISTORY_LINK, recorder_find_parent(to), to, NULL,
                             recorder_find_path(to));
    end_call();
    return result;
}

DECLARE(int, unlink, const char *path)
{
    if (!begin_call())
        return failed();
    int result = REAL(unlink, path);
    if (result == 0 && recorder_is_on())
        recorder_add_name_op(HISTORY_UNLINK, recorder_find_parent(path), path, NULL, 0);
    end_call();
    return result;
}

DECLARE(int, rmdir, const char *path)
{
    if (!begin_call())
        return failed();
    int result = REAL(rmdir, path);
    if (result == 0 && recorder_is_on())
        recorder_add_name_op(HISTORY_UNLINK, recorder_find_parent(path), path, NULL, 0);
    end_call();
    return result;
}

DECLARE(int, unlinkat, int fd, const char *path, int flags)
{
    struct stat info;
    if (!begin_call())
        return failed();
    int result = REAL(unlinkat, fd, path, flags);
    if (result == 0 && recorder_is_on()) {
        bool is_below = fd != AT_FDCWD && fstat(fd, &info) == 0;
        recorder_add_name_op(HISTORY_UNLINK,
                             is_below ? recorder_find_node(&info) : recorder_find_parent(path),
                             path, NULL, 0);
    }
    end_call();
    return result;
}

/* The manifest whose fsync is delayed until after the rename, for BUG_RENAME_EARLY; -1: none. */
static int delayed_fd = -1, delayed_opener;

static void sync_delayed(void)
{
    struct stat info;
    if (delayed_fd < 0 || fstat(delayed_fd, &info))
        return;
    recorder_finish(recorder_start((struct history_op){.kind = HISTORY_SYNC,
                                                       .node = recorder_find_node(&info),
                                                       .opener = (uint32_t)delayed_opener}),
                    0);
    close(delayed_fd);
    delayed_fd = -1;
}

static void record_rename(enum history_kind kind, const char *from, const char *to)
{
    uint32_t folder = recorder_find_parent(from);
    if (folder != recorder_find_parent(to))
        abort(); /* our code never renames between folders */
    recorder_add_name_op(kind, folder, from, to, 0);
    sync_delayed();
}

DECLARE(int, rename, const char *from, const char *to)
{
    if (!begin_call())
        return failed();
    int result = REAL(rename, from, to);
    if (result == 0 && recorder_is_on())
        record_rename(HISTORY_RENAME, from, to);
    end_call();
    return result;
}

DECLARE(int, renameat2, int from_fd, const char *from, int to_fd, const char *to, unsigned flags)
{
    if (flags && recorder_refuses_rename_flags()) {
        errno = EINVAL;
        return -1;
    }
    if (!begin_call())
        return failed();
    int result = REAL(renameat2, from_fd, from, to_fd, to, flags);
    if (result == 0 && recorder_is_on())
        record_rename(flags & RENAME_EXCHANGE ? HISTORY_EXCHANGE : HISTORY_RENAME, from, to);
    end_call();
    return result;
}

/* ---- Bytes and sizes. ---- */

/* Records the start of a call through fd, which may be a duplicate of descriptor opener; returns
 * the operation's number. */
static uint32_t start_fd_call(int fd, int opener, struct history_op op)
{
    struct stat info;
    uint32_t number = HISTORY_NEVER;
    recorder_lock();
    if (recorder_is_on() && fstat(fd, &info) == 0) {
        op.node = recorder_find_node(&info);
        op.opener = (uint32_t)opener;
        number = recorder_start(op);
    }
    recorder_unlock();
    return number;
}

static void finish(uint32_t number, uint64_t bytes)
{
    int code = errno;
    recorder_lock();
    recorder_finish(number, bytes);
    recorder_unlock();
    errno = code;
}

/* A failed call is never ended: it may have had any effect. */
static void finish_if_succeeded(int result, uint32_t number)
{
    if (result == 0)
        finish(number, 0);
}

DECLARE(int, fallocate64, int fd, int mode, off_t offset, off_t bytes)
{
    if (recorder_before_call(NULL, NULL) == CALL_FAILS)
        return failed();
    uint32_t number = start_fd_call(
        fd, fd, (struct history_op){.kind = HISTORY_GROW, .bytes = (uint64_t)(offset + bytes)});
    int result = REAL(fallocate64, fd, mode, offset, bytes);
    finish_if_succeeded(result, number);
    return result;
}

DECLARE(int, ftruncate64, int fd, off_t bytes)
{
    if (recorder_before_call(NULL, NULL) == CALL_FAILS)
        return failed();
    uint32_t number =
        start_fd_call(fd, fd, (struct history_op){.kind = HISTORY_SIZE, .bytes = (uint64_t)bytes});
    int result = REAL(ftruncate64, fd, bytes);
    finish_if_succeeded(result, number);
    return result;
}

static const char *read_fd_name(int fd, char path[IO_PATH_BYTES_MAX])
{
    char link_path[64];
    snprintf(link_path, sizeof link_path, "/proc/self/fd/%d", fd);
    ssize_t bytes = readlink(link_path, path, IO_PATH_BYTES_MAX - 1);
    path[bytes > 0 ? bytes : 0] = '\0';
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static atomic_uint shared_file_syncs_count;

/* Whether the seeded bug omits or delays this fsync. */
static bool must_skip_sync(int fd)
{
    char path[IO_PATH_BYTES_MAX];
    struct stat info;
    if (recorder_has_bug(BUG_NONE) || fstat(fd, &info))
        return false;
    const char *name = read_fd_name(fd, path);
    bool is_manifest = strcmp(name, "manifest.json") == 0;
    bool is_place = strncmp(name, IO_TEMPORARY_PREFIX, strlen(IO_TEMPORARY_PREFIX)) == 0;
    if (S_ISDIR(info.st_mode))
        return recorder_has_bug(is_place ? BUG_STAGING_NOT_SYNCED : BUG_FOLDER_NOT_SYNCED);
    if (strcmp(name, "model.safetensors") == 0 && recorder_has_bug(BUG_SHARED_FILE_NOT_SYNCED))
        return atomic_fetch_add(&shared_file_syncs_count, 1) % 2 == 1;
    if (!is_manifest)
        return recorder_has_bug(BUG_DATA_NOT_SYNCED);
    if (recorder_has_bug(BUG_RENAME_EARLY)) {
        recorder_lock();
        delayed_fd = dup(fd);
        delayed_opener = fd;
        recorder_unlock();
        return true;
    }
    return recorder_has_bug(BUG_MANIFEST_NOT_SYNCED);
}

DECLARE(int, fsync, int fd)
{
    if (must_skip_sync(fd))
        return 0;
    if (recorder_before_call(NULL, NULL) == CALL_FAILS)
        return failed();
    uint32_t number = start_fd_call(fd, fd, (struct history_op){.kind = HISTORY_SYNC});
    int result = recorder_skips_syncs() ? 0 : REAL(fsync, fd);
    finish_if_succeeded(result, number);
    return result;
}

struct half_write {
    int fd;
    const void *data;
    size_t bytes;
    off_t offset;
};

ssize_t __real_pwrite64(int fd, const void *data, size_t bytes, off_t offset);

static void write_half(void *context)
{
    const struct half_write *half = context;
    if (REAL(pwrite64, half->fd, half->data, half->bytes / 2, half->offset) < 0)
        abort();
}

static uint32_t start_write(int fd, int opener, const void *data, size_t bytes, off_t offset)
{
    unsigned char *copy = malloc(bytes + 1);
    if (!copy)
        abort();
    memcpy(copy, data, bytes);
    uint32_t number = start_fd_call(
        fd, opener,
        (struct history_op){
            .kind = HISTORY_WRITE, .offset = (uint64_t)offset, .bytes = bytes, .data = copy});
    if (number == HISTORY_NEVER)
        free(copy);
    return number;
}

/* The writes of requests to any engine, from the request's submission to its completion. */
enum { TRANSFERS_MAX = 256 };
static struct {
    const struct file_transfer *transfer;
    uint32_t number;
} in_flight[TRANSFERS_MAX];
/* The write that this thread's pwrite for a request is about to do, already recorded. */
static _Thread_local const void *pwrite_data;

static void keep_operation(const struct file_transfer *transfer, uint32_t number)
{
    unsigned i = 0;
    recorder_lock();
    while (i < TRANSFERS_MAX && in_flight[i].transfer)
        i++;
    if (i == TRANSFERS_MAX)
        abort();
    in_flight[i].transfer = transfer;
    in_flight[i].number = number;
    recorder_unlock();
}

DECLARE(struct file_call, file_transfer_next, struct file_transfer *transfer)
{
    struct file_call call = REAL(file_transfer_next, transfer);
    if (transfer->request->kind != IO_WRITE)
        return call;
    struct half_write half = {transfer->request->file->fd, call.data, call.bytes, call.offset};
    if (recorder_before_call(write_half, &half) == CALL_FAILS) {
        call.fd = -1;
        return call;
    }
    pwrite_data = call.data;
    uint32_t number = start_write(call.fd, half.fd, call.data, call.bytes, call.offset);
    if (number != HISTORY_NEVER)
        keep_operation(transfer, number);
    return call;
}

DECLARE(enum file_progress, file_transfer_advance, struct file_transfer *transfer, ssize_t result)
{
    recorder_lock();
    for (unsigned i = 0; i < TRANSFERS_MAX; i++) {
        if (in_flight[i].transfer != transfer)
            continue;
        if (result >= 0)
            recorder_finish(in_flight[i].number, (uint64_t)result);
        in_flight[i].transfer = NULL;
    }
    recorder_unlock();
    return REAL(file_transfer_advance, transfer, result);
}

DECLARE(ssize_t, pwrite64, int fd, const void *data, size_t bytes, off_t offset)
{
    if (pwrite_data == data)
        return REAL(pwrite64, fd, data, bytes, offset);
    struct half_write half = {fd, data, bytes, offset};
    if (recorder_before_call(write_half, &half) == CALL_FAILS)
        return failed();
    uint32_t number = start_write(fd, fd, data, bytes, offset);
    ssize_t result = REAL(pwrite64, fd, data, bytes, offset);
    if (result >= 0)
        finish(number, (uint64_t)result);
    return result;
}

/* ---- Locks. ---- */

int __real_fcntl64(int fd, int command, ...);
int __wrap_fcntl64(int fd, int command, ...);
int __wrap_fcntl64(int fd, int command, ...)
{
    va_list arguments;
    va_start(arguments, command);
    void *argument = va_arg(arguments, void *);
    va_end(arguments);
    if (command == F_OFD_SETLK && recorder_has_bug(BUG_NO_LOCK))
        return 0;
    return REAL(fcntl64, fd, command, argument);
}
