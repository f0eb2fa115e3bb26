/*
 * Tests resharding: steps that several ranks save in one layout are loaded in any other.
 */
#include "base/philox.h"
#include "ckpt/format/box.h"
#include "ckpt/format/manifest.h"
#include "ckpt/tools/diff.h"
#include "io/faults/io_fault.h"
#include "tests/ckpt/fixture.h"
#include "tests/ckpt/layouts.h"
#include "tests/ckpt/thread_comm.h"
#include "tests/support/scratch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The global arrays; each rank holds boxes of them. */
static const struct array_spec specs[] = {
    {"rows", DTYPE_F32, "1001x513", 0},         /* split by rows */
    {"columns", DTYPE_F32, "300x1777", 0},      /* split along dimension 1 */
    {"blocks", DTYPE_U16, "64x70x66", 1},       /* split along all three */
    {"few", DTYPE_F64, "3x7", 1},               /* fewer rows than ranks: some ranks hold nothing */
    {"shared.large", DTYPE_F32, "1234x333", 0}, /* replicated; rows distributed over ranks */
    {"shared.small", DTYPE_U8, "100", 0},       /* replicated, stored by one rank */
    {"shared.empty", DTYPE_U8, "0x5", 0},
    {"optimizer.step", DTYPE_I64, "-", 0},
};

enum { SPECS = sizeof specs / sizeof specs[0] };

struct save {
    const struct arrays *global;
    uint64_t step;
    int failing_rank; /* the rank whose arrays are wrong; -1: none */
    int statuses[THREAD_COMM_RANKS_MAX];
};

static void save_rank(void *context, struct comm *comm)
{
    struct save *save = context;
    struct ckpt_tensor tensors[SPECS];
    struct io *own = NULL;
    struct ckpt_saver *saver = NULL;
    struct err err = {0};
    layouts_take(tensors, save->global, comm->rank, comm->ranks);
    if (save->failing_rank == comm->rank)
        tensors[0].start[0] = 999999;
    assert_ok(io_open(folder, NULL, &own, &err), &err);
    struct ckpt_saver_options options = {.folder = folder,
                                         .io = own,
                                         .comm = comm,
                                         .groups_count = 2,
                                         .run_id = "many",
                                         .numerics_id = "any"};
    int status = ckpt_saver_open(&options, tensors, SPECS, &saver, &err);
    if (!status)
        status = ckpt_saver_save(saver, save->step, FIXTURE_STATE, &err);
    if (!status)
        status = ckpt_saver_wait(saver, &err);
    ckpt_saver_close(saver);
    io_close(own);
    layouts_free(tensors, SPECS);
    save->statuses[comm->rank] = status;
}

/* Loads and compares each rank's part in a layout for `ranks` ranks. */
static void check_layout(const char *path, const struct arrays *global, int ranks)
{
    struct err err = {0};
    struct ckpt_reader *reader;
    assert_ok(ckpt_reader_open(io, path, &reader, &err), &err);
    for (int r = 0; r < ranks; r++) {
        struct ckpt_tensor expected[SPECS], loaded[SPECS];
        layouts_take(expected, global, r, ranks);
        memcpy(loaded, expected, sizeof loaded);
        for (int i = 0; i < SPECS; i++)
            loaded[i].data = calloc(1, array_bytes(&loaded[i]) + 1);
        assert_ok(ckpt_reader_load(reader, loaded, SPECS, NULL, &err), &err);
        for (int i = 0; i < SPECS; i++)
            assert_memory_equal(loaded[i].data, expected[i].data, array_bytes(&loaded[i]));
        layouts_free(expected, SPECS);
        layouts_free(loaded, SPECS);
    }
    ckpt_reader_close(reader);
}

static void any_number_of_ranks_loads_every_save_with_the_same_hash(void **state)
{
    (void)state;
    struct arrays global = arrays_make(specs, SPECS);
    struct ckpt_hashes first, hashes;
    struct err err = {0};
    arrays_fill(&global, 5);
    for (int ranks = 1; ranks <= 5; ranks++) {
        char path[FIXTURE_PATH_BYTES];
        struct save save = {.global = &global, .step = (uint64_t)ranks, .failing_rank = -1};
        thread_comm_run(ranks, save_rank, &save);
        for (int r = 0; r < ranks; r++)
            assert_int_equal(save.statuses[r], 0);
        snprintf(path, sizeof path, "%s/step-%08d", folder, ranks);
        for (int wanted = 1; wanted <= 8; wanted += wanted < 4 ? 1 : 4)
            check_layout(path, &global, wanted);
        assert_int_equal(ckpt_verify(io, path, NULL, NULL, NULL, &err), 0);
        assert_ok(ckpt_hash(io, path, &hashes, NULL, NULL, &err), &err);
        if (ranks == 1)
            first = hashes;
        assert_memory_equal(&first, &hashes, sizeof hashes);
    }
    arrays_free(&global);
}

static void save_as(int ranks, uint64_t step, const struct arrays *global,
                    char path[FIXTURE_PATH_BYTES])
{
    struct save save = {.global = global, .step = step, .failing_rank = -1};
    thread_comm_run(ranks, save_rank, &save);
    for (int r = 0; r < ranks; r++)
        assert_int_equal(save.statuses[r], 0);
    snprintf(path, FIXTURE_PATH_BYTES, "%s/step-%08d", folder, (int)step);
}

static void diffs_between_layouts_show_only_real_changes(void **state)
{
    (void)state;
    enum { LAYOUTS = 5, CHANGED = 2 }; /* index of "blocks" */
    struct arrays global = arrays_make(specs, SPECS);
    uint64_t elements = array_bytes(&global.tensors[CHANGED]) / 2, place = elements / 3;
    char same[LAYOUTS][FIXTURE_PATH_BYTES], changed[FIXTURE_PATH_BYTES];
    arrays_fill(&global, 5);
    uint16_t *values = global.tensors[CHANGED].data;
    values[place] = 1000;
    for (int i = 0; i < LAYOUTS; i++)
        save_as(i + 1, (uint64_t)i + 1, &global, same[i]);
    values[place] = 3000;
    save_as(3, 9, &global, changed);
    arrays_free(&global);
    for (int i = 0; i < LAYOUTS; i++) {
        struct diff_side a = {io, same[i]}, b = {io, same[(i + 2) % LAYOUTS]}, c = {io, changed};
        struct diff_options options = {.only = "all"};
        struct diff *diff;
        struct err err = {0};
        assert_ok(diff_open(&a, &b, &options, &diff, &err), &err);
        assert_true(diff_is_empty(diff));
        assert_int_equal(diff->sections[CKPT_MODEL].compared_count, SPECS - 1);
        assert_int_equal(diff->sections[CKPT_OPTIMIZER].compared_count, 1);
        diff_close(diff);
        assert_ok(diff_open(&a, &c, &options, &diff, &err), &err);
        assert_int_equal(diff->tensors_count, 1);
        assert_string_equal(diff->tensors[0].a->name, "blocks");
        assert_int_equal(diff->tensors[0].different_count, 1);
        assert_int_equal(diff->tensors[0].largest.unsigned_value, 2000);
        assert_int_equal(diff->tensors[0].largest_at, place);
        diff_close(diff);
    }
}

static void replicated_arrays_are_stored_once_spread_over_ranks(void **state)
{
    (void)state;
    struct arrays global = arrays_make(specs, SPECS);
    struct save save = {.global = &global, .step = 4, .failing_rank = -1};
    char path[FIXTURE_PATH_BYTES];
    struct ckpt_reader *reader;
    struct err err = {0};
    thread_comm_run(4, save_rank, &save);
    snprintf(path, sizeof path, "%s/step-00000004", folder);
    assert_ok(ckpt_reader_open(io, path, &reader, &err), &err);
    const struct manifest *manifest = ckpt_reader_manifest(reader);
    assert_int_equal(manifest->files_count, 4);
    const struct manifest_tensor *large = manifest_find_tensor(manifest, "shared.large");
    assert_int_equal(large->chunks_count, 4);
    for (int i = 0; i < 4; i++)
        assert_true(large->chunks[i].extent[0] == 308 || large->chunks[i].extent[0] == 309);
    assert_int_equal(manifest_find_tensor(manifest, "shared.small")->chunks_count, 1);
    ckpt_reader_close(reader);
    arrays_free(&global);
}

static void a_rank_that_cannot_open_fails_the_load_on_all(void **state)
{
    (void)state;
    struct arrays global = arrays_make(specs, SPECS);
    struct save save = {.global = &global, .step = 1, .failing_rank = 2};
    thread_comm_run(4, save_rank, &save);
    for (int r = 0; r < 4; r++)
        assert_int_equal(save.statuses[r], r == 2 ? -EINVAL : -EREMOTEIO);
    assert_int_equal(fixture_list(io, folder, NULL), 0);
    arrays_free(&global);
}

static uint32_t draw(uint64_t round, uint32_t purpose, uint32_t below)
{
    return philox(7, round, purpose).word[0] % below;
}

static void random_boxes_load(void **state)
{
    (void)state;
    struct arrays global = arrays_make(specs, SPECS);
    struct save save = {.global = &global, .step = 1, .failing_rank = -1};
    struct ckpt_reader *reader;
    struct err err = {0};
    char path[FIXTURE_PATH_BYTES];
    arrays_fill(&global, 6);
    thread_comm_run(4, save_rank, &save);
    snprintf(path, sizeof path, "%s/step-00000001", folder);
    assert_ok(ckpt_reader_open(io, path, &reader, &err), &err);
    for (uint64_t round = 0; round < 60; round++) {
        struct ckpt_tensor expected[3], loaded[3];
        /* an array may be requested twice, and boxes may overlap */
        for (uint32_t i = 0; i < 3; i++) {
            struct ckpt_tensor *tensor = &expected[i];
            *tensor = global.tensors[draw(round, i, 4)];
            for (uint32_t d = 0; d < tensor->rank; d++) {
                tensor->start[d] = draw(round, 100 * i + 10 * d + 3, (uint32_t)tensor->shape[d]);
                tensor->extent[d] = draw(round, 100 * i + 10 * d + 4,
                                         (uint32_t)(tensor->shape[d] - tensor->start[d]) + 1);
            }
            const struct ckpt_tensor *whole = NULL;
            for (int g = 0; g < SPECS; g++)
                if (global.tensors[g].name == tensor->name)
                    whole = &global.tensors[g];
            layouts_take_box(tensor, whole);
            loaded[i] = *tensor;
            loaded[i].data = calloc(1, array_bytes(tensor) + 1);
        }
        assert_ok(ckpt_reader_load(reader, loaded, 3, NULL, &err), &err);
        for (int i = 0; i < 3; i++) {
            assert_memory_equal(loaded[i].data, expected[i].data, array_bytes(&loaded[i]));
            free(loaded[i].data);
            free(expected[i].data);
        }
    }
    ckpt_reader_close(reader);
    arrays_free(&global);
}

static void only_the_blocks_needed_are_read(void **state)
{
    (void)state;
    static const struct array_spec spec = {"a", DTYPE_U8, "40x1048576", 0};
    struct arrays arrays = arrays_make(&spec, 1);
    char path[FIXTURE_PATH_BYTES];
    struct io *counting = NULL;
    struct ckpt_reader *reader;
    struct err err = {0};
    fixture_save_step(io, folder, &arrays, 1, path);
    assert_ok(io_fault_open(folder, NULL, "seed=0", &counting, &err), &err);
    assert_ok(ckpt_reader_open(counting, path, &reader, &err), &err);
    uint64_t before = io_fault_counts(counting).read_bytes;
    arrays.tensors[0].start[0] = 11;
    arrays.tensors[0].extent[0] = 5;
    assert_ok(ckpt_reader_load(reader, arrays.tensors, 1, NULL, &err), &err);
    /* five rows of 1 MiB, which begin within a block */
    assert_int_equal(io_fault_counts(counting).read_bytes - before, 6 << 20);
    before = io_fault_counts(counting).read_bytes;
    arrays.tensors[0].start[0] = 0;
    arrays.tensors[0].extent[0] = 40;
    arrays.tensors[0].start[1] = 500000;
    arrays.tensors[0].extent[1] = 10;
    assert_ok(ckpt_reader_load(reader, arrays.tensors, 1, NULL, &err), &err);
    assert_true(io_fault_counts(counting).read_bytes - before <= 40 << 20);
    ckpt_reader_close(reader);
    io_close(counting);
    arrays_free(&arrays);
}

/* Records the reads of open files. Global, because the table of operations has no context
 * argument. */
static struct {
    const struct io_ops *real_ops;
    struct {
        const struct io_file *file;
        uint64_t offset;
    } list[4096];
    size_t count;
} reads;

static int recording_submit(struct io_queue *queue, struct io_request *const *requests,
                            unsigned count)
{
    int taken = reads.real_ops->submit(queue, requests, count);
    for (int i = 0; i < taken; i++) {
        assert_true(reads.count < sizeof reads.list / sizeof reads.list[0]);
        reads.list[reads.count].file = requests[i]->file;
        reads.list[reads.count++].offset = requests[i]->offset;
    }
    return taken;
}

/* For any order of the tensors, reads go file by file, at rising offsets, and read no block
 * twice. */
static void reads_of_a_load_are_sorted_by_offset(void **state)
{
    (void)state;
    struct arrays global = arrays_make(specs, SPECS);
    struct ckpt_tensor wanted[SPECS];
    struct ckpt_reader *reader;
    struct err err = {0};
    char path[FIXTURE_PATH_BYTES];
    arrays_fill(&global, 9);
    save_as(4, 1, &global, path);
    assert_ok(ckpt_reader_open(io, path, &reader, &err), &err);
    struct io_ops recording = *io->ops;
    reads.real_ops = io->ops;
    reads.count = 0;
    recording.submit = recording_submit;
    for (int i = 0; i < SPECS; i++) /* request the tensors in reverse order */
        wanted[i] = global.tensors[SPECS - 1 - i];
    io->ops = &recording;
    assert_ok(ckpt_reader_load(reader, wanted, SPECS, NULL, &err), &err);
    io->ops = reads.real_ops;
    unsigned files = 1;
    assert_true(reads.count > 4);
    for (size_t i = 1; i < reads.count; i++) {
        bool is_same = reads.list[i].file == reads.list[i - 1].file;
        files += !is_same;
        assert_true(!is_same || reads.list[i].offset > reads.list[i - 1].offset);
    }
    assert_int_equal(files, 4);
    ckpt_reader_close(reader);
    arrays_free(&global);
}

static void loading_to_a_device_uses_its_copies(void **state)
{
    (void)state;
    struct arrays arrays = arrays_odd(), loaded = arrays_like(&arrays);
    struct device *device = NULL;
    struct ckpt_reader *reader;
    struct err err = {0};
    char path[FIXTURE_PATH_BYTES];
    arrays_fill(&arrays, 8);
    fixture_save_step(io, folder, &arrays, 1, path);
    assert_ok(device_open("cpu", &device, &err), &err);
    assert_ok(ckpt_reader_open(io, path, &reader, &err), &err);
    assert_ok(ckpt_reader_load(reader, loaded.tensors, loaded.count, device, &err), &err);
    assert_true(arrays_equal(&arrays, &loaded));
    ckpt_reader_close(reader);
    device_close(device);
    arrays_free(&loaded);
    arrays_free(&arrays);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(any_number_of_ranks_loads_every_save_with_the_same_hash,
                                        scratch_set_up, scratch_tear_down),
        cmocka_unit_test_setup_teardown(diffs_between_layouts_show_only_real_changes,
                                        scratch_set_up, scratch_tear_down),
        cmocka_unit_test_setup_teardown(replicated_arrays_are_stored_once_spread_over_ranks,
                                        scratch_set_up, scratch_tear_down),
        cmocka_unit_test_setup_teardown(a_rank_that_cannot_open_fails_the_load_on_all,
                                        scratch_set_up, scratch_tear_down),
        cmocka_unit_test_setup_teardown(random_boxes_load, scratch_set_up, scratch_tear_down),
        cmocka_unit_test_setup_teardown(only_the_blocks_needed_are_read, scratch_set_up,
                                        scratch_tear_down),
        cmocka_unit_test_setup_teardown(reads_of_a_load_are_sorted_by_offset, scratch_set_up,
                                        scratch_tear_down),
        cmocka_unit_test_setup_teardown(loading_to_a_device_uses_its_copies, scratch_set_up,
                                        scratch_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
