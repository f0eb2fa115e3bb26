/*
 * collective_load — tests real ranks that find and load a checkpoint: if one rank finds it damaged,
 * no rank uses it.
 */
#include "ckpt/format/manifest.h"
#include "io/faults/io_fault.h"
#include "tests/ckpt/layouts.h"
#include "tests/support/ranks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Split as in layouts.h, without replicated arrays, so that each rank reads only its own file. With
 * up to four ranks, each has rows beyond the first block of its file. */
static const struct array_spec specs[] = {{"rows", DTYPE_F32, "409x3000", 0},
                                          {"columns", DTYPE_F32, "102x204", 0},
                                          {"blocks", DTYPE_U16, "6x7x66", 0},
                                          {"few", DTYPE_F64, "7x3", 0}};
enum { SPECS = sizeof specs / sizeof specs[0], FLIPPED_AT = CKPT_BLOCK_BYTES + 5 };

static const struct ckpt_find_options any = {.below = UINT64_MAX};

/* State shared by the tests. Steps 1 and 2 have the contents that arrays_fill gives for their
 * numbers. */
struct stage {
    char root[TEST_PATH_BYTES_MAX], folder[FIXTURE_PATH_BYTES], node[32]; /* folder: this rank's */
    struct io *io;
    struct arrays global;
    int warnings_count;
    char warning[LOG_LINE_BYTES_MAX]; /* the last warning */
};

static void note_warning(void *context, enum log_level level, const char *line)
{
    struct stage *stage = context;
    assert_int_equal(level, LOG_WARN);
    stage->warnings_count++;
    snprintf(stage->warning, sizeof stage->warning, "%s", line);
}

static void save_step(struct stage *stage, uint64_t step, bool per_node)
{
    struct ckpt_tensor tensors[SPECS];
    struct ckpt_saver *saver = NULL;
    struct err err = {0};
    arrays_fill(&stage->global, step);
    layouts_take(tensors, &stage->global, world->rank, world->ranks);
    struct ckpt_saver_options options = {.folder = stage->folder,
                                         .io = stage->io,
                                         .comm = world,
                                         .per_node = per_node,
                                         .node = stage->node,
                                         .groups_count = 1,
                                         .run_id = "together",
                                         .numerics_id = "any"};
    assert_ok(ckpt_saver_open(&options, tensors, SPECS, &saver, &err), &err);
    assert_ok(ckpt_saver_save(saver, step, FIXTURE_STATE, &err), &err);
    assert_ok(ckpt_saver_wait(saver, &err), &err);
    ckpt_saver_close(saver);
    layouts_free(tensors, SPECS);
}

/* rules: faults of this rank's disk. */
static void set_up(struct stage *stage, bool per_node, const char *rules)
{
    struct err err = {0};
    *stage = (struct stage){.global = arrays_make(specs, SPECS)};
    ranks_make_folder(stage->root);
    snprintf(stage->node, sizeof stage->node, "node-%d", world->rank);
    snprintf(stage->folder, sizeof stage->folder, "%s/%s", stage->root,
             per_node ? stage->node : "all");
    assert_ok(io_fault_open(stage->folder, NULL, rules, &stage->io, &err), &err);
    save_step(stage, 1, per_node);
    save_step(stage, 2, per_node);
}

static void tear_down(struct stage *stage)
{
    io_close(stage->io);
    arrays_free(&stage->global);
    ranks_remove_folder(stage->root);
}

static int open_step(struct stage *stage, const struct ckpt_find_options *options,
                     struct ckpt_reader **reader, struct err *err)
{
    struct log log = {.write = note_warning, .context = stage, .level_min = LOG_WARN};
    stage->warnings_count = 0;
    *err = (struct err){0};
    return ckpt_reader_open_collective(stage->io, stage->folder, options, world, reader, &log, err);
}

/* Loads this rank's part of the arrays. *ret_is_right: whether the arrays match the step. */
static int load_step(struct stage *stage, struct ckpt_reader *reader, bool *ret_is_right,
                     struct err *err)
{
    struct ckpt_tensor expected[SPECS], loaded[SPECS];
    arrays_fill(&stage->global, ckpt_reader_step(reader));
    layouts_take(expected, &stage->global, world->rank, world->ranks);
    memcpy(loaded, expected, sizeof loaded);
    for (int i = 0; i < SPECS; i++)
        loaded[i].data = calloc(1, array_bytes(&loaded[i]) + 1);
    int status = ckpt_reader_load_collective(reader, world, loaded, SPECS, NULL, err);
    *ret_is_right = !status;
    for (int i = 0; i < SPECS; i++)
        *ret_is_right &= memcmp(loaded[i].data, expected[i].data, array_bytes(&loaded[i])) == 0;
    layouts_free(expected, SPECS);
    layouts_free(loaded, SPECS);
    return status;
}

/* Asserts that all ranks find and load that step. */
static void check_loads(struct stage *stage, const struct ckpt_find_options *options, uint64_t step)
{
    struct ckpt_reader *reader = NULL;
    struct err err;
    bool is_right = false;
    assert_ok(open_step(stage, options, &reader, &err), &err);
    assert_int_equal(ckpt_reader_step(reader), step);
    assert_ok(load_step(stage, reader, &is_right, &err), &err);
    assert_true(is_right);
    ckpt_reader_close(reader);
}

/* Flips a bit on the first rank, between two barriers. */
static void flip(const char *path, long offset)
{
    ranks_barrier();
    if (world->rank == 0) {
        FILE *file = fopen(path, "r+b");
        assert_non_null(file);
        assert_int_equal(fseek(file, offset, SEEK_SET), 0);
        int byte = fgetc(file);
        assert_true(byte >= 0);
        assert_int_equal(fseek(file, offset, SEEK_SET), 0);
        fputc(byte ^ 16, file);
        assert_int_equal(fclose(file), 0);
    }
    ranks_barrier();
}

/* Checks the rank's error message. Other ranks prefix it with the rank's number. */
static void check_message(const struct err *err, int rank, const char *what, const char *path)
{
    char expected[ERR_TEXT_BYTES_MAX] = "";
    if (rank != world->rank)
        snprintf(expected, sizeof expected, "rank %d: ", rank);
    snprintf(expected + strlen(expected), sizeof expected - strlen(expected), "%s", what);
    if (strncmp(err->what, expected, strlen(expected)) != 0)
        fail_msg("\"%s\", not \"%s...\"", err->what, expected);
    assert_non_null(strstr(err->path, path));
}

static void a_flipped_bit_in_one_ranks_file_is_damage_on_all_ranks(void **state)
{
    (void)state;
    struct stage stage;
    set_up(&stage, false, "seed=0");
    for (int rank = 0; rank < world->ranks; rank++) {
        struct ckpt_reader *reader = NULL;
        struct err err = {0};
        bool is_right;
        char name[32], path[2 * FIXTURE_PATH_BYTES];
        snprintf(name, sizeof name, "rank-%05d.safetensors", rank);
        snprintf(path, sizeof path, "%s/step-00000002/%s", stage.folder, name);
        check_loads(&stage, &any, 2);
        flip(path, FLIPPED_AT);
        assert_ok(open_step(&stage, &any, &reader, &err), &err);
        assert_int_equal(ckpt_reader_step(reader), 2);
        assert_int_equal(load_step(&stage, reader, &is_right, &err), -EBADMSG);
        assert_int_equal(err.code, -EBADMSG);
        assert_int_equal(err.offset, CKPT_BLOCK_BYTES);
        check_message(&err, rank, "tensor \"rows\": ", name);
        ckpt_reader_close(reader);
        check_loads(&stage, &(struct ckpt_find_options){.below = 2}, 1);
        flip(path, FLIPPED_AT);
    }
    tear_down(&stage);
}

static void a_manifest_damaged_on_one_rank_is_skipped_or_refused_by_all_ranks(void **state)
{
    (void)state;
    struct stage stage;
    set_up(&stage, true, "seed=0");
    for (int rank = 0; rank < world->ranks; rank++) {
        struct ckpt_reader *reader = NULL;
        struct err err = {0};
        char path[2 * FIXTURE_PATH_BYTES];
        snprintf(path, sizeof path, "%s/node-%d/step-00000002/manifest.json", stage.root, rank);
        flip(path, 100);
        check_loads(&stage, &any, 1);
        bool is_told_by_first = world->rank == 0 && world->ranks > 1;
        assert_int_equal(stage.warnings_count, (world->rank == rank) + is_told_by_first);
        if (is_told_by_first)
            assert_non_null(strstr(stage.warning, "step 2 of rank"));
        else if (world->rank == rank)
            assert_non_null(strstr(stage.warning, path));
        assert_int_equal(
            open_step(&stage,
                      &(struct ckpt_find_options){.below = UINT64_MAX, .stop_at_damage = true},
                      &reader, &err),
            -EBADMSG);
        check_message(&err, rank, "", path);
        flip(path, 100);
    }
    check_loads(&stage, &any, 2);
    tear_down(&stage);
}

static void a_failing_disk_is_not_reported_as_damage(void **state)
{
    (void)state;
    int last = world->ranks - 1;
    struct stage stage;
    struct ckpt_reader *reader = NULL;
    struct err err = {0};
    bool is_right;
    char path[2 * FIXTURE_PATH_BYTES];
    set_up(&stage, false, world->rank == last ? "read:eio@1+:rank-0" : "seed=0");
    snprintf(path, sizeof path, "%s/step-00000002/rank-00000.safetensors", stage.folder);
    if (last > 0) /* the first rank's error does not take precedence */
        flip(path, FLIPPED_AT);
    assert_ok(open_step(&stage, &any, &reader, &err), &err);
    assert_int_equal(load_step(&stage, reader, &is_right, &err),
                     world->rank == last ? -EIO : -EREMOTEIO);
    check_message(&err, last, "", "rank-0");
    ckpt_reader_close(reader);
    tear_down(&stage);
}

static void without_a_common_step_no_step_is_found(void **state)
{
    (void)state;
    struct stage stage;
    struct ckpt_reader *reader = NULL;
    struct err err = {0};
    set_up(&stage, true, "seed=0");
    ranks_barrier();
    if (world->rank == world->ranks - 1)
        assert_int_equal(test_run("rm -r '%s'/step-*", stage.folder), 0);
    ranks_barrier();
    assert_int_equal(open_step(&stage, &any, &reader, &err), world->ranks == 1 ? -ENOENT : -ESTALE);
    ranks_barrier();
    if (world->rank != world->ranks - 1)
        assert_int_equal(test_run("rm -r '%s'/step-*", stage.folder), 0);
    ranks_barrier();
    assert_int_equal(open_step(&stage, &any, &reader, &err), -ENOENT);
    tear_down(&stage);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_flipped_bit_in_one_ranks_file_is_damage_on_all_ranks),
        cmocka_unit_test(a_manifest_damaged_on_one_rank_is_skipped_or_refused_by_all_ranks),
        cmocka_unit_test(a_failing_disk_is_not_reported_as_damage),
        cmocka_unit_test(without_a_common_step_no_step_is_found),
    };
    return ranks_main(tests, sizeof tests / sizeof tests[0], 0);
}
