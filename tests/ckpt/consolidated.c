/*
 * consolidated — tests real ranks that write `model.safetensors` together: the file equals the
 * output of `convert --to full` for the same arrays, and the rest of the step is ordinary.
 */
#include "ckpt/save/consolidated.h"
#include "convert/checkpoint/checkpoint.h"
#include "tests/ckpt/layouts.h"
#include "tests/support/ranks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Has parts that end within pages and blocks, arrays smaller than a page, and replicated arrays
 * among sharded ones. */
static const struct array_spec specs[] = {
    {"a.rows", DTYPE_F32, "409x3001", 0},     {"b.whole", DTYPE_F32, "700x1001", 1},
    {"c.bytes", DTYPE_U8, "997x3", 1},        {"d.scalar", DTYPE_F32, "-", 2},
    {"e.empty", DTYPE_F32, "0x3", 2},         {"f.halves", DTYPE_BF16, "1023x65", 2},
    {"g.few", DTYPE_F64, "3x7", 0},           {"h.small", DTYPE_I64, "11", 1},
    {"i.f16", DTYPE_F16, "77x5", 2},          {"j.empty.inside", DTYPE_U8, "4x0x2", 0},
    {"optimizer.m", DTYPE_F32, "409x301", 0}, {"optimizer.step", DTYPE_I64, "-", 2},
};
enum { SPECS = sizeof specs / sizeof specs[0], GROUPS = 3 };

/* Whether the tensor's rows are sharded; otherwise every rank holds all of it. */
static bool is_split(const struct ckpt_tensor *global)
{
    return strcmp(global->name, "b.whole") != 0 && global->rank > 0 && global->shape[0] > 0 &&
           strcmp(global->name, "h.small") != 0;
}

/* The part that rank r of n ranks holds. */
static void take(struct ckpt_tensor *tensors, const struct arrays *global, int rank, int ranks)
{
    uint64_t r = (uint64_t)rank, n = (uint64_t)ranks;
    memcpy(tensors, global->tensors, global->count * sizeof *tensors);
    for (uint64_t i = 0; i < global->count; i++) {
        struct ckpt_tensor *tensor = &tensors[i];
        tensor->replicated = !is_split(tensor);
        if (!tensor->replicated) {
            uint64_t rows = tensor->shape[0];
            tensor->start[0] = rows * r / n;
            tensor->extent[0] = rows * (r + 1) / n - tensor->start[0];
        }
        layouts_take_box(tensor, &global->tensors[i]);
    }
}

struct stage {
    char root[TEST_PATH_BYTES_MAX];
    struct io *io;
    struct arrays global;
    struct ckpt_tensor tensors[SPECS]; /* this rank's part */
};

static struct stage set_up(void)
{
    struct stage stage = {.global = arrays_make(specs, SPECS)};
    struct err err = {0};
    ranks_make_folder(stage.root);
    assert_ok(io_open(stage.root, NULL, &stage.io, &err), &err);
    arrays_fill(&stage.global, 7);
    take(stage.tensors, &stage.global, world->rank, world->ranks);
    return stage;
}

static void tear_down(struct stage *stage)
{
    layouts_free(stage->tensors, SPECS);
    arrays_free(&stage->global);
    io_close(stage->io);
    ranks_barrier();
    ranks_remove_folder(stage->root);
}

/* folder: relative to the stage's root. */
static int open_saver(const struct stage *stage, const char *folder, enum ckpt_layout layout,
                      struct ckpt_saver **ret_saver, struct err *err)
{
    char path[FIXTURE_PATH_BYTES];
    snprintf(path, sizeof path, "%s/%s", stage->root, folder);
    struct ckpt_saver_options options = {.folder = path,
                                         .io = stage->io,
                                         .comm = world,
                                         .layout = layout,
                                         .groups_count = GROUPS,
                                         .staging_bytes = 4 << 20,
                                         .run_id = "full",
                                         .numerics_id = "any"};
    return ckpt_saver_open(&options, stage->tensors, SPECS, ret_saver, err);
}

static void save(const struct stage *stage, const char *folder, enum ckpt_layout layout,
                 uint64_t step)
{
    struct ckpt_saver *saver = NULL;
    struct err err = {0};
    assert_ok(open_saver(stage, folder, layout, &saver, &err), &err);
    assert_ok(ckpt_saver_save(saver, step, FIXTURE_STATE, &err), &err);
    assert_ok(ckpt_saver_wait(saver, &err), &err);
    ckpt_saver_close(saver);
}

/* Checks loads by `ranks` ranks, simulated one after another on this rank. */
static void check_loads(const struct stage *stage, const char *step, int ranks)
{
    struct err err = {0};
    for (int rank = 0; rank < ranks; rank++) {
        struct ckpt_tensor expected[SPECS], loaded[SPECS];
        struct ckpt_reader *reader = NULL;
        take(expected, &stage->global, rank, ranks);
        memcpy(loaded, expected, sizeof loaded);
        for (int i = 0; i < SPECS; i++)
            loaded[i].data = calloc(1, array_bytes(&loaded[i]) + 1);
        assert_ok(ckpt_reader_open(stage->io, step, &reader, &err), &err);
        assert_ok(ckpt_reader_load(reader, loaded, SPECS, NULL, &err), &err);
        for (int i = 0; i < SPECS; i++)
            assert_memory_equal(loaded[i].data, expected[i].data, array_bytes(&loaded[i]));
        ckpt_reader_close(reader);
        layouts_free(expected, SPECS);
        layouts_free(loaded, SPECS);
    }
}

static struct ckpt_hashes hashes_of(const struct stage *stage, const char *path)
{
    struct ckpt_hashes hashes;
    struct err err = {0};
    assert_ok(ckpt_hash(stage->io, path, &hashes, NULL, NULL, &err), &err);
    return hashes;
}

static void the_consolidated_file_equals_the_converted_sharded_step(void **state)
{
    (void)state;
    struct stage stage = set_up();
    char sharded[FIXTURE_PATH_BYTES], full[FIXTURE_PATH_BYTES], file[FIXTURE_PATH_BYTES];
    struct err err = {0};
    snprintf(sharded, sizeof sharded, "%s/sharded/step-00000001", stage.root);
    snprintf(full, sizeof full, "%s/full/step-00000001", stage.root);
    snprintf(file, sizeof file, "%s/converted.safetensors", stage.root);
    save(&stage, "sharded", CKPT_SHARDED, 1);
    save(&stage, "full", CKPT_CONSOLIDATED, 1);
    if (world->rank == 0) {
        struct convert_checkpoint_options options = {.source = sharded, .target = file};
        struct convert_checkpoint_result result;
        assert_ok(convert_checkpoint_full(stage.io, &options, &result, &err), &err);
        assert_int_equal(test_run("cmp '%s' '%s/model.safetensors'", file, full), 0);
        /* and the same when converting from this step */
        options.source = full;
        options.force = true;
        assert_ok(convert_checkpoint_full(stage.io, &options, &result, &err), &err);
        assert_int_equal(test_run("cmp '%s' '%s/model.safetensors'", file, full), 0);
        assert_int_equal(ckpt_verify(stage.io, full, NULL, NULL, NULL, &err), 0);
        struct ckpt_hashes a = hashes_of(&stage, sharded), b = hashes_of(&stage, full);
        for (int s = 0; s < CKPT_SECTION_COUNT; s++) {
            assert_true(a.present[s] && b.present[s]);
            assert_memory_equal(&a.hash[s], &b.hash[s], sizeof a.hash[s]);
        }
        check_loads(&stage, full, 1);
        check_loads(&stage, full, 3);
        check_loads(&stage, full, 8);
    }
    tear_down(&stage);
}

static void a_save_holds_the_values_at_its_start_while_arrays_change(void **state)
{
    (void)state;
    struct stage stage = set_up();
    struct ckpt_saver *saver = NULL;
    struct err err = {0};
    char step[FIXTURE_PATH_BYTES];
    assert_ok(open_saver(&stage, "full", CKPT_CONSOLIDATED, &saver, &err), &err);
    for (uint64_t i = 1; i <= 3; i++) {
        assert_ok(ckpt_saver_save(saver, i, FIXTURE_STATE, &err), &err);
        for (uint32_t g = 0; g < GROUPS; g++) {
            ckpt_saver_before_update(saver, g);
            for (int t = 0; t < SPECS; t++)
                if (stage.tensors[t].group == g)
                    memset(stage.tensors[t].data, (int)(0x11 * i), array_bytes(&stage.tensors[t]));
        }
        assert_ok(ckpt_saver_wait(saver, &err), &err);
        ranks_barrier();
        if (i == 1) {
            snprintf(step, sizeof step, "%s/full/step-00000001", stage.root);
            check_loads(&stage, step, world->ranks);
        }
    }
    ckpt_saver_close(saver);
    for (uint64_t i = 0; i < stage.global.count; i++)
        memset(stage.global.tensors[i].data, 0x22, array_bytes(&stage.global.tensors[i]));
    snprintf(step, sizeof step, "%s/full/step-00000003", stage.root);
    check_loads(&stage, step, world->ranks);
    tear_down(&stage);
}

static void ranks_write_equal_parts_of_replicated_tensors(void **state)
{
    (void)state;
    static const struct array_spec large[] = {{"model.x", DTYPE_F32, "2048x1024", 0},
                                              {"model.y", DTYPE_BF16, "512x2048", 0}};
    struct stage stage = set_up();
    struct arrays arrays = arrays_make(large, 2);
    struct ckpt_saver *saver = NULL;
    struct err err = {0};
    char path[FIXTURE_PATH_BYTES];
    snprintf(path, sizeof path, "%s/even", stage.root);
    struct ckpt_saver_options options = {.folder = path,
                                         .io = stage.io,
                                         .comm = world,
                                         .layout = CKPT_CONSOLIDATED,
                                         .groups_count = 1};
    assert_ok(ckpt_saver_open(&options, arrays.tensors, arrays.count, &saver, &err), &err);
    assert_ok(ckpt_saver_save(saver, 1, "{}", &err), &err);
    assert_ok(ckpt_saver_wait(saver, &err), &err);
    uint64_t written = ckpt_saver_stats(saver).written_bytes;
    uint64_t even = (2048 * 1024 * 4 + 512 * 2048 * 2) / (uint64_t)world->ranks;
    assert_true(written > even * 99 / 100 && written < even * 101 / 100);
    ckpt_saver_close(saver);
    arrays_free(&arrays);
    tear_down(&stage);
}

static void a_step_is_replaced_only_if_its_layout_differs(void **state)
{
    (void)state;
    struct stage stage = set_up();
    save(&stage, "both", CKPT_SHARDED, 1);
    save(&stage, "both", CKPT_CONSOLIDATED, 1);
    if (world->rank == 0) {
        assert_int_equal(test_run("test -e '%s/both/step-00000001/model.safetensors' -a "
                                  "! -e '%s/both/aside-step-00000001/model.safetensors' -a "
                                  "-e '%s/both/aside-step-00000001/manifest.json'",
                                  stage.root, stage.root, stage.root),
                         0);
        assert_int_equal(test_run("stat -c %%i '%s/both/step-00000001/manifest.json' > '%s/before'",
                                  stage.root, stage.root),
                         0);
    }
    save(&stage, "both", CKPT_CONSOLIDATED, 1);
    if (world->rank == 0)
        assert_int_equal(
            test_run("stat -c %%i '%s/both/step-00000001/manifest.json' | cmp - '%s/before'",
                     stage.root, stage.root),
            0);
    tear_down(&stage);
}

/* Checks that an error on only this rank is refused on all ranks. */
static void check_refused(struct stage *stage, int expected)
{
    struct ckpt_saver *saver = NULL;
    struct err err = {0};
    int status = open_saver(stage, "refused", CKPT_CONSOLIDATED, &saver, &err);
    assert_true(status == expected || (status == -EREMOTEIO && world->rank > 0));
}

static void noncontiguous_or_incomplete_parts_are_refused(void **state)
{
    (void)state;
    struct stage stage = set_up();
    bool is_first = world->rank == 0;
    struct ckpt_tensor *rows = &stage.tensors[0];
    struct ckpt_tensor whole = *rows;
    if (is_first)
        rows->extent[1]--;
    check_refused(&stage, -ENOTSUP);
    *rows = whole;
    if (is_first)
        rows->extent[0]--;
    check_refused(&stage, -EINVAL);
    *rows = whole;
    if (is_first)
        stage.tensors[1].group = GROUPS;
    check_refused(&stage, -EINVAL);
    stage.tensors[1].group = 1;
    const struct ckpt_tensor other = stage.tensors[2];
    if (is_first) { /* one rank has two parts of one array */
        rows->extent[0] = 1;
        stage.tensors[2] = whole;
        stage.tensors[2].start[0]++;
        stage.tensors[2].extent[0]--;
    }
    check_refused(&stage, -EINVAL);
    *rows = whole;
    stage.tensors[2] = other;
    save(&stage, "refused", CKPT_CONSOLIDATED, 1);
    tear_down(&stage);
}

static void per_node_folders_refuse_the_consolidated_layout(void **state)
{
    (void)state;
    struct stage stage = set_up();
    struct ckpt_saver *saver = NULL;
    struct err err = {0};
    struct ckpt_saver_options options = {.folder = stage.root,
                                         .io = stage.io,
                                         .comm = world,
                                         .per_node = true,
                                         .layout = CKPT_CONSOLIDATED,
                                         .groups_count = GROUPS};
    assert_int_equal(ckpt_saver_open(&options, stage.tensors, SPECS, &saver, &err), -EINVAL);
    tear_down(&stage);
}

enum { SIMULATED_RANKS_MAX = 4 };

/* Given all ranks' arrays, one rank computes the same plan alone. */
static void a_simulated_plan_equals_the_collective_one(void **state)
{
    (void)state;
    struct stage stage = set_up();
    struct ckpt_tensor tensors[SIMULATED_RANKS_MAX][SPECS];
    struct consolidated_tensors all[SIMULATED_RANKS_MAX];
    struct consolidated together, alone;
    struct err err = {0};
    assert_in_range(world->ranks, 1, SIMULATED_RANKS_MAX);
    for (int rank = 0; rank < world->ranks; rank++) {
        take(tensors[rank], &stage.global, rank, world->ranks);
        all[rank] = (struct consolidated_tensors){tensors[rank], SPECS};
    }
    assert_ok(consolidated_init(&together, &all[world->rank], GROUPS, world, &err), &err);
    assert_ok(consolidated_simulate(&alone, all, world->rank, world->ranks, GROUPS, &err), &err);
    assert_int_equal(alone.file_bytes, together.file_bytes);
    assert_int_equal(alone.has_boundaries, together.has_boundaries);
    assert_int_equal(alone.boundaries_count, together.boundaries_count);
    assert_int_equal(alone.slices_count, together.slices_count);
    for (uint64_t i = 0; i < together.slices_count; i++) {
        assert_int_equal(alone.slices[i].offset_bytes, together.slices[i].offset_bytes);
        assert_int_equal(alone.slices[i].size_bytes, together.slices[i].size_bytes);
        assert_int_equal(alone.slices[i].writer, together.slices[i].writer);
    }
    assert_int_equal(alone.segments_count, together.segments_count);
    for (uint64_t i = 0; i < together.segments_count; i++) {
        assert_int_equal(alone.segments[i].size_bytes, together.segments[i].size_bytes);
        assert_int_equal(alone.segments[i].source, together.segments[i].source);
        if (alone.segments[i].source == LAYOUT_ARRAY)
            assert_ptr_equal(alone.segments[i].data, together.segments[i].data);
    }
    consolidated_deinit(&alone);
    consolidated_deinit(&together);
    for (int rank = 0; rank < world->ranks; rank++)
        layouts_free(tensors[rank], SPECS);
    tear_down(&stage);
}

/* Like real ranks whose parts overlap or leave a gap. */
static void a_simulated_plan_of_incomplete_parts_is_refused(void **state)
{
    (void)state;
    struct stage stage = set_up();
    struct consolidated_tensors twice[2] = {{stage.tensors, SPECS}, {stage.tensors, SPECS}};
    struct consolidated consolidated;
    struct err err = {0};
    assert_int_equal(consolidated_simulate(&consolidated, twice, 0, 2, GROUPS, &err), -EINVAL);
    consolidated_deinit(&consolidated);
    tear_down(&stage);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_consolidated_file_equals_the_converted_sharded_step),
        cmocka_unit_test(a_save_holds_the_values_at_its_start_while_arrays_change),
        cmocka_unit_test(ranks_write_equal_parts_of_replicated_tensors),
        cmocka_unit_test(a_step_is_replaced_only_if_its_layout_differs),
        cmocka_unit_test(noncontiguous_or_incomplete_parts_are_refused),
        cmocka_unit_test(per_node_folders_refuse_the_consolidated_layout),
        cmocka_unit_test(a_simulated_plan_equals_the_collective_one),
        cmocka_unit_test(a_simulated_plan_of_incomplete_parts_is_refused),
    };
    return ranks_main(tests, sizeof tests / sizeof tests[0], 0);
}
