/*
 * The target of a dataset conversion: an existing dataset is kept unless --force replaces it.
 */
#include "tests/convert/dataset_case.h"

#include <errno.h>
#include <string.h>

static void an_existing_target_is_kept_unless_forced(void **state)
{
    struct fixture *fixture = *state;
    write_classes(fixture, 3);
    assert_converts(fixture);
    assert_int_equal(test_run("cp -r '%s' '%s/before'", fixture->target, fixture->folder), 0);
    assert_int_equal(convert(fixture), -EEXIST);
    assert_non_null(strstr(fixture->err.advice, "--force"));
    assert_int_equal(test_run("diff -r '%s' '%s/before'", fixture->target, fixture->folder), 0);
    fixture->options.force = true;
    fixture->options.shard_samples = 2;
    assert_converts(fixture);
    assert_int_equal(fixture->result.shards_count, 5);
    fixture->options.shard_samples = 0;
    assert_converts(fixture);
    assert_target_equals(fixture, "before");
    fixture->options.resume = true;
    assert_int_equal(convert(fixture), -EINVAL);
    fixture->options.resume = fixture->options.force = false;
    assert_int_equal(test_run("rm -r '%s' && mkdir '%s' && touch '%s/notes.md'", fixture->target,
                              fixture->target, fixture->target),
                     0);
    assert_int_equal(convert(fixture), -EEXIST);
    fixture->options.resume = true;
    assert_int_equal(convert(fixture), -EEXIST);
}

static void force_keeps_unrelated_datasets_and_files(void **state)
{
    struct fixture *fixture = *state;
    char below[TEST_PATH_BYTES_MAX + 64];
    const char *target = fixture->target;
    write_classes(fixture, 3);
    snprintf(below, sizeof below, "%s/other", fixture->target);
    fixture->options.target = below;
    assert_converts(fixture);
    fixture->options.target = target;
    copy_target(fixture, "before");
    /* The target is the parent of another dataset. */
    assert_int_equal(convert(fixture), -EEXIST);
    assert_null(strstr(fixture->err.advice, "--force"));
    fixture->options.force = true;
    assert_int_equal(convert(fixture), -EEXIST);
    assert_target_equals(fixture, "before");
    /* With splits next to it, only the folders of the splits are replaced. */
    set_train_val_splits(fixture);
    assert_int_equal(convert(fixture), -EEXIST);
    assert_int_equal(test_run("mv '%s/other' '%s/aside'", target, fixture->folder), 0);
    fixture->options.force = false;
    assert_converts(fixture);
    assert_int_equal(test_run("mv '%s/aside' '%s/other' && touch '%s/notes.md'", fixture->folder,
                              target, target),
                     0);
    copy_target(fixture, "split");
    fixture->options.force = true;
    fixture->options.shard_samples = 1;
    assert_converts(fixture);
    fixture->options.shard_samples = 0;
    assert_converts(fixture);
    assert_target_equals(fixture, "split");
    /* A file, a folder or a single shard inside what would be replaced. */
    static const char *const foreign_files[] = {"train/notes.md", "val/more/a.txt", "train/more"};
    for (size_t i = 0; i < sizeof foreign_files / sizeof foreign_files[0]; i++) {
        assert_int_equal(test_run("mkdir -p $(dirname '%s/%s') && touch '%s/%s'", target,
                                  foreign_files[i], target, foreign_files[i]),
                         0);
        assert_int_equal(convert(fixture), -EEXIST);
        assert_int_equal(test_run("rm '%s/%s' && diff -r '%s/train' '%s/split/train'", target,
                                  foreign_files[i], target, fixture->folder),
                         0);
        assert_int_equal(test_run("rm -rf '%s/val/more'", target), 0);
    }
    assert_int_equal(test_run("rm '%s/train/dataset.json'", target), 0);
    assert_int_equal(convert(fixture), -EEXIST);
    assert_int_equal(test_run("ls '%s/train/shard-000000.tar' >/dev/null", target), 0);
}

static void a_forced_conversion_that_fails_keeps_the_old_dataset(void **state)
{
    struct fixture *fixture = *state;
    write_classes(fixture, 10);
    for (int splits = 0; splits < 2; splits++) {
        const char *copy = splits ? "split" : "plain";
        if (splits)
            set_train_val_splits(fixture);
        fixture->options.shard_samples = 4;
        fixture->options.force = false;
        assert_converts(fixture);
        copy_target(fixture, copy);
        fixture->options.force = true;
        fixture->options.shard_samples = 3;
        write_source(fixture, "b/0099.jpg", "broken", 6);
        assert_int_equal(convert(fixture), -EBADMSG);
        assert_target_equals(fixture, copy);
        assert_int_equal(test_run("rm '%s/b/0099.jpg'", fixture->source), 0);
        assert_converts(fixture);
        assert_int_not_equal(
            test_run("diff -r '%s' '%s/%s' >/dev/null", fixture->target, fixture->folder, copy), 0);
        assert_int_equal(test_run("rm -r '%s'", fixture->target), 0);
    }
}

static void resuming_a_complete_dataset_requires_unchanged_sources(void **state)
{
    struct fixture *fixture = *state;
    write_classes(fixture, 5);
    assert_converts(fixture);
    copy_target(fixture, "before");
    fixture->options.resume = true;
    assert_converts(fixture);
    assert_non_null(strstr(fixture->log, "already complete"));
    assert_int_equal(fixture->result.samples_count, 15);
    /* A different file with the same name; the number and names of items stay the same. */
    write_jpeg(fixture, "b/0000.jpg", 77);
    assert_int_equal(convert(fixture), -ESTALE);
    assert_non_null(strstr(fixture->err.advice, "--force"));
    /* One more item, then one less, when items may be skipped. */
    fixture->options.skip_errors = true;
    write_jpeg(fixture, "b/more.jpg", 78);
    assert_int_equal(convert(fixture), -ESTALE);
    assert_int_equal(
        test_run("rm '%s/b/more.jpg' '%s/b/0000.jpg'", fixture->source, fixture->source), 0);
    assert_int_equal(convert(fixture), -ESTALE);
    fixture->options.shard_samples = 4;
    assert_int_equal(convert(fixture), -ESTALE);
    assert_target_equals(fixture, "before");
}

static void splits_replace_an_unsplit_dataset(void **state)
{
    struct fixture *fixture = *state;
    write_classes(fixture, 5);
    set_train_val_splits(fixture);
    assert_converts(fixture);
    copy_target(fixture, "split");
    assert_int_equal(test_run("rm -r '%s'", fixture->target), 0);
    fixture->options.splits_count = 0;
    assert_converts(fixture);
    fixture->options.force = true;
    set_train_val_splits(fixture);
    assert_converts(fixture);
    assert_target_equals(fixture, "split");
    /* the reverse: the folders of the splits do not belong to this conversion */
    fixture->options.splits_count = 0;
    assert_int_equal(convert(fixture), -EEXIST);
    assert_target_equals(fixture, "split");
}

/* Simulates shared storage: if a lease exists, the lock's owner acquires one too. */
static void a_finished_dataset_contains_no_lease_files(void **state)
{
    struct fixture *fixture = *state;
    write_classes(fixture, 2);
    assert_converts(fixture);
    copy_target(fixture, "without");
    for (int force = 0; force < 2; force++) {
        fixture->options.force = force;
        if (!force)
            assert_int_equal(test_run("rm -r '%s' && mkdir '%s'", fixture->target, fixture->target),
                             0);
        assert_int_equal(test_run("mkdir '%s/.millrace-lease'", fixture->target), 0);
        assert_converts(fixture);
        assert_target_equals(fixture, "without");
    }
}

static void source_and_target_must_not_overlap(void **state)
{
    struct fixture *fixture = *state;
    char path[2 * TEST_PATH_BYTES_MAX], listed[4096], after[4096];
    static const char *const within[] = {
        "source/target",   "source/a/target",   "source/../source/./a",
        "link/target",     "a/link/new/target", "source/",
        "up/source/x/y/z", "link/../source/t",  "."};
    write_classes(fixture, 2);
    assert_int_equal(
        test_run("cd '%s' && mkdir a && ln -s source link && ln -s ../source/a a/link && "
                 "ln -s . up",
                 fixture->folder),
        0);
    assert_int_equal(test_run_output(listed, sizeof listed, "find '%s' | sort", fixture->folder),
                     0);
    fixture->options.target = path;
    for (int force = 0; force < 2; force++)
        for (size_t i = 0; i < sizeof within / sizeof within[0]; i++) {
            fixture->options.force = force;
            snprintf(path, sizeof path, "%s/%s", fixture->folder, within[i]);
            if (convert(fixture) != -EINVAL)
                fail_msg("%s was accepted", path);
        }
    assert_int_equal(test_run_output(after, sizeof after, "find '%s' | sort", fixture->folder), 0);
    assert_string_equal(after, listed);
    fixture->options.force = false;
    /* a prefix is not a parent */
    snprintf(path, sizeof path, "%s/source-2", fixture->folder);
    assert_converts(fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(an_existing_target_is_kept_unless_forced),
        CASE(force_keeps_unrelated_datasets_and_files),
        CASE(a_forced_conversion_that_fails_keeps_the_old_dataset),
        CASE(resuming_a_complete_dataset_requires_unchanged_sources),
        CASE(splits_replace_an_unsplit_dataset),
        CASE(a_finished_dataset_contains_no_lease_files),
        CASE(source_and_target_must_not_overlap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
