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
enum { SPECS = sizeof specs / sizeof specs[0], FLIPPED_OFFSET = CKPT_BLOCK_BYTES + 5 };

static const struct ckpt_find_options any = {.below = UINT64_MAX};

/* State shared by the tests. Steps 1 and 2 have the contents that arrays_fill gives for their
 * numbers. */
struct fixture {
    char root[TEST_PATH_BYTES_MAX], folder[FIXTURE_PATH_BYTES], node[32]; /* folder: this rank's */
    struct io *io;
    struct arrays global;
    int warnings_count;
    char warning[LOG_LINE_BYTES_MAX]; /* the last warning */
};

static void record_warning(void *context, enum log_level level, const char *line)
{
    struct fixture *fixture = context;
    assert_int_equal(level, LOG_WARN);
    fixture->warnings_count++;
    snprintf(fixture->warning, sizeof fixture->warning, "%s", line);
}

static void save_step(struct fixture *fixture, uint64_t step, bool per_node)
{
    struct ckpt_tensor tensors[SPECS];
    struct ckpt_saver *saver = NULL;
    struct err err = {0};
    arrays_fill(&fixture->global, step);
    layouts_take(tensors, &fixture->global, world->rank, world->ranks);
    struct ckpt_saver_options options = {.folder = fixture->folder,
                                         .io = fixture->io,
                                         .comm = world,
                                         .per_node = per_node,
                                         .node = fixture->node,
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
static void set_up(struct fixture *fixture, bool per_node, const char *rules)
{
    struct err err = {0};
    *fixture = (struct fixture){.global = arrays_make(specs, SPECS)};
    ranks_make_folder(fixture->root);
    snprintf(fixture->node, sizeof fixture->node, "node-%d", world->rank);
    snprintf(fixture->folder, sizeof fixture->folder, "%s/%s", fixture->root,
             per_node ? fixture->node : "all");
    assert_ok(io_fault_open(fixture->folder, NULL, rules, &fixture->io, &err), &err);
    save_step(fixture, 1, per_node);
    save_step(fixture, 2, per_node);
}

static void tear_down(struct fixture *fixture)
{
    io_close(fixture->io);
    arrays_free(&fixture->global);
    ranks_remove_folder(fixture->root);
}

static int open_step(struct fixture *fixture, const struct ckpt_find_options *options,
                     struct ckpt_reader **reader, struct err *err)
{
    struct log log = {.write = record_warning, .context = fixture, .level_min = LOG_WARN};
    fixture->warnings_count = 0;
    *err = (struct err){0};
    return ckpt_reader_open_collective(fixture->io, fixture->folder, options, world, reader, &log,
                                       err);
}

/* Loads this rank's part of the arrays. *ret_matches: whether the arrays match the step. */
static int load_step(struct fixture *fixture, struct ckpt_reader *reader, bool *ret_matches,
                     struct err *err)
{
    struct ckpt_tensor expected[SPECS], loaded[SPECS];
    arrays_fill(&fixture->global, ckpt_reader_step(reader));
    layouts_take(expected, &fixture->global, world->rank, world->ranks);
    memcpy(loaded, expected, sizeof loaded);
    for (int i = 0; i < SPECS; i++)
        loaded[i].data = calloc(1, array_bytes(&loaded[i]) + 1);
    int status = ckpt_reader_load_collective(reader, world, loaded, SPECS, NULL, err);
    *ret_matches = !status;
    for (int i = 0; i < SPECS; i++)
        *ret_matches &= memcmp(loaded[i].data, expected[i].data, array_bytes(&loaded[i])) == 0;
    layouts_free(expected, SPECS);
    layouts_free(loaded, SPECS);
    return status;
}

/* Asserts that all ranks find and load that step. */
static void check_loads(struct fixture *fixture, const struct ckpt_find_options *options,
                        uint64_t step)
{
    struct ckpt_reader *reader = NULL;
    struct err err;
    bool matches = false;
    assert_ok(open_step(fixture, options, &reader, &err), &err);
    assert_int_equal(ckpt_reader_step(reader), step);
    assert_ok(load_step(fixture, reader, &matches, &err), &err);
    assert_true(matches);
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
    struct fixture fixture;
    set_up(&fixture, false, "seed=0");
    for (int rank = 0; rank < world->ranks; rank++) {
        struct ckpt_reader *reader = NULL;
        struct err err = {0};
        bool matches;
        char name[32], path[2 * FIXTURE_PATH_BYTES];
        snprintf(name, sizeof name, "rank-%05d.safetensors", rank);
        snprintf(path, sizeof path, "%s/step-00000002/%s", fixture.folder, name);
        check_loads(&fixture, &any, 2);
        flip(path, FLIPPED_OFFSET);
        assert_ok(open_step(&fixture, &any, &reader, &err), &err);
        assert_int_equal(ckpt_reader_step(reader), 2);
        assert_int_equal(load_step(&fixture, reader, &matches, &err), -EBADMSG);
        assert_int_equal(err.code, -EBADMSG);
        assert_int_equal(err.offset, CKPT_BLOCK_BYTES);
        check_message(&err, rank, "tensor \"rows\": ", name);
        ckpt_reader_close(reader);
        check_loads(&fixture, &(struct ckpt_find_options){.below = 2}, 1);
        flip(path, FLIPPED_OFFSET);
    }
    tear_down(&fixture);
}

static void a_manifest_damaged_on_one_rank_is_skipped_or_refused_by_all_ranks(void **state)
{
    (void)state;
    struct fixture fixture;
    set_up(&fixture, true, "seed=0");
    for (int rank = 0; rank < world->ranks; rank++) {
        struct ckpt_reader *reader = NULL;
        struct err err = {0};
        char path[2 * FIXTURE_PATH_BYTES];
        snprintf(path, sizeof path, "%s/node-%d/step-00000002/manifest.json", fixture.root, rank);
        flip(path, 100);
        check_loads(&fixture, &any, 1);
        bool is_logged_by_first = world->rank == 0 && world->ranks > 1;
        assert_int_equal(fixture.warnings_count, (world->rank == rank) + is_logged_by_first);
        if (is_logged_by_first)
            assert_non_null(strstr(fixture.warning, "step 2 of rank"));
        else if (world->rank == rank)
            assert_non_null(strstr(fixture.warning, path));
        assert_int_equal(
            open_step(&fixture,
                      &(struct ckpt_find_options){.below = UINT64_MAX, .stop_at_damage = true},
                      &reader, &err),
            -EBADMSG);
        check_message(&err, rank, "", path);
        flip(path, 100);
    }
    check_loads(&fixture, &any, 2);
    tear_down(&fixture);
}

static void a_failing_disk_is_not_reported_as_damage(void **state)
{
    (void)state;
    int last = world->ranks - 1;
    struct fixture fixture;
    struct ckpt_reader *reader = NULL;
    struct err err = {0};
    bool matches;
    char path[2 * FIXTURE_PATH_BYTES];
    set_up(&fixture, false, world->rank == last ? "read:eio@1+:rank-0" : "seed=0");
    snprintf(path, sizeof path, "%s/step-00000002/rank-00000.safetensors", fixture.folder);
    if (last > 0) /* the first rank's error does not take precedence */
        flip(path, FLIPPED_OFFSET);
    assert_ok(open_step(&fixture, &any, &reader, &err), &err);
    assert_int_equal(load_step(&fixture, reader, &matches, &err),
                     world->rank == last ? -EIO : -EREMOTEIO);
    check_message(&err, last, "", "rank-0");
    ckpt_reader_close(reader);
    tear_down(&fixture);
}

static void without_a_common_step_no_step_is_found(void **state)
{
    (void)state;
    struct fixture fixture;
    struct ckpt_reader *reader = NULL;
    struct err err = {0};
    set_up(&fixture, true, "seed=0");
    ranks_barrier();
    if (world->rank == world->ranks - 1)
        assert_int_equal(test_run("rm -r '%s'/step-*", fixture.folder), 0);
    ranks_barrier();
    assert_int_equal(open_step(&fixture, &any, &reader, &err),
                     world->ranks == 1 ? -ENOENT : -ESTALE);
    ranks_barrier();
    if (world->rank != world->ranks - 1)
        assert_int_equal(test_run("rm -r '%s'/step-*", fixture.folder), 0);
    ranks_barrier();
    assert_int_equal(open_step(&fixture, &any, &reader, &err), -ENOENT);
    tear_down(&fixture);
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
