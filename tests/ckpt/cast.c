/*
 * Tests loading tensors as a floating-point dtype other than the saved one: only on request, and
 * rounded once.
 */
#include "ckpt/format/cast.h"
#include "base/bytes.h"
#include "base/philox.h"
#include "ckpt/load/reader.h"
#include "tests/ckpt/fixture.h"
#include "tests/ckpt/thread_comm.h"
#include "tests/support/scratch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const enum dtype float_dtypes[] = {DTYPE_F8_E5M2, DTYPE_F8_E4M3, DTYPE_F16,
                                          DTYPE_BF16,    DTYPE_F32,     DTYPE_F64};
enum { FLOAT_DTYPES = sizeof float_dtypes / sizeof float_dtypes[0], VALUES = 1 << 17 };

/* All values, for dtypes of up to 16 bits. For wider dtypes, random values: arbitrary bits, usual
 * magnitudes, and values at or next to the midpoint of two 16-bit values. */
static void make_values(enum dtype dtype, char *values)
{
    size_t bytes = dtype_bytes(dtype);
    for (uint32_t i = 0; i < VALUES; i++) {
        struct philox_block random = philox(11, i, (uint32_t)dtype);
        uint64_t bits = (uint64_t)random.word[0] << 32 | random.word[1];
        if (bytes <= 2)
            bits = i;
        else if (i % 4 == 1) /* at or next to a midpoint of F16, BF16 or 8-bit values */
            bits = (bits & ~(((uint64_t)1 << (bytes == 4 ? 10 : 39) << random.word[2] % 12) - 1)) +
                   (uint64_t)(random.word[3] % 3) - 1;
        double usual = ((double)random.word[0] - 2147483648.0) / (1 << random.word[2] % 31);
        float narrow = (float)usual;
        if (bytes > 2 && i % 2 == 0)
            memcpy(&bits, bytes == 4 ? (void *)&narrow : (void *)&usual, bytes);
        memcpy(values + i * bytes, &bits, bytes);
    }
}

static void every_pair_of_dtypes_rounds_to_nearest_even(void **state)
{
    (void)state;
    const char *python = test_need_python("numpy");
    char *source = malloc(VALUES * 8), *target = malloc(VALUES * 8);
    char name[64];
    assert_true(source && target);
    for (int f = 0; f < FLOAT_DTYPES; f++)
        for (int t = 0; t < FLOAT_DTYPES; t++) {
            if (f == t)
                continue;
            make_values(float_dtypes[f], source);
            cast_elements(float_dtypes[f], source, float_dtypes[t], target, VALUES);
            snprintf(name, sizeof name, "%s.%s.in", dtype_name(float_dtypes[f]),
                     dtype_name(float_dtypes[t]));
            test_write_file(in_folder(name), source, VALUES * dtype_bytes(float_dtypes[f]));
            snprintf(name, sizeof name, "%s.%s.out", dtype_name(float_dtypes[f]),
                     dtype_name(float_dtypes[t]));
            test_write_file(in_folder(name), target, VALUES * dtype_bytes(float_dtypes[t]));
        }
    free(source);
    free(target);
    assert_int_equal(
        test_run("'%s' %s/tests/ckpt/cast_case.py '%s'", python, TEST_SOURCE_DIR, folder), 0);
}

enum { ROWS = 701, COLUMNS = 1003, RANKS = 3 };

static struct ckpt_tensor matrix(enum dtype dtype, void *data)
{
    return (struct ckpt_tensor){.name = "m",
                                .dtype = dtype,
                                .rank = 2,
                                .shape = {ROWS, COLUMNS},
                                .extent = {ROWS, COLUMNS},
                                .data = data};
}

/* Each rank saves a third of the matrix's columns. */
static void save_columns(void *context, struct comm *comm)
{
    const float *values = context;
    struct ckpt_tensor tensor = matrix(DTYPE_F32, NULL);
    uint64_t first = COLUMNS * (uint64_t)comm->rank / RANKS,
             end = COLUMNS * ((uint64_t)comm->rank + 1) / RANKS;
    struct err err = {0};
    struct io *own = NULL;
    struct ckpt_saver *saver = NULL;
    tensor.start[1] = first;
    tensor.extent[1] = end - first;
    float *part = tensor.data = malloc(ROWS * (end - first) * sizeof *part);
    for (uint64_t r = 0; r < ROWS; r++)
        memcpy(part + r * (end - first), values + r * COLUMNS + first,
               (end - first) * sizeof *part);
    assert_ok(io_open(folder, NULL, &own, &err), &err);
    struct ckpt_saver_options options = {
        .folder = folder, .io = own, .comm = comm, .groups_count = 1};
    assert_ok(ckpt_saver_open(&options, &tensor, 1, &saver, &err), &err);
    assert_ok(ckpt_saver_save(saver, 1, FIXTURE_STATE, &err), &err);
    assert_ok(ckpt_saver_wait(saver, &err), &err);
    ckpt_saver_close(saver);
    io_close(own);
    free(part);
}

static float *make_matrix(void)
{
    float *values = malloc((size_t)ROWS * COLUMNS * sizeof *values);
    assert_non_null(values);
    for (uint32_t i = 0; i < ROWS * COLUMNS; i++)
        values[i] = ((float)(philox(5, i, 0).word[0] % 2000001) - 1000000.0f) / 4096.0f;
    return values;
}

static void a_sharded_tensor_loads_as_any_floating_dtype_in_any_box(void **state)
{
    (void)state;
    float *values = make_matrix();
    char *whole = malloc((size_t)ROWS * COLUMNS * 8), *box = malloc((size_t)ROWS * COLUMNS * 8);
    struct device *device = NULL;
    struct ckpt_reader *reader;
    struct err err = {0};
    assert_ok(device_open("cpu", &device, &err), &err);
    thread_comm_run(RANKS, save_columns, values);
    assert_ok(ckpt_reader_open(io, in_folder("step-00000001"), &reader, &err), &err);
    for (int t = 0; t < FLOAT_DTYPES; t++)
        for (int on_device = 0; on_device < 2; on_device++) {
            size_t bytes = dtype_bytes(float_dtypes[t]);
            struct ckpt_tensor wanted = matrix(float_dtypes[t], box);
            wanted.cast = true;
            wanted.start[0] = 13, wanted.extent[0] = 600;
            wanted.start[1] = 7, wanted.extent[1] = 900;
            cast_elements(DTYPE_F32, values, float_dtypes[t], whole, (uint64_t)ROWS * COLUMNS);
            assert_ok(ckpt_reader_load(reader, &wanted, 1, on_device ? device : NULL, &err), &err);
            for (uint64_t r = 0; r < 600; r++)
                assert_memory_equal(box + r * 900 * bytes, whole + ((13 + r) * COLUMNS + 7) * bytes,
                                    900 * bytes);
        }
    ckpt_reader_close(reader);
    device_close(device);
    free(values);
    free(whole);
    free(box);
}

static void a_different_dtype_is_an_error_unless_requested(void **state)
{
    (void)state;
    static const struct array_spec specs[] = {{"real", DTYPE_F32, "5", 0},
                                              {"whole", DTYPE_I32, "5", 0}};
    struct arrays arrays = arrays_make(specs, 2);
    struct ckpt_reader *reader;
    struct err err = {0};
    char path[FIXTURE_PATH_BYTES];
    arrays_fill(&arrays, 3);
    fixture_save_step(io, folder, &arrays, 1, path);
    assert_ok(ckpt_reader_open(io, path, &reader, &err), &err);
    struct ckpt_tensor real = arrays.tensors[0], whole = arrays.tensors[1];
    double room[8];
    real.data = whole.data = room;
    real.dtype = DTYPE_F16;
    assert_int_equal(ckpt_reader_load(reader, &real, 1, NULL, &err), -EINVAL);
    assert_string_equal(err.found, "F32 [5]");
    real.cast = true;
    assert_ok(ckpt_reader_load(reader, &real, 1, NULL, &err), &err);
    real.dtype = DTYPE_I32;
    assert_int_equal(ckpt_reader_load(reader, &real, 1, NULL, &err), -EINVAL);
    whole.dtype = DTYPE_F32; /* integers are never cast */
    whole.cast = true;
    assert_int_equal(ckpt_reader_load(reader, &whole, 1, NULL, &err), -EINVAL);
    whole.dtype = DTYPE_I32;
    assert_ok(ckpt_reader_load(reader, &whole, 1, NULL, &err), &err);
    assert_memory_equal(room, arrays.tensors[1].data, 20);
    ckpt_reader_close(reader);
    arrays_free(&arrays);
}

/* Loads a plain file whose data begins at an odd byte, so that block boundaries split elements. */
static void elements_split_between_blocks_are_cast_correctly(void **state)
{
    (void)state;
    enum { ELEMENTS = 700000 };
    char header[256];
    int length = snprintf(header, sizeof header,
                          "{\"m\":{\"dtype\":\"F32\",\"shape\":[%d],\"data_offsets\":[0,%d]}}",
                          ELEMENTS, 4 * ELEMENTS);
    while (length % 8 != 3)
        header[length++] = ' ';
    char *file = calloc(1, 8 + (size_t)length + 4 * ELEMENTS);
    double *found = malloc(ELEMENTS * sizeof *found);
    struct ckpt_reader *reader;
    struct err err = {0};
    bytes_put_u64(file, (uint64_t)length);
    memcpy(file + 8, header, (size_t)length);
    for (uint32_t i = 0; i < ELEMENTS; i++) {
        float value = (float)i * 0.37f;
        memcpy(file + 8 + length + 4 * (size_t)i, &value, sizeof value);
    }
    test_write_file(in_folder("theirs.safetensors"), file, 8 + (size_t)length + 4 * ELEMENTS);
    assert_ok(reader_open_path(io, in_folder("theirs.safetensors"), &reader, NULL, &err), &err);
    struct ckpt_tensor wanted = {.name = "m",
                                 .dtype = DTYPE_F64,
                                 .rank = 1,
                                 .shape = {ELEMENTS},
                                 .extent = {ELEMENTS},
                                 .cast = true,
                                 .data = found};
    assert_ok(ckpt_reader_load(reader, &wanted, 1, NULL, &err), &err);
    for (uint32_t i = 0; i < ELEMENTS; i++)
        assert_true(found[i] == (double)((float)i * 0.37f));
    ckpt_reader_close(reader);
    free(file);
    free(found);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_pair_of_dtypes_rounds_to_nearest_even, scratch_set_up,
                                        scratch_tear_down),
        cmocka_unit_test_setup_teardown(a_sharded_tensor_loads_as_any_floating_dtype_in_any_box,
                                        scratch_set_up, scratch_tear_down),
        cmocka_unit_test_setup_teardown(a_different_dtype_is_an_error_unless_requested,
                                        scratch_set_up, scratch_tear_down),
        cmocka_unit_test_setup_teardown(elements_split_between_blocks_are_cast_correctly,
                                        scratch_set_up, scratch_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
