/*
 * replaced — tests a plain safetensors file that is replaced while it is read.
 */
#include "base/bytes.h"
#include "ckpt/load/reader.h"
#include "tests/support/scratch.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Writes a tensor "m" of two F32 elements with this value. */
static void write_file(const char *path, float value)
{
    static const char header[] =
        "{\"m\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}        ";
    char bytes[8 + sizeof header - 1 + 8];
    bytes_put_u64(bytes, sizeof header - 1);
    memcpy(bytes + 8, header, sizeof header - 1);
    memcpy(bytes + sizeof bytes - 8, &value, 4);
    memcpy(bytes + sizeof bytes - 4, &value, 4);
    test_write_file(path, bytes, sizeof bytes);
}

static void a_file_replaced_after_its_header_was_read_is_refused(void **state)
{
    (void)state;
    struct ckpt_reader *reader;
    struct err err = {0};
    float found[2];
    struct ckpt_tensor wanted = {
        .name = "m", .dtype = DTYPE_F32, .rank = 1, .shape = {2}, .extent = {2}, .data = found};
    write_file(in_folder("a"), 1);
    write_file(in_folder("b"), 2);
    assert_ok(reader_open_path(io, in_folder("a"), &reader, NULL, &err), &err);
    assert_int_equal(rename(in_folder("b"), in_folder("a")), 0);
    assert_int_equal(ckpt_reader_load(reader, &wanted, 1, NULL, &err), -ESTALE);
    assert_string_equal(err.path, in_folder("a"));
    ckpt_reader_close(reader);
    assert_ok(reader_open_path(io, in_folder("a"), &reader, NULL, &err), &err);
    assert_ok(ckpt_reader_load(reader, &wanted, 1, NULL, &err), &err);
    assert_true(found[0] == 2 && found[1] == 2);
    ckpt_reader_close(reader);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_file_replaced_after_its_header_was_read_is_refused,
                                        scratch_set_up, scratch_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
