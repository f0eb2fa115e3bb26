/*
 * Tests saving and loading without failures: what was saved is loaded, here and in Python.
 */
#include "base/json/jsonx.h"
#include "ckpt/format/manifest.h"
#include "io/faults/io_fault.h"
#include "tests/ckpt/fixture.h"
#include "tests/support/scratch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void odd_shapes_and_all_dtypes_round_trip(void **state)
{
    (void)state;
    struct arrays arrays = arrays_odd();
    char path[FIXTURE_PATH_BYTES];
    arrays_fill(&arrays, 1);
    fixture_save_step(io, folder, &arrays, 1000, path);
    assert_true(fixture_step_equals(io, path, &arrays));
    ((char *)arrays.tensors[4].data)[12345] ^= 1;
    assert_false(fixture_step_equals(io, path, &arrays)); /* shows that the comparison can fail */
    arrays_free(&arrays);
}

static void state_step_and_numerics_round_trip(void **state)
{
    (void)state;
    struct arrays arrays = arrays_odd();
    char path[FIXTURE_PATH_BYTES];
    struct err err = {0};
    struct ckpt_reader *reader;
    uint64_t seed = 0;
    fixture_save_step(io, folder, &arrays, 123456789012, path);
    assert_ok(ckpt_reader_open(io, path, &reader, &err), &err);
    assert_int_equal(ckpt_reader_step(reader), 123456789012);
    assert_string_equal(ckpt_reader_numerics_id(reader), "any");
    assert_ok(
        jsonx_get_u64(jsonx_get(ckpt_reader_state(reader), "loader"), "seed", &seed, path, &err),
        &err);
    assert_int_equal(seed, 7);
    ckpt_reader_close(reader);
    arrays_free(&arrays);
}

static void a_checkpoint_without_tensors_is_valid(void **state)
{
    (void)state;
    struct arrays arrays = arrays_make(NULL, 0);
    char path[FIXTURE_PATH_BYTES];
    fixture_save_step(io, folder, &arrays, 0, path);
    assert_true(fixture_step_equals(io, path, &arrays));
    arrays_free(&arrays);
}

static void data_starts_page_aligned_and_ends_the_file(void **state)
{
    (void)state;
    struct arrays arrays = arrays_odd();
    char path[FIXTURE_PATH_BYTES], file[2 * FIXTURE_PATH_BYTES];
    struct stat info;
    struct err err = {0};
    struct ckpt_reader *reader;
    uint64_t end = 0, first = UINT64_MAX;
    fixture_save_step(io, folder, &arrays, 1, path);
    snprintf(file, sizeof file, "%s/rank-00000.safetensors", path);
    assert_int_equal(stat(file, &info), 0);
    assert_ok(ckpt_reader_open(io, path, &reader, &err), &err);
    const struct manifest *manifest = ckpt_reader_manifest(reader);
    assert_int_equal(manifest->tensors_count, arrays.count);
    for (uint64_t i = 0; i < arrays.count; i++) {
        const struct manifest_tensor *tensor =
            manifest_find_tensor(manifest, arrays.tensors[i].name);
        assert_non_null(tensor);
        assert_int_equal(tensor->chunks_count, 1);
        uint64_t begin = tensor->chunks[0].offset_bytes, bytes = array_bytes(&arrays.tensors[i]);
        first = begin < first ? begin : first;
        end = begin + bytes > end ? begin + bytes : end;
    }
    assert_int_equal(first % 4096, 0);
    assert_int_equal(end, info.st_size);
    ckpt_reader_close(reader);
    arrays_free(&arrays);
}

static void python_reads_the_rank_file_and_checks_the_manifest(void **state)
{
    (void)state;
    const char *python = test_need_python("json");
    struct arrays arrays = arrays_odd();
    char path[FIXTURE_PATH_BYTES], raw[2 * FIXTURE_PATH_BYTES];
    arrays_fill(&arrays, 5);
    fixture_save_step(io, folder, &arrays, 1, path);
    for (uint64_t i = 0; i < arrays.count; i++) { /* the expected contents, array by array */
        snprintf(raw, sizeof raw, "%s/%llu.raw", folder, (unsigned long long)i);
        test_write_file(raw, arrays.tensors[i].data, array_bytes(&arrays.tensors[i]));
    }
    snprintf(raw, sizeof raw, "%s/names", folder);
    FILE *names = fopen(raw, "w");
    for (uint64_t i = 0; i < arrays.count; i++)
        fprintf(names, "%s\n", arrays.tensors[i].name);
    fclose(names);
    assert_int_equal(test_run("'%s' %s/tests/ckpt/read_step.py '%s' '%s'", python, TEST_SOURCE_DIR,
                              path, folder),
                     0);
    arrays_free(&arrays);
}

static void safetensors_library_reads_the_rank_file(void **state)
{
    (void)state;
    const char *python = test_need_python("safetensors.numpy");
    static const struct array_spec specs[] = {{"a", DTYPE_F32, "3x5", 0}, {"b", DTYPE_I64, "-", 0}};
    struct arrays arrays = arrays_make(specs, 2);
    char path[FIXTURE_PATH_BYTES];
    for (int i = 0; i < 15; i++)
        ((float *)arrays.tensors[0].data)[i] = (float)i / 4;
    *(int64_t *)arrays.tensors[1].data = -77;
    fixture_save_step(io, folder, &arrays, 1, path);
    assert_int_equal(
        test_run("'%s' -c 'from safetensors.numpy import load_file; import numpy as n; "
                 "d = load_file(\"%s/rank-00000.safetensors\"); "
                 "assert (d[\"a\"] == n.arange(15, dtype=n.float32).reshape(3, 5) / 4).all(); "
                 "assert d[\"b\"] == -77 and len(d) == 2'",
                 python, path),
        0);
    arrays_free(&arrays);
}

static void many_small_tensors_are_saved_and_loaded_in_few_operations(void **state)
{
    (void)state;
    uint64_t count = test_is_sanitized() ? 2000 : 20000;
    struct array_spec *specs = calloc(count, sizeof *specs);
    char(*names)[32] = calloc(count, sizeof *names), path[FIXTURE_PATH_BYTES];
    struct io *counting = NULL;
    struct err err = {0};
    for (uint64_t i = 0; i < count; i++) {
        snprintf(names[i], sizeof names[i], "layer.%llu.weight", (unsigned long long)i);
        specs[i] = (struct array_spec){names[i], DTYPE_F32, "256", (uint32_t)(i % 100)};
    }
    struct arrays arrays = arrays_make(specs, count);
    arrays_fill(&arrays, 3);
    assert_ok(io_fault_open(folder, NULL, "seed=0", &counting, &err), &err);
    fixture_save_step(counting, folder, &arrays, 1, path);
    uint64_t blocks = count * 1024 / CKPT_BLOCK_BYTES + 2; /* plus the header's blocks */
    assert_true(io_fault_counts(counting).durable_operations < blocks + 16);
    uint64_t reads_before = io_fault_counts(counting).operations[FAULT_READ];
    assert_true(fixture_step_equals(counting, path, &arrays));
    assert_true(io_fault_counts(counting).operations[FAULT_READ] - reads_before < blocks + 16);
    io_close(counting);
    arrays_free(&arrays);
    free(names);
    free(specs);
}

static void the_hash_covers_names_shapes_and_bytes_only(void **state)
{
    (void)state;
    struct arrays arrays = arrays_odd();
    char a[FIXTURE_PATH_BYTES], b[FIXTURE_PATH_BYTES];
    struct ckpt_hashes x, y;
    struct err err = {0};
    arrays_fill(&arrays, 9);
    fixture_save_step(io, folder, &arrays, 1, a);
    /* different order, groups and step */
    for (uint64_t i = 0; i < arrays.count / 2; i++) {
        struct ckpt_tensor t = arrays.tensors[i];
        arrays.tensors[i] = arrays.tensors[arrays.count - 1 - i];
        arrays.tensors[arrays.count - 1 - i] = t;
    }
    fixture_save_step(io, folder, &arrays, 2, b);
    assert_ok(ckpt_hash(io, a, &x, NULL, NULL, &err), &err);
    assert_ok(ckpt_hash(io, b, &y, NULL, NULL, &err), &err);
    assert_true(x.present[CKPT_MODEL] && x.present[CKPT_OPTIMIZER] && x.present[CKPT_LOADER]);
    assert_memory_equal(x.hash, y.hash, sizeof x.hash);
    for (uint64_t i = 0; i < arrays.count; i++)
        if (strcmp(arrays.tensors[i].name, "optimizer.step") == 0)
            ((char *)arrays.tensors[i].data)[0] ^= 1;
    fixture_save_step(io, folder, &arrays, 3, b);
    /* takes the folder's newest step */
    assert_ok(ckpt_hash(io, folder, &y, NULL, NULL, &err), &err);
    assert_memory_equal(&x.hash[CKPT_MODEL], &y.hash[CKPT_MODEL], sizeof x.hash[0]);
    assert_memory_not_equal(&x.hash[CKPT_OPTIMIZER], &y.hash[CKPT_OPTIMIZER], sizeof x.hash[0]);
    arrays_free(&arrays);
}

/* Progress reports. */
struct progress_record {
    uint64_t calls_count, done_bytes, bytes;
    bool is_inconsistent;
};

static void record_progress(void *context, uint64_t bytes_done, uint64_t bytes)
{
    struct progress_record *watched = context;
    watched->is_inconsistent |=
        bytes_done < watched->done_bytes || (watched->calls_count > 0 && bytes != watched->bytes);
    watched->done_bytes = bytes_done;
    watched->bytes = bytes;
    watched->calls_count++;
}

static void hashing_and_verifying_report_progress(void **state)
{
    (void)state;
    struct arrays arrays = arrays_odd();
    char path[FIXTURE_PATH_BYTES];
    struct ckpt_hashes hashes;
    struct err err = {0};
    struct progress_record hashing = {0}, verifying = {0};
    fixture_save_step(io, folder, &arrays, 1, path);
    struct ckpt_progress progress = {record_progress, &hashing};
    assert_ok(ckpt_hash(io, path, &hashes, NULL, &progress, &err), &err);
    progress.context = &verifying;
    assert_int_equal(ckpt_verify(io, path, NULL, NULL, &progress, &err), 0);
    assert_true(hashing.calls_count > 0 && hashing.bytes > 0 && !hashing.is_inconsistent);
    assert_int_equal(hashing.done_bytes, hashing.bytes);
    assert_true(verifying.calls_count > 0 && verifying.bytes > hashing.bytes &&
                !verifying.is_inconsistent);
    assert_int_equal(verifying.done_bytes, verifying.bytes);
    arrays_free(&arrays);
}

static void hash_of_the_rank_file_equals_the_steps(void **state)
{
    (void)state;
    struct arrays arrays = arrays_odd();
    char path[FIXTURE_PATH_BYTES], file[2 * FIXTURE_PATH_BYTES];
    struct ckpt_hashes x, y;
    struct err err = {0};
    arrays_fill(&arrays, 9);
    fixture_save_step(io, folder, &arrays, 1, path);
    snprintf(file, sizeof file, "%s/rank-00000.safetensors", path);
    assert_ok(ckpt_hash(io, path, &x, NULL, NULL, &err), &err);
    assert_ok(ckpt_hash(io, file, &y, NULL, NULL, &err), &err);
    assert_false(y.present[CKPT_LOADER]);
    assert_memory_equal(&x.hash[CKPT_MODEL], &y.hash[CKPT_MODEL], 2 * sizeof x.hash[0]);
    arrays_free(&arrays);
}

static void the_hash_follows_its_specification(void **state)
{
    (void)state;
    const char *python = test_need_python("ctypes");
    struct arrays arrays = arrays_odd();
    char path[FIXTURE_PATH_BYTES], text[256], hex[HASH128_HEX_BYTES];
    struct ckpt_hashes hashes;
    struct err err = {0};
    arrays_fill(&arrays, 11);
    fixture_save_step(io, folder, &arrays, 1, path);
    assert_ok(ckpt_hash(io, path, &hashes, NULL, NULL, &err), &err);
    assert_int_equal(test_run_output(text, sizeof text, "'%s' %s/tests/ckpt/hash_step.py '%s'",
                                     python, TEST_SOURCE_DIR, path),
                     0);
    char *at = text;
    for (int i = 0; i < CKPT_SECTION_COUNT; i++) {
        assert_memory_equal(at, hash128_format(hashes.hash[i], hex), 32);
        at += 33;
    }
    arrays_free(&arrays);
}

static void missing_and_different_tensors_are_named(void **state)
{
    (void)state;
    static const struct array_spec saved[] = {{"a", DTYPE_F32, "3x5", 0}, {"b", DTYPE_F32, "4", 0}};
    struct arrays arrays = arrays_make(saved, 2);
    char path[FIXTURE_PATH_BYTES];
    struct ckpt_reader *reader;
    struct err err = {0};
    fixture_save_step(io, folder, &arrays, 1, path);
    assert_ok(ckpt_reader_open(io, path, &reader, &err), &err);
    static const struct array_spec missing = {"c", DTYPE_F32, "3x5", 0};
    struct arrays wanted = arrays_make(&missing, 1);
    assert_int_equal(ckpt_reader_load(reader, wanted.tensors, 1, NULL, &err), -ENOENT);
    assert_non_null(strstr(err.what, "\"c\""));
    arrays_free(&wanted);
    static const struct array_spec shape = {"a", DTYPE_F32, "5x3", 0};
    wanted = arrays_make(&shape, 1);
    assert_int_equal(ckpt_reader_load(reader, wanted.tensors, 1, NULL, &err), -EINVAL);
    assert_non_null(strstr(err.what, "\"a\""));
    assert_string_equal(err.expected, "F32 [5, 3]");
    assert_string_equal(err.found, "F32 [3, 5]");
    arrays_free(&wanted);
    static const struct array_spec dtype = {"a", DTYPE_I32, "3x5", 0};
    wanted = arrays_make(&dtype, 1);
    assert_int_equal(ckpt_reader_load(reader, wanted.tensors, 1, NULL, &err), -EINVAL);
    assert_string_equal(err.expected, "I32 [3, 5]");
    arrays_free(&wanted);
    ckpt_reader_close(reader);
    arrays_free(&arrays);
}

static void impossible_arrays_are_refused_at_open(void **state)
{
    (void)state;
    static const struct array_spec twice[] = {{"a", DTYPE_F32, "3", 0}, {"a", DTYPE_I32, "3", 0}};
    static const struct array_spec bytes[] = {{"\xff\xfe", DTYPE_F32, "3", 0}};
    static const struct array_spec meta[] = {{"__metadata__", DTYPE_F32, "3", 0}};
    struct {
        const struct array_spec *specs;
        uint64_t count;
    } cases[] = {{twice, 2}, {bytes, 1}, {meta, 1}};
    for (int i = 0; i < 3; i++) {
        struct arrays arrays = arrays_make(cases[i].specs, cases[i].count);
        struct ckpt_saver_options options = {.folder = folder, .io = io, .groups_count = 1};
        struct ckpt_saver *saver = NULL;
        struct err err = {0};
        assert_int_equal(ckpt_saver_open(&options, arrays.tensors, arrays.count, &saver, &err),
                         -EINVAL);
        arrays.tensors[0].start[0] = 1;
        assert_int_equal(ckpt_saver_open(&options, arrays.tensors, 1, &saver, &err), -EINVAL);
        arrays_free(&arrays);
    }
}

static void incomplete_parts_are_refused_at_open(void **state)
{
    (void)state;
    static const struct array_spec spec = {"a", DTYPE_F32, "4x3", 0};
    struct arrays arrays = arrays_make(&spec, 1);
    struct ckpt_saver_options options = {.folder = folder, .io = io, .groups_count = 1};
    struct ckpt_saver *saver = NULL;
    struct err err = {0};
    arrays.tensors[0].replicated = false;
    arrays.tensors[0].extent[0] = 3; /* a single rank, which does not have all rows */
    assert_int_equal(ckpt_saver_open(&options, arrays.tensors, 1, &saver, &err), -EINVAL);
    assert_non_null(strstr(err.what, "\"a\""));
    arrays_free(&arrays);
}

static void steps_beyond_eight_digits_are_listed_in_order(void **state)
{
    (void)state;
    static const struct array_spec spec = {"a", DTYPE_F32, "4", 0};
    struct arrays arrays = arrays_make(&spec, 1);
    struct ckpt_saver *saver = fixture_open(io, folder, &arrays);
    uint64_t newest = 0, step;
    char path[FIXTURE_PATH_BYTES];
    struct err err = {0};
    fixture_save(saver, 100000000);
    fixture_save(saver, 99999999);
    ckpt_saver_close(saver);
    assert_int_equal(fixture_list(io, folder, &newest), 2);
    assert_int_equal(newest, 100000000);
    assert_ok(ckpt_find(io, folder, path, &step, NULL, &err), &err);
    assert_int_equal(step, 100000000);
    arrays_free(&arrays);
}

static void a_state_that_is_not_a_json_object_is_refused(void **state)
{
    (void)state;
    struct arrays arrays = arrays_make(NULL, 0);
    struct ckpt_saver *saver = fixture_open(io, folder, &arrays);
    struct err err = {0};
    assert_true(ckpt_saver_save(saver, 1, "[1]", &err) < 0);
    assert_true(ckpt_saver_save(saver, 1, "{", &err) < 0);
    ckpt_saver_close(saver);
    assert_int_equal(fixture_list(io, folder, NULL), 0);
    arrays_free(&arrays);
}

/* Writes {"a":{"a": ... {}}}, nested `levels` deep. */
static void nest(char *text, int levels)
{
    for (int i = 0; i < levels; i++, text += 5)
        memcpy(text, "{\"a\":", 5);
    text += sprintf(text, "{}");
    memset(text, '}', (size_t)levels);
    text[levels] = '\0';
}

static void a_state_of_maximum_depth_reads_back(void **state)
{
    (void)state;
    struct arrays arrays = arrays_make(NULL, 0);
    struct ckpt_saver *saver = fixture_open(io, folder, &arrays);
    struct ckpt_reader *reader = NULL;
    struct err err = {0};
    char text[8 * JSON_DEPTH_MAX], path[FIXTURE_PATH_BYTES];
    nest(text, MANIFEST_STATE_DEPTH_MAX + 1);
    assert_int_equal(ckpt_saver_save(saver, 1, text, &err), -EINVAL);
    assert_non_null(strstr(err.what, "too deeply"));
    assert_string_equal(err.expected, "at most 63 levels");
    nest(text, MANIFEST_STATE_DEPTH_MAX);
    assert_ok(ckpt_saver_save(saver, 2, text, &err), &err);
    assert_ok(ckpt_saver_wait(saver, &err), &err);
    ckpt_saver_close(saver);
    assert_int_equal(fixture_list(io, folder, NULL), 1);
    snprintf(path, sizeof path, "%s/step-00000002", folder);
    assert_ok(ckpt_reader_open(io, path, &reader, &err), &err);
    const struct json_t *inner = ckpt_reader_state(reader);
    int levels = 0;
    for (; jsonx_get(inner, "a"); levels++)
        inner = jsonx_get(inner, "a");
    assert_int_equal(levels, MANIFEST_STATE_DEPTH_MAX);
    ckpt_reader_close(reader);
    arrays_free(&arrays);
}

static void an_empty_checkpoint_folder_is_reported(void **state)
{
    (void)state;
    char path[FIXTURE_PATH_BYTES];
    struct err err = {0};
    assert_int_equal(ckpt_find(io, folder, path, NULL, NULL, &err), -ENOENT);
    snprintf(path, sizeof path, "%s/absent", folder);
    assert_int_equal(ckpt_find(io, path, path, NULL, NULL, &err), -ENOENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(odd_shapes_and_all_dtypes_round_trip, scratch_set_up,
                                        scratch_tear_down),
        cmocka_unit_test_setup_teardown(state_step_and_numerics_round_trip, scratch_set_up,
                                        scratch_tear_down),
        cmocka_unit_test_setup_teardown(a_checkpoint_without_tensors_is_valid, scratch_set_up,
                                        scratch_tear_down),
        cmocka_unit_test_setup_teardown(data_starts_page_aligned_and_ends_the_file, scratch_set_up,
                                        scratch_tear_down),
        cmocka_unit_test_setup_teardown(python_reads_the_rank_file_and_checks_the_manifest,
                                        scratch_set_up, scratch_tear_down),
        cmocka_unit_test_setup_teardown(safetensors_library_reads_the_rank_file, scratch_set_up,
                                        scratch_tear_down),
        cmocka_unit_test_setup_teardown(many_small_tensors_are_saved_and_loaded_in_few_operations,
                                        scratch_set_up, scratch_tear_down),
        cmocka_unit_test_setup_teardown(the_hash_covers_names_shapes_and_bytes_only, scratch_set_up,
                                        scratch_tear_down),
        cmocka_unit_test_setup_teardown(hashing_and_verifying_report_progress, scratch_set_up,
                                        scratch_tear_down),
        cmocka_unit_test_setup_teardown(hash_of_the_rank_file_equals_the_steps, scratch_set_up,
                                        scratch_tear_down),
        cmocka_unit_test_setup_teardown(the_hash_follows_its_specification, scratch_set_up,
                                        scratch_tear_down),
        cmocka_unit_test_setup_teardown(missing_and_different_tensors_are_named, scratch_set_up,
                                        scratch_tear_down),
        cmocka_unit_test_setup_teardown(impossible_arrays_are_refused_at_open, scratch_set_up,
                                        scratch_tear_down),
        cmocka_unit_test_setup_teardown(incomplete_parts_are_refused_at_open, scratch_set_up,
                                        scratch_tear_down),
        cmocka_unit_test_setup_teardown(steps_beyond_eight_digits_are_listed_in_order,
                                        scratch_set_up, scratch_tear_down),
        cmocka_unit_test_setup_teardown(a_state_that_is_not_a_json_object_is_refused,
                                        scratch_set_up, scratch_tear_down),
        cmocka_unit_test_setup_teardown(a_state_of_maximum_depth_reads_back, scratch_set_up,
                                        scratch_tear_down),
        cmocka_unit_test_setup_teardown(an_empty_checkpoint_folder_is_reported, scratch_set_up,
                                        scratch_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
