/*
 * file_list: what counts as the same file and the same source.
 */
#include "convert/source/file_list.h"
#include "tests/support/scratch.h"

#include <errno.h>

struct listed {
    struct convert_options options;
    struct source source;
    struct file_list list;
    struct io_queue *queue;
    struct str data;
};

static void list_folder(struct listed *listed, const char *path)
{
    struct err err = {0};
    *listed = (struct listed){.options = {.source = path}, .list = {.is_text = true}};
    listed->source.options = &listed->options;
    assert_ok(io->ops->queue_open(io, 1, &listed->queue, &err), &err);
    assert_ok(file_list_open(&listed->list, io, &listed->source, &err), &err);
}

static int read_first_file(struct listed *listed, struct err *err)
{
    char path[IO_PATH_BYTES_MAX];
    str_clear(&listed->data);
    assert_ok(file_list_path(&listed->list, 0, path, err), err);
    return file_list_read(&listed->list, io, listed->queue, 0, path, 0, listed->list.files[0].bytes,
                          &listed->data, err);
}

static void close_list(struct listed *listed)
{
    str_deinit(&listed->data);
    file_list_deinit(&listed->list);
    io->ops->queue_close(listed->queue);
}

static void a_file_replaced_by_one_of_equal_size_is_noticed(void **state)
{
    (void)state;
    struct listed listed;
    struct err err = {0};
    test_write_file(in_folder("a.txt"), "first", 5);
    list_folder(&listed, folder);
    assert_ok(read_first_file(&listed, &err), &err);
    assert_string_equal(str_text(&listed.data), "first");
    test_write_file(in_folder("new"), "other", 5);
    assert_int_equal(test_run("mv '%s' '%s'", in_folder("new"), in_folder("a.txt")), 0);
    assert_int_equal(read_first_file(&listed, &err), -ESTALE);
    assert_string_equal(err.expected, "");
    close_list(&listed);
}

static void a_file_that_grew_is_reported_with_its_sizes(void **state)
{
    (void)state;
    struct listed listed;
    struct err err = {0};
    test_write_file(in_folder("a.txt"), "first", 5);
    list_folder(&listed, folder);
    test_write_file(in_folder("a.txt"), "longer", 6);
    assert_int_equal(read_first_file(&listed, &err), -ESTALE);
    assert_string_equal(err.expected, "5 bytes");
    assert_string_equal(err.found, "6");
    close_list(&listed);
}

/* so that --resume accepts a copy of the source */
static void a_copy_of_a_source_has_the_same_hash(void **state)
{
    (void)state;
    struct listed listed, copy;
    struct err err = {0};
    uint64_t hash, hash_of_copy;
    assert_int_equal(test_run("mkdir '%s'", in_folder("source")), 0);
    test_write_file(in_folder("source/a.txt"), "first", 5);
    assert_int_equal(test_run("cp -r '%s' '%s'", in_folder("source"), in_folder("copy")), 0);
    list_folder(&listed, in_folder("source"));
    assert_ok(file_list_identify(&listed.list, &hash, &err), &err);
    close_list(&listed);
    list_folder(&copy, in_folder("copy"));
    assert_ok(file_list_identify(&copy.list, &hash_of_copy, &err), &err);
    close_list(&copy);
    assert_true(hash == hash_of_copy);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, scratch_set_up, scratch_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_file_replaced_by_one_of_equal_size_is_noticed),
        CASE(a_file_that_grew_is_reported_with_its_sizes),
        CASE(a_copy_of_a_source_has_the_same_hash),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
