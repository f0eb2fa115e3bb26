/*
 * nodes — tests checkpoints with a folder per node: ranks are threads, nodes are sibling folders.
 */
#include "io/faults/io_fault.h"
#include "tests/ckpt/layouts.h"
#include "tests/ckpt/steps.h"
#include "tests/ckpt/thread_comm.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS = 4, NODES = 2, OPERATIONS_MAX = 64 };

/* As in tests/ckpt/layouts.h: four split arrays and two replicated ones. */
static const struct array_spec specs[] = {
    {"rows", DTYPE_F32, "409x51", 0},          {"columns", DTYPE_F32, "102x204", 0},
    {"blocks", DTYPE_U16, "6x7x66", 0},        {"few", DTYPE_F64, "7x3", 0},
    {"shared.large", DTYPE_F32, "601x512", 0}, {"shared.small", DTYPE_U8, "100", 0},
};
enum { SPECS = sizeof specs / sizeof specs[0] };

struct run {
    struct arrays global;
    uint64_t step;
    bool one_folder;   /* the nodes share one folder although the ranks claim to be on two nodes */
    int failing_rank;  /* -1: none */
    const char *rules; /* faults of that rank's disk */
    const char *states[NODES]; /* NULL: FIXTURE_STATE */
    int statuses[RANKS];
    uint64_t hits, found[RANKS];
    char paths[RANKS][FIXTURE_PATH_BYTES];
    _Atomic int backups_logged;
};

static int node_of(int rank)
{
    return rank * NODES / RANKS;
}

static void node_folder(int node, char path[FIXTURE_PATH_BYTES])
{
    snprintf(path, FIXTURE_PATH_BYTES, "%s/node-%d", folder, node);
}

static void take_part(struct ckpt_tensor *tensors, const struct arrays *global, int rank)
{
    layouts_take(tensors, global, rank, RANKS);
    tensors[4].replicated = tensors[5].replicated = true;
}

static void record_log_line(void *context, enum log_level level, const char *line)
{
    struct run *run = context;
    if (level == LOG_WARN && strstr(line, "were set aside"))
        run->backups_logged++;
}

static void save_rank(void *context, struct comm *comm)
{
    struct run *run = context;
    const struct log log = {.write = record_log_line, .context = run, .level_min = LOG_WARN};
    struct ckpt_tensor tensors[SPECS];
    struct ckpt_saver *saver = NULL;
    struct err err = {0};
    char own[FIXTURE_PATH_BYTES], node[32];
    struct io *faulty = steps_open_faulty("seed=0");
    node_folder(run->one_folder ? 0 : node_of(comm->rank), own);
    snprintf(node, sizeof node, "node-%d", node_of(comm->rank));
    take_part(tensors, &run->global, comm->rank);
    struct ckpt_saver_options options = {.folder = own,
                                         .io = faulty,
                                         .comm = comm,
                                         .per_node = true,
                                         .node = node,
                                         .groups_count = 1,
                                         .run_id = "nodes",
                                         .numerics_id = "any",
                                         .log = &log};
    int status = ckpt_saver_open(&options, tensors, SPECS, &saver, &err);
    if (!status && comm->rank == run->failing_rank)
        steps_set_faults(faulty, "%s", run->rules);
    const char *state = run->states[node_of(comm->rank)];
    if (!status)
        status = ckpt_saver_save(saver, run->step, state ? state : FIXTURE_STATE, &err);
    if (!status)
        status = ckpt_saver_wait(saver, &err);
    run->statuses[comm->rank] = status;
    if (comm->rank == run->failing_rank)
        run->hits = io_fault_counts(faulty).hits;
    ckpt_saver_close(saver);
    io_close(faulty);
    layouts_free(tensors, SPECS);
}

static void save(struct run *run, uint64_t step, uint64_t seed)
{
    run->step = step;
    run->failing_rank = -1;
    arrays_fill(&run->global, seed);
    thread_comm_run(RANKS, save_rank, run);
    for (int r = 0; r < RANKS; r++)
        assert_int_equal(run->statuses[r], 0);
}

static void find_rank(void *context, struct comm *comm)
{
    struct run *run = context;
    struct err err = {0};
    char own[FIXTURE_PATH_BYTES], path[IO_PATH_BYTES_MAX];
    node_folder(node_of(comm->rank), own);
    static const struct ckpt_find_options any = {.below = UINT64_MAX};
    run->statuses[comm->rank] =
        ckpt_find_collective(io, own, &any, comm, path, &run->found[comm->rank], NULL, &err);
    if (run->statuses[comm->rank] == 0)
        assert_in_range(snprintf(run->paths[comm->rank], FIXTURE_PATH_BYTES, "%s", path), 1,
                        FIXTURE_PATH_BYTES - 1);
}

/* Asserts that every rank finds the step and loads its own boxes of the current arrays from its
 * node's folder. */
static void check_found(struct run *run, uint64_t step)
{
    struct err err = {0};
    thread_comm_run(RANKS, find_rank, run);
    for (int r = 0; r < RANKS; r++) {
        struct ckpt_tensor expected[SPECS], loaded[SPECS];
        struct ckpt_reader *reader = NULL;
        assert_int_equal(run->statuses[r], 0);
        assert_int_equal(run->found[r], step);
        take_part(expected, &run->global, r);
        memcpy(loaded, expected, sizeof loaded);
        assert_ok(ckpt_reader_open(io, run->paths[r], &reader, &err), &err);
        for (int i = 0; i < SPECS; i++)
            loaded[i].data = calloc(1, array_bytes(&loaded[i]) + 1);
        assert_ok(ckpt_reader_load(reader, loaded, SPECS, NULL, &err), &err);
        for (int i = 0; i < SPECS; i++)
            assert_memory_equal(loaded[i].data, expected[i].data, array_bytes(&loaded[i]));
        ckpt_reader_close(reader);
        layouts_free(expected, SPECS);
        layouts_free(loaded, SPECS);
        assert_int_equal(ckpt_verify(io, run->paths[r], NULL, NULL, NULL, &err), 0);
    }
}

static struct run start(void)
{
    return (struct run){.global = arrays_make(specs, SPECS), .failing_rank = -1};
}

static void each_node_holds_its_ranks_files_and_all_replicated_tensors(void **state)
{
    (void)state;
    struct run run = start();
    save(&run, 1, 5);
    check_found(&run, 1);
    for (int r = 0; r < RANKS; r++)
        for (int node = 0; node < NODES; node++)
            assert_int_equal(test_run("test -e '%s/node-%d/step-00000001/rank-%05d.safetensors'",
                                      folder, node, r) == 0,
                             node == node_of(r));
    arrays_free(&run.global);
}

/* The message names the missing file; gathering the files in one folder solves the problem. */
static void missing_files_of_other_nodes_are_named_and_gathered_folders_load_anywhere(void **state)
{
    (void)state;
    struct run run = start();
    struct ckpt_reader *reader = NULL;
    struct ckpt_hashes gathered, alone;
    struct err err = {0};
    char path[FIXTURE_PATH_BYTES], one[FIXTURE_PATH_BYTES];
    save(&run, 1, 5);
    struct arrays loaded = arrays_like(&run.global);
    for (int node = 0; node < NODES; node++) {
        snprintf(path, sizeof path, "%s/node-%d/step-00000001", folder, node);
        assert_ok(ckpt_reader_open(io, path, &reader, &err), &err);
        assert_int_equal(ckpt_reader_load(reader, loaded.tensors, loaded.count, NULL, &err),
                         -ENOENT);
        ckpt_reader_close(reader);
        assert_non_null(strstr(err.path, node == 0 ? "rank-00002" : "rank-00000"));
        assert_non_null(strstr(err.advice, "from all nodes"));
    }
    snprintf(path, sizeof path, "%s/one", folder);
    fixture_save_step(io, path, &run.global, 1, one);
    assert_ok(ckpt_hash(io, one, &alone, NULL, NULL, &err), &err);
    for (int node = 0; node < NODES; node++) { /* works with either node's manifest */
        snprintf(path, sizeof path, "%s/gathered-%d", folder, node);
        assert_int_equal(
            test_run(
                "cp -r '%s/node-%d/step-00000001' '%s' && cp '%s/node-%d/step-00000001'/* '%s'",
                folder, 1 - node, path, folder, node, path),
            0);
        assert_int_equal(ckpt_verify(io, path, NULL, NULL, NULL, &err), 0);
        assert_true(fixture_step_equals(io, path, &run.global));
        assert_ok(ckpt_hash(io, path, &gathered, NULL, NULL, &err), &err);
        assert_memory_equal(&gathered, &alone, sizeof alone);
    }
    arrays_free(&loaded);
    arrays_free(&run.global);
}

static void a_copy_of_one_nodes_folder_holds_that_nodes_files(void **state)
{
    (void)state;
    struct run run = start();
    struct ckpt_copy_result copied;
    struct err err = {0};
    char source[FIXTURE_PATH_BYTES], target[FIXTURE_PATH_BYTES];
    save(&run, 1, 5);
    node_folder(1, source);
    snprintf(target, sizeof target, "%s/copy", folder);
    struct ckpt_copy_options options = {
        .source_io = io, .source_path = source, .target_io = io, .target_folder = target};
    assert_ok(ckpt_copy(&options, &copied, &err), &err);
    assert_int_equal(copied.files_count, 3); /* two ranks' files and the manifest */
    assert_int_equal(test_run("diff -r '%s/step-00000001' '%s/step-00000001'", source, target), 0);
    arrays_free(&run.global);
}

static void a_step_that_nodes_do_not_share_is_skipped(void **state)
{
    (void)state;
    struct run run = start();
    save(&run, 4, 9);
    assert_int_equal(test_run("mv '%s/node-1' '%s/other'", folder, folder), 0);
    save(&run, 4, 5); /* on node 0, makes the previous save the backup */
    save(&run, 6, 5);
    save(&run, 7, 5);
    check_found(&run, 7);
    run.states[1] = "{\"loader\":{\"seed\":7,\"position\":4096},\"note\":\"test\",\"metrics\":{"
                    "\"val_step\":8}}";
    save(&run, 8, 5); /* only one node has an evaluation; the others would have to repeat it */
    check_found(&run, 7);
    assert_int_equal(test_run("rm -r '%s'/node-*/step-00000008", folder), 0);
    assert_int_equal(test_run("rm -r '%s/node-1/step-00000007'", folder), 0);
    check_found(&run, 6);
    assert_int_equal(test_run("rm '%s/node-0/step-00000006/rank-00001.safetensors'", folder), 0);
    check_found(&run, 4);
    assert_int_equal(
        test_run("rm -r '%s/node-1' && mv '%s/other' '%s/node-1'", folder, folder, folder), 0);
    arrays_fill(&run.global, 9);
    check_found(&run, 4); /* on node 0, this is the backup */
    assert_int_equal(test_run("rm -r '%s/node-0/aside-step-00000004'", folder), 0);
    thread_comm_run(RANKS, find_rank, &run);
    for (int r = 0; r < RANKS; r++)
        assert_int_equal(run.statuses[r], -ESTALE); /* a run must not start over in these folders */
    assert_int_equal(test_run("rm -r '%s/node-1'/step-*", folder), 0);
    thread_comm_run(RANKS, find_rank, &run);
    for (int r = 0; r < RANKS; r++)
        assert_int_equal(run.statuses[r], -ESTALE);
    assert_int_equal(test_run("rm -r '%s/node-0'/step-*", folder), 0);
    thread_comm_run(RANKS, find_rank, &run);
    for (int r = 0; r < RANKS; r++)
        assert_int_equal(run.statuses[r], -ENOENT);
    arrays_free(&run.global);
}

/* Fails each operation of each rank once. The other node then looks as if the rank had died. */
static void an_error_on_one_node_leaves_the_previous_step_on_all(void **state)
{
    (void)state;
    static const char *const operations[] = {"begin", "join",     "create",
                                             "write", "finalize", "commit"};
    struct run run = start();
    int failures = 0;
    save(&run, 1, 5);
    for (size_t o = 0; o < sizeof operations / sizeof operations[0]; o++) {
        for (int rank = 0; rank < RANKS; rank++) {
            for (int n = 1; n < OPERATIONS_MAX; n++) {
                char rules[32];
                snprintf(rules, sizeof rules, "%s:eio@%d", operations[o], n);
                run.rules = rules;
                run.failing_rank = rank;
                run.step = 2;
                run.hits = 0;
                thread_comm_run(RANKS, save_rank, &run);
                for (int r = 0; r < RANKS; r++)
                    assert_int_equal(run.statuses[r], run.hits == 0 ? 0
                                                      : r == rank   ? -EIO
                                                                    : -EREMOTEIO);
                check_found(&run, run.hits == 0 ? 2 : 1);
                /* no node committed before all could */
                if (run.hits > 0 && strcmp(operations[o], "commit") != 0)
                    assert_int_equal(
                        test_run("! ls -d '%s'/node-*/step-00000002 2>/dev/null", folder), 0);
                assert_int_equal(test_run("rm -rf '%s'/node-*/step-00000002", folder), 0);
                if (run.hits == 0)
                    break;
                failures++;
            }
        }
    }
    assert_true(failures >= 4 * RANKS);
    save(&run, 3, 6);
    check_found(&run, 3);
    arrays_free(&run.global);
}

/* Saves so that the commit on node 1 fails. */
static void save_on_one_node(struct run *run, uint64_t step, uint64_t seed)
{
    run->step = step;
    run->failing_rank = RANKS / NODES;
    run->rules = "commit:eio";
    arrays_fill(&run->global, seed);
    thread_comm_run(RANKS, save_rank, run);
    for (int r = 0; r < RANKS; r++)
        assert_true(run->statuses[r] < 0);
}

/* There is no earlier step: only the step's first save is on all nodes. */
static void a_step_replaced_on_one_node_only_leaves_the_earlier_save(void **state)
{
    (void)state;
    static const char evaluated[] = "{\"loader\":{\"seed\":7,\"position\":4096},\"note\":\"test\","
                                    "\"metrics\":{\"val_step\":4}}";
    struct run run = start();
    save(&run, 4, 5);
    save_on_one_node(&run, 4, 6);
    arrays_fill(&run.global, 5);
    check_found(&run, 4);
    assert_non_null(strstr(run.paths[0], "aside-step-00000004"));
    assert_null(strstr(run.paths[RANKS - 1], "aside"));
    assert_int_equal(run.backups_logged, 0); /* not before all nodes have the new save */
    save(&run, 4, 6);                        /* node 0 already has this save */
    assert_int_equal(run.backups_logged, NODES);
    check_found(&run, 4);
    /* the arrays are the same: only a missed evaluation was added */
    run.states[0] = run.states[1] = evaluated;
    save_on_one_node(&run, 4, 6);
    check_found(&run, 4);
    assert_non_null(strstr(run.paths[0], "aside-step-00000004"));
    save(&run, 4, 6);
    check_found(&run, 4);
    assert_null(strstr(run.paths[0], "aside"));
    /* all nodes have the new save */
    assert_int_equal(test_run("! ls -d '%s'/node-*/aside-*", folder), 0);
    arrays_free(&run.global);
}

/* The other ranks are not left waiting: the refusing rank reports its error when the ranks next
 * agree. */
static void a_state_refused_on_one_rank_fails_the_save_on_all(void **state)
{
    (void)state;
    struct run run = start();
    save(&run, 1, 5);
    run.states[1] = "{";
    run.step = 2;
    thread_comm_run(RANKS, save_rank, &run);
    for (int r = 0; r < RANKS; r++)
        assert_true(node_of(r) == 1 ? run.statuses[r] < 0 && run.statuses[r] != -EREMOTEIO
                                    : run.statuses[r] == -EREMOTEIO);
    check_found(&run, 1);
    arrays_free(&run.global);
}

static void per_node_folders_on_a_shared_file_system_are_refused(void **state)
{
    (void)state;
    struct run run = start();
    run.one_folder = true;
    run.step = 1;
    thread_comm_run(RANKS, save_rank, &run);
    int busy = 0;
    for (int r = 0; r < RANKS; r++) {
        assert_true(run.statuses[r] == -EBUSY || run.statuses[r] == -EREMOTEIO);
        busy += run.statuses[r] == -EBUSY;
    }
    assert_int_equal(busy, 1);
    arrays_free(&run.global);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(each_node_holds_its_ranks_files_and_all_replicated_tensors,
                                        scratch_set_up, scratch_tear_down),
        cmocka_unit_test_setup_teardown(
            missing_files_of_other_nodes_are_named_and_gathered_folders_load_anywhere,
            scratch_set_up, scratch_tear_down),
        cmocka_unit_test_setup_teardown(a_copy_of_one_nodes_folder_holds_that_nodes_files,
                                        scratch_set_up, scratch_tear_down),
        cmocka_unit_test_setup_teardown(a_step_that_nodes_do_not_share_is_skipped, scratch_set_up,
                                        scratch_tear_down),
        cmocka_unit_test_setup_teardown(an_error_on_one_node_leaves_the_previous_step_on_all,
                                        scratch_set_up, scratch_tear_down),
        cmocka_unit_test_setup_teardown(a_step_replaced_on_one_node_only_leaves_the_earlier_save,
                                        scratch_set_up, scratch_tear_down),
        cmocka_unit_test_setup_teardown(a_state_refused_on_one_rank_fails_the_save_on_all,
                                        scratch_set_up, scratch_tear_down),
        cmocka_unit_test_setup_teardown(per_node_folders_on_a_shared_file_system_are_refused,
                                        scratch_set_up, scratch_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
