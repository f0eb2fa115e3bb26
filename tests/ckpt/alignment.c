/*
 * Tests that arrays at any address are saved and loaded completely: disk-aligned blocks are
 * transferred directly, others through a copy.
 */
#include "ckpt/format/manifest.h"
#include "io/faults/io_fault.h"
#include "tests/ckpt/fixture.h"
#include "tests/support/engines.h"
#include "tests/support/gate.h"
#include "tests/support/scratch.h"

#include <stdlib.h>
#include <string.h>

enum { ARRAYS = 3, ARRAY_BYTES = 3 << 20, LAST_BYTES = ARRAY_BYTES + 1000, ROOM_BYTES = 4 << 20 };

struct placed_arrays {
    struct ckpt_tensor tensors[ARRAYS];
    char *memory;
};

/* Arrays adjacent in the file, each at offset `shift` into a page of memory. */
static struct placed_arrays place_arrays(size_t shift)
{
    static const char *const names[ARRAYS] = {"a", "b", "c"};
    struct placed_arrays placed = {.memory =
                                       aligned_alloc(IO_ALIGN_BYTES, (size_t)ARRAYS * ROOM_BYTES)};
    assert_non_null(placed.memory);
    memset(placed.memory, 0, (size_t)ARRAYS * ROOM_BYTES);
    for (uint32_t i = 0; i < ARRAYS; i++) {
        uint64_t bytes = i + 1 < ARRAYS ? ARRAY_BYTES : LAST_BYTES;
        placed.tensors[i] = (struct ckpt_tensor){.name = names[i],
                                                 .dtype = DTYPE_U8,
                                                 .rank = 1,
                                                 .shape = {bytes},
                                                 .extent = {bytes},
                                                 .group = i,
                                                 .data = placed.memory + i * ROOM_BYTES + shift};
    }
    return placed;
}

static void fill(const struct ckpt_tensor *tensor, unsigned seed)
{
    unsigned char *bytes = tensor->data;
    for (uint64_t i = 0; i < tensor->shape[0]; i++)
        bytes[i] = (unsigned char)((i * 2654435761u + seed) >> 9);
}

/* Updates the first array while the save is in progress, then waits for the save. */
static void save(const struct placed_arrays *arrays, uint64_t step)
{
    struct ckpt_saver *saver = NULL;
    struct err err = {0};
    struct ckpt_saver_options options = {
        .folder = folder, .io = io, .groups_count = ARRAYS, .numerics_id = "any"};
    assert_ok(ckpt_saver_open(&options, arrays->tensors, ARRAYS, &saver, &err), &err);
    assert_ok(ckpt_saver_save(saver, step, FIXTURE_STATE, &err), &err);
    ckpt_saver_before_update(saver, 0);
    memset(arrays->tensors[0].data, 0xEE, ARRAY_BYTES);
    assert_ok(ckpt_saver_wait(saver, &err), &err);
    /* the save no longer reads it */
    memset(arrays->memory, 0xEE, (size_t)ARRAYS * ROOM_BYTES);
    ckpt_saver_close(saver);
}

static void load_and_compare(const char *path, size_t shift)
{
    struct placed_arrays loaded = place_arrays(shift), expected = place_arrays(0);
    struct ckpt_reader *reader;
    struct err err = {0};
    assert_ok(ckpt_reader_open(io, path, &reader, &err), &err);
    assert_ok(ckpt_reader_load(reader, loaded.tensors, ARRAYS, NULL, &err), &err);
    for (unsigned i = 0; i < ARRAYS; i++) {
        const struct ckpt_tensor *tensor = &loaded.tensors[i];
        const char *end = (const char *)tensor->data + tensor->shape[0];
        fill(&expected.tensors[i], i);
        assert_memory_equal(tensor->data, expected.tensors[i].data, tensor->shape[0]);
        for (size_t k = 0; k < shift; k++) /* nothing around the array has changed */
            assert_int_equal(((const char *)tensor->data)[-1 - (ptrdiff_t)k], 0);
        for (size_t k = 0; k < 1000; k++)
            assert_int_equal(end[k], 0);
    }
    ckpt_reader_close(reader);
    free(loaded.memory);
    free(expected.memory);
}

static void arrays_of_any_alignment_are_saved_and_loaded(void **state)
{
    static const size_t shifts[] = {0, 512, 4, 1};
    static const enum io_cache caches[] = {IO_CACHE_AUTO, IO_CACHE_NONE, IO_CACHE_ALL};
    struct io *usual = io;
    (void)state;
    uint64_t step = 0;
    for (int c = 0; c < 3; c++) {
        struct io_options options = engines_options();
        struct err err = {0};
        options.cache = caches[c];
        assert_ok(io_open(folder, &options, &io, &err), &err);
        for (int s = 0; s < 4; s++) {
            struct placed_arrays arrays = place_arrays(shifts[s]);
            char path[FIXTURE_PATH_BYTES];
            for (unsigned i = 0; i < ARRAYS; i++)
                fill(&arrays.tensors[i], i);
            save(&arrays, ++step);
            snprintf(path, sizeof path, "%s/step-%08d", folder, (int)step);
            for (int t = 0; t < 4; t++)
                load_and_compare(path, shifts[t]);
            assert_int_equal(ckpt_verify(io, path, NULL, NULL, NULL, &err), 0);
            free(arrays.memory);
        }
        io_close(io);
    }
    io = usual;
}

/* Holds all writes, then changes the memory that they would read from directly. */
static void disk_aligned_arrays_may_change_while_they_are_saved(void **state)
{
    enum { BLOCKS = ((ARRAYS - 1) * ARRAY_BYTES + LAST_BYTES) / CKPT_BLOCK_BYTES };
    static const enum io_cache caches[] = {IO_CACHE_NONE, IO_CACHE_ALL};
    struct io *usual = io;
    (void)state;
    for (int c = 0; c < 2; c++) {
        struct io_options options = engines_options();
        struct placed_arrays arrays = place_arrays(0);
        struct ckpt_saver *saver = NULL;
        struct err err = {0};
        char path[FIXTURE_PATH_BYTES];
        options.cache = caches[c];
        assert_ok(io_fault_open(folder, &options, "write:hold", &io, &err), &err);
        struct ckpt_saver_options saving = {
            .folder = folder, .io = io, .groups_count = ARRAYS, .numerics_id = "any"};
        for (unsigned i = 0; i < ARRAYS; i++)
            fill(&arrays.tensors[i], i);
        assert_ok(ckpt_saver_open(&saving, arrays.tensors, ARRAYS, &saver, &err), &err);
        assert_ok(ckpt_saver_save(saver, (uint64_t)c, FIXTURE_STATE, &err), &err);
        while (io_fault_counts(io).held_operations < BLOCKS)
            gate_pause();
        for (uint32_t i = 0; i < ARRAYS; i++)
            ckpt_saver_before_update(saver, i);
        memset(arrays.memory, 0xEE, (size_t)ARRAYS * ROOM_BYTES);
        io_fault_release(io);
        assert_ok(ckpt_saver_wait(saver, &err), &err);
        ckpt_saver_close(saver);
        snprintf(path, sizeof path, "%s/step-%08d", folder, c);
        load_and_compare(path, 0);
        io_close(io);
        free(arrays.memory);
    }
    io = usual;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(arrays_of_any_alignment_are_saved_and_loaded,
                                        scratch_set_up, scratch_tear_down),
        cmocka_unit_test_setup_teardown(disk_aligned_arrays_may_change_while_they_are_saved,
                                        scratch_set_up, scratch_tear_down),
    };
    return engines_run(tests);
}
