/*
 * Interrupted and concurrent dataset conversions: a killed or stopped conversion resumes to the
 * same bytes, and only one conversion at a time owns a target.
 */
#include "io/faults/io_fault.h"
#include "tests/convert/dataset_case.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Runs the conversion in a child process, and kills it once this file exists. */
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
    static const char *const kill_points[] = {".millrace-convert.jsonl", "train/shard-000000.tar",
                                              "val/shard-000000.tar", "train/shard-000007.tar",
                                              "train/dataset.json"};
    write_classes(fixture, 40);
    write_source(fixture, "b/broken.jpg", "\xff\xd8\xff\xe0not really", 14);
    static const char *const index_fields[] = {"jpg:width=width"};
    fixture->options.skip_errors = true;
    fixture->options.index_fields = (struct convert_string_list){index_fields, 1};
    fixture->options.shard_samples = 12;
    fixture->options.splits_count = 2;
    fixture->options.splits[0] = (struct convert_split){"train", 0.8};
    fixture->options.splits[1] = (struct convert_split){"val", 0.2};
    assert_converts(fixture);
    struct convert_result uninterrupted = fixture->result;
    assert_int_equal(test_run("mv '%s' '%s/uninterrupted'", fixture->target, fixture->folder), 0);
    for (size_t i = 0; i < sizeof kill_points / sizeof kill_points[0]; i++) {
        fixture->options.resume = false;
        convert_and_kill(fixture, kill_points[i]);
        assert_int_equal(test_run("test -e '%s'", fixture->target), 0);
        fixture->options.resume = true;
        assert_converts(fixture);
        /* a kill at the very end may leave the file of a released lock */
        assert_int_equal(test_run("diff -r -x .millrace-owner '%s' '%s/uninterrupted'",
                                  fixture->target, fixture->folder),
                         0);
        assert_int_equal(fixture->result.samples_count, uninterrupted.samples_count);
        /* the counts include the runs it resumes */
        if (strcmp(kill_points[i], "train/dataset.json") != 0)
            assert_memory_equal(&fixture->result.jpegs, &uninterrupted.jpegs,
                                sizeof uninterrupted.jpegs);
        assert_converts(fixture); /* now already complete */
        assert_int_equal(fixture->result.samples_count, uninterrupted.samples_count);
        assert_int_equal(test_run("rm -r '%s'", fixture->target), 0);
    }
}

/* Converts in a child process whose file operations follow rules. Returns whether it was killed. */
static bool convert_is_killed(struct fixture *fixture, const char *rules)
{
    int status;
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct io *io;
        _exit(io_fault_open("file:", NULL, rules, &io, NULL) ||
              convert_dataset(io, &fixture->options, &fixture->result, NULL));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) ? WTERMSIG(status) == SIGKILL : WEXITSTATUS(status) == 0);
    return WIFSIGNALED(status);
}

static void a_conversion_killed_before_any_operation_resumes_to_the_same_bytes(void **state)
{
    struct fixture *fixture = *state;
    static const char *const operations[] = {"folder", "durable", "list", "lock", "stat"};
    write_classes(fixture, 4);
    fixture->options.resume = true;
    for (int splits = 0; splits < 2; splits++) {
        if (splits)
            set_train_val_splits(fixture);
        fixture->options.shard_samples = 5;
        assert_converts(fixture);
        copy_target(fixture, splits ? "split" : "plain");
        for (size_t i = 0; i < sizeof operations / sizeof operations[0]; i++) {
            char rules[64];
            int at = 0;
            do {
                assert_int_equal(test_run("rm -rf '%s'", fixture->target), 0);
                snprintf(rules, sizeof rules, "%s:kill@%d", operations[i], ++at);
                if (!convert_is_killed(fixture, rules))
                    break;
                assert_converts(fixture);
                assert_target_equals(fixture, splits ? "split" : "plain");
            } while (true);
            assert_true(at > 1);
        }
        assert_int_equal(test_run("rm -rf '%s'", fixture->target), 0);
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
    set_train_val_splits(fixture);
    fixture->options.shard_samples = 3;
    convert_and_kill(fixture, "val/shard-000002.tar");
    assert_int_equal(test_run("mv '%s/other' '%s/other'", fixture->folder, fixture->target), 0);
    fixture->options.force = true;
    fixture->options.splits_count = 0;
    fixture->options.shard_samples = 0;
    /* the target also contains another dataset */
    assert_int_equal(convert(fixture), -EEXIST);
    assert_int_equal(test_run("mv '%s' '%s/was' && mv '%s/was/other' '%s' && rmdir '%s/was'",
                              fixture->target, fixture->folder, fixture->folder, fixture->target,
                              fixture->folder),
                     0);
    assert_target_equals(fixture, "plain");
}

/* A conversion in a separate process. It blocks after its first item until resume_paused. */
struct paused_conversion {
    pid_t child;
    int paused_pipe[2], resume_pipe[2]; /* pipes */
};

static void pause_once(void *context, uint64_t items_done, uint64_t items, uint64_t bytes_done,
                       uint64_t bytes)
{
    struct paused_conversion *paused = context;
    char letter = 0;
    (void)items_done;
    (void)items;
    (void)bytes_done;
    (void)bytes;
    if (paused->child == 0) {
        paused->child = -1;
        if (write(paused->paused_pipe[1], &letter, 1) != 1 ||
            read(paused->resume_pipe[0], &letter, 1) != 1)
            _exit(2);
    }
}

static void start_paused(const struct fixture *fixture, struct paused_conversion *paused)
{
    char letter;
    assert_int_equal(pipe(paused->paused_pipe), 0);
    assert_int_equal(pipe(paused->resume_pipe), 0);
    fflush(NULL);
    paused->child = fork();
    assert_true(paused->child >= 0);
    if (paused->child == 0) {
        struct convert_options options = fixture->options;
        struct convert_result result;
        struct io *io;
        close(paused->resume_pipe[1]); /* so that it exits with its parent */
        options.progress = pause_once;
        options.progress_context = paused;
        _exit(io_open("file:", NULL, &io, NULL) || convert_dataset(io, &options, &result, NULL));
    }
    assert_int_equal(read(paused->paused_pipe[0], &letter, 1), 1);
}

static void close_pipes(const struct paused_conversion *paused)
{
    for (int i = 0; i < 2; i++) {
        close(paused->paused_pipe[i]);
        close(paused->resume_pipe[i]);
    }
}

/* Lets the conversion continue. It must succeed. */
static void resume_paused(const struct paused_conversion *paused)
{
    int status;
    assert_int_equal(write(paused->resume_pipe[1], "", 1), 1);
    assert_int_equal(waitpid(paused->child, &status, 0), paused->child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    close_pipes(paused);
}

/* Checks that, with each option, the conversion changes nothing and fails with an error that names
 * the other process. */
static void assert_is_busy(struct fixture *fixture, const struct paused_conversion *paused)
{
    char before[4096], after[4096], pid[32];
    const struct convert_options options = fixture->options;
    snprintf(pid, sizeof pid, "pid=%d ", (int)paused->child);
    assert_int_equal(test_run_output(before, sizeof before, "find '%s' | sort", fixture->folder),
                     0);
    for (int mode = 0; mode < 3; mode++) {
        fixture->options.resume = mode == 1;
        fixture->options.force = mode == 2;
        /* the dataset that the other process will replace still exists */
        bool has_old_dataset = options.force && mode < 2;
        int status = convert(fixture);
        if (has_old_dataset && mode == 0) {
            assert_int_equal(status, -EEXIST);
        } else if (!has_old_dataset) {
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

static void a_target_in_use_by_another_conversion_stays_unchanged(void **state)
{
    struct fixture *fixture = *state;
    struct paused_conversion paused;
    write_classes(fixture, 20);
    for (int splits = 0; splits < 2; splits++) {
        const char *copy = splits ? "split" : "plain";
        if (splits)
            set_train_val_splits(fixture);
        fixture->options.shard_samples = 5;
        fixture->options.force = false;
        start_paused(fixture, &paused);
        assert_is_busy(fixture, &paused);
        resume_paused(&paused);
        copy_target(fixture, copy);
        assert_int_equal(test_run("rm -r '%s'", fixture->target), 0);
        assert_converts(fixture);
        assert_target_equals(fixture, copy);
        /* Repeats this while the other process replaces a dataset. */
        fixture->options.force = true;
        fixture->options.shard_samples = 7;
        start_paused(fixture, &paused);
        assert_is_busy(fixture, &paused);
        resume_paused(&paused);
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
    struct paused_conversion paused;
    int status;
    write_classes(fixture, 20);
    assert_converts(fixture);
    copy_target(fixture, "whole");
    /* --resume, --force on an incomplete target, --force on a complete one */
    for (int mode = 0; mode < 3; mode++) {
        if (mode < 2)
            assert_int_equal(test_run("rm -r '%s'", fixture->target), 0);
        fixture->options.resume = false;
        fixture->options.force = mode == 2;
        start_paused(fixture, &paused);
        assert_int_equal(kill(paused.child, SIGKILL), 0);
        assert_int_equal(waitpid(paused.child, &status, 0), paused.child);
        close_pipes(&paused);
        assert_int_equal(test_run("test -s '%s/.millrace-owner'", fixture->target), 0);
        fixture->options.resume = mode == 0;
        fixture->options.force = mode > 0;
        assert_converts(fixture);
        assert_target_equals(fixture, "whole");
    }
}

/* Simulates another process that takes over the target of a suspended conversion. */
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
struct stop_trigger {
    atomic_int stop;
    uint64_t after, calls;
};

static void stop_after(void *context, uint64_t items_done, uint64_t items, uint64_t bytes_done,
                       uint64_t bytes)
{
    struct stop_trigger *stopper = context;
    assert_true(items_done <= items && bytes_done <= bytes);
    stopper->calls++;
    if (items_done >= stopper->after)
        atomic_store(&stopper->stop, 1);
}

static void a_stopped_conversion_keeps_complete_shards_and_resumes_only_unchanged(void **state)
{
    struct fixture *fixture = *state;
    struct stop_trigger stopper = {.after = UINT64_MAX};
    write_classes(fixture, 30);
    assert_converts(fixture);
    assert_int_equal(test_run("rm -r '%s'", fixture->target), 0);
    fixture->options.stop = &stopper.stop;
    fixture->options.progress = stop_after;
    fixture->options.progress_context = &stopper;
    atomic_store(&stopper.stop, 1);
    assert_int_equal(convert(fixture), -EINTR);
    assert_false(fixture->result.is_resumable);
    assert_no_target(fixture);
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
        CASE(a_conversion_killed_before_any_operation_resumes_to_the_same_bytes),
        CASE(a_killed_forced_conversion_leaves_the_old_dataset_or_the_new),
        CASE(restarting_an_interrupted_conversion_clears_only_its_splits),
        CASE(a_target_in_use_by_another_conversion_stays_unchanged),
        CASE(a_killed_conversions_target_is_free_immediately),
        CASE(a_conversion_whose_target_was_replaced_removes_nothing),
        CASE(a_killed_conversion_resumes_to_the_same_bytes),
        CASE(a_stopped_conversion_keeps_complete_shards_and_resumes_only_unchanged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
