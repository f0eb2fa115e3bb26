/*
 * adopt — a set goes on in the place that a dead writer of it left (IO_RESUME_NOW).
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

enum { HAD_BYTES = 11 };

static struct io_set_options options_of(bool single_file, enum io_resume resume)
{
    return (struct io_set_options){
        .path = in_folder("out"), .single_file = single_file, .owner_id = "me", .resume = resume};
}

static struct io_file *create(struct io_set *set, bool single_file, const char *name)
{
    struct io_file *file = NULL;
    struct err err = {0};
    assert_ok(io->ops->set_create(set, single_file ? "" : name, 0, &file, &err), &err);
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

/* A process that dies with one file sealed (of a folder) and one under way. */
static void leave_half(bool single_file, enum io_resume resume)
{
    int status;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct io_set_options options = options_of(single_file, resume);
        struct io_set *set;
        if (io->ops->set_begin(io, &options, &set, NULL))
            _exit(2);
        if (!single_file) {
            struct io_file *sealed = create(set, false, "a");
            write_text(sealed, "sealed half");
            if (io->ops->set_seal(set, sealed, HAD_BYTES, NULL))
                _exit(3);
        }
        write_text(create(set, single_file, "b"), "opened half");
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

static struct io_set *resume(bool single_file)
{
    struct err err = {0};
    struct io_set *set = NULL;
    struct io_set_options options = options_of(single_file, IO_RESUME_NOW);
    assert_ok(io->ops->set_begin(io, &options, &set, &err), &err);
    return set;
}

static void a_dead_writers_folder_is_gone_on_with_as_it_is(void **state)
{
    (void)state;
    struct err err = {0};
    leave_half(false, IO_RESUME_LATER);
    struct io_set *set = resume(false);
    assert_int_equal(count_entries(), 1);
    struct io_file *a = create(set, false, "a"), *b = create(set, false, "b"),
                   *c = create(set, false, "c");
    assert_text(a, "sealed half");
    assert_text(b, "opened half");
    write_text(a, "sealed anew"); /* what was sealed is as open as the rest */
    write_text(c, "new");
    assert_ok(io->ops->set_seal(set, a, HAD_BYTES, &err), &err);
    assert_ok(io->ops->set_seal(set, b, 6, &err), &err);
    assert_ok(io->ops->set_seal(set, c, 3, &err), &err);
    assert_ok(io->ops->set_publish(set, &err), &err);
    assert_int_equal(count_entries(), 1);
    assert_file("out/a", "sealed anew");
    assert_file("out/b", "opened");
    assert_file("out/c", "new");
}

static void a_dead_writers_file_is_gone_on_with_as_it_is(void **state)
{
    (void)state;
    struct err err = {0};
    leave_half(true, IO_RESUME_LATER);
    struct io_set *set = resume(true);
    struct io_file *file = create(set, true, "");
    assert_text(file, "opened half");
    assert_ok(io->ops->set_seal(set, file, 6, &err), &err);
    assert_ok(io->ops->set_publish(set, &err), &err);
    assert_int_equal(count_entries(), 1);
    assert_file("out", "opened");
}

static void whoever_resumed_may_die_and_be_followed(void **state)
{
    (void)state;
    for (int kind = 0; kind < 2; kind++) {
        leave_half(kind, IO_RESUME_LATER);
        leave_half(kind, IO_RESUME_NOW);
        assert_int_equal(count_entries(), 1);
        io->ops->set_abort(resume(kind));
        assert_int_equal(count_entries(), 0);
    }
}

static void a_writer_that_lives_is_not_followed(void **state)
{
    (void)state;
    for (int kind = 0; kind < 2; kind++) {
        struct err err = {0};
        struct io_set *first = NULL, *second = NULL;
        struct io_set_options options = options_of(kind, IO_RESUME_LATER);
        assert_ok(io->ops->set_begin(io, &options, &first, &err), &err);
        struct io_file *file = create(first, kind, "a");
        options.resume = IO_RESUME_NOW;
        assert_int_equal(io->ops->set_begin(io, &options, &second, &err), -EBUSY);
        assert_string_equal(err.path, io->ops->set_place(first));
        assert_ok(io->ops->set_seal(first, file, 0, &err), &err);
        assert_int_equal(io->ops->set_begin(io, &options, &second, &err), -EBUSY);
        io->ops->set_abort(first);
        second = resume(kind); /* nothing is left to go on with: it begins anew */
        io->ops->set_abort(second);
        assert_int_equal(count_entries(), 0);
    }
}

static void only_what_is_of_the_same_name_kind_owner_and_attempt_is_gone_on_with(void **state)
{
    (void)state;
    struct err err = {0};
    leave_half(true, IO_RESUME_LATER);
    leave_half(false, IO_RESUME_LATER);
    struct io_set_options others[] = {
        options_of(true, IO_RESUME_NOW), options_of(true, IO_RESUME_NOW),
        options_of(true, IO_RESUME_NOW), options_of(true, IO_RESUME_LATER)};
    others[0].path = in_folder("ou");
    others[1].owner_id = "m";
    others[2].attempt = 1;
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        struct io_set *set = NULL;
        assert_ok(io->ops->set_begin(io, &others[i], &set, &err), &err);
        create(set, true, "");
        assert_int_equal(count_entries(), 3);
        io->ops->set_abort(set);
    }
    struct io_set *file = resume(true), *both = resume(false);
    assert_text(create(file, true, ""), "opened half");
    assert_text(create(both, false, "a"), "sealed half");
    io->ops->set_abort(file);
    io->ops->set_abort(both);
    assert_int_equal(count_entries(), 0);
}

/* As of a writer that died between taking the name and removing what had it: that stays, for it
 * can't be put where it should go. */
static void what_was_replaced_is_not_gone_on_with(void **state)
{
    (void)state;
    struct err err = {0};
    struct io_set *set = NULL;
    struct io_set_options options = options_of(false, IO_RESUME_LATER);
    for (int i = 0; i < 2; i++) {
        assert_ok(io->ops->set_begin(io, &options, &set, &err), &err);
        struct io_file *file = create(set, false, i == 0 ? "old" : "new");
        assert_ok(io->ops->set_seal(set, file, 0, &err), &err);
        assert_ok(io->ops->set_publish(set, &err), &err);
        options.replace = true;
        options.aside = in_folder("no folder/aside");
    }
    assert_int_equal(test_run("test -e '%s'/.tmp-*/old && test -e '%s'/out/new", folder, folder),
                     0);
    options.resume = IO_RESUME_NOW;
    assert_ok(io->ops->set_begin(io, &options, &set, &err), &err);
    assert_int_not_equal(test_run("test -e '%s'/old", io->ops->set_place(set)), 0);
    io->ops->set_abort(set);
}

static void long_names_are_found_again(void **state)
{
    (void)state;
    struct err err = {0};
    char name[TEST_PATH_BYTES_MAX + 300], letters[241];
    memset(letters, 'x', sizeof letters - 1);
    letters[sizeof letters - 1] = '\0';
    snprintf(name, sizeof name, "%s/%s", folder, letters);
    struct io_set_options options = {.path = name, .owner_id = "me-too", .resume = IO_RESUME_LATER};
    struct io_set *set = NULL;
    char place[IO_PATH_BYTES_MAX];
    assert_ok(io->ops->set_begin(io, &options, &set, &err), &err);
    snprintf(place, sizeof place, "%s", io->ops->set_place(set));
    io->ops->set_leave(set);
    options.resume = IO_RESUME_NOW;
    assert_ok(io->ops->set_begin(io, &options, &set, &err), &err);
    assert_string_equal(io->ops->set_place(set), place);
    io->ops->set_abort(set);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_dead_writers_folder_is_gone_on_with_as_it_is,
                                        scratch_set_up, scratch_tear_down),
        cmocka_unit_test_setup_teardown(a_dead_writers_file_is_gone_on_with_as_it_is,
                                        scratch_set_up, scratch_tear_down),
        cmocka_unit_test_setup_teardown(whoever_resumed_may_die_and_be_followed, scratch_set_up,
                                        scratch_tear_down),
        cmocka_unit_test_setup_teardown(a_writer_that_lives_is_not_followed, scratch_set_up,
                                        scratch_tear_down),
        cmocka_unit_test_setup_teardown(
            only_what_is_of_the_same_name_kind_owner_and_attempt_is_gone_on_with, scratch_set_up,
            scratch_tear_down),
        cmocka_unit_test_setup_teardown(what_was_replaced_is_not_gone_on_with, scratch_set_up,
                                        scratch_tear_down),
        cmocka_unit_test_setup_teardown(long_names_are_found_again, scratch_set_up,
                                        scratch_tear_down),
    };
    return engines_run(tests);
}
