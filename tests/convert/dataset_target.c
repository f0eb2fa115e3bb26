/*
 * Where datasets are converted to: an existing target is kept, an interrupted conversion goes on to the same bytes.
 */
#include "io/whole.h"
#include "tests/convert/dataset_case.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void an_existing_target_is_kept_unless_forced(void **state)
{
    struct fixture *fixture = *state;
    write_classes(fixture, 3);
    assert_converts(fixture);
    assert_int_equal(test_run("cp -r '%s' '%s/before'", fixture->target, fixture->folder), 0);
    assert_int_equal(convert(fixture), -EEXIST);
    assert_non_null(strstr(fixture->err.advice, "--force"));
    assert_int_equal(test_run("diff -r '%s' '%s/before'", fixture->target, fixture->folder), 0);
    assert_int_equal(test_run("echo mine >'%s/notes.md'", fixture->target), 0);
    fixture->options.force = true;
    fixture->options.shard_samples = 2;
    assert_converts(fixture);
    fixture->options.shard_samples = 0;
    assert_converts(fixture);
    assert_int_equal(test_run("rm '%s/notes.md' && diff -r '%s' '%s/before'", fixture->target,
                              fixture->target, fixture->folder),
                     0);
    fixture->options.force = false;
    assert_int_equal(test_run("rm -r '%s' && mkdir '%s' && touch '%s/notes.md'", fixture->target,
                              fixture->target, fixture->target),
                     0);
    assert_int_equal(convert(fixture), -EEXIST);
    fixture->options.resume = true;
    assert_int_equal(convert(fixture), -EEXIST);
}

/* Runs the conversion in a child that is killed once so many shards stand. */
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
    while (fixture->io->ops->stat(fixture->io, path, &info, NULL) && !waited) {
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
        assert_int_equal(test_run("diff -r '%s' '%s/alone'", fixture->target, fixture->folder), 0);
        assert_int_equal(fixture->result.samples_count, alone.samples_count);
        assert_converts(fixture); /* once more: done already */
        assert_int_equal(fixture->result.samples_count, alone.samples_count);
        assert_int_equal(test_run("rm -r '%s'", fixture->target), 0);
    }
}

/* Stops once so many items are done. */
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

static void a_stopped_conversion_keeps_whole_shards_and_resumes_only_as_itself(void **state)
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
    assert_nothing_left(fixture);
    /* A broken item in the middle of the order ends it after some shards. */
    atomic_store(&stopper.stop, 0);
    fixture->options.shard_samples = 5;
    fixture->options.keep_order = true;
    write_source(fixture, "b/0045.jpg", "broken", 6);
    assert_int_equal(convert(fixture), -EBADMSG);
    assert_int_equal(test_run("cd '%s' && ls | grep -c '^shard' >/dev/null && test ! -e dataset.json && "
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
        CASE(an_existing_target_is_kept_unless_forced),
        CASE(a_killed_conversion_resumes_to_the_same_bytes),
        CASE(a_stopped_conversion_keeps_whole_shards_and_resumes_only_as_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
