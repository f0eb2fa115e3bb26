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
static void take_part(struct ckpt_tensor *tensors, const struct arrays *global, int rank, int ranks)
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

struct fixture {
    char root[TEST_PATH_BYTES_MAX];
    struct io *io;
    struct arrays global;
    struct ckpt_tensor tensors[SPECS]; /* this rank's part */
};

static struct fixture set_up(void)
{
    struct fixture fixture = {.global = arrays_make(specs, SPECS)};
    struct err err = {0};
    ranks_make_folder(fixture.root);
    assert_ok(io_open(fixture.root, NULL, &fixture.io, &err), &err);
    arrays_fill(&fixture.global, 7);
    take_part(fixture.tensors, &fixture.global, world->rank, world->ranks);
    return fixture;
}

static void tear_down(struct fixture *fixture)
{
    layouts_free(fixture->tensors, SPECS);
    arrays_free(&fixture->global);
    io_close(fixture->io);
    ranks_barrier();
    ranks_remove_folder(fixture->root);
}

/* folder: relative to the fixture's root. */
static int open_saver(const struct fixture *fixture, const char *folder, enum ckpt_layout layout,
                      struct ckpt_saver **ret_saver, struct err *err)
{
    char path[FIXTURE_PATH_BYTES];
    snprintf(path, sizeof path, "%s/%s", fixture->root, folder);
    struct ckpt_saver_options options = {.folder = path,
                                         .io = fixture->io,
                                         .comm = world,
                                         .layout = layout,
                                         .groups_count = GROUPS,
                                         .staging_bytes = 4 << 20,
                                         .run_id = "full",
                                         .numerics_id = "any"};
    return ckpt_saver_open(&options, fixture->tensors, SPECS, ret_saver, err);
}

static void save(const struct fixture *fixture, const char *folder, enum ckpt_layout layout,
                 uint64_t step)
{
    struct ckpt_saver *saver = NULL;
    struct err err = {0};
    assert_ok(open_saver(fixture, folder, layout, &saver, &err), &err);
    assert_ok(ckpt_saver_save(saver, step, FIXTURE_STATE, &err), &err);
    assert_ok(ckpt_saver_wait(saver, &err), &err);
    ckpt_saver_close(saver);
}

/* Checks loads by `ranks` ranks, simulated one after another on this rank. */
static void check_loads(const struct fixture *fixture, const char *step, int ranks)
{
    struct err err = {0};
    for (int rank = 0; rank < ranks; rank++) {
        struct ckpt_tensor expected[SPECS], loaded[SPECS];
        struct ckpt_reader *reader = NULL;
        take_part(expected, &fixture->global, rank, ranks);
        memcpy(loaded, expected, sizeof loaded);
        for (int i = 0; i < SPECS; i++)
            loaded[i].data = calloc(1, array_bytes(&loaded[i]) + 1);
        assert_ok(ckpt_reader_open(fixture->io, step, &reader, &err), &err);
        assert_ok(ckpt_reader_load(reader, loaded, SPECS, NULL, &err), &err);
        for (int i = 0; i < SPECS; i++)
            assert_memory_equal(loaded[i].data, expected[i].data, array_bytes(&loaded[i]));
        ckpt_reader_close(reader);
        layouts_free(expected, SPECS);
        layouts_free(loaded, SPECS);
    }
}

static struct ckpt_hashes hashes_of(const struct fixture *fixture, const char *path)
{
    struct ckpt_hashes hashes;
    struct err err = {0};
    assert_ok(ckpt_hash(fixture->io, path, &hashes, NULL, NULL, &err), &err);
    return hashes;
}

static void the_consolidated_file_equals_the_converted_sharded_step(void **state)
{
    (void)state;
    struct fixture fixture = set_up();
    char sharded[FIXTURE_PATH_BYTES], full[FIXTURE_PATH_BYTES], file[FIXTURE_PATH_BYTES];
    struct err err = {0};
    snprintf(sharded, sizeof sharded, "%s/sharded/step-00000001", fixture.root);
    snprintf(full, sizeof full, "%s/full/step-00000001", fixture.root);
    snprintf(file, sizeof file, "%s/converted.safetensors", fixture.root);
    save(&fixture, "sharded", CKPT_SHARDED, 1);
    save(&fixture, "full", CKPT_CONSOLIDATED, 1);
    if (world->rank == 0) {
        struct convert_checkpoint_options options = {.source = sharded, .target = file};
        struct convert_checkpoint_result result;
        assert_ok(convert_checkpoint_full(fixture.io, &options, &result, &err), &err);
        assert_int_equal(test_run("cmp '%s' '%s/model.safetensors'", file, full), 0);
        /* and the same when converting from this step */
        options.source = full;
        options.force = true;
        assert_ok(convert_checkpoint_full(fixture.io, &options, &result, &err), &err);
        assert_int_equal(test_run("cmp '%s' '%s/model.safetensors'", file, full), 0);
        assert_int_equal(ckpt_verify(fixture.io, full, NULL, NULL, NULL, &err), 0);
        struct ckpt_hashes a = hashes_of(&fixture, sharded), b = hashes_of(&fixture, full);
        for (int s = 0; s < CKPT_SECTION_COUNT; s++) {
            assert_true(a.present[s] && b.present[s]);
            assert_memory_equal(&a.hash[s], &b.hash[s], sizeof a.hash[s]);
        }
        check_loads(&fixture, full, 1);
        check_loads(&fixture, full, 3);
        check_loads(&fixture, full, 8);
    }
    tear_down(&fixture);
}

static void a_save_holds_the_values_at_its_start_while_arrays_change(void **state)
{
    (void)state;
    struct fixture fixture = set_up();
    struct ckpt_saver *saver = NULL;
    struct err err = {0};
    char step[FIXTURE_PATH_BYTES];
    assert_ok(open_saver(&fixture, "full", CKPT_CONSOLIDATED, &saver, &err), &err);
    for (uint64_t i = 1; i <= 3; i++) {
        assert_ok(ckpt_saver_save(saver, i, FIXTURE_STATE, &err), &err);
        for (uint32_t g = 0; g < GROUPS; g++) {
            ckpt_saver_before_update(saver, g);
            for (int t = 0; t < SPECS; t++)
                if (fixture.tensors[t].group == g)
                    memset(fixture.tensors[t].data, (int)(0x11 * i),
                           array_bytes(&fixture.tensors[t]));
        }
        assert_ok(ckpt_saver_wait(saver, &err), &err);
        ranks_barrier();
        if (i == 1) {
            snprintf(step, sizeof step, "%s/full/step-00000001", fixture.root);
            check_loads(&fixture, step, world->ranks);
        }
    }
    ckpt_saver_close(saver);
    for (uint64_t i = 0; i < fixture.global.count; i++)
        memset(fixture.global.tensors[i].data, 0x22, array_bytes(&fixture.global.tensors[i]));
    snprintf(step, sizeof step, "%s/full/step-00000003", fixture.root);
    check_loads(&fixture, step, world->ranks);
    tear_down(&fixture);
}

static void ranks_write_equal_parts_of_replicated_tensors(void **state)
{
    (void)state;
    static const struct array_spec large[] = {{"model.x", DTYPE_F32, "2048x1024", 0},
                                              {"model.y", DTYPE_BF16, "512x2048", 0}};
    struct fixture fixture = set_up();
    struct arrays arrays = arrays_make(large, 2);
    struct ckpt_saver *saver = NULL;
    struct err err = {0};
    char path[FIXTURE_PATH_BYTES];
    snprintf(path, sizeof path, "%s/even", fixture.root);
    struct ckpt_saver_options options = {.folder = path,
                                         .io = fixture.io,
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
    tear_down(&fixture);
}

static void a_step_is_replaced_only_if_its_layout_differs(void **state)
{
    (void)state;
    struct fixture fixture = set_up();
    save(&fixture, "both", CKPT_SHARDED, 1);
    save(&fixture, "both", CKPT_CONSOLIDATED, 1);
    if (world->rank == 0) {
        assert_int_equal(test_run("test -e '%s/both/step-00000001/model.safetensors' -a "
                                  "! -e '%s/both/aside-step-00000001/model.safetensors' -a "
                                  "-e '%s/both/aside-step-00000001/manifest.json'",
                                  fixture.root, fixture.root, fixture.root),
                         0);
        assert_int_equal(test_run("stat -c %%i '%s/both/step-00000001/manifest.json' > '%s/before'",
                                  fixture.root, fixture.root),
                         0);
    }
    save(&fixture, "both", CKPT_CONSOLIDATED, 1);
    if (world->rank == 0)
        assert_int_equal(
            test_run("stat -c %%i '%s/both/step-00000001/manifest.json' | cmp - '%s/before'",
                     fixture.root, fixture.root),
            0);
    tear_down(&fixture);
}

/* Checks that an error on only this rank is refused on all ranks. */
static void check_refused(struct fixture *fixture, int expected)
{
    struct ckpt_saver *saver = NULL;
    struct err err = {0};
    int status = open_saver(fixture, "refused", CKPT_CONSOLIDATED, &saver, &err);
    assert_true(status == expected || (status == -EREMOTEIO && world->rank > 0));
}

static void noncontiguous_or_incomplete_parts_are_refused(void **state)
{
    (void)state;
    struct fixture fixture = set_up();
    bool is_first = world->rank == 0;
    struct ckpt_tensor *rows = &fixture.tensors[0];
    struct ckpt_tensor whole = *rows;
    if (is_first)
        rows->extent[1]--;
    check_refused(&fixture, -ENOTSUP);
    *rows = whole;
    if (is_first)
        rows->extent[0]--;
    check_refused(&fixture, -EINVAL);
    *rows = whole;
    if (is_first)
        fixture.tensors[1].group = GROUPS;
    check_refused(&fixture, -EINVAL);
    fixture.tensors[1].group = 1;
    const struct ckpt_tensor other = fixture.tensors[2];
    if (is_first) { /* one rank has two parts of one array */
        rows->extent[0] = 1;
        fixture.tensors[2] = whole;
        fixture.tensors[2].start[0]++;
        fixture.tensors[2].extent[0]--;
    }
    check_refused(&fixture, -EINVAL);
    *rows = whole;
    fixture.tensors[2] = other;
    save(&fixture, "refused", CKPT_CONSOLIDATED, 1);
    tear_down(&fixture);
}

static void per_node_folders_refuse_the_consolidated_layout(void **state)
{
    (void)state;
    struct fixture fixture = set_up();
    struct ckpt_saver *saver = NULL;
    struct err err = {0};
    struct ckpt_saver_options options = {.folder = fixture.root,
                                         .io = fixture.io,
                                         .comm = world,
                                         .per_node = true,
                                         .layout = CKPT_CONSOLIDATED,
                                         .groups_count = GROUPS};
    assert_int_equal(ckpt_saver_open(&options, fixture.tensors, SPECS, &saver, &err), -EINVAL);
    tear_down(&fixture);
}

enum { SIMULATED_RANKS_MAX = 4 };

/* Given all ranks' arrays, one rank computes the same plan alone. */
static void a_simulated_plan_equals_the_collective_one(void **state)
{
    (void)state;
    struct fixture fixture = set_up();
    struct ckpt_tensor tensors[SIMULATED_RANKS_MAX][SPECS];
    struct consolidated_tensors all[SIMULATED_RANKS_MAX];
    struct consolidated collective_plan, simulated_plan;
    struct err err = {0};
    assert_in_range(world->ranks, 1, SIMULATED_RANKS_MAX);
    for (int rank = 0; rank < world->ranks; rank++) {
        take_part(tensors[rank], &fixture.global, rank, world->ranks);
        all[rank] = (struct consolidated_tensors){tensors[rank], SPECS};
    }
    assert_ok(consolidated_init(&collective_plan, &all[world->rank], GROUPS, world, &err), &err);
    assert_ok(consolidated_simulate(&simulated_plan, all, world->rank, world->ranks, GROUPS, &err),
              &err);
    assert_int_equal(simulated_plan.file_bytes, collective_plan.file_bytes);
    assert_int_equal(simulated_plan.has_boundaries, collective_plan.has_boundaries);
    assert_int_equal(simulated_plan.boundaries_count, collective_plan.boundaries_count);
    assert_int_equal(simulated_plan.slices_count, collective_plan.slices_count);
    for (uint64_t i = 0; i < collective_plan.slices_count; i++) {
        assert_int_equal(simulated_plan.slices[i].offset_bytes,
                         collective_plan.slices[i].offset_bytes);
        assert_int_equal(simulated_plan.slices[i].size_bytes, collective_plan.slices[i].size_bytes);
        assert_int_equal(simulated_plan.slices[i].writer, collective_plan.slices[i].writer);
    }
    assert_int_equal(simulated_plan.segments_count, collective_plan.segments_count);
    for (uint64_t i = 0; i < collective_plan.segments_count; i++) {
        assert_int_equal(simulated_plan.segments[i].size_bytes,
                         collective_plan.segments[i].size_bytes);
        assert_int_equal(simulated_plan.segments[i].source, collective_plan.segments[i].source);
        if (simulated_plan.segments[i].source == LAYOUT_ARRAY)
            assert_ptr_equal(simulated_plan.segments[i].data, collective_plan.segments[i].data);
    }
    consolidated_deinit(&simulated_plan);
    consolidated_deinit(&collective_plan);
    for (int rank = 0; rank < world->ranks; rank++)
        layouts_free(tensors[rank], SPECS);
    tear_down(&fixture);
}

/* Like real ranks whose parts overlap or leave a gap. */
static void a_simulated_plan_of_incomplete_parts_is_refused(void **state)
{
    (void)state;
    struct fixture fixture = set_up();
    struct consolidated_tensors twice[2] = {{fixture.tensors, SPECS}, {fixture.tensors, SPECS}};
    struct consolidated consolidated;
    struct err err = {0};
    assert_int_equal(consolidated_simulate(&consolidated, twice, 0, 2, GROUPS, &err), -EINVAL);
    consolidated_deinit(&consolidated);
    tear_down(&fixture);
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
