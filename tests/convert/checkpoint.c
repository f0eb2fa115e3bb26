/*
 * Converting checkpoints to consolidated files.
 */
#include "convert/checkpoint/checkpoint.h"
#include "base/bytes.h"
#include "base/json/jsonx.h"
#include "ckpt/format/cast.h"
#include "ckpt/format/safetensors.h"
#include "ckpt/load/reader.h"
#include "io/faults/io_fault.h"
#include "tests/ckpt/fixture.h"
#include "tests/support/child.h"
#include "tests/support/scratch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char target[FIXTURE_PATH_BYTES], step[FIXTURE_PATH_BYTES];
static struct arrays arrays;

static int set_up(void **state)
{
    scratch_set_up(state);
    snprintf(target, sizeof target, "%s/full.safetensors", folder);
    arrays = arrays_odd();
    arrays_fill(&arrays, 21);
    fixture_save_step(io, folder, &arrays, 7, step);
    return 0;
}

static int tear_down(void **state)
{
    arrays_free(&arrays);
    return scratch_tear_down(state);
}

static int convert(const char *selection, bool force, struct convert_checkpoint_result *result,
                   struct err *err)
{
    struct convert_checkpoint_options options = {
        .source = folder, .target = target, .selection = selection, .force = force, .verify = true};
    return convert_checkpoint_full(io, &options, result, err);
}

static void only_the_model_is_written_with_the_steps_hash(void **state)
{
    (void)state;
    struct convert_checkpoint_result result;
    struct ckpt_hashes x, y;
    struct err err = {0};
    assert_ok(convert(NULL, false, &result, &err), &err);
    assert_int_equal(result.tensors_count, arrays.count - 2);
    assert_ok(ckpt_hash(io, folder, &x, NULL, NULL, &err), &err);
    assert_ok(ckpt_hash(io, target, &y, NULL, NULL, &err), &err);
    assert_memory_equal(&x.hash[CKPT_MODEL], &y.hash[CKPT_MODEL], sizeof x.hash[0]);
    assert_false(y.present[CKPT_OPTIMIZER]);
    struct safetensors file;
    assert_ok(safetensors_read(io, target, &file, &err), &err);
    const char *format = NULL;
    assert_ok(jsonx_text(jsonx_get(jsonx_get(file.root, "__metadata__"), "format"), &format), NULL);
    assert_string_equal(format, "pt");
    assert_int_equal(file.data_offset % 4096, 0);
    assert_int_equal(file.file_bytes, result.written_bytes);
    safetensors_deinit(&file);
}

static void all_and_globs_choose_tensors(void **state)
{
    (void)state;
    struct convert_checkpoint_result result;
    struct ckpt_hashes x, y;
    struct err err = {0};
    assert_ok(convert("all", false, &result, &err), &err);
    assert_int_equal(result.tensors_count, arrays.count);
    assert_ok(ckpt_hash(io, folder, &x, NULL, NULL, &err), &err);
    assert_ok(ckpt_hash(io, target, &y, NULL, NULL, &err), &err);
    assert_memory_equal(x.hash, y.hash, 2 * sizeof x.hash[0]);
    assert_ok(convert("*large", true, &result, &err), &err);
    assert_int_equal(result.tensors_count, 2);
    assert_int_equal(convert("nothing*", true, &result, &err), -ENOENT);
}

static void an_existing_target_is_kept_unless_forced(void **state)
{
    (void)state;
    struct convert_checkpoint_result result;
    struct err err = {0};
    char text[64];
    size_t bytes;
    test_write_file(target, "mine", 4);
    assert_int_equal(convert(NULL, false, &result, &err), -EEXIST);
    unsigned char *data = test_read_file(target, &bytes);
    snprintf(text, sizeof text, "%s", (char *)data);
    free(data);
    assert_string_equal(text, "mine");
    assert_ok(convert(NULL, true, &result, &err), &err);
}

static void a_damaged_block_stops_the_conversion_and_leaves_nothing(void **state)
{
    (void)state;
    struct convert_checkpoint_result result;
    struct err err = {0};
    char file[2 * FIXTURE_PATH_BYTES];
    size_t bytes;
    snprintf(file, sizeof file, "%s/rank-00000.safetensors", step);
    unsigned char *data = test_read_file(file, &bytes);
    data[bytes / 2] ^= 4;
    test_write_file(file, data, bytes);
    free(data);
    assert_int_equal(convert("all", false, &result, &err), -EBADMSG);
    assert_int_not_equal(access(target, F_OK), 0);
    assert_int_equal(test_run("test -z \"$(ls -A %s | grep tmp)\"", folder), 0);
}

static void a_wrong_file_never_gets_the_target_name(void **state)
{
    (void)state;
    struct convert_checkpoint_result result;
    struct err err = {0};
    char text[8] = "";
    size_t bytes;
    struct io *original_io = io;
    assert_ok(io_fault_open(folder, NULL, "write:flip", &io, &err), &err);
    int new_status = convert("all", false, &result, &err), target_access = access(target, F_OK);
    test_write_file(target, "mine", 4);
    int forced_status = convert("all", true, &result, &err);
    io_close(io);
    io = original_io;
    assert_int_equal(new_status, -EBADMSG);
    assert_int_not_equal(target_access, 0);
    assert_int_equal(forced_status, -EBADMSG);
    unsigned char *data = test_read_file(target, &bytes);
    assert_int_equal(bytes, 4);
    memcpy(text, data, 4);
    free(data);
    assert_string_equal(text, "mine");
    assert_int_equal(test_run("test -z \"$(ls -A %s | grep tmp)\"", folder), 0);
}

static void safetensors_library_reads_equal_values(void **state)
{
    (void)state;
    const char *python = test_need_python("safetensors.numpy");
    struct convert_checkpoint_result result;
    struct err err = {0};
    char raw[FIXTURE_PATH_BYTES];
    assert_ok(convert("all", false, &result, &err), &err);
    for (uint64_t i = 0; i < arrays.count; i++) {
        if (arrays.tensors[i].name[0] < 'a' || strchr(arrays.tensors[i].name, '\"'))
            continue;
        snprintf(raw, sizeof raw, "%s/%s.raw", folder, arrays.tensors[i].name);
        test_write_file(raw, arrays.tensors[i].data, array_bytes(&arrays.tensors[i]));
    }
    assert_int_equal(test_run("'%s' %s/tests/convert/open_full.py '%s' '%s'", python,
                              TEST_SOURCE_DIR, target, folder),
                     0);
}

static void a_rank_file_converts(void **state)
{
    (void)state;
    struct convert_checkpoint_result result;
    struct err err = {0};
    struct ckpt_hashes x, y;
    char file[2 * FIXTURE_PATH_BYTES];
    snprintf(file, sizeof file, "%s/rank-00000.safetensors", step);
    struct convert_checkpoint_options options = {
        .source = file, .target = target, .selection = "all", .verify = true};
    assert_ok(convert_checkpoint_full(io, &options, &result, &err), &err);
    assert_ok(ckpt_hash(io, step, &x, NULL, NULL, &err), &err);
    assert_ok(ckpt_hash(io, target, &y, NULL, NULL, &err), &err);
    assert_memory_equal(x.hash, y.hash, 2 * sizeof x.hash[0]);
}

/* ---- Casts. ---- */

static int convert_to(enum dtype dtype, struct convert_checkpoint_result *result, struct err *err)
{
    struct convert_checkpoint_options options = {.source = folder,
                                                 .target = target,
                                                 .selection = "all",
                                                 .cast = {true, dtype},
                                                 .force = true,
                                                 .verify = true};
    return convert_checkpoint_full(io, &options, result, err);
}

/* Casts leave integers, bools, scalars and empty tensors unchanged, and nothing is cast unless
 * requested. */
static void only_floating_point_tensors_are_cast(void **state)
{
    (void)state;
    static const enum dtype casts[] = {DTYPE_BF16, DTYPE_F16, DTYPE_F64, DTYPE_F8_E4M3};
    struct convert_checkpoint_result result;
    struct err err = {0};
    assert_ok(convert("all", true, &result, &err), &err);
    assert_int_equal(result.cast_count, 0);
    for (size_t c = 0; c < sizeof casts / sizeof casts[0]; c++) {
        struct ckpt_reader *reader;
        uint64_t cast_count = 0;
        assert_ok(convert_to(casts[c], &result, &err), &err);
        assert_ok(reader_open_path(io, target, &reader, NULL, &err), &err);
        assert_int_equal(ckpt_reader_manifest(reader)->tensors_count, arrays.count);
        for (uint64_t i = 0; i < arrays.count; i++) {
            const struct ckpt_tensor *before = &arrays.tensors[i];
            bool is_cast = cast_is_float(before->dtype) && before->dtype != casts[c];
            enum dtype dtype = is_cast ? casts[c] : before->dtype;
            uint64_t count = array_bytes(before) / dtype_bytes(before->dtype),
                     bytes = count * dtype_bytes(dtype);
            char *expected = malloc(bytes + 1), *found = malloc(bytes + 1);
            struct ckpt_tensor request = *before;
            request.dtype = dtype; /* the file has this dtype, so loading needs no cast */
            request.data = found;
            assert_ok(ckpt_reader_load(reader, &request, 1, NULL, &err), &err);
            cast_elements(before->dtype, before->data, dtype, expected, count);
            assert_memory_equal(found, expected, bytes);
            free(expected);
            free(found);
            cast_count += is_cast;
        }
        assert_int_equal(result.cast_count, cast_count);
        ckpt_reader_close(reader);
    }
}

/* ---- Memory. ---- */

/* MEMORY_BYTES_MAX includes read-ahead. */
enum { LARGE_BYTES = 288 << 20, MEMORY_BYTES_MAX = (64 + 32) << 20 };

/* Writes a sparse file of one tensor. It is several times larger than MEMORY_BYTES_MAX. */
static void write_large_tensor(const char *path)
{
    char header[128] = {0};
    snprintf(header + 8, sizeof header - 8,
             "{\"large\":{\"dtype\":\"F32\",\"shape\":[%d],\"data_offsets\":[0,%d]}}",
             LARGE_BYTES / 4, LARGE_BYTES);
    size_t bytes = strlen(header + 8);
    bytes_put_u64(header, bytes);
    test_write_file(path, header, 8 + bytes);
    assert_int_equal(truncate(path, (off_t)(8 + bytes + LARGE_BYTES)), 0);
}

static uint64_t read_status_bytes(const char *key)
{
    char line[256];
    unsigned long long kib = 0;
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, key, strlen(key)) == 0)
            sscanf(line + strlen(key), ": %llu", &kib);
    if (file)
        fclose(file);
    return kib << 10;
}

/* Returns 0 if the conversion added at most MEMORY_BYTES_MAX to the process's memory. */
static int convert_within_limit(const char *source)
{
    struct convert_checkpoint_result result;
    struct convert_checkpoint_options options = {
        .source = source, .target = target, .verify = true};
    /* resets the peak memory */
    FILE *reset = fopen("/proc/self/clear_refs", "w");
    if (!reset || fputs("5", reset) < 0 || fclose(reset))
        return 2;
    uint64_t before = read_status_bytes("VmHWM");
    if (convert_checkpoint_full(io, &options, &result, NULL))
        return 3;
    uint64_t more = read_status_bytes("VmHWM") - before;
    fprintf(stderr, "%llu MiB more for %d MiB\n", (unsigned long long)(more >> 20),
            LARGE_BYTES >> 20);
    return more > MEMORY_BYTES_MAX;
}

static void conversion_memory_does_not_grow_with_the_model(void **state)
{
    (void)state;
    if (test_is_sanitized())
        test_skip("a sanitizer's own memory is counted too");
    char source[FIXTURE_PATH_BYTES];
    snprintf(source, sizeof source, "%s/large.safetensors", folder);
    write_large_tensor(source);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(convert_within_limit(source));
    assert_int_equal(child_wait(child), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(only_the_model_is_written_with_the_steps_hash, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(all_and_globs_choose_tensors, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_existing_target_is_kept_unless_forced, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_damaged_block_stops_the_conversion_and_leaves_nothing,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_wrong_file_never_gets_the_target_name, set_up, tear_down),
        cmocka_unit_test_setup_teardown(safetensors_library_reads_equal_values, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_rank_file_converts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(only_floating_point_tensors_are_cast, set_up, tear_down),
        cmocka_unit_test_setup_teardown(conversion_memory_does_not_grow_with_the_model, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
