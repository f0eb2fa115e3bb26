/*
 * queue — requests complete despite short calls, can be cancelled, time out, and run many at once.
 */
#include "io/file_util.h"
#include "tests/io/syscalls.h"
#include "tests/support/engines.h"
#include "tests/support/gate.h"
#include "tests/support/test.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FILE_BYTES = 1 << 20, DEPTH = 64 };

static struct io *io;
static struct io_queue *queue;
static struct io_file *file;
static char folder[TEST_PATH_BYTES_MAX];
static unsigned char *content;

static int set_up_with(unsigned threads)
{
    struct err err = {0};
    char path[TEST_PATH_BYTES_MAX + 32];
    syscalls_reset();
    test_make_folder(folder);
    content = malloc(FILE_BYTES);
    assert_non_null(content);
    for (size_t i = 0; i < FILE_BYTES; i++)
        content[i] = (unsigned char)(i * 2654435761u >> 13);
    snprintf(path, sizeof path, "%s/data", folder);
    test_write_file(path, content, FILE_BYTES);
    struct io_options options = engines_options();
    options.threads = threads;
    assert_ok(io_open(path, &options, &io, &err), &err);
    assert_ok(io->ops->file_open(io, path, &file, &err), &err);
    assert_ok(io->ops->queue_open(io, DEPTH, &queue, &err), &err);
    return 0;
}

static int set_up(void **state)
{
    (void)state;
    return set_up_with(4);
}

static int set_up_one_thread(void **state)
{
    (void)state;
    return set_up_with(1);
}

static int tear_down(void **state)
{
    (void)state;
    syscalls_reset();
    io->ops->queue_close(queue);
    io->ops->file_close(file);
    io_close(io);
    free(content);
    test_remove_folder(folder);
    return 0;
}

static void submit_all(struct io_request *requests, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        assert_int_equal(io->ops->submit(queue, (struct io_request *[]){&requests[i]}, 1), 1);
}

static void wait_until_held(unsigned count)
{
    while (syscalls_held_count() < count)
        gate_pause();
}

/* For cases that make kernel calls fail or transfer less than requested. */
static void skip_unless_calls_can_fail(void)
{
    if (engines_current() == IO_ENGINE_URING && !syscalls_can_fail_rings())
        test_skip("making ring entries fail needs Linux 6.10");
}

static void reads_are_complete_except_at_the_end_of_file(void **state)
{
    (void)state;
    static unsigned char data[DEPTH][5000];
    struct io_request requests[DEPTH] = {0}, *batch[DEPTH], *done[DEPTH];
    uint64_t offsets[DEPTH];
    for (unsigned i = 0; i < DEPTH; i++) {
        offsets[i] = (uint64_t)i * 16600; /* the last ones cross the end or lie beyond it */
        requests[i] = (struct io_request){.kind = IO_READ,
                                          .file = file,
                                          .offset = offsets[i],
                                          .data = data[i],
                                          .bytes = sizeof data[i],
                                          .user = &offsets[i]};
        batch[i] = &requests[i];
    }
    assert_int_equal(io->ops->submit(queue, batch, DEPTH), DEPTH);
    unsigned reaped = 0;
    while (reaped < DEPTH) {
        int count = io->ops->reap(queue, done, DEPTH, 1, IO_FOREVER);
        assert_in_range(count, 1, DEPTH);
        for (int i = 0; i < count; i++) {
            uint64_t at = *(uint64_t *)done[i]->user, left = at < FILE_BYTES ? FILE_BYTES - at : 0;
            uint64_t expected = left < sizeof data[0] ? left : sizeof data[0];
            assert_int_equal(done[i]->result, expected);
            assert_memory_equal(done[i]->data, content + (left ? at : 0), expected);
        }
        reaped += (unsigned)count;
    }
    /* nothing is in progress */
    assert_int_equal(io->ops->reap(queue, done, DEPTH, 1, IO_FOREVER), 0);
}

static void short_calls_eintr_and_eagain_are_retried(void **state)
{
    (void)state;
    skip_unless_calls_can_fail();
    struct err err = {0};
    unsigned char *data = malloc(FILE_BYTES);
    assert_non_null(data);
    syscalls_shorten();
    assert_ok(io_read_exact(queue, io, file, "data", 0, data, 100000, &err), &err);
    assert_memory_equal(data, content, 100000);
    assert_int_equal(io_read_exact(queue, io, file, "data", FILE_BYTES - 10, data, 11, &err),
                     -ENODATA);
    char path[TEST_PATH_BYTES_MAX + 32];
    snprintf(path, sizeof path, "%s/written", folder);
    assert_ok(io_write_file(io, path, content, 100000, false, &err), &err);
    syscalls_reset();
    size_t bytes;
    unsigned char *written = test_read_file(path, &bytes);
    assert_int_equal(bytes, 100000);
    assert_memory_equal(written, content, bytes);
    free(written);
    free(data);
}

static void errors_are_returned_as_results(void **state)
{
    (void)state;
    skip_unless_calls_can_fail();
    unsigned char data[16];
    struct err err = {0};
    /* a kernel EINVAL does not mean API misuse, nor EBADMSG bad content */
    static const int codes[] = {-EIO, -EINVAL, -EBADMSG, -ENODATA, -EOPNOTSUPP};
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        syscalls_fail("pread", 1, codes[i]);
        assert_int_equal(io_read_exact(queue, io, file, "data", 77, data, 16, &err), -EIO);
        assert_int_equal(err.code, -EIO);
        assert_int_equal(err.offset, 77);
    }
    assert_ok(io_read_exact(queue, io, file, "data", 77, data, 16, &err), &err);
    /* the file is open only for reading */
    assert_int_equal(io_write_exact(queue, io, file, "data", 0, data, 16, &err), -EBADF);
    assert_int_equal(io_read_exact(queue, io, file, "data", UINT64_MAX - 3, data, 16, &err),
                     -EINVAL);
    assert_int_equal(io_read_exact(queue, io, file, "data", INT64_MAX, data, 1, &err), -EINVAL);
}

static void a_full_queue_accepts_nothing_until_reaped(void **state)
{
    (void)state;
    static unsigned char data[DEPTH + 6][8];
    struct io_request requests[DEPTH + 6] = {0}, *batch[DEPTH + 6], *done[DEPTH];
    for (unsigned i = 0; i < DEPTH + 6; i++) {
        requests[i] =
            (struct io_request){.kind = IO_READ, .file = file, .data = data[i], .bytes = 8};
        batch[i] = &requests[i];
    }
    assert_int_equal(io->ops->submit(queue, batch, DEPTH + 6), DEPTH);
    assert_int_equal(io->ops->submit(queue, batch + DEPTH, 6), 0);
    assert_int_equal(io->ops->reap(queue, done, 4, 4, IO_FOREVER), 4);
    assert_int_equal(io->ops->submit(queue, batch + DEPTH, 6), 4);
    assert_int_equal(io->ops->reap(queue, done, DEPTH, DEPTH, IO_FOREVER), DEPTH);
    assert_int_equal(io->ops->submit(queue, batch + DEPTH + 4, 2), 2);
    /* all outstanding requests, fewer than asked for */
    assert_int_equal(io->ops->reap(queue, done, DEPTH, DEPTH, IO_FOREVER), 2);
}

/* Releases the held reads once the given thread sleeps in the call that waits for them. */
static void *release_when_asleep(void *argument)
{
    while (!gate_is_asleep(*(const pid_t *)argument))
        gate_pause();
    syscalls_hold_reads(false);
    return NULL;
}

static void reaping_obeys_its_timeout(void **state)
{
    (void)state;
    unsigned char data[8];
    struct io_request request = {.kind = IO_READ, .file = file, .data = data, .bytes = 8}, *done;
    pthread_t helper;
    pid_t waiter = gettid();
    syscalls_hold_reads(true);
    submit_all(&request, 1);
    assert_int_equal(io->ops->reap(queue, &done, 1, 1, 0), 0);
    assert_int_equal(io->ops->reap(queue, &done, 1, 1, 30), 0);
    assert_int_equal(pthread_create(&helper, NULL, release_when_asleep, &waiter), 0);
    assert_int_equal(io->ops->reap(queue, &done, 1, 1, 600000), 1);
    assert_int_equal(done->result, 8);
    pthread_join(helper, NULL);
}

static void only_requests_not_yet_started_are_cancelled(void **state)
{
    (void)state;
    unsigned char data[4][8];
    struct io_request requests[4] = {0}, *done[4];
    for (int i = 0; i < 4; i++)
        requests[i] =
            (struct io_request){.kind = IO_READ, .file = file, .data = data[i], .bytes = 8};
    syscalls_hold_reads(true);
    submit_all(requests, 4); /* on one thread, the first is held and three wait */
    wait_until_held(1);
    io->ops->cancel(queue, &requests[0]);
    io->ops->cancel(queue, &requests[2]);
    io->ops->cancel(queue, &requests[3]);
    assert_int_equal(io->ops->reap(queue, done, 4, 2, IO_FOREVER), 2);
    assert_ptr_equal(done[0], &requests[2]);
    assert_ptr_equal(done[1], &requests[3]);
    assert_int_equal(done[0]->result, -ECANCELED);
    assert_int_equal(done[1]->result, -ECANCELED);
    syscalls_hold_reads(false);
    assert_int_equal(io->ops->reap(queue, done, 4, 4, IO_FOREVER), 2);
    assert_int_equal(requests[0].result, 8);
    assert_int_equal(requests[1].result, 8);
    io->ops->cancel(queue, &requests[1]); /* already complete: nothing happens */
}

static void closing_waits_for_started_requests_and_drops_the_rest(void **state)
{
    (void)state;
    struct err err = {0};
    unsigned char data[3][8] = {{0}};
    struct io_request requests[3] = {0};
    for (int i = 0; i < 3; i++)
        requests[i] =
            (struct io_request){.kind = IO_READ, .file = file, .data = data[i], .bytes = 8};
    syscalls_hold_reads(true);
    submit_all(requests, 3);
    wait_until_held(1);
    pthread_t helper;
    pid_t closer = gettid();
    assert_int_equal(pthread_create(&helper, NULL, release_when_asleep, &closer), 0);
    io->ops->queue_close(queue);
    pthread_join(helper, NULL);
    assert_memory_equal(data[0], content, 8);
    assert_int_equal(requests[0].result, 8);
    assert_int_equal(requests[1].result, -ECANCELED);
    assert_int_equal(requests[2].result, -ECANCELED);
    assert_int_equal(data[2][0] | data[2][7], 0);
    assert_ok(io->ops->queue_open(io, 1, &queue, &err), &err); /* for the tear-down */
}

static void one_request_at_a_time_needs_one_thread(void **state)
{
    (void)state;
    struct err err = {0};
    unsigned char data[8];
    for (int i = 0; i < 200; i++)
        assert_ok(io_read_exact(queue, io, file, "data", 0, data, 8, &err), &err);
    assert_int_equal(syscalls_reader_count(), 1);
}

static void all_threads_serve_a_batch(void **state)
{
    (void)state;
    unsigned char data[8][8];
    struct io_request requests[8] = {0}, *done[8];
    for (int i = 0; i < 8; i++)
        requests[i] =
            (struct io_request){.kind = IO_READ, .file = file, .data = data[i], .bytes = 8};
    syscalls_hold_reads(true);
    submit_all(requests, 8);
    wait_until_held(4);
    syscalls_hold_reads(false);
    assert_int_equal(io->ops->reap(queue, done, 8, 8, IO_FOREVER), 8);
    assert_int_equal(syscalls_reader_count(), 4);
}

static void impossible_queues_are_refused(void **state)
{
    (void)state;
    struct err err = {0};
    struct io_queue *other = NULL;
    assert_int_equal(io->ops->queue_open(io, 0, &other, &err), -EINVAL);
    assert_int_equal(io->ops->queue_open(io, IO_QUEUE_DEPTH_MAX + 1, &other, &err), -EINVAL);
    assert_null(other);
    io->ops->queue_close(NULL);
}

enum { SUBMITTERS = 6 };

/* Keeps its queue full of small reads of the shared file, and checks each. */
static void *submitter_main(void *argument)
{
    unsigned seed = *(unsigned *)argument, rounds = test_is_sanitized() ? 2000 : 20000;
    struct io_queue *own;
    struct io_request requests[16] = {0}, *done[16], *free_ones[16];
    static const size_t bytes_max = 600;
    unsigned char *data = malloc(16 * bytes_max);
    if (!data || io->ops->queue_open(io, 16, &own, NULL))
        return (void *)(uintptr_t) "no queue";
    for (int i = 0; i < 16; i++) {
        requests[i].data = data + (size_t)i * bytes_max;
        free_ones[i] = &requests[i];
    }
    const char *wrong = NULL;
    unsigned submitted = 0, reaped = 0, free_count = 16;
    while (reaped < rounds && !wrong) {
        unsigned batch = 0;
        while (batch < free_count && submitted + batch < rounds) {
            seed = seed * 1664525 + 1013904223;
            struct io_request *request = free_ones[free_count - 1 - batch++];
            request->kind = IO_READ;
            request->file = file;
            request->offset = (seed >> 8) % (FILE_BYTES - bytes_max);
            request->bytes = 1 + (seed >> 4) % bytes_max;
        }
        free_count -= batch;
        if (io->ops->submit(own, free_ones + free_count, batch) != (int)batch)
            wrong = "not all were taken";
        submitted += batch;
        int count = io->ops->reap(own, done, 16, 1 + seed % 4, IO_FOREVER);
        for (int i = 0; i < count; i++) {
            if (done[i]->result != (ssize_t)done[i]->bytes ||
                memcmp(done[i]->data, content + done[i]->offset, done[i]->bytes) != 0)
                wrong = "wrong bytes";
            free_ones[free_count++] = done[i];
        }
        reaped += count > 0 ? (unsigned)count : 0;
    }
    io->ops->queue_close(own);
    free(data);
    return (void *)(uintptr_t)wrong;
}

static void threads_with_separate_queues_can_share_a_file(void **state)
{
    (void)state;
    pthread_t threads[SUBMITTERS];
    unsigned seeds[SUBMITTERS];
    for (unsigned i = 0; i < SUBMITTERS; i++) {
        seeds[i] = i + 1;
        assert_int_equal(pthread_create(&threads[i], NULL, submitter_main, &seeds[i]), 0);
    }
    for (int i = 0; i < SUBMITTERS; i++) {
        void *wrong;
        pthread_join(threads[i], &wrong);
        if (wrong)
            fail_msg("%s", (char *)wrong);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(reads_are_complete_except_at_the_end_of_file, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(short_calls_eintr_and_eagain_are_retried, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(errors_are_returned_as_results, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_full_queue_accepts_nothing_until_reaped, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(reaping_obeys_its_timeout, set_up, tear_down),
        cmocka_unit_test_setup_teardown(impossible_queues_are_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(threads_with_separate_queues_can_share_a_file, set_up,
                                        tear_down),
    };
    const struct CMUnitTest of_threads[] = {
        cmocka_unit_test_setup_teardown(only_requests_not_yet_started_are_cancelled,
                                        set_up_one_thread, tear_down),
        cmocka_unit_test_setup_teardown(closing_waits_for_started_requests_and_drops_the_rest,
                                        set_up_one_thread, tear_down),
        cmocka_unit_test_setup_teardown(one_request_at_a_time_needs_one_thread, set_up, tear_down),
        cmocka_unit_test_setup_teardown(all_threads_serve_a_batch, set_up, tear_down),
    };
    return engines_run(tests) +
           engines_run_one(IO_ENGINE_THREADS, of_threads, sizeof of_threads / sizeof of_threads[0]);
}
