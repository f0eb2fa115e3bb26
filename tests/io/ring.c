/*
 * ring — behavior specific to the io_uring engine: cancelling operations that the kernel has begun,
 * registered memory, broken rings.
 *
 * A read of an empty pipe is an operation that the kernel has begun and cannot complete.
 */
#include "cli/doctor/io_probe.h"
#include "io/file_util.h"
#include "io/local/file_local.h"
#include "tests/io/syscalls.h"
#include "tests/support/child.h"
#include "tests/support/engines.h"
#include "tests/support/scratch.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { DEPTH = 8, MEMORY_BYTES = 36 << 20, FILE_BYTES = 300000 };

static struct io_queue *queue;
static struct io_file pipe_file; /* the read end; pipe_end is the write end */
static int pipe_end;

static int set_up(void **state)
{
    struct err err = {0};
    int ends[2];
    syscalls_reset();
    scratch_set_up(state);
    assert_ok(io->ops->queue_open(io, DEPTH, &queue, &err), &err);
    assert_int_equal(pipe(ends), 0);
    pipe_file.fd = ends[0];
    pipe_end = ends[1];
    return 0;
}

static int tear_down(void **state)
{
    syscalls_reset();
    io->ops->queue_close(queue);
    close(pipe_file.fd);
    close(pipe_end);
    return scratch_tear_down(state);
}

static struct io_request pipe_read(void *data)
{
    return (struct io_request){.kind = IO_READ, .file = &pipe_file, .data = data, .bytes = 8};
}

static void submit(struct io_request *request)
{
    assert_int_equal(io->ops->submit(queue, &request, 1), 1);
}

static void a_short_read_is_continued(void **state)
{
    (void)state;
    unsigned char data[8];
    struct io_request request = pipe_read(data), *done;
    submit(&request);
    assert_int_equal(write(pipe_end, "abc", 3), 3);
    assert_int_equal(io->ops->reap(queue, &done, 1, 1, 20), 0);
    assert_int_equal(write(pipe_end, "defgh", 5), 5);
    assert_int_equal(io->ops->reap(queue, &done, 1, 1, IO_FOREVER), 1);
    assert_int_equal(request.result, 8);
    assert_memory_equal(data, "abcdefgh", 8);
}

static void requests_waiting_in_the_kernel_are_cancelled(void **state)
{
    (void)state;
    unsigned char data[2][8];
    struct io_request requests[2] = {pipe_read(data[0]), pipe_read(data[1])}, *done[2];
    submit(&requests[0]);
    submit(&requests[1]);
    io->ops->cancel(queue, &requests[0]);
    assert_int_equal(io->ops->reap(queue, done, 2, 1, IO_FOREVER), 1);
    assert_ptr_equal(done[0], &requests[0]);
    assert_int_equal(requests[0].result, -ECANCELED);
    io->ops->cancel(queue, &requests[0]); /* already complete: nothing happens */
    assert_int_equal(write(pipe_end, "12345678", 8), 8);
    assert_int_equal(io->ops->reap(queue, done, 2, 1, IO_FOREVER), 1);
    assert_int_equal(requests[1].result, 8);
}

static void closing_reaps_everything(void **state)
{
    (void)state;
    struct err err = {0};
    struct io_request requests[DEPTH];
    unsigned char *data = malloc((size_t)DEPTH * 8);
    assert_non_null(data);
    for (size_t i = 0; i < DEPTH; i++) {
        requests[i] = pipe_read(data + 8 * i);
        submit(&requests[i]);
    }
    io->ops->queue_close(queue);
    free(data);
    for (size_t i = 0; i < DEPTH; i++)
        assert_int_equal(requests[i].result, -ECANCELED);
    assert_int_equal(write(pipe_end, "12345678", 8), 8); /* no request reads it any more */
    assert_ok(io->ops->queue_open(io, 1, &queue, &err), &err);
}

static unsigned char *make_file(const char *name)
{
    unsigned char *content = malloc(FILE_BYTES);
    assert_non_null(content);
    for (size_t i = 0; i < FILE_BYTES; i++)
        content[i] = (unsigned char)(i * 2654435761u >> 9);
    test_write_file(in_folder(name), content, FILE_BYTES);
    return content;
}

/* Reads the file into many places of the registered memory, within its buffers and across their
 * boundaries. */
static bool reads_match_everywhere(struct io *reading_io, struct io_file *file,
                                   const unsigned char *content, unsigned char *memory)
{
    reading_io->ops->queue_register(queue, memory, MEMORY_BYTES);
    bool right = true;
    for (size_t place = 0; place + FILE_BYTES <= MEMORY_BYTES; place += 250007) {
        right = right && !io_read_exact(queue, reading_io, file, "data", 0, memory + place,
                                        FILE_BYTES, NULL);
        right = right && memcmp(memory + place, content, FILE_BYTES) == 0;
    }
    return right;
}

static void registered_buffers_are_used_by_index(void **state)
{
    (void)state;
    unsigned char *content = make_file("data"),
                  *memory = aligned_alloc(IO_ALIGN_BYTES, MEMORY_BYTES);
    struct io_file *file;
    struct err err = {0};
    assert_non_null(memory);
    assert_ok(io->ops->file_open(io, in_folder("data"), &file, &err), &err);
    assert_true(reads_match_everywhere(io, file, content, memory));
    io->ops->file_close(file);
    if (io_probe_uring_buffers())
        test_skip("RLIMIT_MEMLOCK allows no registered memory here");
    unsigned count = syscalls_fixed_count();
    size_t reads = (MEMORY_BYTES - FILE_BYTES) / 250007 + 1;
    /* all except those that cross from one 16 MiB buffer into the next */
    assert_in_range(count, reads - 4, reads - 2);
    struct io_queue *other;
    assert_ok(io->ops->queue_open(io, 1, &other, &err), &err);
    io->ops->queue_close(queue); /* with memory registered */
    queue = other;
    free(memory);
    free(content);
}

enum { CHILD_SKIPS = 77 };

/* The kernel counts locked memory per user, over all processes: as root, a child process becomes a
 * user without other processes. */
static bool switch_to_new_user(void)
{
    uid_t id = (1u << 20) + (uid_t)getpid();
    return setresuid(id, id, id) == 0;
}

/* Runs the reads in an unprivileged child with this limit on locked memory. Returns 0, or which
 * step failed. uses_buffers: whether any memory should be registered. */
static int child_with_limit(rlim_t bytes, bool uses_buffers, struct io_file *file,
                            const unsigned char *content, unsigned char *memory)
{
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        struct rlimit limit = {.rlim_cur = bytes, .rlim_max = bytes};
        struct io *other;
        if (io_open("file:", NULL, &other, NULL))
            _exit(1);
        if (setrlimit(RLIMIT_MEMLOCK, &limit) || (geteuid() == 0 && !switch_to_new_user()))
            _exit(CHILD_SKIPS);
        /* the thread engine, if the kernel also charges rings to the locked-memory limit */
        if (other->ops->queue_open(other, 1, &queue, NULL))
            _exit(3);
        if (!reads_match_everywhere(other, file, content, memory))
            _exit(4);
        other->ops->queue_close(queue);
        _exit((syscalls_fixed_count() > 0) == uses_buffers ? 0 : 5);
    }
    return child_wait(child);
}

static void reads_work_beyond_the_locked_memory_limit(void **state)
{
    (void)state;
    unsigned char *content = make_file("data"),
                  *memory = aligned_alloc(IO_ALIGN_BYTES, MEMORY_BYTES);
    struct io_file *file;
    struct err err = {0};
    assert_non_null(memory);
    assert_ok(io->ops->file_open(io, in_folder("data"), &file, &err), &err);
    int without = child_with_limit(0, false, file, content, memory);
    int with_little = child_with_limit(1 << 20, false, file, content, memory);
    io->ops->file_close(file);
    free(memory);
    free(content);
    if (without == CHILD_SKIPS)
        test_skip("cannot switch from root to another user here");
    assert_int_equal(without, 0);
    assert_int_equal(with_little, 0);
}

/* The 16 MiB buffers exceed the limit; the last, smaller one does not. */
static void buffers_within_the_locked_memory_limit_are_registered(void **state)
{
    (void)state;
    if (geteuid() != 0)
        test_skip("needs root, to become a user without locked memory");
    unsigned char *content = make_file("data"),
                  *memory = aligned_alloc(IO_ALIGN_BYTES, MEMORY_BYTES);
    struct io_file *file;
    struct err err = {0};
    assert_non_null(memory);
    assert_ok(io->ops->file_open(io, in_folder("data"), &file, &err), &err);
    int status = child_with_limit(8 << 20, true, file, content, memory);
    io->ops->file_close(file);
    free(memory);
    free(content);
    if (status == CHILD_SKIPS)
        test_skip("cannot switch from root to another user here");
    assert_int_equal(status, 0);
}

static void fill_pipe(void)
{
    for (int i = 0; i < DEPTH; i++)
        assert_int_equal(write(pipe_end, "12345678", 8), 8);
}

static void a_broken_ring_releases_everything(void **state)
{
    (void)state;
    if (!syscalls_can_cancel_in_rings())
        test_skip("cancelling a read of a pipe needs Linux 6.0");
    struct err err = {0};
    struct io_request *done, request, others[DEPTH - 1];
    unsigned char data[DEPTH][8], before[DEPTH][8];
    memset(data, 0xC5, sizeof data);
    memset(before, 0xC5, sizeof before);
    for (size_t i = 0; i < DEPTH - 1; i++) {
        others[i] = pipe_read(data[i]);
        submit(&others[i]);
    }
    syscalls_break_rings();
    syscalls_at_ring_exit(fill_pipe); /* no request reads it any more */
    assert_int_equal(io_read_exact(queue, io, &pipe_file, "pipe", 0, data[DEPTH - 1], 8, &err),
                     -EBADF);
    assert_int_equal(err.code, -EBADF);
    assert_memory_equal(data, before, sizeof data);
    unsigned char left[DEPTH][8];
    assert_int_equal(read(pipe_file.fd, left, sizeof left), sizeof left);
    request = pipe_read(&done);
    assert_int_equal(io->ops->submit(queue, (struct io_request *[]){&request}, 1), -EBADF);
    assert_int_equal(io->ops->reap(queue, &done, 1, 1, IO_FOREVER), -EBADF);
    io->ops->cancel(queue, &request);
    syscalls_reset();
    assert_int_equal(io->ops->reap(queue, &done, 1, 1, IO_FOREVER), -EBADF); /* permanently */
}

static void forbid_rings(void)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_io_uring_setup, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof filter / sizeof filter[0], .filter = filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
        _exit(CHILD_SKIPS);
}

/* Runs a child in which rings are forbidden after the backend is opened. Returns 0, or which step
 * failed. */
static int child_without_rings(enum io_engine engine, int expected, const unsigned char *content)
{
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        struct io *other;
        struct err err = {0};
        char *data;
        size_t bytes;
        if (io_open("file:", &(struct io_options){.engine = engine}, &other, NULL))
            _exit(1);
        forbid_rings();
        if (other->ops->queue_open(other, 1, &queue, &err) != expected)
            _exit(2);
        if (expected)
            _exit(err.code == expected && err.advice[0] ? 0 : 3);
        other->ops->queue_close(queue);
        if (io_read_file(other, in_folder("data"), FILE_BYTES, &data, &bytes, NULL))
            _exit(4);
        _exit(bytes == FILE_BYTES && memcmp(data, content, bytes) == 0 ? 0 : 5);
    }
    return child_wait(child);
}

static void a_queue_without_a_ring_uses_threads_unless_io_uring_is_required(void **state)
{
    (void)state;
    unsigned char *content = make_file("data");
    int chosen = child_without_rings(IO_ENGINE_AUTO, 0, content);
    int by_name = child_without_rings(IO_ENGINE_URING, -EPERM, content);
    free(content);
    if (chosen == CHILD_SKIPS)
        test_skip("this kernel does not support seccomp filters");
    assert_int_equal(chosen, 0);
    assert_int_equal(by_name, 0);
}

/* As in a container whose seccomp profile blocks io_uring. */
static void threads_are_used_if_io_uring_is_forbidden(void **state)
{
    (void)state;
    unsigned char *content = make_file("data");
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        struct io *other;
        char *data;
        size_t bytes;
        struct io_options options = {.engine = IO_ENGINE_URING};
        forbid_rings();
        bool right = io_open("file:", &options, &other, NULL) == -EPERM;
        right = right && io_open("file:", NULL, &other, NULL) == 0 &&
                strcmp(other->ops->name, "threads") == 0;
        right =
            right && io_read_file(other, in_folder("data"), FILE_BYTES, &data, &bytes, NULL) == 0;
        _exit(right && bytes == FILE_BYTES && memcmp(data, content, bytes) == 0 ? 0 : 1);
    }
    int status = child_wait(child);
    free(content);
    if (status == CHILD_SKIPS)
        test_skip("this kernel does not support seccomp filters");
    assert_int_equal(status, 0);
}

static void io_uring_is_chosen_if_available(void **state)
{
    (void)state;
    struct io *other;
    struct err err = {0};
    assert_ok(io_open("file:", NULL, &other, &err), &err);
    assert_string_equal(other->ops->name, "io_uring");
    io_close(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_short_read_is_continued, set_up, tear_down),
        cmocka_unit_test_setup_teardown(requests_waiting_in_the_kernel_are_cancelled, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(closing_reaps_everything, set_up, tear_down),
        cmocka_unit_test_setup_teardown(registered_buffers_are_used_by_index, set_up, tear_down),
        cmocka_unit_test_setup_teardown(reads_work_beyond_the_locked_memory_limit, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(buffers_within_the_locked_memory_limit_are_registered,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_broken_ring_releases_everything, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            a_queue_without_a_ring_uses_threads_unless_io_uring_is_required, set_up, tear_down),
        cmocka_unit_test_setup_teardown(threads_are_used_if_io_uring_is_forbidden, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(io_uring_is_chosen_if_available, set_up, tear_down),
    };
    return engines_run_one(IO_ENGINE_URING, tests, sizeof tests / sizeof tests[0]);
}
