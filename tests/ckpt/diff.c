/*
 * Tests comparing checkpoints: every dtype against Python, entries on only one side, loader state,
 * damaged inputs.
 */
#include "ckpt/tools/diff.h"
#include "ckpt/load/tensor_filter.h"
#include "tests/ckpt/fixture.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static struct io *io;
static char folder[TEST_PATH_BYTES_MAX];

static int set_up(void **state)
{
    (void)state;
    struct err err = {0};
    test_make_folder(folder);
    assert_ok(io_open(folder, NULL, &io, &err), &err);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    io_close(io);
    test_remove_folder(folder);
    return 0;
}

static int compare(const char *a, const char *b, const char *only, struct diff **ret_diff,
                   struct err *err)
{
    struct diff_side side_a = {io, a}, side_b = {io, b};
    struct diff_options options = {.only = only};
    return diff_open(&side_a, &side_b, &options, ret_diff, err);
}

/* Asserts how many tensors of each kind differ, and how many entries of the loader's state. */
static void assert_differing(const struct diff *diff, uint64_t values, uint64_t types,
                             uint64_t only_a, uint64_t only_b, uint64_t loader)
{
    uint64_t count[DIFF_ONLY_B + 1] = {0};
    for (uint64_t i = 0; i < diff->tensors_count; i++)
        count[diff->tensors[i].kind]++;
    assert_int_equal(count[DIFF_NONE], 0);
    assert_int_equal(count[DIFF_VALUES], values);
    assert_int_equal(count[DIFF_TYPE], types);
    assert_int_equal(count[DIFF_ONLY_A], only_a);
    assert_int_equal(count[DIFF_ONLY_B], only_b);
    assert_int_equal(diff->loader.count, loader);
    assert_int_equal(diff_is_empty(diff), values + types + only_a + only_b + loader == 0);
}

static void add_element(struct str *out, struct element value)
{
    if (value.kind == ELEMENT_SIGNED)
        str_add_format(out, " %" PRId64, value.integer);
    else if (value.kind == ELEMENT_UNSIGNED)
        str_add_format(out, " %" PRIu64, value.unsigned_value);
    else if (isnan(value.real))
        str_add_text(out, " nan"); /* NaNs of either sign */
    else
        str_add_format(out, " %.17g", value.real);
}

/* Prints in the format of diff_case.py. */
static void add_line(struct str *out, const struct diff_tensor *tensor)
{
    uint64_t index[DTYPE_RANK_MAX], rest = tensor->largest_at;
    for (uint32_t d = tensor->a->rank; d-- > 0; rest /= tensor->a->shape[d])
        index[d] = rest % tensor->a->shape[d];
    str_add_format(out, "%s %" PRIu64 " %" PRIu64, tensor->a->name, tensor->different_count,
                   tensor->nan_count);
    add_element(out, tensor->largest);
    str_add_text(out, " [");
    for (uint32_t d = 0; d < tensor->a->rank; d++)
        str_add_format(out, d ? ",%" PRIu64 : "%" PRIu64, index[d]);
    str_add_text(out, "]");
    add_element(out, tensor->largest_a);
    add_element(out, tensor->largest_b);
    str_add_text(out, "\n");
}

static void elements_of_every_dtype_compare_as_in_python(void **state)
{
    (void)state;
    enum { EXPECTED_BYTES_MAX = 1 << 20, SEEDS = 3 };
    const char *python = test_need_python("numpy");
    char a[FIXTURE_PATH_BYTES], b[FIXTURE_PATH_BYTES];
    char *expected = malloc(EXPECTED_BYTES_MAX);
    snprintf(a, sizeof a, "%s/a.safetensors", folder);
    snprintf(b, sizeof b, "%s/b.safetensors", folder);
    for (int seed = 0; seed < SEEDS; seed++) {
        struct diff *diff;
        struct err err = {0};
        struct str found = {0};
        print_message("seed %d\n", seed);
        assert_int_equal(test_run_output(expected, EXPECTED_BYTES_MAX,
                                         "'%s' %s/tests/ckpt/diff_case.py %d '%s' '%s'", python,
                                         TEST_SOURCE_DIR, seed, a, b),
                         0);
        assert_ok(compare(a, b, NULL, &diff, &err), &err);
        for (uint64_t i = 0; i < diff->tensors_count; i++) {
            assert_int_equal(diff->tensors[i].kind, DIFF_VALUES);
            add_line(&found, &diff->tensors[i]);
        }
        assert_string_equal(str_text(&found), expected);
        diff_close(diff);
        assert_ok(compare(b, b, NULL, &diff, &err), &err);
        assert_differing(diff, 0, 0, 0, 0, 0);
        diff_close(diff);
        str_deinit(&found);
    }
    free(expected);
}

static void differing_dtypes_and_missing_tensors_are_reported_separately(void **state)
{
    (void)state;
    static const struct array_spec specs_a[] = {
        {"a.lone", DTYPE_F32, "3", 0},      {"dtype", DTYPE_F32, "4", 0},
        {"optimizer.m", DTYPE_F32, "5", 0}, {"rank", DTYPE_U8, "6", 0},
        {"same", DTYPE_F16, "2x2", 0},      {"shape", DTYPE_I64, "2x3", 0},
    };
    static const struct array_spec specs_b[] = {
        {"dtype", DTYPE_I32, "4", 0},   {"optimizer.v", DTYPE_F32, "5", 0},
        {"rank", DTYPE_U8, "6x1", 0},   {"same", DTYPE_F16, "2x2", 0},
        {"shape", DTYPE_I64, "3x2", 0}, {"z.lone", DTYPE_F32, "-", 0},
    };
    struct arrays of_a = arrays_make(specs_a, 6), of_b = arrays_make(specs_b, 6);
    char a[FIXTURE_PATH_BYTES], b[FIXTURE_PATH_BYTES];
    struct diff *diff;
    struct err err = {0};
    fixture_save_step(io, folder, &of_a, 1, a);
    fixture_save_step(io, folder, &of_b, 2, b);
    assert_ok(compare(a, b, NULL, &diff, &err), &err);
    assert_differing(diff, 0, 3, 2, 2, 0);
    assert_int_equal(diff->sections[CKPT_MODEL].compared_count, 1);
    assert_int_equal(diff->sections[CKPT_MODEL].compared_bytes, 8);
    assert_int_equal(diff->sections[CKPT_MODEL].type_count, 3);
    assert_int_equal(diff->sections[CKPT_OPTIMIZER].only_a_count, 1);
    assert_int_equal(diff->sections[CKPT_OPTIMIZER].only_b_count, 1);
    assert_string_equal(diff->tensors[0].a->name, "a.lone"); /* sorted by name */
    assert_string_equal(diff->tensors[6].b->name, "z.lone");
    diff_close(diff);
    assert_ok(compare(a, b, "optimizer", &diff, &err), &err);
    assert_differing(diff, 0, 0, 1, 1, 0);
    diff_close(diff);
    assert_ok(compare(a, b, "*.lone", &diff, &err), &err);
    assert_differing(diff, 0, 0, 1, 1, 0);
    diff_close(diff);
    assert_ok(compare(a, b, "same", &diff, &err), &err);
    assert_differing(diff, 0, 0, 0, 0, 0);
    diff_close(diff);
    /* a mistyped name is an error */
    assert_int_equal(compare(a, b, "sam", &diff, &err), -ENOENT);
    arrays_free(&of_a);
    arrays_free(&of_b);
}

static void a_consolidated_file_has_no_loader_state(void **state)
{
    (void)state;
    struct arrays arrays = arrays_odd();
    char step[FIXTURE_PATH_BYTES], file[2 * FIXTURE_PATH_BYTES];
    struct diff *diff;
    struct err err = {0};
    arrays_fill(&arrays, 3);
    fixture_save_step(io, folder, &arrays, 1, step);
    snprintf(file, sizeof file, "%s/rank-00000.safetensors", step);
    /* selects the folder's newest step */
    assert_ok(compare(folder, file, NULL, &diff, &err), &err);
    assert_differing(diff, 0, 0, 0, 0, 2);
    assert_string_equal(diff->loader.entries[0].path, "loader.position");
    assert_string_equal(diff->loader.entries[0].a, "4096");
    assert_null(diff->loader.entries[0].b);
    diff_close(diff);
    assert_ok(compare(folder, file, "model", &diff, &err), &err);
    assert_differing(diff, 0, 0, 0, 0, 0);
    assert_true(diff->sections[CKPT_MODEL].compared_count > 0);
    assert_int_equal(diff->sections[CKPT_OPTIMIZER].compared_count, 0);
    diff_close(diff);
    assert_int_equal(compare(file, file, "loader", &diff, &err), -ENOENT);
    arrays_free(&arrays);
}

static void a_damaged_block_on_either_side_is_named(void **state)
{
    (void)state;
    static const struct array_spec specs[] = {{"weight", DTYPE_F32, "1000x700", 0}};
    struct arrays arrays = arrays_make(specs, 1);
    char a[FIXTURE_PATH_BYTES], b[FIXTURE_PATH_BYTES], file[2 * FIXTURE_PATH_BYTES];
    struct diff *diff;
    size_t bytes;
    arrays_fill(&arrays, 3);
    fixture_save_step(io, folder, &arrays, 1, a);
    fixture_save_step(io, folder, &arrays, 2, b);
    snprintf(file, sizeof file, "%s/rank-00000.safetensors", b);
    unsigned char *data = test_read_file(file, &bytes);
    data[(2 << 20) + 5] ^= 1;
    test_write_file(file, data, bytes);
    free(data);
    for (int swapped = 0; swapped < 2; swapped++) {
        struct err err = {0};
        assert_int_equal(compare(swapped ? b : a, swapped ? a : b, NULL, &diff, &err), -EBADMSG);
        assert_string_equal(err.path, file);
        assert_int_equal(err.offset, 2 << 20);
        assert_non_null(strstr(err.what, "\"weight\""));
    }
    arrays_free(&arrays);
}

/* The expected entries are `path a b`, one per line. */
static void assert_json_differs(const char *a, const char *b, const char *expected)
{
    struct json_t *root_a = NULL, *root_b = NULL;
    struct jsonx_diff diff = {0};
    struct str found = {0};
    struct err err = {0};
    if (a)
        assert_ok(jsonx_parse(a, strlen(a), "a", 0, &root_a, &err), &err);
    if (b)
        assert_ok(jsonx_parse(b, strlen(b), "b", 0, &root_b, &err), &err);
    assert_int_equal(jsonx_diff_collect(&diff, "root", root_a, root_b), 0);
    for (size_t i = 0; i < diff.count; i++)
        str_add_format(&found, "%s %s %s\n", diff.entries[i].path,
                       diff.entries[i].a ? diff.entries[i].a : "-",
                       diff.entries[i].b ? diff.entries[i].b : "-");
    assert_string_equal(str_text(&found), expected);
    str_deinit(&found);
    jsonx_diff_deinit(&diff);
    jsonx_free(root_a);
    jsonx_free(root_b);
}

static void differing_json_entries_are_named_by_path(void **state)
{
    (void)state;
    assert_json_differs("{}", "{}", "");
    assert_json_differs("{}", NULL, "root {} -\n");
    assert_json_differs("{\"b\":1,\"a\":{\"y\":[1,2],\"x\":null}}",
                        "{\"a\":{\"x\":null,\"y\":[1,2]},\"b\":1}", "");
    assert_json_differs("{\"a\":{\"x\":1,\"y\":2},\"k\":true}",
                        "{\"a\":{\"x\":1,\"y\":3},\"l\":\"s\"}",
                        "root.a.y 2 3\nroot.k true -\nroot.l - \"s\"\n");
    /* both spell the same number */
    assert_json_differs("{\"n\":1}", "{\"n\":1.0}", "");
    assert_json_differs("{\"n\":null}", "{}", "root.n null -\n");
    assert_json_differs("{\"n\":{}}", "{\"n\":{\"m\":[]}}", "root.n.m - []\n");
    assert_json_differs("{\"n\":{}}", "{\"n\":{}}", "");
    assert_json_differs("{}", "{\"n\":{}}", "root.n - {}\n");
    assert_json_differs("{\"n\":[1,2,3]}", "{\"n\":{\"m\":1}}", "root.n [1,2,3] {\"m\":1}\n");
}

static void only_selects_sections_or_names(void **state)
{
    (void)state;
    assert_true(tensor_filter_matches("all", "optimizer.m") && tensor_filter_matches("all", "w"));
    assert_true(tensor_filter_matches("model", "w") &&
                !tensor_filter_matches("model", "optimizer.m"));
    assert_true(tensor_filter_matches("optimizer", "optimizer.m") &&
                !tensor_filter_matches("optimizer", "w"));
    assert_true(tensor_filter_matches("blocks.*.q", "blocks.12.q") &&
                !tensor_filter_matches("blocks.*.q", "blocks.12.k"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(elements_of_every_dtype_compare_as_in_python, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(
            differing_dtypes_and_missing_tensors_are_reported_separately, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_consolidated_file_has_no_loader_state, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_damaged_block_on_either_side_is_named, set_up, tear_down),
        cmocka_unit_test(differing_json_entries_are_named_by_path),
        cmocka_unit_test(only_selects_sections_or_names),
    };
    return cmocka_run_group_tests_name("diff", tests, NULL, NULL);
}
