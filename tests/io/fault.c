/*
 * fault — a backend with faults injected by rules: requests that fail, wait, transfer too little or
 * flip a bit; failing transactions; kills.
 */
#include "io/faults/io_fault.h"
#include "io/file_util.h"
#include "tests/support/gate.h"
#include "tests/support/scratch.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BYTES = 1 << 16, READ = 4096, DEPTH = 16 };

static unsigned char content[BYTES];
static struct io *faulty;
static struct io_file *file;
static struct io_queue *queue;

static int set_up(void **state)
{
    scratch_set_up(state);
    for (size_t i = 0; i < BYTES; i++)
        content[i] = (unsigned char)(i * 2654435761u >> 13);
    test_write_file(in_folder("data"), content, BYTES);
    return 0;
}

static int tear_down(void **state)
{
    return scratch_tear_down(state);
}

static void open_faulty(const char *rules)
{
    struct err err = {0};
    assert_ok(io_fault_open(folder, NULL, rules, &faulty, &err), &err);
    assert_ok(faulty->ops->file_open(faulty, in_folder("data"), &file, &err), &err);
    assert_ok(faulty->ops->queue_open(faulty, DEPTH, &queue, &err), &err);
}

static void close_all(void)
{
    faulty->ops->queue_close(queue);
    faulty->ops->file_close(file);
    io_close(faulty);
}

static unsigned char data[DEPTH][READ];
static struct io_request requests[DEPTH];

static void submit_reads(unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        requests[i] = (struct io_request){.kind = IO_READ,
                                          .file = file,
                                          .offset = i * (uint64_t)READ,
                                          .data = data[i],
                                          .bytes = READ,
                                          .result = -1};
        assert_int_equal(faulty->ops->submit(queue, (struct io_request *[]){&requests[i]}, 1), 1);
    }
}

static void reap_all(unsigned count)
{
    struct io_request *done[DEPTH];
    for (unsigned got = 0; got < count;) {
        int n = faulty->ops->reap(queue, done, DEPTH, 1, IO_FOREVER);
        assert_true(n > 0);
        got += (unsigned)n;
    }
}

static void only_the_nth_read_fails(void **state)
{
    (void)state;
    open_faulty("read:eio@3");
    submit_reads(DEPTH);
    /* full */
    assert_int_equal(faulty->ops->submit(queue, (struct io_request *[]){&requests[0]}, 1), 0);
    reap_all(DEPTH);
    for (unsigned i = 0; i < DEPTH; i++) {
        assert_int_equal(requests[i].result, i == 2 ? -EIO : READ);
        if (i != 2)
            assert_memory_equal(data[i], content + i * READ, READ);
    }
    struct io_fault_counts counts = io_fault_counts(faulty);
    assert_int_equal(counts.operations[FAULT_READ], DEPTH);
    assert_int_equal(counts.read_bytes, DEPTH * READ);
    assert_int_equal(counts.hits, 1);
    assert_int_equal(counts.in_flight_requests, 0);
    assert_non_null(strstr(faulty->ops->name, "with faults"));
    close_all();
}

static void a_held_read_does_not_block_others_and_completes_when_released(void **state)
{
    (void)state;
    struct io_request *done[DEPTH];
    open_faulty("read:hold@1");
    submit_reads(DEPTH);
    reap_all(DEPTH - 1);
    assert_int_equal(requests[0].result, -1);
    assert_int_equal(io_fault_counts(faulty).held_operations, 1);
    assert_int_equal(faulty->ops->reap(queue, done, DEPTH, 1, 5), 0);
    io_fault_release(faulty);
    reap_all(1);
    assert_int_equal(requests[0].result, READ);
    assert_memory_equal(data[0], content, READ);
    assert_int_equal(io_fault_counts(faulty).held_operations, 0);
    close_all();
}

static void a_delayed_read_does_not_block_others_and_can_be_cancelled(void **state)
{
    (void)state;
    struct io_request *done[DEPTH];
    open_faulty("read:delay=1h@1");
    submit_reads(2);
    assert_int_equal(faulty->ops->reap(queue, done, 1, 1, IO_FOREVER), 1);
    assert_ptr_equal(done[0], &requests[1]);
    assert_int_equal(requests[1].result, READ);
    assert_memory_equal(data[1], content + READ, READ);
    faulty->ops->cancel(queue, &requests[0]);
    reap_all(1);
    assert_int_equal(requests[0].result, -ECANCELED);
    close_all();
}

static void a_delayed_read_is_complete(void **state)
{
    (void)state;
    open_faulty("read:delay=20ms");
    submit_reads(2);
    reap_all(2);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(requests[i].result, READ);
        assert_memory_equal(data[i], content + i * READ, READ);
    }
    close_all();
}

static void a_held_request_is_cancelled_on_request_and_on_close(void **state)
{
    (void)state;
    open_faulty("read:hold");
    submit_reads(3);
    faulty->ops->cancel(queue, &requests[1]);
    reap_all(1);
    assert_int_equal(requests[1].result, -ECANCELED);
    assert_int_equal(io_fault_counts(faulty).in_flight_requests, 2);
    faulty->ops->queue_close(queue);
    assert_int_equal(requests[0].result, -ECANCELED);
    assert_int_equal(requests[2].result, -ECANCELED);
    assert_int_equal(io_fault_counts(faulty).in_flight_requests, 0);
    assert_int_equal(io_fault_counts(faulty).held_operations, 0);
    faulty->ops->file_close(file);
    io_close(faulty);
}

static void depth_limits_the_requests_in_flight(void **state)
{
    (void)state;
    struct io_request *all[DEPTH], *done[DEPTH];
    open_faulty("read:hold,depth=3");
    for (unsigned i = 0; i < DEPTH; i++) {
        requests[i] = (struct io_request){.kind = IO_READ,
                                          .file = file,
                                          .offset = i * (uint64_t)READ,
                                          .data = data[i],
                                          .bytes = READ};
        all[i] = &requests[i];
    }
    assert_int_equal(faulty->ops->submit(queue, all, DEPTH), 3);
    assert_int_equal(faulty->ops->submit(queue, all + 3, DEPTH - 3), 0);
    io_fault_release(faulty);
    assert_int_equal(faulty->ops->reap(queue, done, DEPTH, 3, IO_FOREVER), 3);
    assert_int_equal(faulty->ops->submit(queue, all + 3, 1), 1);
    assert_int_equal(faulty->ops->reap(queue, done, DEPTH, 1, IO_FOREVER), 1);
    close_all();
}

static void a_short_read_returns_the_first_bytes(void **state)
{
    (void)state;
    ssize_t first[DEPTH];
    int cut = 0;
    for (int round = 0; round < 2; round++) {
        memset(data, 0, sizeof data);
        open_faulty("read:short%50,seed=3");
        submit_reads(DEPTH);
        reap_all(DEPTH);
        for (unsigned i = 0; i < DEPTH; i++) {
            assert_in_range(requests[i].result, 0, READ);
            assert_memory_equal(data[i], content + i * READ, requests[i].result);
            cut += requests[i].result < READ;
            if (round == 1)
                assert_int_equal(requests[i].result, first[i]);
            first[i] = requests[i].result;
        }
        close_all();
    }
    assert_in_range(cut, 2, 2 * DEPTH - 2);
}

/* The number of bits that differ. */
static int count_differing_bits(const unsigned char *a, const unsigned char *b, size_t bytes)
{
    int count = 0;
    for (size_t i = 0; i < bytes; i++)
        count += __builtin_popcount(a[i] ^ b[i]);
    return count;
}

static void a_read_flip_inverts_one_bit(void **state)
{
    (void)state;
    unsigned char first[READ];
    for (int round = 0; round < 2; round++) {
        open_faulty("read:flip@2");
        submit_reads(3);
        reap_all(3);
        assert_int_equal(count_differing_bits(data[0], content, READ), 0);
        assert_int_equal(count_differing_bits(data[1], content + READ, READ), 1);
        assert_int_equal(count_differing_bits(data[2], content + 2 * READ, READ), 0);
        if (round == 1)
            assert_memory_equal(first, data[1], READ);
        memcpy(first, data[1], READ);
        close_all();
    }
    unsigned char *whole;
    size_t bytes;
    whole = test_read_file(in_folder("data"), &bytes);
    assert_memory_equal(whole, content, BYTES); /* the file is unchanged */
    free(whole);
}

static int write_file(const char *rules, struct err *err)
{
    unsigned char copy[BYTES];
    struct io *with;
    memcpy(copy, content, BYTES);
    assert_ok(io_fault_open(folder, NULL, rules, &with, err), err);
    int status = io_write_file(with, in_folder("output"), copy, BYTES, false, err);
    assert_memory_equal(copy, content, BYTES); /* even if a bit flips in transit */
    assert_int_equal(io_fault_counts(with).unsafe_aborts, 0);
    io_close(with);
    return status;
}

static void a_write_flip_inverts_one_bit(void **state)
{
    (void)state;
    struct err err = {0};
    size_t bytes;
    assert_ok(write_file("write:flip", &err), &err);
    unsigned char *written = test_read_file(in_folder("output"), &bytes);
    assert_int_equal(bytes, BYTES);
    assert_int_equal(count_differing_bits(written, content, BYTES), 1);
    free(written);
}

static void a_failing_output_leaves_nothing(void **state)
{
    (void)state;
    static const struct {
        const char *rules;
        int code;
    } cases[] = {
        {"begin:erofs", -EROFS},   {"create:eacces", -EACCES},    {"write:short", -ENOSPC},
        {"write:enospc", -ENOSPC}, {"finalize:eio", -EIO},        {"commit:eio", -EIO},
        {"queue:emfile", -EMFILE}, {"durable:edquot@3", -EDQUOT}, {"wait:eio", -EIO},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct err err = {0};
        char names[256];
        assert_int_equal(write_file(cases[i].rules, &err), cases[i].code);
        assert_int_equal(test_run_output(names, sizeof names, "ls -A '%s'", folder), 0);
        assert_string_equal(names, "data\n");
    }
}

static void faults_on_names_follow_the_rules(void **state)
{
    (void)state;
    struct io_stat info;
    struct io_lock *lock;
    struct err err = {0};
    open_faulty("stat:enoent:data,folder:enospc,remove:eacces,sweep:eio,lock:estale,list:eio,open:"
                "emfile@2");
    assert_int_equal(faulty->names->stat(faulty, in_folder("data"), &info, &err), -ENOENT);
    assert_non_null(strstr(err.what, "stat was made to fail"));
    assert_string_equal(err.path, in_folder("data"));
    assert_ok(faulty->names->stat(faulty, folder, &info, &err), &err);
    assert_int_equal(faulty->names->make_folder(faulty, in_folder("new"), &err), -ENOSPC);
    assert_int_equal(faulty->names->remove(faulty, in_folder("data"), &err), -EACCES);
    assert_int_equal(faulty->transactions->sweep(faulty, folder, NULL, NULL, &err), -EIO);
    assert_int_equal(faulty->locks->acquire(faulty, folder, NULL, &lock, &err), -ESTALE);
    assert_int_equal(faulty->names->list(faulty, folder, NULL, NULL, &err), -EIO);
    struct io_file *other;
    assert_int_equal(faulty->ops->file_open(faulty, in_folder("data"), &other, &err), -EMFILE);
    assert_int_equal(access(in_folder("data"), F_OK), 0);
    assert_ok(io_fault_set(faulty, "", &err), &err);
    assert_ok(faulty->locks->acquire(faulty, folder, NULL, &lock, &err), &err);
    faulty->locks->release(lock);
    close_all();
}

static void a_queue_that_fails_to_wait_stays_failed(void **state)
{
    (void)state;
    struct io_request *done[DEPTH];
    open_faulty("wait:eio@2");
    submit_reads(1);
    reap_all(1);
    submit_reads(2);
    assert_int_equal(faulty->ops->reap(queue, done, DEPTH, 1, IO_FOREVER), -EIO);
    assert_int_equal(faulty->ops->reap(queue, done, DEPTH, 1, IO_FOREVER), -EIO);
    close_all();
}

static void a_kill_ends_the_process_before_the_operation(void **state)
{
    (void)state;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct err err = {0};
        write_file("commit:kill", &err);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    char names[256];
    assert_int_equal(test_run_output(names, sizeof names, "ls -A '%s' | grep -v '^.tmp-'", folder),
                     0);
    assert_string_equal(names, "data\n");
    /* the complete but uncommitted transaction */
    assert_int_equal(io->transactions->sweep(io, folder, NULL, NULL, NULL), 1);
}

static void aborting_with_writes_in_flight_is_detected(void **state)
{
    (void)state;
    struct io_transaction *transaction;
    struct io_file *output;
    struct err err = {0};
    open_faulty("write:hold");
    assert_ok(
        faulty->transactions->begin(
            faulty, &(struct io_transaction_options){.path = in_folder("set")}, &transaction, &err),
        &err);
    assert_ok(faulty->transactions->create(transaction, "a/b", 0, &output, &err), &err);
    struct io_request request = {.kind = IO_WRITE, .file = output, .data = content, .bytes = READ};
    assert_int_equal(faulty->ops->submit(queue, (struct io_request *[]){&request}, 1), 1);
    faulty->transactions->abort(transaction);
    assert_int_equal(io_fault_counts(faulty).unsafe_aborts, 1);
    close_all();
}

static void a_transaction_that_lost_a_file_never_commits(void **state)
{
    (void)state;
    struct io_transaction *transaction;
    struct io_file *output;
    struct err err = {0};
    open_faulty("finalize:eio@1");
    const struct io_transaction_options options = {.path = in_folder("set"), .commit_record = "b"};
    assert_ok(faulty->transactions->begin(faulty, &options, &transaction, &err), &err);
    for (int i = 0; i < 2; i++) {
        assert_ok(faulty->transactions->create(transaction, i ? "b" : "a", 0, &output, &err), &err);
        assert_int_equal(faulty->transactions->finalize(transaction, output, 0, &err),
                         i ? 0 : -EIO);
    }
    assert_int_equal(faulty->transactions->commit(transaction, &err), -EINVAL);
    assert_int_not_equal(access(in_folder("set"), F_OK), 0);
    /* no trace of the transaction is left */
    assert_int_equal(io->transactions->sweep(io, folder, NULL, NULL, NULL), 0);
    close_all();
}

static void without_rules_nothing_is_wrapped(void **state)
{
    (void)state;
    static const char *const none[] = {NULL, ""};
    struct io *with;
    struct err err = {0};
    for (size_t i = 0; i < 2; i++) {
        assert_ok(io_fault_open(folder, NULL, none[i], &with, &err), &err);
        assert_null(strstr(with->ops->name, "with faults"));
        io_close(with);
    }
    assert_int_equal(io_fault_open(folder, NULL, "opne:eio", &with, &err), -EINVAL);
    assert_non_null(strstr(err.advice, "\"open\""));
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CASE(only_the_nth_read_fails),
        CASE(a_held_read_does_not_block_others_and_completes_when_released),
        CASE(a_delayed_read_does_not_block_others_and_can_be_cancelled),
        CASE(a_delayed_read_is_complete),
        CASE(a_held_request_is_cancelled_on_request_and_on_close),
        CASE(depth_limits_the_requests_in_flight),
        CASE(a_short_read_returns_the_first_bytes),
        CASE(a_read_flip_inverts_one_bit),
        CASE(a_write_flip_inverts_one_bit),
        CASE(a_failing_output_leaves_nothing),
        CASE(faults_on_names_follow_the_rules),
        CASE(a_queue_that_fails_to_wait_stays_failed),
        CASE(a_kill_ends_the_process_before_the_operation),
        CASE(aborting_with_writes_in_flight_is_detected),
        CASE(a_transaction_that_lost_a_file_never_commits),
        CASE(without_rules_nothing_is_wrapped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
