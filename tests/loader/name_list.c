/*
 * Lists of names: parsing, and lookup compared with a linear search.
 */
#include "loader/parts/name_list.h"

#include "base/str.h"
#include "tests/support/scratch.h"

#include <errno.h>
#include <string.h>

static const struct name_list no_names = {0};

static int read_text(const void *text, size_t bytes, struct name_list *names, struct err *err)
{
    test_write_file(in_folder("names.txt"), text, bytes);
    return name_list_read(io, in_folder("names.txt"), NAME_LIST_CLASSES, names, err);
}

/* Returns -1 if there is no such name. */
static int find(const struct name_list *names, const char *name, size_t bytes)
{
    uint32_t number;
    return name_set_find(&names->names, name, bytes, &number) ? (int)number : -1;
}

static void every_name_has_the_number_of_its_line(void **state)
{
    (void)state;
    struct str text = {0};
    struct name_list names;
    struct err err;
    enum { COUNT = 1000 };
    char name[32];
    for (int i = 0; i < COUNT; i++) /* names that begin with each other, not in order */
        str_add_format(&text, "n%.*s%d\n", i % 7, "aaaaaaa", (i * 37) % COUNT);
    assert_ok(read_text(text.data, text.bytes, &names, &err), &err);
    assert_int_equal(names.count, COUNT);
    for (int i = 0; i < COUNT; i++) {
        memset(name, 0, sizeof name);
        snprintf(name, sizeof name, "n%.*s%d", i % 7, "aaaaaaa", (i * 37) % COUNT);
        assert_string_equal(name_set_at(&names.names, i), name);
        assert_int_equal(find(&names, name, strlen(name)), i);
        /* a longer name, a shorter one, and one with a NUL are others */
        for (size_t bytes = 0; bytes <= sizeof name; bytes++) {
            int expected = -1;
            for (int k = 0; k < COUNT; k++)
                if (strlen(name_set_at(&names.names, k)) == bytes &&
                    memcmp(name_set_at(&names.names, k), name, bytes) == 0)
                    expected = k;
            if (bytes < sizeof name)
                assert_int_equal(find(&names, name, bytes), expected);
        }
    }
    str_deinit(&text);
    name_list_deinit(&names);
}

static void line_ends_and_a_byte_order_mark_are_not_part_of_names(void **state)
{
    (void)state;
    static const char text[] = "\xef\xbb\xbf"
                               "cat\r\ndog \nM\xc3\xbcnchen";
    struct name_list names;
    struct err err;
    assert_ok(read_text(text, sizeof text - 1, &names, &err), &err);
    assert_int_equal(names.count, 3);
    assert_string_equal(name_set_at(&names.names, 0), "cat");
    assert_string_equal(name_set_at(&names.names, 1), "dog ");
    assert_string_equal(name_set_at(&names.names, 2), "M\xc3\xbcnchen");
    name_list_deinit(&names);
}

static void wrong_lists_name_the_line(void **state)
{
    (void)state;
    static const struct {
        const char *text, *what, *found;
        size_t bytes;
    } cases[] = {
        {"", "line 1 of the list of class names is missing", "", 0},
        {"a\n\n", "line 2 of the list of class names is empty", "", 3},
        {"a\nb\nc\nb\n", "line 4 of the list of class names repeats a name",
         "\"b\", also in line 2", 8},
        {"a\n\xff\n", "line 2 of the list of class names is not UTF-8 text", "", 4},
        {"a\0b\n", "line 1 of the list of class names is not UTF-8 text", "", 4},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct name_list names;
        struct err err = {0};
        assert_int_equal(read_text(cases[i].text, cases[i].bytes, &names, &err), -EINVAL);
        assert_string_equal(err.what, cases[i].what);
        assert_string_equal(err.found, cases[i].found);
        assert_string_equal(err.path, in_folder("names.txt"));
        name_list_deinit(&names);
        assert_memory_equal(&names, &no_names, sizeof names);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_name_has_the_number_of_its_line, scratch_set_up,
                                        scratch_tear_down),
        cmocka_unit_test_setup_teardown(line_ends_and_a_byte_order_mark_are_not_part_of_names,
                                        scratch_set_up, scratch_tear_down),
        cmocka_unit_test_setup_teardown(wrong_lists_name_the_line, scratch_set_up,
                                        scratch_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
