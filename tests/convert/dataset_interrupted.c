/*
 * Interrupted and concurrent dataset conversions: a killed or stopped one resumes to the same
 * bytes, and only one conversion at a time owns a target.
 */
#include "io/faults/io_fault.h"
#include "tests/convert/dataset_case.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Runs the conversion in a child process, which is killed once this shard exists. */
static void convert_and_kill(struct fixture *fixture, const char *shard)
{
    char path[2 * TEST_PATH_BYTES_MAX];
    struct io_stat info;
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct io *io;
        struct err err;
        if (!io_open("file:", NULL, &io, &err))
            convert_dataset(io, &fixture->options, &fixture->result, &err);
        _exit(0);
    }
    snprintf(path, sizeof path, "%s/%s", fixture->target, shard);
    int status, waited = 0;
    while (fixture->io->names->stat(fixture->io, path, &info, NULL) && !waited) {
        usleep(500);
        waited = waitpid(child, &status, WNOHANG) == child;
    }
    if (!waited) {
        kill(child, SIGKILL);
        assert_int_equal(waitpid(child, &status, 0), child);
    }
}

static void a_killed_conversion_resumes_to_the_same_bytes(void **state)
{
    struct fixture *fixture = *state;
    static const char *const moments[] = {".millrace-convert.jsonl", "train/shard-000000.tar",
                                          "val/shard-000000.tar", "train/shard-000007.tar",
                                          "train/dataset.json"};
    write_classes(fixture, 40);
    write_source(fixture, "b/broken.jpg", "\xff\xd8\xff\xe0not really", 14);
    fixture->options.skip_errors = true;
    fixture->options.shard_samples = 12;
    fixture->options.splits_count = 2;
    fixture->options.splits[0] = (struct convert_split){"train", 0.8};
    fixture->options.splits[1] = (struct convert_split){"val", 0.2};
    assert_converts(fixture);
    struct convert_result alone = fixture->result;
    assert_int_equal(test_run("mv '%s' '%s/alone'", fixture->target, fixture->folder), 0);
    for (size_t i = 0; i < sizeof moments / sizeof moments[0]; i++) {
        fixture->options.resume = false;
        convert_and_kill(fixture, moments[i]);
        assert_int_equal(test_run("test -e '%s'", fixture->target), 0);
        fixture->options.resume = true;
        assert_converts(fixture);
        /* if killed at the very end, it may leave the file of a released lock */
        assert_int_equal(test_run("diff -r -x .millrace-owner '%s' '%s/alone'", fixture->target,
                                  fixture->folder),
                         0);
        assert_int_equal(fixture->result.samples_count, alone.samples_count);
        /* the counts include the runs it resumes */
        if (strcmp(moments[i], "train/dataset.json") != 0)
            assert_memory_equal(&fixture->result.jpegs, &alone.jpegs, sizeof alone.jpegs);
        assert_converts(fixture); /* now already complete */
        assert_int_equal(fixture->result.samples_count, alone.samples_count);
        assert_int_equal(test_run("rm -r '%s'", fixture->target), 0);
    }
}

static void kill_self(void *context, uint64_t items_done, uint64_t items, uint64_t bytes_done,
                      uint64_t bytes)
{
    const uint64_t *after = context;
    (void)bytes_done;
    (void)bytes;
    if (items_done >= *after || items_done == items)
        kill(getpid(), SIGKILL);
}

static void a_killed_forced_conversion_leaves_the_old_dataset_or_the_new(void **state)
{
    struct fixture *fixture = *state;
    static uint64_t after;
    write_classes(fixture, 200);
    fixture->options.shard_samples = 5;
    assert_converts(fixture);
    copy_target(fixture, "new");
    assert_int_equal(test_run("rm -r '%s'", fixture->target), 0);
    fixture->options.shard_samples = 0;
    assert_converts(fixture);
    copy_target(fixture, "before");
    fixture->options.force = true;
    fixture->options.progress_context = &after;
    for (after = 1; after <= 201; after += 200) {
        fixture->options.shard_samples = 5;
        fixture->options.progress = kill_self;
        convert_and_kill(fixture, "never");
        /* on a fast machine the next progress report comes at the end, and the new dataset may have
         * replaced the old one */
        if (test_run("diff -r -x '.tmp-*' -x .millrace-owner '%s' '%s/before' >/dev/null",
                     fixture->target, fixture->folder))
            assert_int_equal(test_run("diff -r -x '.tmp-*' -x .millrace-owner '%s' '%s/new'",
                                      fixture->target, fixture->folder),
                             0);
        else
            assert_int_equal(
                test_run("test -n \"$(find '%s' -name '.tmp-target-*')\"", fixture->folder), 0);
        fixture->options.progress = NULL;
        fixture->options.shard_samples = 0;
        assert_converts(fixture); /* sweeps leftovers of the killed conversion */
        assert_target_equals(fixture, "before");
    }
}

static void restarting_an_interrupted_conversion_clears_only_its_splits(void **state)
{
    struct fixture *fixture = *state;
    write_classes(fixture, 30);
    assert_converts(fixture);
    copy_target(fixture, "plain");
    assert_int_equal(test_run("mv '%s' '%s/other'", fixture->target, fixture->folder), 0);
    split_in_two(fixture);
    fixture->options.shard_samples = 3;
    convert_and_kill(fixture, "val/shard-000002.tar");
    assert_int_equal(test_run("mv '%s/other' '%s/other'", fixture->folder, fixture->target), 0);
    fixture->options.force = true;
    fixture->options.splits_count = 0;
    fixture->options.shard_samples = 0;
    /* now the target also contains something else */
    assert_int_equal(convert(fixture), -EEXIST);
    assert_int_equal(test_run("mv '%s' '%s/was' && mv '%s/was/other' '%s' && rmdir '%s/was'",
                              fixture->target, fixture->folder, fixture->folder, fixture->target,
                              fixture->folder),
                     0);
    assert_target_equals(fixture, "plain");
}

/* A conversion in a separate process, which blocks after its first item until it is released. */
struct held {
    pid_t child;
    int came[2], go[2]; /* pipes */
};

static void hold_once(void *context, uint64_t items_done, uint64_t items, uint64_t bytes_done,
                      uint64_t bytes)
{
    struct held *held = context;
    char letter = 0;
    (void)items_done;
    (void)items;
    (void)bytes_done;
    (void)bytes;
    if (held->child == 0) {
        held->child = -1;
        if (write(held->came[1], &letter, 1) != 1 || read(held->go[0], &letter, 1) != 1)
            _exit(2);
    }
}

static void begin_held(const struct fixture *fixture, struct held *held)
{
    char letter;
    assert_int_equal(pipe(held->came), 0);
    assert_int_equal(pipe(held->go), 0);
    fflush(NULL);
    held->child = fork();
    assert_true(held->child >= 0);
    if (held->child == 0) {
        struct convert_options options = fixture->options;
        struct convert_result result;
        struct io *io;
        close(held->go[1]); /* so that it ends when its parent does */
        options.progress = hold_once;
        options.progress_context = held;
        _exit(io_open("file:", NULL, &io, NULL) || convert_dataset(io, &options, &result, NULL));
    }
    assert_int_equal(read(held->came[0], &letter, 1), 1);
}

static void close_pipes(const struct held *held)
{
    for (int i = 0; i < 2; i++) {
        close(held->came[i]);
        close(held->go[i]);
    }
}

/* Releases the conversion, which must succeed. */
static void end_held(const struct held *held)
{
    int status;
    assert_int_equal(write(held->go[1], "", 1), 1);
    assert_int_equal(waitpid(held->child, &status, 0), held->child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    close_pipes(held);
}

/* Checks that, with each option, the conversion changes nothing and fails with an error that names
 * the other process. */
static void assert_is_busy(struct fixture *fixture, const struct held *held)
{
    char before[4096], after[4096], pid[32];
    const struct convert_options options = fixture->options;
    snprintf(pid, sizeof pid, "pid=%d ", (int)held->child);
    assert_int_equal(test_run_output(before, sizeof before, "find '%s' | sort", fixture->folder),
                     0);
    for (int way = 0; way < 3; way++) {
        fixture->options.resume = way == 1;
        fixture->options.force = way == 2;
        /* the dataset that the other process will replace still exists */
        bool is_whole = options.force && way < 2;
        int status = convert(fixture);
        if (is_whole && way == 0) {
            assert_int_equal(status, -EEXIST);
        } else if (!is_whole) {
            assert_int_equal(status, -EBUSY);
            assert_string_equal(fixture->err.path, fixture->target);
            assert_non_null(strstr(fixture->err.found, pid));
            assert_non_null(strstr(fixture->err.advice, "wait for it"));
        }
        assert_int_equal(test_run_output(after, sizeof after, "find '%s' | sort", fixture->folder),
                         0);
        assert_string_equal(after, before);
    }
    fixture->options = options;
}

static void a_target_in_use_by_another_conversion_is_left_alone(void **state)
{
    struct fixture *fixture = *state;
    struct held held;
    write_classes(fixture, 20);
    for (int splits = 0; splits < 2; splits++) {
        const char *copy = splits ? "split" : "plain";
        if (splits)
            split_in_two(fixture);
        fixture->options.shard_samples = 5;
        fixture->options.force = false;
        begin_held(fixture, &held);
        assert_is_busy(fixture, &held);
        end_held(&held);
        copy_target(fixture, copy);
        assert_int_equal(test_run("rm -r '%s'", fixture->target), 0);
        assert_converts(fixture);
        assert_target_equals(fixture, copy);
        /* The same while the other process replaces a dataset. */
        fixture->options.force = true;
        fixture->options.shard_samples = 7;
        begin_held(fixture, &held);
        assert_is_busy(fixture, &held);
        end_held(&held);
        assert_int_equal(test_run("test -z \"$(find '%s' -name '.*')\"", fixture->target), 0);
        fixture->options.shard_samples = 5;
        assert_converts(fixture);
        assert_target_equals(fixture, copy);
        assert_int_equal(test_run("rm -r '%s'", fixture->target), 0);
    }
}

static void a_killed_conversions_target_is_free_immediately(void **state)
{
    struct fixture *fixture = *state;
    struct held held;
    int status;
    write_classes(fixture, 20);
    assert_converts(fixture);
    copy_target(fixture, "whole");
    /* --resume, --force on an incomplete target, --force on a complete one */
    for (int way = 0; way < 3; way++) {
        if (way < 2)
            assert_int_equal(test_run("rm -r '%s'", fixture->target), 0);
        fixture->options.resume = false;
        fixture->options.force = way == 2;
        begin_held(fixture, &held);
        assert_int_equal(kill(held.child, SIGKILL), 0);
        assert_int_equal(waitpid(held.child, &status, 0), held.child);
        close_pipes(&held);
        assert_int_equal(test_run("test -s '%s/.millrace-owner'", fixture->target), 0);
        fixture->options.resume = way == 0;
        fixture->options.force = way > 0;
        assert_converts(fixture);
        assert_target_equals(fixture, "whole");
    }
}

/* Simulates another owner that takes over the target of a suspended conversion. */
struct takeover {
    struct fixture *fixture;
    struct io_lock *lock; /* of the other owner */
};

static void take_over(void *context, uint64_t items_done, uint64_t items, uint64_t bytes_done,
                      uint64_t bytes)
{
    struct takeover *takeover = context;
    struct fixture *fixture = takeover->fixture;
    (void)items_done;
    (void)items;
    (void)bytes_done;
    (void)bytes;
    if (takeover->lock)
        return;
    assert_int_equal(test_run("rm '%s/.millrace-owner'", fixture->target), 0);
    assert_ok(fixture->io->locks->acquire(fixture->io, fixture->target, NULL, &takeover->lock,
                                          &fixture->err),
              &fixture->err);
    copy_target(fixture, "taken");
}

static void a_conversion_whose_target_was_replaced_removes_nothing(void **state)
{
    struct fixture *fixture = *state;
    struct takeover takeover = {.fixture = fixture};
    write_classes(fixture, 5);
    fixture->options.progress = take_over;
    fixture->options.progress_context = &takeover;
    assert_int_equal(convert(fixture), -EBUSY);
    assert_non_null(takeover.lock);
    fixture->io->locks->release(takeover.lock);
    assert_int_equal(test_run("diff -r -x '.tmp-*' -x .millrace-owner '%s' '%s/taken'",
                              fixture->target, fixture->folder),
                     0);
    assert_int_equal(test_run("test -e '%s/.millrace-convert.jsonl'", fixture->target), 0);
}

/* Stops the conversion once this many items are done. */
struct stopper {
    atomic_int stop;
    uint64_t after, calls;
};

static void stop_after(void *context, uint64_t items_done, uint64_t items, uint64_t bytes_done,
                       uint64_t bytes)
{
    struct stopper *stopper = context;
    assert_true(items_done <= items && bytes_done <= bytes);
    stopper->calls++;
    if (items_done >= stopper->after)
        atomic_store(&stopper->stop, 1);
}

static void a_stopped_conversion_keeps_complete_shards_and_resumes_only_unchanged(void **state)
{
    struct fixture *fixture = *state;
    struct stopper stopper = {.after = UINT64_MAX};
    write_classes(fixture, 30);
    assert_converts(fixture);
    assert_int_equal(test_run("rm -r '%s'", fixture->target), 0);
    fixture->options.stop = &stopper.stop;
    fixture->options.progress = stop_after;
    fixture->options.progress_context = &stopper;
    atomic_store(&stopper.stop, 1);
    assert_int_equal(convert(fixture), -EINTR);
    assert_false(fixture->result.is_resumable);
    assert_nothing_left(fixture);
    /* Stopped between shards, and again while files are listed: complete shards stay, and are
     * counted. The progress callback, which stops the conversion, runs every 100 ms; slow writes
     * allow for that. */
    struct io *fast = fixture->io;
    assert_ok(io_fault_open("file:", NULL, "write:delay=120ms", &fixture->io, &fixture->err),
              &fixture->err);
    for (int again = 0; again < 2; again++) {
        atomic_store(&stopper.stop, again);
        stopper.after = 20;
        fixture->options.shard_samples = 5;
        fixture->options.resume = again;
        assert_int_equal(convert(fixture), -EINTR);
        assert_true(fixture->result.is_resumable);
        assert_non_null(
            strstr(fixture->err.advice, again ? "the same command again" : "with --resume"));
    }
    io_close(fixture->io);
    fixture->io = fast;
    fixture->options.resume = false;
    stopper.after = UINT64_MAX;
    assert_int_equal(test_run("rm -r '%s'", fixture->target), 0);
    /* A broken item in the middle of the order ends the conversion after some shards. */
    atomic_store(&stopper.stop, 0);
    fixture->options.shard_samples = 5;
    fixture->options.keep_order = true;
    write_source(fixture, "b/0045.jpg", "broken", 6);
    assert_int_equal(convert(fixture), -EBADMSG);
    assert_int_equal(
        test_run("cd '%s' && ls | grep -c '^shard' >/dev/null && test ! -e dataset.json && "
                 "test -z \"$(ls -A | grep '^.tmp-')\"",
                 fixture->target),
        0);
    assert_int_equal(convert(fixture), -EEXIST);
    assert_non_null(strstr(fixture->err.advice, "--resume"));
    fixture->options.resume = true;
    fixture->options.shard_samples = 6;
    assert_int_equal(convert(fixture), -ESTALE);
    fixture->options.shard_samples = 5;
    fixture->options.skip_errors = true;
    assert_converts(fixture);
    assert_int_equal(fixture->result.samples_count, 89);
    assert_true(stopper.calls > 0);
    struct dataset *dataset = open_dataset(fixture, "");
    dataset_close(dataset);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_killed_forced_conversion_leaves_the_old_dataset_or_the_new),
        CASE(restarting_an_interrupted_conversion_clears_only_its_splits),
        CASE(a_target_in_use_by_another_conversion_is_left_alone),
        CASE(a_killed_conversions_target_is_free_immediately),
        CASE(a_conversion_whose_target_was_replaced_removes_nothing),
        CASE(a_killed_conversion_resumes_to_the_same_bytes),
        CASE(a_stopped_conversion_keeps_complete_shards_and_resumes_only_unchanged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
