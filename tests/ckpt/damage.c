/*
 * damage — tests damaged, truncated or missing checkpoints: errors name the damaged file, and
 * intact parts still load.
 */
#include "ckpt/format/manifest.h"
#include "tests/ckpt/steps.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct damage_report {
    int count;
    char what[ERR_TEXT_BYTES_MAX];
    int64_t offset;
};

static void record_damage(void *context, const struct err *detail)
{
    struct damage_report *named = context;
    if (named->count++ == 0) {
        snprintf(named->what, sizeof named->what, "%s", detail->what);
        named->offset = detail->offset;
    }
}

static void one_flipped_bit_anywhere_is_detected_and_named(void **state)
{
    (void)state;
    static const struct array_spec small[] = {
        {"a", DTYPE_F32, "5x7", 0}, {"b", DTYPE_U8, "13", 0}, {"optimizer.c", DTYPE_F64, "3", 0}};
    struct arrays few = arrays_make(small, 3), loaded = arrays_like(&few);
    char step[FIXTURE_PATH_BYTES], file[2 * FIXTURE_PATH_BYTES];
    size_t bytes;
    uint64_t flips = 0;
    arrays_fill(&few, 1);
    fixture_save_step(io, folder, &few, 1, step);
    snprintf(file, sizeof file, "%s/rank-00000.safetensors", step);
    unsigned char *data = test_read_file(file, &bytes);
    FILE *out = fopen(file, "r+b");
    setvbuf(out, NULL, _IONBF, 0);
    for (size_t i = 0; i < bytes; i += i < 4096 && test_is_sanitized() ? 17 : 1, flips++) {
        struct ckpt_reader *reader;
        struct damage_report named = {0};
        struct err err = {0};
        fseek(out, (long)i, SEEK_SET);
        fputc(data[i] ^ 1 << i % 8, out);
        assert_ok(ckpt_reader_open(io, step, &reader, &err), &err);
        assert_int_equal(ckpt_reader_load(reader, loaded.tensors, loaded.count, NULL, &err),
                         -EBADMSG);
        assert_non_null(strstr(err.what, "tensor \""));
        assert_int_equal(err.offset, 0);
        ckpt_reader_close(reader);
        if (i % 7 == 0) {
            assert_true(ckpt_verify(io, step, record_damage, &named, NULL, &err) >= 1);
            assert_non_null(strstr(named.what, "tensor \""));
        }
        fseek(out, (long)i, SEEK_SET);
        fputc(data[i], out);
    }
    fclose(out);
    free(data);
    assert_int_equal(ckpt_verify(io, step, NULL, NULL, NULL, NULL), 0);
    snprintf(file, sizeof file, "%s/manifest.json", step);
    data = test_read_file(file, &bytes);
    for (size_t i = 0; i < bytes * 8; i += test_is_sanitized() ? 5 : 1, flips++) {
        struct ckpt_reader *reader;
        struct err err = {0};
        data[i / 8] ^= (unsigned char)(1 << i % 8);
        test_write_file(file, data, bytes);
        assert_int_equal(ckpt_reader_open(io, step, &reader, &err), -EBADMSG);
        assert_string_equal(err.path, file);
        data[i / 8] ^= (unsigned char)(1 << i % 8);
    }
    test_write_file(file, data, bytes);
    assert_true(fixture_step_equals(io, step, &few));
    print_message("%llu flips\n", (unsigned long long)flips);
    free(data);
    arrays_free(&few);
    arrays_free(&loaded);
}

static void damage_is_named_and_other_tensors_load(void **state)
{
    (void)state;
    char step[FIXTURE_PATH_BYTES], file[2 * FIXTURE_PATH_BYTES];
    size_t bytes;
    struct ckpt_reader *reader;
    struct err err = {0};
    struct damage_report named = {0};
    arrays_fill(&arrays, 1);
    fixture_save_step(io, folder, &arrays, 1, step);
    snprintf(file, sizeof file, "%s/rank-00000.safetensors", step);
    unsigned char *data = test_read_file(file, &bytes);
    data[3 << 20] ^= 1; /* the first byte of the fourth block, which contains only b.weight */
    test_write_file(file, data, bytes);
    free(data);
    assert_ok(ckpt_reader_open(io, step, &reader, &err), &err);
    assert_int_equal(ckpt_reader_load(reader, &arrays.tensors[1], 1, NULL, &err), -EBADMSG);
    assert_non_null(strstr(err.what, "\"b.weight\""));
    assert_string_equal(err.path, file);
    assert_int_equal(err.offset, 3 << 20);
    assert_ok(ckpt_reader_load(reader, &arrays.tensors[0], 1, NULL, &err), &err);
    ckpt_reader_close(reader);
    assert_int_equal(ckpt_verify(io, step, record_damage, &named, NULL, &err), 1);
    assert_non_null(strstr(named.what, "\"b.weight\""));
    assert_int_equal(named.offset, 3 << 20);
    assert_int_equal(ckpt_hash(io, step, &(struct ckpt_hashes){0}, NULL, NULL, &err), -EBADMSG);
}

static void missing_and_truncated_files_are_not_listed(void **state)
{
    (void)state;
    char step[FIXTURE_PATH_BYTES];
    struct ckpt_reader *reader;
    struct damage_report named = {0};
    struct err err = {0};
    arrays_fill(&arrays, 1);
    fixture_save_step(io, folder, &arrays, 1, step);
    fixture_save_step(io, folder, &arrays, 2, step);
    assert_int_equal(test_run("truncate -s -1 '%s'/rank-00000.safetensors", step), 0);
    assert_int_equal(fixture_list(io, folder, NULL), 1);
    assert_int_equal(ckpt_reader_open(io, step, &reader, &err), -EBADMSG);
    assert_int_equal(ckpt_verify(io, step, record_damage, &named, NULL, &err), 1);
    /* now the file is one byte too long */
    assert_int_equal(test_run("printf xx >>'%s'/rank-00000.safetensors", step), 0);
    assert_int_equal(fixture_list(io, folder, NULL), 1);
    assert_int_equal(ckpt_reader_open(io, step, &reader, &err), -EBADMSG);
    assert_int_equal(ckpt_verify(io, step, record_damage, &named, NULL, &err), 1);
    assert_int_equal(test_run("rm '%s'/rank-00000.safetensors", step), 0);
    assert_int_equal(fixture_list(io, folder, NULL), 1);
    assert_int_equal(ckpt_reader_open(io, step, &reader, &err), -ENOENT);
    assert_int_equal(test_run("rm '%s'/../step-00000001/manifest.json", step), 0);
    assert_int_equal(fixture_list(io, folder, NULL), 0);
}

static void a_file_resized_after_the_manifest_was_read_is_named(void **state)
{
    (void)state;
    static const char *const changes[] = {"truncate -s -1", "truncate -s +1"};
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        char step[FIXTURE_PATH_BYTES];
        struct ckpt_reader *reader;
        struct err err = {0};
        fixture_save_step(io, folder, &arrays, 1, step);
        assert_ok(ckpt_reader_open(io, step, &reader, &err), &err);
        assert_int_equal(test_run("%s '%s'/rank-00000.safetensors", changes[i], step), 0);
        assert_int_equal(ckpt_reader_load(reader, arrays.tensors, arrays.count, NULL, &err),
                         -EBADMSG);
        assert_non_null(strstr(err.path, "rank-00000.safetensors"));
        ckpt_reader_close(reader);
    }
}

/* A backend that simulates another run: it saves the step again through the real backend just
 * before the array file is opened or stat'ed. */
static struct io_ops racing_ops;
static struct io_name_ops racing_names;
static const struct io_ops *real_ops;
static const struct io_name_ops *real_names;
static const struct arrays *new_arrays; /* NULL: already saved */

static void save_again(const char *path)
{
    const struct arrays *other = new_arrays;
    char step[FIXTURE_PATH_BYTES];
    if (!other || !strstr(path, "rank-00000"))
        return;
    new_arrays = NULL;
    fixture_save_step(io, folder, other, 1, step);
}

static int save_again_then_open(struct io *racing_io, const char *path, struct io_file **ret_file,
                                struct err *err)
{
    save_again(path);
    return real_ops->file_open(racing_io, path, ret_file, err);
}

static int save_again_then_stat(struct io *racing_io, const char *path, struct io_stat *ret_stat,
                                struct err *err)
{
    save_again(path);
    return real_names->stat(racing_io, path, ret_stat, err);
}

static struct io *open_racing_io(bool at_stat)
{
    struct io *racing_io = steps_open_faulty("seed=0");
    real_ops = racing_io->ops;
    real_names = racing_io->names;
    racing_ops = *real_ops;
    racing_names = *real_names;
    if (at_stat)
        racing_names.stat = save_again_then_stat;
    else
        racing_ops.file_open = save_again_then_open;
    racing_io->ops = &racing_ops;
    racing_io->names = &racing_names;
    return racing_io;
}

static void a_step_replaced_while_read_is_not_reported_as_damaged(void **state)
{
    (void)state;
    struct arrays fewer = arrays_make(steps_specs, 2), others[] = {arrays_like(&arrays), fewer};
    struct io *racing_io = open_racing_io(false);
    for (size_t i = 0; i < 2; i++) { /* first with other bytes, then with another size */
        char step[FIXTURE_PATH_BYTES];
        struct arrays loaded = arrays_like(&arrays);
        struct ckpt_reader *reader = NULL;
        struct damage_report named = {0};
        struct err err = {0};
        arrays_fill(&others[i], 2);
        arrays_fill(&arrays, 1);
        fixture_save_step(io, folder, &arrays, 1, step);
        assert_ok(ckpt_reader_open(racing_io, step, &reader, &err), &err);
        new_arrays = &others[i];
        assert_int_equal(ckpt_reader_load(reader, loaded.tensors, loaded.count, NULL, &err),
                         -ESTALE);
        assert_null(new_arrays);
        assert_non_null(strstr(err.what, "saved again while it was being read"));
        ckpt_reader_close(reader);
        fixture_save_step(io, folder, &arrays, 1, step);
        new_arrays = &others[i];
        assert_int_equal(ckpt_verify(racing_io, step, record_damage, &named, NULL, &err), -ESTALE);
        assert_null(new_arrays);
        assert_int_equal(named.count, 0);
        assert_non_null(strstr(err.what, "saved again while it was being read"));
        assert_int_equal(ckpt_verify(racing_io, step, record_damage, &named, NULL, &err), 0);
        arrays_free(&loaded);
    }
    io_close(racing_io);
    arrays_free(&others[0]);
    arrays_free(&fewer);
}

static void an_open_step_is_readable_after_it_is_replaced(void **state)
{
    (void)state;
    char step[FIXTURE_PATH_BYTES];
    struct arrays loaded = arrays_like(&arrays), other = arrays_like(&arrays);
    struct ckpt_reader *reader = NULL;
    struct err err = {0};
    arrays_fill(&arrays, 1);
    arrays_fill(&other, 2);
    fixture_save_step(io, folder, &arrays, 1, step);
    assert_ok(ckpt_reader_open(io, step, &reader, &err), &err);
    assert_ok(ckpt_reader_load(reader, loaded.tensors, 1, NULL, &err), &err);
    fixture_save_step(io, folder, &other, 1, step);
    assert_ok(ckpt_reader_load(reader, loaded.tensors, loaded.count, NULL, &err), &err);
    assert_true(arrays_equal(&loaded, &arrays));
    ckpt_reader_close(reader);
    arrays_free(&loaded);
    arrays_free(&other);
}

static void a_step_removed_while_read_is_not_reported_as_damaged(void **state)
{
    (void)state;
    char step[FIXTURE_PATH_BYTES];
    struct ckpt_reader *reader = NULL;
    struct err err = {0};
    fixture_save_step(io, folder, &arrays, 1, step);
    assert_ok(ckpt_reader_open(io, step, &reader, &err), &err);
    assert_int_equal(test_run("rm -r '%s'", step), 0);
    assert_int_equal(ckpt_reader_load(reader, arrays.tensors, arrays.count, NULL, &err), -ESTALE);
    assert_non_null(strstr(err.what, "removed while it was being read"));
    ckpt_reader_close(reader);
}

static void a_step_replaced_during_the_search_is_found(void **state)
{
    (void)state;
    char step[FIXTURE_PATH_BYTES], found[FIXTURE_PATH_BYTES];
    struct arrays fewer = arrays_make(steps_specs, 2);
    struct io *racing_io = open_racing_io(true);
    struct err err = {0};
    arrays_fill(&fewer, 2);
    fixture_save_step(io, folder, &arrays, 0, step);
    fixture_save_step(io, folder, &arrays, 1, step);
    new_arrays = &fewer;
    assert_ok(ckpt_find(racing_io, folder, found, NULL, NULL, &err), &err);
    assert_null(new_arrays);
    assert_string_equal(found, step);
    assert_true(fixture_step_equals(io, found, &fewer));
    io_close(racing_io);
    arrays_free(&fewer);
}

struct damage_offsets {
    int count;
    int64_t offsets[8];
};

static void record_offset(void *context, const struct err *detail)
{
    struct damage_offsets *told = context;
    assert_true(told->count < 8);
    told->offsets[told->count++] = detail->offset;
}

static void damage_found_by_several_threads_is_reported_in_order(void **state)
{
    (void)state;
    /* 50 blocks, so at least two threads read */
    static const struct array_spec spec = {"large", DTYPE_F32, "13000x1000", 0};
    static const uint64_t blocks[] = {0, 7, 8, 9, 31, 49};
    struct arrays large = arrays_make(&spec, 1);
    char step[FIXTURE_PATH_BYTES], file[2 * FIXTURE_PATH_BYTES];
    struct damage_offsets told = {0};
    struct err err = {0};
    arrays_fill(&large, 1);
    fixture_save_step(io, folder, &large, 1, step);
    snprintf(file, sizeof file, "%s/rank-00000.safetensors", step);
    FILE *out = fopen(file, "r+b");
    for (size_t i = 0; i < 6; i++) {
        fseek(out, (long)(blocks[i] * CKPT_BLOCK_BYTES + 5000), SEEK_SET);
        int byte = fgetc(out);
        fseek(out, -1, SEEK_CUR);
        fputc(byte ^ 1, out);
    }
    fclose(out);
    assert_int_equal(ckpt_verify(io, step, record_offset, &told, NULL, &err), 6);
    for (size_t i = 0; i < 6; i++)
        assert_int_equal(told.offsets[i], blocks[i] * CKPT_BLOCK_BYTES);
    arrays_free(&large);
}

static void a_transient_read_error_is_reported(void **state)
{
    (void)state;
    char step[FIXTURE_PATH_BYTES];
    struct damage_report named = {0};
    struct err err = {0};
    arrays_fill(&arrays, 1);
    fixture_save_step(io, folder, &arrays, 1, step);
    struct io *faulty = steps_open_faulty("read:flip@2:rank-00000");
    assert_int_equal(ckpt_verify(faulty, step, record_damage, &named, NULL, &err), 1);
    assert_non_null(strstr(named.what, "good when it was read again"));
    assert_int_equal(named.offset, 1 << 20);
    io_close(faulty);
}

struct warnings {
    int count;
    char last[LOG_LINE_BYTES_MAX];
};

static void record_warning(void *context, enum log_level level, const char *line)
{
    struct warnings *warnings = context;
    assert_int_equal(level, LOG_WARN);
    warnings->count++;
    snprintf(warnings->last, sizeof warnings->last, "%s", line);
}

static void a_damaged_newest_step_is_skipped_with_a_warning(void **state)
{
    (void)state;
    char step[FIXTURE_PATH_BYTES], found[FIXTURE_PATH_BYTES];
    struct warnings warnings = {0};
    struct log log = {.write = record_warning, .context = &warnings};
    struct err err = {0};
    uint64_t number = 0;
    arrays_fill(&arrays, 1);
    for (uint64_t i = 1; i <= 3; i++)
        fixture_save_step(io, folder, &arrays, i, step);
    assert_ok(ckpt_find(io, folder, found, &number, &log, &err), &err);
    assert_int_equal(number, 3);
    assert_int_equal(warnings.count, 0);
    assert_int_equal(test_run("echo x >>'%s'/manifest.json", step), 0);
    assert_int_equal(test_run("truncate -s -1 '%s'/../step-00000002/rank-00000.safetensors", step),
                     0);
    assert_ok(ckpt_find(io, folder, found, &number, &log, &err), &err);
    assert_int_equal(number, 1);
    assert_int_equal(warnings.count, 2);
    assert_non_null(strstr(warnings.last, "step-00000002"));
}

static void a_folder_of_only_damaged_steps_is_an_error(void **state)
{
    (void)state;
    char step[FIXTURE_PATH_BYTES], found[FIXTURE_PATH_BYTES];
    struct err err = {0};
    arrays_fill(&arrays, 1);
    fixture_save_step(io, folder, &arrays, 1, step);
    fixture_save_step(io, folder, &arrays, 2, step);
    assert_int_equal(test_run("rm '%s'/../step-00000001/manifest.json", step), 0);
    assert_int_equal(test_run("rm '%s'/rank-00000.safetensors", step), 0);
    assert_int_equal(ckpt_find(io, folder, found, NULL, NULL, &err), -EBADMSG);
    assert_int_equal(err.code, -EBADMSG);
    assert_non_null(strstr(err.path, "step-00000002")); /* the error names the newest */
    assert_true(err.advice[0]);
}

static void an_unreadable_step_is_never_skipped(void **state)
{
    (void)state;
    char step[FIXTURE_PATH_BYTES], found[FIXTURE_PATH_BYTES];
    struct err err = {0};
    arrays_fill(&arrays, 1);
    fixture_save_step(io, folder, &arrays, 1, step);
    fixture_save_step(io, folder, &arrays, 2, step);
    assert_int_equal(
        test_run("cd '%s' && rm manifest.json && ln -s manifest.json manifest.json", step), 0);
    assert_int_equal(ckpt_find(io, folder, found, NULL, NULL, &err), -ELOOP);
    assert_non_null(strstr(err.path, "step-00000002"));
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, steps_set_up, steps_tear_down)
    const struct CMUnitTest tests[] = {
        CASE(one_flipped_bit_anywhere_is_detected_and_named),
        CASE(damage_is_named_and_other_tensors_load),
        CASE(damage_found_by_several_threads_is_reported_in_order),
        CASE(a_transient_read_error_is_reported),
        CASE(missing_and_truncated_files_are_not_listed),
        CASE(a_file_resized_after_the_manifest_was_read_is_named),
        CASE(a_step_replaced_while_read_is_not_reported_as_damaged),
        CASE(an_open_step_is_readable_after_it_is_replaced),
        CASE(a_step_removed_while_read_is_not_reported_as_damaged),
        CASE(a_step_replaced_during_the_search_is_found),
        CASE(a_damaged_newest_step_is_skipped_with_a_warning),
        CASE(a_folder_of_only_damaged_steps_is_an_error),
        CASE(an_unreadable_step_is_never_skipped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
