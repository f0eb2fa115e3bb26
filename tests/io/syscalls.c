/*
 * syscalls — see syscalls.h.
 */
#include "tests/io/syscalls.h"

#include "io/io.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#ifdef TEST_HAS_URING
#include <liburing.h>
#endif

enum { TEXT_BYTES_MAX = 1 << 16, READERS_MAX = 64 };

static struct {
    pthread_mutex_t mutex; /* guards everything but the atomics */
    bool recording;
    char folder[IO_PATH_BYTES_MAX];
    char text[TEXT_BYTES_MAX];
    unsigned kill_at;
    char fail_name[20];
    bool fail_once;
    unsigned fail_nth, failed_count;
    int fail_code;
    unsigned moves;
    pid_t readers[READERS_MAX];
    unsigned readers_count;
    atomic_bool shorten, hold, refuse_rename_flags, break_rings;
    atomic_uint held_count, fixed_count;
    void (*_Atomic at_ring_exit)(void);
} script = {.mutex = PTHREAD_MUTEX_INITIALIZER};

void syscalls_reset(void)
{
    pthread_mutex_lock(&script.mutex);
    script.recording = false;
    script.text[0] = '\0';
    script.kill_at = script.fail_nth = script.failed_count = script.moves = script.readers_count =
        0;
    script.fail_name[0] = '\0';
    pthread_mutex_unlock(&script.mutex);
    atomic_store(&script.shorten, false);
    atomic_store(&script.hold, false);
    atomic_store(&script.refuse_rename_flags, false);
    atomic_store(&script.break_rings, false);
    atomic_store(&script.fixed_count, 0);
    atomic_store(&script.at_ring_exit, NULL);
}

void syscalls_record(const char *folder)
{
    pthread_mutex_lock(&script.mutex);
    snprintf(script.folder, sizeof script.folder, "%s", folder);
    script.text[0] = '\0';
    script.recording = true;
    pthread_mutex_unlock(&script.mutex);
}

const char *syscalls_recorded(void)
{
    return script.text;
}

void syscalls_kill_at(unsigned n)
{
    script.kill_at = n;
}

void syscalls_fail(const char *name, unsigned nth, int code)
{
    pthread_mutex_lock(&script.mutex);
    snprintf(script.fail_name, sizeof script.fail_name, "%s", name);
    script.fail_nth = nth;
    script.fail_once = nth > 0;
    script.fail_code = code;
    script.failed_count = 0;
    pthread_mutex_unlock(&script.mutex);
}

unsigned syscalls_failed_count(void)
{
    return script.failed_count;
}

void syscalls_refuse_rename_flags(void)
{
    atomic_store(&script.refuse_rename_flags, true);
}

void syscalls_shorten(void)
{
    atomic_store(&script.shorten, true);
}

void syscalls_hold_reads(bool hold)
{
    atomic_store(&script.hold, hold);
}

unsigned syscalls_held_count(void)
{
    return atomic_load(&script.held_count);
}

void syscalls_break_rings(void)
{
    atomic_store(&script.break_rings, true);
}

void syscalls_at_ring_exit(void (*call)(void))
{
    atomic_store(&script.at_ring_exit, call);
}

unsigned syscalls_fixed_count(void)
{
    return atomic_load(&script.fixed_count);
}

unsigned syscalls_reader_count(void)
{
    return script.readers_count;
}

/* Appends the path to the text, relative to the folder, with 16 consecutive hexadecimal digits
 * replaced by NONCE. */
static void add_path(const char *path)
{
    size_t used = strlen(script.text), folder_bytes = strlen(script.folder);
    char *to = script.text + used, *end = script.text + sizeof script.text - 32;
    if (strncmp(path, script.folder, folder_bytes) == 0) {
        path += folder_bytes;
        path += *path == '/';
        if (!*path)
            path = ".";
    }
    while (*path && to < end) {
        if (strspn(path, "0123456789abcdef") == 16) {
            to = stpcpy(to, "NONCE");
            path += 16;
        } else {
            *to++ = *path++;
        }
    }
    *to = '\0';
}

/* Records the call, or kills the process. Returns 0, or the error to fail with. */
static int apply_script(const char *name, bool durable, const char *path, const char *second_path)
{
    int code = 0;
    pthread_mutex_lock(&script.mutex);
    if (durable && script.kill_at > 0 && --script.kill_at == 0)
        kill(getpid(), SIGKILL);
    if (strcmp(script.fail_name, name) == 0 && (!script.fail_once || --script.fail_nth == 0)) {
        code = script.fail_code;
        script.failed_count++;
        if (script.fail_once)
            script.fail_name[0] = '\0';
    }
    if (durable && script.recording) {
        size_t used = strlen(script.text);
        snprintf(script.text + used, sizeof script.text - used, "%s ", name);
        add_path(path);
        if (second_path) {
            strncat(script.text, " -> ", sizeof script.text - strlen(script.text) - 1);
            add_path(second_path);
        }
        strncat(script.text, "\n", sizeof script.text - strlen(script.text) - 1);
    }
    pthread_mutex_unlock(&script.mutex);
    errno = -code;
    return code;
}

static int apply_script_fd(const char *name, int fd)
{
    char link[64], path[IO_PATH_BYTES_MAX] = "";
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t bytes = readlink(link, path, sizeof path - 1);
    path[bytes > 0 ? bytes : 0] = '\0';
    return apply_script(name, true, path, NULL);
}

#define REAL(name, ...) __real_##name(__VA_ARGS__)
#define DECLARE(type, name, ...)                                                                   \
    type __real_##name(__VA_ARGS__);                                                               \
    type __wrap_##name(__VA_ARGS__);                                                               \
    type __wrap_##name(__VA_ARGS__)

int __real_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...)
{
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = flags & O_CREAT ? va_arg(arguments, mode_t) : 0;
    va_end(arguments);
    return flags & O_CREAT && apply_script("create", true, path, NULL)
               ? -1
               : REAL(open64, path, flags, mode);
}

/* On Linux, close releases the descriptor even if it fails. */
DECLARE(int, close, int fd)
{
    int code = apply_script("close", false, "", NULL);
    int result = REAL(close, fd);
    errno = code ? -code : errno;
    return code ? -1 : result;
}

DECLARE(int, mkdir, const char *path, mode_t mode)
{
    return apply_script("mkdir", true, path, NULL) ? -1 : REAL(mkdir, path, mode);
}

DECLARE(int, fallocate64, int fd, int mode, off_t offset, off_t bytes)
{
    return apply_script_fd("fallocate", fd) ? -1 : REAL(fallocate64, fd, mode, offset, bytes);
}

DECLARE(int, ftruncate64, int fd, off_t bytes)
{
    return apply_script_fd("ftruncate", fd) ? -1 : REAL(ftruncate64, fd, bytes);
}

DECLARE(int, fsync, int fd)
{
    return apply_script_fd("fsync", fd) ? -1 : REAL(fsync, fd);
}

DECLARE(int, rename, const char *from, const char *to)
{
    return apply_script("rename", true, from, to) ? -1 : REAL(rename, from, to);
}

DECLARE(int, renameat2, int from_fd, const char *from, int to_fd, const char *to, unsigned flags)
{
    if (apply_script("renameat2", true, from, to))
        return -1;
    if (flags && atomic_load(&script.refuse_rename_flags)) {
        errno = EINVAL;
        return -1;
    }
    return REAL(renameat2, from_fd, from, to_fd, to, flags);
}

DECLARE(int, link, const char *from, const char *to)
{
    return apply_script("link", true, from, to) ? -1 : REAL(link, from, to);
}

DECLARE(int, unlink, const char *path)
{
    return apply_script("unlink", true, path, NULL) ? -1 : REAL(unlink, path);
}

DECLARE(int, unlinkat, int fd, const char *path, int flags)
{
    return apply_script("unlinkat", true, path, NULL) ? -1 : REAL(unlinkat, fd, path, flags);
}

DECLARE(int, rmdir, const char *path)
{
    return apply_script("rmdir", true, path, NULL) ? -1 : REAL(rmdir, path);
}

/* In rotation: a few bytes, EINTR, all but one, EAGAIN. Returns 0 for a failure, otherwise the
 * number of bytes to transfer. */
static size_t shorten_call(size_t bytes)
{
    if (!atomic_load(&script.shorten) || bytes == 0)
        return bytes;
    pthread_mutex_lock(&script.mutex);
    unsigned turn = script.moves++ % 4;
    pthread_mutex_unlock(&script.mutex);
    errno = turn == 1 ? EINTR : EAGAIN;
    return turn % 2 ? 0 : turn == 0 ? (bytes < 7 ? bytes : 7) : bytes > 1 ? bytes - 1 : 1;
}

static void wait_while_held(void)
{
    atomic_fetch_add(&script.held_count, 1);
    while (atomic_load(&script.hold))
        nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
    atomic_fetch_sub(&script.held_count, 1);
}

static void note_reader(void)
{
    pthread_mutex_lock(&script.mutex);
    unsigned i = 0;
    while (i < script.readers_count && script.readers[i] != gettid())
        i++;
    if (i == script.readers_count && i < READERS_MAX)
        script.readers[script.readers_count++] = gettid();
    pthread_mutex_unlock(&script.mutex);
}

DECLARE(ssize_t, pread64, int fd, void *data, size_t bytes, off_t offset)
{
    note_reader();
    if (atomic_load(&script.hold))
        wait_while_held();
    if (apply_script("pread", false, "", NULL))
        return -1;
    size_t part = shorten_call(bytes);
    return part == 0 && bytes > 0 ? -1 : REAL(pread64, fd, data, part, offset);
}

DECLARE(ssize_t, pwrite64, int fd, const void *data, size_t bytes, off_t offset)
{
    if (apply_script_fd("pwrite", fd))
        return -1;
    size_t part = shorten_call(bytes);
    return part == 0 && bytes > 0 ? -1 : REAL(pwrite64, fd, data, part, offset);
}

/* ---- The same for operations submitted to a ring. ---- */

#ifdef TEST_HAS_URING
enum { NOP_INJECT_RESULT = 1 }; /* IORING_NOP_INJECT_RESULT, Linux 6.10 */

/* The completion gets this result, and no data is transferred. */
static void fail_entry(struct io_uring_sqe *entry, int code)
{
    uint64_t mark = entry->user_data;
    io_uring_prep_nop(entry);
    entry->rw_flags = NOP_INJECT_RESULT;
    entry->len = (unsigned)code;
    entry->user_data = mark;
}

static void apply_script_entry(struct io_uring_sqe *entry)
{
    bool is_read = entry->opcode == IORING_OP_READ || entry->opcode == IORING_OP_READ_FIXED;
    bool is_write = entry->opcode == IORING_OP_WRITE || entry->opcode == IORING_OP_WRITE_FIXED;
    if (!is_read && !is_write)
        return;
    if (entry->opcode == IORING_OP_READ_FIXED || entry->opcode == IORING_OP_WRITE_FIXED)
        atomic_fetch_add(&script.fixed_count, 1);
    int code =
        is_read ? apply_script("pread", false, "", NULL) : apply_script_fd("pwrite", entry->fd);
    size_t part = code ? 0 : shorten_call(entry->len);
    if (part > 0)
        entry->len = (unsigned)part;
    else
        fail_entry(entry, -errno);
}

static void apply_script_entries(const struct io_uring *ring)
{
    for (unsigned at = ring->sq.sqe_head; at != ring->sq.sqe_tail; at++)
        apply_script_entry(&ring->sq.sqes[at & *ring->sq.kring_mask]);
}

DECLARE(int, io_uring_submit, struct io_uring *ring)
{
    if (atomic_load(&script.hold))
        return 0; /* entries stay in the ring */
    apply_script_entries(ring);
    return REAL(io_uring_submit, ring);
}

DECLARE(int, io_uring_submit_and_wait_timeout, struct io_uring *ring, struct io_uring_cqe **first,
        unsigned count_min, struct __kernel_timespec *timeout, sigset_t *mask)
{
    int64_t left_ns = timeout ? timeout->tv_sec * 1000000000 + timeout->tv_nsec : 0;
    while (atomic_load(&script.hold)) {
        nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
        left_ns -= 200000;
        if (timeout && left_ns <= 0)
            return -ETIME;
    }
    if (atomic_load(&script.break_rings))
        return -EBADF;
    apply_script_entries(ring);
    return REAL(io_uring_submit_and_wait_timeout, ring, first, count_min, timeout, mask);
}

DECLARE(void, io_uring_queue_exit, struct io_uring *ring)
{
    void (*call)(void) = atomic_load(&script.at_ring_exit);
    if (call)
        call();
    REAL(io_uring_queue_exit, ring);
}

bool syscalls_can_fail_rings(void)
{
    struct io_uring ring;
    struct io_uring_cqe *completion;
    if (io_uring_queue_init(1, &ring, 0))
        return false;
    fail_entry(io_uring_get_sqe(&ring), -EIO);
    bool can = REAL(io_uring_submit, &ring) == 1 && io_uring_wait_cqe(&ring, &completion) == 0 &&
               completion->res == -EIO;
    io_uring_queue_exit(&ring);
    return can;
}
bool syscalls_can_cancel_in_rings(void)
{
    struct io_uring ring;
    struct io_uring_sync_cancel_reg all = {
        .fd = -1, .flags = IORING_ASYNC_CANCEL_ALL | IORING_ASYNC_CANCEL_ANY};
    if (io_uring_queue_init(1, &ring, 0))
        return false;
    int status = io_uring_register_sync_cancel(&ring, &all);
    io_uring_queue_exit(&ring);
    return status != -EINVAL;
}
#else
bool syscalls_can_fail_rings(void)
{
    return false;
}

bool syscalls_can_cancel_in_rings(void)
{
    return false;
}
#endif
