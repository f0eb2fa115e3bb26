/*
 * set — outputs that appear whole: the order of what is made durable, refusals, failures, sweeps.
 */
#include "io/whole.h"
#include "tests/io/syscalls.h"
#include "tests/support/engines.h"
#include "tests/support/scratch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct io_queue *queue;

static int set_up(void **state)
{
    struct err err = {0};
    syscalls_reset();
    scratch_set_up(state);
    assert_ok(io->ops->queue_open(io, 4, &queue, &err), &err);
    return 0;
}

static int tear_down(void **state)
{
    syscalls_reset();
    io->ops->queue_close(queue);
    return scratch_tear_down(state);
}

static bool exists(const char *name)
{
    struct stat info;
    return lstat(in_folder(name), &info) == 0;
}

static struct io_set *begin(const struct io_set_options *options)
{
    struct err err = {0};
    struct io_set *set = NULL;
    assert_ok(io->ops->set_begin(io, options, &set, &err), &err);
    return set;
}

static struct io_set *begin_named(const char *name, const char *owner_id)
{
    return begin(&(struct io_set_options){.path = in_folder(name), .owner_id = owner_id});
}

static int put(struct io_set *set, const char *name, const char *text, struct err *err)
{
    struct io_file *file;
    int status = io->ops->set_create(set, name, strlen(text), &file, err);
    if (status)
        return status;
    status = io_write_exact(queue, io, file, name, 0, text, strlen(text), err);
    int sealed = io->ops->set_seal(set, file, strlen(text), err);
    return status ? status : sealed;
}

static void assert_content(const char *name, const char *text)
{
    size_t bytes;
    char *data = (char *)test_read_file(in_folder(name), &bytes);
    assert_string_equal(data, text);
    free(data);
}

/* The entries of the folder, one a line. */
static void assert_entries(const char *expected)
{
    char text[4000];
    assert_int_equal(test_run_output(text, sizeof text, "cd '%s' && LC_ALL=C ls -A", folder), 0);
    assert_string_equal(text, expected);
}

static void a_folder_becomes_durable_in_this_order(void **state)
{
    (void)state;
    struct err err = {0};
    syscalls_record(folder);
    struct io_set *set =
        begin(&(struct io_set_options){.path = in_folder("out"), .owner_id = "run-1", .attempt = 3});
    assert_ok(put(set, "a", "first", &err), &err);
    assert_ok(put(set, "train/b", "second", &err), &err);
    assert_ok(io->ops->set_publish(set, &err), &err);
    assert_string_equal(syscalls_recorded(), "mkdir .tmp-out-run%2d1-3-NONCE\n"
                                             "fsync .\n"
                                             "create .tmp-out-run%2d1-3-NONCE/a\n"
                                             "fallocate .tmp-out-run%2d1-3-NONCE/a\n"
                                             "pwrite .tmp-out-run%2d1-3-NONCE/a\n"
                                             "fsync .tmp-out-run%2d1-3-NONCE/a\n"
                                             "fsync .tmp-out-run%2d1-3-NONCE\n"
                                             "mkdir .tmp-out-run%2d1-3-NONCE/train\n"
                                             "fsync .tmp-out-run%2d1-3-NONCE\n"
                                             "create .tmp-out-run%2d1-3-NONCE/train/b\n"
                                             "fallocate .tmp-out-run%2d1-3-NONCE/train/b\n"
                                             "pwrite .tmp-out-run%2d1-3-NONCE/train/b\n"
                                             "fsync .tmp-out-run%2d1-3-NONCE/train/b\n"
                                             "fsync .tmp-out-run%2d1-3-NONCE/train\n"
                                             "fsync .tmp-out-run%2d1-3-NONCE\n"
                                             "renameat2 .tmp-out-run%2d1-3-NONCE -> out\n"
                                             "fsync .\n");
    assert_content("out/a", "first");
    assert_content("out/train/b", "second");
    assert_entries("out\n");
}

static void a_single_file_becomes_durable_in_this_order(void **state)
{
    (void)state;
    struct err err = {0};
    syscalls_record(folder);
    assert_ok(io_write_file(io, in_folder("x.json"), "text", 4, false, &err), &err);
    assert_ok(io_write_file(io, in_folder("x.json"), "more", 4, true, &err), &err);
    assert_string_equal(syscalls_recorded(), "create .tmp-x.json-0-0-NONCE\n"
                                             "fallocate .tmp-x.json-0-0-NONCE\n"
                                             "pwrite .tmp-x.json-0-0-NONCE\n"
                                             "fsync .tmp-x.json-0-0-NONCE\n"
                                             "renameat2 .tmp-x.json-0-0-NONCE -> x.json\n"
                                             "fsync .\n"
                                             "create .tmp-x.json-0-0-NONCE\n"
                                             "fallocate .tmp-x.json-0-0-NONCE\n"
                                             "pwrite .tmp-x.json-0-0-NONCE\n"
                                             "fsync .tmp-x.json-0-0-NONCE\n"
                                             "rename .tmp-x.json-0-0-NONCE -> x.json\n"
                                             "fsync .\n");
    assert_content("x.json", "more");
}

static void removing_a_folder_hides_it_durably_before_it_is_emptied(void **state)
{
    (void)state;
    struct err err = {0};
    assert_int_equal(mkdir(in_folder("old"), 0777), 0);
    test_write_file(in_folder("old/a"), "x", 1);
    syscalls_record(folder);
    assert_ok(io->ops->remove(io, in_folder("old"), &err), &err);
    const char *expected = "rename old -> .tmp-old-removed-0-NONCE\n"
                           "fsync .\n";
    assert_memory_equal(syscalls_recorded(), expected, strlen(expected));
    assert_entries("");
}

static void made_folders_are_durable(void **state)
{
    (void)state;
    struct err err = {0};
    syscalls_record(folder);
    assert_ok(io->ops->make_folder(io, in_folder("a/b"), &err), &err);
    assert_string_equal(syscalls_recorded(), "mkdir a\nfsync .\nmkdir a/b\nfsync a\n");
}

static void the_final_size_is_what_was_sealed(void **state)
{
    (void)state;
    struct err err = {0};
    struct io_file *file;
    struct stat info;
    struct io_set *set = begin_named("out", NULL);
    assert_ok(io->ops->set_create(set, "cut", 1 << 20, &file, &err), &err);
    assert_ok(io_write_exact(queue, io, file, "cut", 0, "0123456789", 10, &err), &err);
    char back[4];
    assert_ok(io_read_exact(queue, io, file, "cut", 3, back, 4, &err),
              &err); /* readable before it is sealed */
    assert_memory_equal(back, "3456", 4);
    assert_ok(io->ops->set_seal(set, file, 7, &err), &err);
    assert_ok(io->ops->set_create(set, "empty", 0, &file, &err), &err);
    assert_ok(io->ops->set_seal(set, file, 0, &err), &err);
    assert_ok(io->ops->set_create(set, "grown", 0, &file, &err), &err);
    assert_ok(io->ops->set_seal(set, file, 5000, &err), &err);
    assert_ok(io->ops->set_publish(set, &err), &err);
    assert_content("out/cut", "0123456");
    assert_content("out/empty", "");
    assert_int_equal(stat(in_folder("out/grown"), &info), 0);
    assert_int_equal(info.st_size, 5000);
    assert_int_equal(stat(in_folder("out/cut"), &info), 0);
    assert_true(info.st_blocks * 512 <= 8192); /* what was reserved is given back */
}

static void existing_names_are_refused_at_begin_and_at_publish(void **state)
{
    (void)state;
    struct err err = {0};
    for (int single = 0; single < 2; single++) {
        const char *name = single ? "file" : "out";
        struct io_set_options options = {.path = in_folder(name), .single_file = single};
        struct io_set *set = begin(&options), *second = NULL;
        assert_ok(put(set, single ? "" : "a", "mine", &err), &err);
        test_write_file(in_folder(name), "somebody else's", 15); /* meanwhile */
        assert_int_equal(io->ops->set_begin(io, &options, &second, &err), -EEXIST);
        assert_null(second);
        assert_int_equal(io->ops->set_publish(set, &err), -EEXIST);
        assert_string_not_equal(err.advice, "");
        assert_content(name, "somebody else's");
        assert_int_equal(unlink(in_folder(name)), 0);
    }
    assert_entries("");
}

static void an_empty_folder_of_the_final_name_is_refused_too(void **state)
{
    (void)state;
    for (int unsupported = 0; unsupported < 2; unsupported++) {
        struct err err = {0};
        if (unsupported)
            syscalls_fail("renameat2", 0, -EINVAL);
        struct io_set *set = begin_named("out", NULL);
        assert_ok(put(set, "a", "mine", &err), &err);
        assert_int_equal(mkdir(in_folder("out"), 0777), 0);
        assert_int_equal(io->ops->set_publish(set, &err), -EEXIST);
        assert_false(exists("out/a"));
        assert_int_equal(rmdir(in_folder("out")), 0);
        assert_entries("");
    }
}

static void replacing_leaves_the_new_one_only(void **state)
{
    (void)state;
    for (int unsupported = 0; unsupported < 2; unsupported++) { /* with RENAME_EXCHANGE and without */
        struct err err = {0};
        if (unsupported)
            syscalls_fail("renameat2", 0, -EINVAL);
        for (int round = 0; round < 3; round++) {
            const char *texts[] = {"one", "two", "three"};
            struct io_set *set = begin(&(struct io_set_options){.path = in_folder("out/"), .replace = true});
            assert_ok(put(set, texts[round], texts[round], &err), &err);
            if (round > 0)
                assert_content(round == 1 ? "out/one" : "out/two", texts[round - 1]); /* until the publish */
            assert_ok(io->ops->set_publish(set, &err), &err);
            char path[32];
            snprintf(path, sizeof path, "out/%s", texts[round]);
            assert_content(path, texts[round]);
            assert_entries("out\n");
        }
        assert_false(exists("out/one"));
        assert_false(exists("out/two"));
        assert_int_equal(syscalls_failed_count() > 0, unsupported);
        assert_ok(io->ops->remove(io, in_folder("out"), &err), &err);
    }
}

/* Renames in turn: the old one aside, the new one to its name, which fails, the old one back. */
static void a_replacing_that_fails_in_the_middle_gives_the_old_one_back(void **state)
{
    (void)state;
    struct err err = {0};
    struct io_set *set = begin_named("out", NULL);
    assert_ok(put(set, "a", "old", &err), &err);
    assert_ok(io->ops->set_publish(set, &err), &err);
    set = begin(&(struct io_set_options){.path = in_folder("out"), .replace = true});
    assert_ok(put(set, "b", "new", &err), &err);
    syscalls_refuse_rename_flags();
    syscalls_fail("rename", 2, -EIO);
    assert_int_equal(io->ops->set_publish(set, &err), -EIO);
    assert_int_equal(syscalls_failed_count(), 1);
    assert_content("out/a", "old");
    assert_entries("out\n");
}

static void an_old_one_that_can_not_be_put_aside_waits_for_the_sweep(void **state)
{
    (void)state;
    struct err err = {0};
    struct io_set *set = begin_named("out", NULL);
    assert_ok(put(set, "a", "old", &err), &err);
    assert_ok(io->ops->set_publish(set, &err), &err);
    set = begin(
        &(struct io_set_options){.path = in_folder("out"), .replace = true, .aside = in_folder("aside-out")});
    assert_ok(put(set, "b", "new", &err), &err);
    syscalls_fail("rename", 1, -EIO);
    assert_ok(io->ops->set_publish(set, &err), &err);
    assert_int_equal(syscalls_failed_count(), 1);
    assert_content("out/b", "new");
    assert_int_equal(test_run("test \"$(cat '%s'/.tmp-*/a)\" = old", folder), 0);
    assert_int_equal(io->ops->sweep(io, folder, NULL, NULL, &err), 1);
    assert_entries("out\n");
}

static void files_replace_files_and_folders_folders_only(void **state)
{
    (void)state;
    struct err err = {0};
    struct io_set *set = NULL;
    test_write_file(in_folder("file"), "x", 1);
    assert_int_equal(mkdir(in_folder("folder"), 0777), 0);
    struct io_set_options over_file = {.path = in_folder("file"), .replace = true};
    struct io_set_options over_folder = {.path = in_folder("folder"), .replace = true, .single_file = true};
    assert_int_equal(io->ops->set_begin(io, &over_file, &set, &err), -EEXIST);
    assert_int_equal(io->ops->set_begin(io, &over_folder, &set, &err), -EEXIST);
    assert_null(set);
    assert_entries("file\nfolder\n");
}

static void publishing_works_where_renames_have_no_flags(void **state)
{
    (void)state;
    struct err err = {0};
    syscalls_fail("renameat2", 0, -EINVAL);
    struct io_set *set = begin_named("out", NULL);
    assert_ok(put(set, "a", "text", &err), &err);
    assert_ok(io->ops->set_publish(set, &err), &err);
    assert_ok(io_write_file(io, in_folder("file"), "text", 4, false, &err), &err);
    assert_int_equal(io_write_file(io, in_folder("file"), "other", 5, false, &err), -EEXIST);
    assert_int_equal(syscalls_failed_count(), 2);
    assert_content("out/a", "text");
    assert_content("file", "text");
    assert_entries("file\nout\n");
}

static void names_within_a_set_are_its_own_and_taken_once(void **state)
{
    (void)state;
    struct err err = {0};
    struct io_file *file = NULL;
    static const char *const wrong[] = {"", ".", "..", "../x", "a/../../x", "/etc/x", "a//b", "a/", "a/."};
    struct io_set *set = begin_named("out", NULL);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_int_equal(io->ops->set_create(set, wrong[i], 0, &file, &err), -EINVAL);
    assert_ok(put(set, "a", "x", &err), &err);
    assert_int_equal(io->ops->set_create(set, "a", 0, &file, &err), -EEXIST);
    assert_null(file);
    io->ops->set_abort(set);
    assert_entries("");
}

static void final_names_that_can_not_be_are_refused(void **state)
{
    (void)state;
    struct err err = {0};
    struct io_set *set = NULL;
    static const char *const wrong[] = {"", "/", ".", "..", "x/..", "x/.", ".tmp-x", "a/.tmp-x"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_int_equal(io->ops->set_begin(io, &(struct io_set_options){.path = wrong[i]}, &set, &err),
                         -EINVAL);
    assert_int_equal(io->ops->set_begin(io, &(struct io_set_options){.path = in_folder("no/x")}, &set, &err),
                     -ENOENT);
    assert_null(set);
}

static void long_names_still_have_temporary_ones(void **state)
{
    (void)state;
    struct err err = {0};
    char name[256], owner[65];
    memset(name, 'n', 255);
    name[255] = '\0';
    memset(owner, '-', 64);
    owner[64] = '\0';
    struct io_set *set = begin(&(struct io_set_options){
        .path = in_folder(name), .single_file = true, .owner_id = "a.long_owner", .attempt = UINT64_MAX});
    assert_ok(put(set, "", "x", &err), &err);
    assert_ok(io->ops->set_publish(set, &err), &err);
    assert_content(name, "x");
    set = begin(&(struct io_set_options){.path = in_folder("s"), .owner_id = owner, .attempt = UINT64_MAX});
    io->ops->set_abort(set);
    char too_long[66] = "";
    memset(too_long, 'o', 65);
    struct io_set_options refused = {.path = in_folder("s"), .owner_id = too_long};
    assert_int_equal(io->ops->set_begin(io, &refused, &set, &err), -ENAMETOOLONG);
}

static void abort_removes_everything(void **state)
{
    (void)state;
    struct err err = {0};
    struct io_file *file;
    struct io_set *set = begin_named("out", NULL);
    assert_ok(put(set, "a/b", "x", &err), &err);
    assert_ok(io->ops->set_create(set, "open", 1000, &file, &err), &err);
    io->ops->set_abort(set);
    set = begin(&(struct io_set_options){.path = in_folder("file"), .single_file = true});
    io->ops->set_abort(set); /* before it has a file */
    set = begin(&(struct io_set_options){.path = in_folder("file"), .single_file = true});
    assert_ok(io->ops->set_create(set, "", 1000, &file, &err), &err);
    io->ops->set_abort(set);
    io->ops->set_abort(NULL);
    assert_entries("");
}

static void an_unsealed_file_keeps_its_set_from_being_published(void **state)
{
    (void)state;
    struct err err = {0};
    struct io_file *file;
    struct io_set *set = begin_named("out", NULL);
    assert_ok(io->ops->set_create(set, "a", 10, &file, &err), &err);
    assert_int_equal(io->ops->set_publish(set, &err), -EINVAL);
    assert_entries("");
}

static void a_failed_fsync_is_not_tried_again_and_loses_the_set(void **state)
{
    (void)state;
    struct err err = {0};
    struct io_file *file;
    struct io_set *set = begin_named("out", NULL);
    assert_ok(io->ops->set_create(set, "a", 0, &file, &err), &err);
    assert_ok(io_write_exact(queue, io, file, "a", 0, "x", 1, &err), &err);
    syscalls_fail("fsync", 1, -EIO);
    syscalls_record(folder);
    assert_int_equal(io->ops->set_seal(set, file, 1, &err), -EIO);
    assert_string_equal(syscalls_recorded(), "fsync .tmp-out-0-0-NONCE/a\n");
    assert_non_null(strstr(err.path, "/a"));
    assert_int_equal(io->ops->set_publish(set, &err), -EINVAL);
    assert_entries("");
}

/* Each durable call in turn fails with each error: the name never appears, nothing is left, the error comes through. */
static void whatever_fails_nothing_appears(void **state)
{
    (void)state;
    static const char *const calls[] = {"mkdir",     "create", "fallocate", "pwrite",
                                        "ftruncate", "fsync",  "renameat2"};
    static const int codes[] = {-ENOSPC, -EIO, -EDQUOT, -EROFS};
    int failures = 0;
    for (size_t c = 0; c < sizeof calls / sizeof calls[0]; c++) {
        for (unsigned nth = 1; nth <= 8; nth++) {
            int code = codes[(c + nth) % 4];
            struct err err = {0};
            struct io_set *set = NULL;
            struct io_file *file;
            syscalls_reset();
            syscalls_fail(calls[c], nth, code);
            int status =
                io->ops->set_begin(io, &(struct io_set_options){.path = in_folder("out")}, &set, &err);
            if (!status)
                status = put(set, "a", "text", &err);
            if (!status)
                status = put(set, "sub/b", "text", &err);
            if (!status)
                status = io->ops->set_create(set, "c", 100, &file, &err);
            if (!status)
                status = io->ops->set_seal(set, file, 50, &err);
            bool published = false, last = false;
            if (!status) {
                status = io->ops->set_publish(set, &err);
                last = status && exists("out"); /* the fsync after the rename: whole, perhaps not durable */
                published = status == 0;
                set = NULL;
            }
            io->ops->set_abort(set);
            if (syscalls_failed_count() > 0) {
                failures++;
                assert_int_equal(status, code);
                assert_int_equal(err.code, code);
                assert_string_not_equal(err.path, "");
                assert_false(published);
                if (last)
                    assert_string_equal(calls[c], "fsync");
                else
                    assert_entries("");
            } else {
                assert_true(published);
            }
            syscalls_reset();
            if (exists("out"))
                assert_ok(io->ops->remove(io, in_folder("out"), &err), &err);
        }
    }
    assert_in_range(failures, 15, 56);
}

static void what_the_kernel_calls_invalid_is_no_wrong_usage(void **state)
{
    (void)state;
    struct err err = {0};
    struct io_set *set;
    struct io_file *file;
    assert_ok(io->ops->set_begin(io, &(struct io_set_options){.path = in_folder("out")}, &set, &err), &err);
    syscalls_fail("create", 1, -EINVAL);
    assert_int_equal(io->ops->set_create(set, "a", 0, &file, &err), -EIO);
    assert_int_equal(err.code, -EIO);
    assert_non_null(strstr(err.what, strerror(EINVAL)));
    assert_ok(io->ops->set_create(set, "a", 0, &file, &err), &err);
    syscalls_fail("fsync", 1, -EINVAL);
    assert_int_equal(io->ops->set_seal(set, file, 0, &err), -EIO);
    assert_int_equal(err.code, -EIO);
    assert_non_null(strstr(err.what, strerror(EINVAL)));
    io->ops->set_abort(set);
    syscalls_reset();
}

static void ranks_join_the_place_of_the_first(void **state)
{
    (void)state;
    struct err err = {0};
    struct io_set_options options = {.path = in_folder("out"), .owner_id = "r"};
    struct io_set *first = begin(&options), *other = NULL, *third = NULL;
    assert_ok(io->ops->set_join(io, &options, io->ops->set_place(first), &other, &err), &err);
    assert_ok(io->ops->set_join(io, &options, io->ops->set_place(first), &third, &err), &err);
    assert_string_equal(io->ops->set_place(first), io->ops->set_place(other));
    assert_ok(put(first, "rank-0", "zero", &err), &err);
    assert_ok(put(other, "rank-1", "one", &err), &err);
    assert_int_equal(put(other, "rank-0", "again", &err), -EEXIST);
    io->ops->set_leave(other);
    io->ops->set_abort(third); /* of a rank that joined: removes nothing of others */
    assert_ok(io->ops->set_publish(first, &err), &err);
    assert_content("out/rank-0", "zero");
    assert_content("out/rank-1", "one");
    assert_int_equal(io->ops->set_join(io, &options, in_folder("nowhere"), &other, &err), -ENOENT);
    assert_string_not_equal(err.advice, "");
    io->ops->set_leave(NULL);
}

static void only_the_first_rank_publishes(void **state)
{
    (void)state;
    struct err err = {0};
    struct io_set_options options = {.path = in_folder("out")};
    struct io_set *first = begin(&options), *other = NULL;
    assert_ok(io->ops->set_join(io, &options, io->ops->set_place(first), &other, &err), &err);
    assert_int_equal(io->ops->set_publish(other, &err), -EINVAL);
    assert_false(exists("out"));
    assert_ok(io->ops->set_publish(first, &err), &err);
    assert_true(exists("out"));
}

static void a_sweep_spares_its_owner_and_all_that_is_whole(void **state)
{
    (void)state;
    struct err err = {0};
    struct io_set *a = begin_named("step-00001000", "run"), *b = begin_named("step-00001000", "other-run");
    struct io_set *c = begin_named("x", NULL);
    assert_ok(put(b, "deep/file", "x", &err), &err);
    assert_int_equal(
        test_run("cd '%s' && mkdir step-00000500 .hidden .tmp-strange && touch .tmp-file .tmp- .tmpx",
                 folder),
        0);
    /* b, c and the three that are nobody's */
    assert_int_equal(io->ops->sweep(io, folder, "run", NULL, &err), 5);
    assert_ok(put(a, "file", "x", &err), &err);
    assert_ok(io->ops->set_publish(a, &err), &err);
    assert_entries(".hidden\n.tmpx\nstep-00000500\nstep-00001000\n");
    assert_int_equal(io->ops->sweep(io, folder, NULL, NULL, &err), 0);
    io->ops->set_abort(b);
    io->ops->set_abort(c);
    assert_int_equal(io->ops->sweep(io, in_folder("absent"), NULL, NULL, &err), -ENOENT);
}

static bool is_of_x(const char *entry_name)
{
    char name[IO_NAME_BYTES_MAX];
    return io_parse_temporary(entry_name, name) && strcmp(name, "x") == 0;
}

static void a_sweep_takes_only_what_its_caller_knows(void **state)
{
    (void)state;
    struct err err = {0};
    struct io_set *x = begin_named("x", "run-1"), *y = begin_named("y", "run-1");
    assert_int_equal(test_run("cd '%s' && mkdir .tmp-x .tmp-mine", folder), 0);
    assert_int_equal(io->ops->sweep(io, folder, NULL, is_of_x, &err), 1);
    assert_true(io->ops->set_publish(x, &err) < 0);
    assert_ok(put(y, "file", "y", &err), &err);
    assert_ok(io->ops->set_publish(y, &err), &err);
    assert_entries(".tmp-mine\n.tmp-x\ny\n");
}

static void a_temporarys_name_tells_what_it_is_to_be(void **state)
{
    (void)state;
    static const struct {
        const char *entry_name, *name; /* NULL: no temporary */
    } rows[] = {
        {".tmp-step-00000007-run%2d1-3-0123456789abcdef", "step-00000007"},
        {".tmp-x-+replaced-0-0123456789abcdef", "x"},
        {".tmp--0-0-0-0123456789abcdef", "-0"},
        {".tmp-old-removed-0-0123456789abcdef", ""},
        {".tmp-old-run-0-0123456789abcdef", "old"},
        {".tmp-", NULL},
        {".tmp-mine", NULL},
        {".tmp-x-0-0-0123456789abcde", NULL},
        {".tmp-x-0-0-0123456789abcdef0", NULL},
        {".tmp-x-0-0-0123456789ABCDEF", NULL},
        {".tmp-x-0-a-0123456789abcdef", NULL},
        {".tmp-x-0--0123456789abcdef", NULL},
        {".tmp-x--0-0123456789abcdef", NULL},
        {".tmp-0-0-0123456789abcdef", NULL},
        {".tmp--0-0-0123456789abcdef", NULL},
        {"tmp-x-0-0-0123456789abcdef", NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char name[IO_NAME_BYTES_MAX];
        assert_int_equal(io_parse_temporary(rows[i].entry_name, name), rows[i].name != NULL);
        if (rows[i].name)
            assert_string_equal(name, rows[i].name);
    }
}

static void a_dead_owners_late_publish_fails_after_the_sweep(void **state)
{
    (void)state;
    struct err err = {0};
    struct io_file *file;
    struct io_set *late = begin_named("out", "dead");
    assert_ok(put(late, "a", "old", &err), &err);
    assert_ok(io->ops->set_create(late, "b", 0, &file, &err), &err);
    assert_int_equal(io->ops->sweep(io, folder, "new", NULL, &err), 1);
    assert_int_equal(io->ops->set_create(late, "c", 0, &(struct io_file *){NULL}, &err), -ENOENT);
    assert_true(io->ops->set_seal(late, file, 0, &err) < 0);
    io->ops->set_abort(late);
    struct io_set *later = begin_named("out", "dead");
    assert_ok(put(later, "a", "old", &err), &err);
    assert_int_equal(io->ops->sweep(io, folder, "new", NULL, &err), 1);
    assert_true(io->ops->set_publish(later, &err) < 0);
    assert_entries("");
}

static void a_set_of_a_relative_path_stays_below_its_folder(void **state)
{
    (void)state;
    struct err err = {0};
    char before[TEST_PATH_BYTES_MAX];
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(folder), 0);
    assert_ok(io_write_file(io, "plain", "x", 1, false, &err), &err);
    assert_ok(io_write_file(io, "file:url", "y", 1, false, &err), &err);
    struct io_set *set = begin(&(struct io_set_options){.path = "set"});
    assert_ok(put(set, "sub/a", "z", &err), &err);
    assert_ok(io->ops->set_publish(set, &err), &err);
    assert_int_equal(chdir(before), 0);
    assert_content("set/sub/a", "z");
    assert_entries("plain\nset\nurl\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_folder_becomes_durable_in_this_order, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_single_file_becomes_durable_in_this_order, set_up, tear_down),
        cmocka_unit_test_setup_teardown(removing_a_folder_hides_it_durably_before_it_is_emptied, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(made_folders_are_durable, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_final_size_is_what_was_sealed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(existing_names_are_refused_at_begin_and_at_publish, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(an_empty_folder_of_the_final_name_is_refused_too, set_up, tear_down),
        cmocka_unit_test_setup_teardown(replacing_leaves_the_new_one_only, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_old_one_that_can_not_be_put_aside_waits_for_the_sweep, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_replacing_that_fails_in_the_middle_gives_the_old_one_back, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(files_replace_files_and_folders_folders_only, set_up, tear_down),
        cmocka_unit_test_setup_teardown(publishing_works_where_renames_have_no_flags, set_up, tear_down),
        cmocka_unit_test_setup_teardown(names_within_a_set_are_its_own_and_taken_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(final_names_that_can_not_be_are_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(long_names_still_have_temporary_ones, set_up, tear_down),
        cmocka_unit_test_setup_teardown(abort_removes_everything, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_unsealed_file_keeps_its_set_from_being_published, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_failed_fsync_is_not_tried_again_and_loses_the_set, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(whatever_fails_nothing_appears, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_the_kernel_calls_invalid_is_no_wrong_usage, set_up, tear_down),
        cmocka_unit_test_setup_teardown(ranks_join_the_place_of_the_first, set_up, tear_down),
        cmocka_unit_test_setup_teardown(only_the_first_rank_publishes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_sweep_spares_its_owner_and_all_that_is_whole, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_sweep_takes_only_what_its_caller_knows, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_temporarys_name_tells_what_it_is_to_be, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_dead_owners_late_publish_fails_after_the_sweep, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_set_of_a_relative_path_stays_below_its_folder, set_up, tear_down),
    };
    return engines_run(tests);
}
