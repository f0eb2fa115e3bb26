/*
 * resume — a transaction continues in the staging path that its dead writer left (IO_RESUME_NOW).
 */
#include "io/file_util.h"
#include "tests/support/engines.h"
#include "tests/support/scratch.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WRITTEN_BYTES = 11 };

static struct io_transaction_options make_options(bool single_file, enum io_resume resume)
{
    return (struct io_transaction_options){.path = in_folder("out"),
                                           .single_file = single_file,
                                           .commit_record = "manifest",
                                           .owner_id = "me",
                                           .resume = resume};
}

static struct io_file *create(struct io_transaction *transaction, bool single_file,
                              const char *name)
{
    struct io_file *file = NULL;
    struct err err = {0};
    assert_ok(io->transactions->create(transaction, single_file ? "" : name, 0, &file, &err), &err);
    return file;
}

static struct io_queue *open_queue(void)
{
    struct io_queue *queue = NULL;
    struct err err = {0};
    assert_ok(io->ops->queue_open(io, 4, &queue, &err), &err);
    return queue;
}

static void write_text(struct io_file *file, const char *text)
{
    struct err err = {0};
    struct io_queue *queue = open_queue();
    assert_ok(io_write_exact(queue, io, file, "out", 0, text, strlen(text), &err), &err);
    io->ops->queue_close(queue);
}

static void assert_text(struct io_file *file, const char *text)
{
    struct err err = {0};
    char found[64] = "";
    struct io_queue *queue = open_queue();
    assert_ok(io_read_exact(queue, io, file, "out", 0, found, strlen(text), &err), &err);
    io->ops->queue_close(queue);
    assert_memory_equal(found, text, strlen(text));
}

/* Leaves the output of a process that died while writing one file; in a folder, it had finalized
 * another. */
static void leave_partial_output(bool single_file, enum io_resume resume)
{
    int status;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct io_transaction_options options = make_options(single_file, resume);
        struct io_transaction *transaction;
        if (io->transactions->begin(io, &options, &transaction, NULL))
            _exit(2);
        if (!single_file) {
            struct io_file *finalized = create(transaction, false, "a");
            write_text(finalized, "closed half");
            if (io->transactions->finalize(transaction, finalized, WRITTEN_BYTES, NULL))
                _exit(3);
        }
        write_text(create(transaction, single_file, "b"), "opened half");
        kill(getpid(), SIGKILL);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static int count_entries(void)
{
    char text[32];
    assert_int_equal(test_run_output(text, sizeof text, "ls -A '%s' | wc -l", folder), 0);
    return atoi(text);
}

static void assert_file(const char *name, const char *text)
{
    size_t bytes;
    char *data = (char *)test_read_file(in_folder(name), &bytes);
    assert_int_equal(bytes, strlen(text));
    assert_memory_equal(data, text, bytes);
    free(data);
}

static struct io_transaction *resume_transaction(bool single_file)
{
    struct err err = {0};
    struct io_transaction *transaction = NULL;
    struct io_transaction_options options = make_options(single_file, IO_RESUME_NOW);
    assert_ok(io->transactions->begin(io, &options, &transaction, &err), &err);
    return transaction;
}

static void a_dead_writers_folder_is_resumed(void **state)
{
    (void)state;
    struct err err = {0};
    leave_partial_output(false, IO_RESUME_LATER);
    struct io_transaction *transaction = resume_transaction(false);
    assert_int_equal(count_entries(), 1);
    struct io_file *a = create(transaction, false, "a"), *b = create(transaction, false, "b");
    assert_text(a, "closed half");
    assert_text(b, "opened half");
    write_text(a, "closed anew"); /* a finalized file can be written again */
    assert_ok(io->transactions->finalize(transaction, a, WRITTEN_BYTES, &err), &err);
    assert_ok(io->transactions->finalize(transaction, b, 6, &err), &err);
    struct io_file *manifest = create(transaction, false, "manifest");
    write_text(manifest, "new");
    assert_ok(io->transactions->finalize(transaction, manifest, 3, &err), &err);
    assert_ok(io->transactions->commit(transaction, &err), &err);
    assert_int_equal(count_entries(), 1);
    assert_file("out/a", "closed anew");
    assert_file("out/b", "opened");
    assert_file("out/manifest", "new");
}

static void a_dead_writers_file_is_resumed(void **state)
{
    (void)state;
    struct err err = {0};
    leave_partial_output(true, IO_RESUME_LATER);
    struct io_transaction *transaction = resume_transaction(true);
    struct io_file *file = create(transaction, true, "");
    assert_text(file, "opened half");
    assert_ok(io->transactions->finalize(transaction, file, 6, &err), &err);
    assert_ok(io->transactions->commit(transaction, &err), &err);
    assert_int_equal(count_entries(), 1);
    assert_file("out", "opened");
}

static void a_killed_resumer_can_be_resumed(void **state)
{
    (void)state;
    for (int kind = 0; kind < 2; kind++) {
        leave_partial_output(kind, IO_RESUME_LATER);
        leave_partial_output(kind, IO_RESUME_NOW);
        assert_int_equal(count_entries(), 1);
        io->transactions->abort(resume_transaction(kind));
        assert_int_equal(count_entries(), 0);
    }
}

static void a_live_writers_file_is_not_resumed(void **state)
{
    (void)state;
    for (int kind = 0; kind < 2; kind++) {
        struct err err = {0};
        struct io_transaction *first = NULL, *second = NULL;
        struct io_transaction_options options = make_options(kind, IO_RESUME_LATER);
        assert_ok(io->transactions->begin(io, &options, &first, &err), &err);
        struct io_file *file = create(first, kind, "a");
        options.resume = IO_RESUME_NOW;
        assert_int_equal(io->transactions->begin(io, &options, &second, &err), -EBUSY);
        assert_string_equal(err.path, io->transactions->staging_path(first));
        assert_ok(io->transactions->finalize(first, file, 0, &err), &err);
        assert_int_equal(io->transactions->begin(io, &options, &second, &err), -EBUSY);
        io->transactions->abort(first);
        second = resume_transaction(kind); /* nothing is left to resume, so it starts anew */
        io->transactions->abort(second);
        assert_int_equal(count_entries(), 0);
    }
}

static void resuming_needs_the_same_name_kind_owner_and_attempt(void **state)
{
    (void)state;
    struct err err = {0};
    leave_partial_output(true, IO_RESUME_LATER);
    leave_partial_output(false, IO_RESUME_LATER);
    struct io_transaction_options others[] = {
        make_options(true, IO_RESUME_NOW), make_options(true, IO_RESUME_NOW),
        make_options(true, IO_RESUME_NOW), make_options(true, IO_RESUME_LATER)};
    others[0].path = in_folder("ou");
    others[1].owner_id = "m";
    others[2].attempt = 1;
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        struct io_transaction *transaction = NULL;
        assert_ok(io->transactions->begin(io, &others[i], &transaction, &err), &err);
        create(transaction, true, "");
        assert_int_equal(count_entries(), 3);
        io->transactions->abort(transaction);
    }
    struct io_transaction *file = resume_transaction(true), *both = resume_transaction(false);
    assert_text(create(file, true, ""), "opened half");
    assert_text(create(both, false, "a"), "closed half");
    io->transactions->abort(file);
    io->transactions->abort(both);
    assert_int_equal(count_entries(), 0);
}

/* The state left by a writer that died between taking the name and removing the replaced entry.
 * That entry stays, because it cannot be moved to its backup path. */
static void a_replaced_file_is_not_resumed(void **state)
{
    (void)state;
    struct err err = {0};
    struct io_transaction *transaction = NULL;
    struct io_transaction_options options = make_options(false, IO_RESUME_LATER);
    for (int i = 0; i < 2; i++) {
        options.commit_record = i == 0 ? "old" : "new";
        assert_ok(io->transactions->begin(io, &options, &transaction, &err), &err);
        struct io_file *file = create(transaction, false, options.commit_record);
        assert_ok(io->transactions->finalize(transaction, file, 0, &err), &err);
        assert_ok(io->transactions->commit(transaction, &err), &err);
        options.replace = true;
        options.backup = in_folder("no folder/aside");
    }
    assert_int_equal(test_run("test -e '%s'/.tmp-*/old && test -e '%s'/out/new", folder, folder),
                     0);
    options.resume = IO_RESUME_NOW;
    assert_ok(io->transactions->begin(io, &options, &transaction, &err), &err);
    assert_int_not_equal(test_run("test -e '%s'/old", io->transactions->staging_path(transaction)),
                         0);
    io->transactions->abort(transaction);
}

static void long_names_are_resumed(void **state)
{
    (void)state;
    struct err err = {0};
    char name[TEST_PATH_BYTES_MAX + 300], letters[241];
    memset(letters, 'x', sizeof letters - 1);
    letters[sizeof letters - 1] = '\0';
    snprintf(name, sizeof name, "%s/%s", folder, letters);
    struct io_transaction_options options = {
        .path = name, .owner_id = "me-too", .resume = IO_RESUME_LATER};
    struct io_transaction *transaction = NULL;
    char place[IO_PATH_BYTES_MAX];
    assert_ok(io->transactions->begin(io, &options, &transaction, &err), &err);
    snprintf(place, sizeof place, "%s", io->transactions->staging_path(transaction));
    io->transactions->leave(transaction);
    options.resume = IO_RESUME_NOW;
    assert_ok(io->transactions->begin(io, &options, &transaction, &err), &err);
    assert_string_equal(io->transactions->staging_path(transaction), place);
    io->transactions->abort(transaction);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_dead_writers_folder_is_resumed, scratch_set_up,
                                        scratch_tear_down),
        cmocka_unit_test_setup_teardown(a_dead_writers_file_is_resumed, scratch_set_up,
                                        scratch_tear_down),
        cmocka_unit_test_setup_teardown(a_killed_resumer_can_be_resumed, scratch_set_up,
                                        scratch_tear_down),
        cmocka_unit_test_setup_teardown(a_live_writers_file_is_not_resumed, scratch_set_up,
                                        scratch_tear_down),
        cmocka_unit_test_setup_teardown(resuming_needs_the_same_name_kind_owner_and_attempt,
                                        scratch_set_up, scratch_tear_down),
        cmocka_unit_test_setup_teardown(a_replaced_file_is_not_resumed, scratch_set_up,
                                        scratch_tear_down),
        cmocka_unit_test_setup_teardown(long_names_are_resumed, scratch_set_up, scratch_tear_down),
    };
    return engines_run(tests);
}
