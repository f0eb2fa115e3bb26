/*
 * crash — kills a process at each of its durable calls in turn: everything under a final name is
 * complete, everything else is a temporary that a sweep removes, and repeating the work succeeds.
 */
#include "io/file_util.h"
#include "tests/io/syscalls.h"
#include "tests/support/child.h"
#include "tests/support/engines.h"
#include "tests/support/test.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CALLS_MAX = 200 };

static char folder[TEST_PATH_BYTES_MAX];

static const char *in_folder(const char *name)
{
    static char paths[4][TEST_PATH_BYTES_MAX + 300];
    static unsigned turn;
    char *path = paths[turn++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static int write_text_file(struct io *io, struct io_queue *queue,
                           struct io_transaction *transaction, const char *name, const char *text)
{
    struct io_file *file;
    int status = io->transactions->create(transaction, name, strlen(text), &file, NULL);
    if (!status)
        status = io_write_exact(queue, io, file, name, 0, text, strlen(text), NULL);
    return status ? status : io->transactions->finalize(transaction, file, strlen(text), NULL);
}

/* The operations under test. Each runs in `folder` in a child process, which may die at any
 * call. */
static int write_folder(struct io *io, const char *text, bool replace, enum io_resume resume)
{
    struct io_queue *queue;
    struct io_transaction *transaction;
    struct io_transaction_options options = {.path = in_folder("out"),
                                             .replace = replace,
                                             .commit_record = "manifest",
                                             .owner_id = "me",
                                             .resume = resume};
    int status = io->ops->queue_open(io, 4, &queue, NULL);
    if (status)
        return status;
    status = io->transactions->begin(io, &options, &transaction, NULL);
    if (!status)
        status = write_text_file(io, queue, transaction, "a", text);
    if (!status)
        status = write_text_file(io, queue, transaction, "sub/b", text);
    if (!status)
        status = write_text_file(io, queue, transaction, "manifest", text);
    if (!status)
        status = io->transactions->commit(transaction, NULL);
    io->ops->queue_close(queue);
    return status;
}

static int make_new_folder(struct io *io)
{
    return write_folder(io, "new", false, IO_RESUME_NO);
}

static int make_new_folder_without_rename_flags(struct io *io)
{
    syscalls_fail("renameat2", 0, -EINVAL);
    return write_folder(io, "new", false, IO_RESUME_NO);
}

static int replace_folder(struct io *io)
{
    return write_folder(io, "new", true, IO_RESUME_NO);
}

static int replace_folder_without_rename_flags(struct io *io)
{
    syscalls_fail("renameat2", 0, -EINVAL);
    return write_folder(io, "new", true, IO_RESUME_NO);
}

/* Continues the transaction of a dead writer. */
static int resume_folder(struct io *io)
{
    return write_folder(io, "new", false, IO_RESUME_NOW);
}

static int make_new_file(struct io *io)
{
    return io_write_file(io, in_folder("file"), "new", 3, false, NULL);
}

static int make_new_file_without_rename_flags(struct io *io)
{
    syscalls_fail("renameat2", 0, -EINVAL);
    return io_write_file(io, in_folder("file"), "new", 3, false, NULL);
}

static int replace_file(struct io *io)
{
    return io_write_file(io, in_folder("file"), "new", 3, true, NULL);
}

static int remove_folder(struct io *io)
{
    return io->names->remove(io, in_folder("out"), NULL);
}

static int sweep_folder(struct io *io)
{
    int count = io->transactions->sweep(io, folder, "me", NULL, NULL);
    return count < 0 ? count : 0;
}

/* Returns 0, 128 + signal, or 1. */
static int run_in_child(int (*work)(struct io *io), unsigned kill_at)
{
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        struct io *io;
        struct io_options options = engines_options();
        if (io_open("file:", &options, &io, NULL))
            _exit(2);
        syscalls_reset();
        syscalls_kill_at(kill_at);
        _exit(work(io) ? 1 : 0);
    }
    return child_wait(child);
}

static bool has_text(const char *name, const char *text)
{
    if (access(in_folder(name), R_OK))
        return false;
    size_t bytes;
    char *data = (char *)test_read_file(in_folder(name), &bytes);
    bool same = strcmp(data, text) == 0;
    free(data);
    return same;
}

static bool folder_has_text(const char *text)
{
    return has_text("out/a", text) && has_text("out/sub/b", text) && has_text("out/manifest", text);
}

static bool is_absent(const char *name)
{
    return access(in_folder(name), F_OK) != 0;
}

/* Entries that are not temporaries. */
static int count_final_entries(void)
{
    int count = 0;
    DIR *listing = opendir(folder);
    assert_non_null(listing);
    for (struct dirent *entry; (entry = readdir(listing));)
        count += strncmp(entry->d_name, IO_TEMPORARY_PREFIX, 5) != 0 && entry->d_name[0] != '.';
    closedir(listing);
    return count;
}

static int count_entries(void)
{
    char text[32];
    assert_int_equal(test_run_output(text, sizeof text, "ls -A '%s' | wc -l", folder), 0);
    return atoi(text);
}

struct scenario {
    const char *name;
    int (*work)(struct io *io);
    const char *before; /* shell commands to run in the folder */
    bool (*has_old)(void), (*has_new)(void);
    unsigned calls_min; /* minimum number of durable calls */
    bool has_gap;       /* a kill may leave nothing under the name until the next sweep */
};

static bool has_new_folder(void)
{
    return folder_has_text("new");
}

static bool has_old_folder(void)
{
    return folder_has_text("old");
}

static bool has_no_folder(void)
{
    return is_absent("out");
}

static bool has_new_file(void)
{
    return has_text("file", "new");
}

static bool has_old_file(void)
{
    return has_text("file", "old");
}

static bool has_no_file(void)
{
    return is_absent("file");
}

#define OLD_FOLDER "mkdir -p out/sub && printf old | tee out/a out/sub/b > out/manifest"
#define LEFT_FOLDER                                                                                \
    "mkdir -p .tmp-out-me-0-0123456789abcdef/sub && cd .tmp-out-me-0-0123456789abcdef && printf "  \
    "older | "                                                                                     \
    "tee a > sub/b"

static const struct scenario scenarios[] = {
    {"new folder", make_new_folder, "true", has_no_folder, has_new_folder, 18},
    {"new folder, old kernel", make_new_folder_without_rename_flags, "true", has_no_folder,
     has_new_folder, 19},
    {"replaced folder", replace_folder, OLD_FOLDER, has_old_folder, has_new_folder, 20},
    {"replaced folder, old kernel", replace_folder_without_rename_flags, OLD_FOLDER, has_old_folder,
     has_new_folder, 22, .has_gap = true},
    {"new file", make_new_file, "true", has_no_file, has_new_file, 6},
    {"new file, old kernel", make_new_file_without_rename_flags, "true", has_no_file, has_new_file,
     7},
    {"replaced file", replace_file, "printf old > file", has_old_file, has_new_file, 6},
    {"folder gone on with", resume_folder, LEFT_FOLDER, has_no_folder, has_new_folder, 16},
    {"removed folder", remove_folder, OLD_FOLDER, has_old_folder, has_no_folder, 6},
};

static void assert_old_or_new(const struct scenario *s, unsigned kill_at)
{
    if (!s->has_old() && !s->has_new())
        fail_msg("%s, killed at call %u: neither the old nor the new output exists", s->name,
                 kill_at);
    if (count_final_entries() > 1)
        fail_msg("%s, killed at call %u: an unexpected entry exists", s->name, kill_at);
}

static unsigned kill_at_each_call(const struct scenario *s)
{
    unsigned kill_at = 1, gaps = 0;
    for (;; kill_at++) {
        assert_true(kill_at < CALLS_MAX);
        test_make_folder(folder);
        assert_int_equal(test_run("cd '%s' && %s", folder, s->before), 0);
        int result = run_in_child(s->work, kill_at);
        if (!s->has_gap)
            assert_old_or_new(s, kill_at);
        else if (!s->has_old() && !s->has_new())
            gaps++;
        if (result == 0)
            break;
        assert_int_equal(result, 128 + SIGKILL);
        bool done = s->has_new();
        struct io *io;
        struct err err = {0};
        assert_ok(io_open("file:", NULL, &io, &err), &err);
        assert_true(io->transactions->sweep(io, folder, NULL, NULL, &err) >= 0);
        io_close(io);
        assert_old_or_new(s, kill_at);
        assert_int_equal(count_entries(), count_final_entries());
        /* repeats the work */
        if (!done)
            assert_int_equal(run_in_child(s->work, 0), 0);
        assert_true(s->has_new());
        test_remove_folder(folder);
    }
    assert_true(s->has_new());
    assert_int_equal(count_entries(), count_final_entries());
    test_remove_folder(folder);
    assert_int_equal(gaps > 0, s->has_gap);
    return kill_at - 1;
}

static void a_kill_at_any_system_call_leaves_the_old_or_new_file(void **state)
{
    (void)state;
    unsigned kills = 0;
    for (size_t i = 0; i < sizeof scenarios / sizeof scenarios[0]; i++) {
        unsigned calls = kill_at_each_call(&scenarios[i]);
        if (calls < scenarios[i].calls_min)
            fail_msg("%s: only %u durable calls seen", scenarios[i].name, calls);
        kills += calls;
    }
    print_message("%u kills, one at each durable call of %zu scenarios\n", kills,
                  sizeof scenarios / sizeof scenarios[0]);
}

static void a_killed_sweep_is_finished_by_the_next(void **state)
{
    (void)state;
    int result = -1;
    for (unsigned kill_at = 1; result != 0; kill_at++) {
        assert_true(kill_at < CALLS_MAX);
        test_make_folder(folder);
        assert_int_equal(
            test_run("cd '%s' && mkdir -p .tmp-a-x-0-1/b .tmp-c-y-0-2 keep .tmp-mine-me-0-3 "
                     ".tmp-b-ack-+replaced-0-4 .tmp-keep-+replaced-0-5 && "
                     "touch .tmp-a-x-0-1/b/f .tmp-a-x-0-1/g .tmp-d keep/h .tmp-mine-me-0-3/i "
                     ".tmp-b-ack-+replaced-0-4/j .tmp-keep-+replaced-0-5/k",
                     folder),
            0);
        result = run_in_child(sweep_folder, kill_at);
        assert_false(is_absent("keep/h"));
        assert_false(is_absent(".tmp-mine-me-0-3/i"));
        assert_int_equal(run_in_child(sweep_folder, 0), 0);
        assert_false(is_absent("b-ack/j")); /* no new entry had replaced it */
        assert_true(is_absent("keep/k"));
        assert_int_equal(count_entries(), 3);
        test_remove_folder(folder);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_kill_at_any_system_call_leaves_the_old_or_new_file),
        cmocka_unit_test(a_killed_sweep_is_finished_by_the_next),
    };
    return engines_run(tests);
}
