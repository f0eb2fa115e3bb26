/*
 * rank_failures — tests that if the disk fails under one rank, the save fails on all ranks, the
 * error is reported on that rank, and nothing else is affected.
 */
#include "io/faults/io_fault.h"
#include "tests/ckpt/steps.h"
#include "tests/ckpt/thread_comm.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS = 3, OPERATIONS_MAX = 64 };

/* The other ranks write two thirds of the rows of replicated arrays. For split arrays, each rank
 * writes its own rows. Rows can end in the middle of a page, so ranks that share a file exchange
 * the boundary bytes. */
enum { LARGE, SMALL, SPLIT, ARRAYS };
static const struct array_spec specs[ARRAYS] = {[LARGE] = {"large", DTYPE_F32, "600x1000", 0},
                                                [SMALL] = {"small", DTYPE_U8, "99", 0},
                                                [SPLIT] = {"split", DTYPE_F32, "61x301", 0}};

/* The part of the arrays that a rank holds. */
static void take_part(struct ckpt_tensor tensors[ARRAYS], const struct arrays *saved,
                      const struct comm *comm)
{
    memcpy(tensors, saved->tensors, ARRAYS * sizeof *tensors);
    struct ckpt_tensor *split = &tensors[SPLIT];
    uint64_t r = (uint64_t)comm->rank, n = (uint64_t)comm->ranks, rows = split->shape[0];
    split->replicated = false;
    split->start[0] = rows * r / n;
    split->extent[0] = rows * (r + 1) / n - split->start[0];
    split->data =
        (char *)split->data + split->start[0] * split->shape[1] * dtype_bytes(split->dtype);
}

struct failing_save {
    const struct arrays *saved;
    enum ckpt_layout layout;
    char rule[64];
    int failing_rank;
    /* The results of the save, of a second wait, and of the next save. */
    int statuses[RANKS], second_wait[RANKS], next[RANKS];
    char found[RANKS][ERR_TEXT_BYTES_MAX];
    uint64_t hits;
};

static void barrier(struct comm *comm)
{
    struct comm_options options = {.purpose = "meeting"};
    struct err err = {0};
    assert_ok(comm_barrier(comm, &options, &err), &err);
}

/* Saves step 1, fails at step 2 and saves step 3. */
static void save_and_fail(void *context, struct comm *comm)
{
    struct failing_save *save = context;
    struct ckpt_tensor tensors[ARRAYS];
    int r = comm->rank;
    struct err err = {0};
    struct io *faulty = steps_open_faulty("seed=0");
    take_part(tensors, save->saved, comm);
    struct ckpt_saver_options options = {.folder = folder,
                                         .io = faulty,
                                         .comm = comm,
                                         .layout = save->layout,
                                         .groups_count = 1,
                                         .run_id = "ranks",
                                         .numerics_id = "any"};
    struct ckpt_saver *saver = NULL;
    assert_ok(ckpt_saver_open(&options, tensors, ARRAYS, &saver, &err), &err);
    assert_ok(ckpt_saver_save(saver, 1, FIXTURE_STATE, &err), &err);
    assert_ok(ckpt_saver_wait(saver, &err), &err);
    if (r == save->failing_rank)
        steps_set_faults(faulty, "%s", save->rule);
    barrier(comm);
    assert_ok(ckpt_saver_save(saver, 2, FIXTURE_STATE, &err), &err);
    ckpt_saver_before_update(saver, 0);
    save->statuses[r] = ckpt_saver_wait(saver, &err);
    snprintf(save->found[r], sizeof save->found[r], "%s", err.what);
    save->second_wait[r] = ckpt_saver_wait(saver, &err);
    if (r == save->failing_rank) {
        save->hits = io_fault_counts(faulty).hits;
        assert_int_equal(io_fault_counts(faulty).unsafe_aborts, 0);
        steps_set_faults(faulty, "%s", "");
    }
    barrier(comm);
    assert_ok(ckpt_saver_save(saver, 3, FIXTURE_STATE, &err), &err);
    save->next[r] = ckpt_saver_wait(saver, &err);
    ckpt_saver_close(saver);
    io_close(faulty);
}

/* Checks that the folder has exactly the saved steps, complete and correct. */
static void check_folder(const struct arrays *saved, bool has_second)
{
    char path[FIXTURE_PATH_BYTES];
    struct err err = {0};
    uint64_t newest = 0;
    assert_int_equal(fixture_list(io, folder, NULL), has_second ? 3 : 2);
    assert_int_equal(steps_temporaries_count(), 0);
    assert_ok(ckpt_find(io, folder, path, &newest, NULL, &err), &err);
    assert_int_equal(newest, 3);
    for (uint64_t step = 1; step <= 3; step++) {
        snprintf(path, sizeof path, "%s/step-%08llu", folder, (unsigned long long)step);
        if (step != 2 || has_second) {
            assert_int_equal(ckpt_verify(io, path, NULL, NULL, NULL, &err), 0);
            assert_true(fixture_step_equals(io, path, saved));
        }
    }
    assert_int_equal(test_run("rm -r '%s'/step-*", folder), 0);
}

/* Fails each operation in turn; returns how many saves failed. */
static int fail_everywhere(enum ckpt_layout layout, const char *const *operations,
                           size_t operations_count)
{
    static const struct {
        const char *name;
        int code;
    } errors[] = {{"enospc", -ENOSPC},
                  {"eio", -EIO},
                  {"edquot", -EDQUOT},
                  {"erofs", -EROFS},
                  {"enoent", -ENOENT}};
    struct arrays saved = arrays_make(specs, ARRAYS);
    arrays_fill(&saved, 5);
    int failures = 0;
    for (size_t o = 0; o < operations_count; o++) {
        for (int rank = 0; rank < RANKS; rank++) {
            for (int n = 1; n < OPERATIONS_MAX; n++) {
                struct failing_save save = {
                    .saved = &saved, .layout = layout, .failing_rank = rank};
                int error = (int)(o + (size_t)n) % 5;
                snprintf(save.rule, sizeof save.rule, "%s:%s@%d", operations[o], errors[error].name,
                         n);
                thread_comm_run(RANKS, save_and_fail, &save);
                for (int r = 0; r < RANKS; r++) {
                    int expected = save.hits == 0 ? 0 : r == rank ? errors[error].code : -EREMOTEIO;
                    if (save.statuses[r] != expected)
                        print_error("%s on rank %d: rank %d: %s\n", save.rule, rank, r,
                                    save.found[r]);
                    assert_int_equal(save.statuses[r], expected);
                    assert_int_equal(save.second_wait[r], 0); /* reported only once */
                    assert_int_equal(save.next[r], 0);
                }
                check_folder(&saved, save.hits == 0);
                if (save.hits == 0)
                    break; /* the fault was beyond the last operation */
                failures++;
            }
        }
    }
    print_message("%d failures\n", failures);
    arrays_free(&saved);
    return failures;
}

static void an_error_of_any_writer_on_any_rank_fails_the_save_on_all(void **state)
{
    (void)state;
    static const char *const operations[] = {"begin", "join",  "create",   "write",
                                             "wait",  "queue", "finalize", "commit"};
    /* one begin, two joins, four each of create, write and finalize, three waits, one commit */
    assert_true(fail_everywhere(CKPT_SHARDED, operations, 8) >= 6 * RANKS);
}

static void an_error_of_any_writer_of_a_shared_file_fails_the_save_on_all(void **state)
{
    (void)state;
    static const char *const operations[] = {"begin", "join", "create", "write", "finalize"};
    /* one begin, two joins, two of each other operation per rank, and the manifest's operations */
    assert_true(fail_everywhere(CKPT_CONSOLIDATED, operations, 5) >= 3 + 3 * (2 * RANKS + 1));
}

struct wrong_step {
    const struct arrays *saved;
    enum ckpt_layout layout;
    int statuses[RANKS], waited[RANKS], next[RANKS];
};

static void save_wrong_step(void *context, struct comm *comm)
{
    struct wrong_step *wrong = context;
    struct ckpt_saver *saver = NULL;
    struct err err = {0};
    int r = comm->rank;
    struct ckpt_saver_options options = {
        .folder = folder, .io = io, .comm = comm, .groups_count = 1};
    assert_ok(ckpt_saver_open(&options, wrong->saved->tensors, ARRAYS, &saver, &err), &err);
    wrong->statuses[r] =
        ckpt_saver_save(saver, r == 1 ? (uint64_t)INT64_MAX + 1 : 1, FIXTURE_STATE, &err);
    wrong->waited[r] = ckpt_saver_wait(saver, &err);
    assert_ok(ckpt_saver_save(saver, 2, FIXTURE_STATE, &err), &err);
    wrong->next[r] = ckpt_saver_wait(saver, &err);
    ckpt_saver_close(saver);
}

static void a_step_refused_on_one_rank_fails_the_save_on_all(void **state)
{
    (void)state;
    struct arrays saved = arrays_make(specs, ARRAYS);
    for (int layout = CKPT_SHARDED; layout <= CKPT_CONSOLIDATED; layout++) {
        struct wrong_step wrong = {.saved = &saved, .layout = (enum ckpt_layout)layout};
        thread_comm_run(RANKS, save_wrong_step, &wrong);
        for (int r = 0; r < RANKS; r++) {
            assert_int_equal(wrong.statuses[r], r == 1 ? -EINVAL : 0);
            assert_int_equal(wrong.waited[r], r == 1 ? 0 : -EREMOTEIO);
            assert_int_equal(wrong.next[r], 0);
        }
        assert_int_equal(fixture_list(io, folder, NULL), 1);
        assert_int_equal(steps_temporaries_count(), 0);
        assert_int_equal(test_run("rm -r '%s'/step-*", folder), 0);
    }
    arrays_free(&saved);
}

/* The allocator wrapper (the linker's --wrap): in the thread that sets this, the n-th next calloc
 * fails. 0: none. */
static _Thread_local unsigned calloc_fails_in;

void *__real_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes)
{
    if (calloc_fails_in > 0 && --calloc_fails_in == 0)
        return NULL;
    return __real_calloc(count, bytes);
}

struct open_without_memory {
    const struct arrays *saved;
    enum ckpt_layout layout;
    unsigned nth;
    int statuses[RANKS];
    bool has_failed_alloc;
};

static void open_saver_without_memory(void *context, struct comm *comm)
{
    struct open_without_memory *poor = context;
    struct ckpt_saver *saver = NULL;
    struct err err = {0};
    struct ckpt_tensor tensors[ARRAYS];
    take_part(tensors, poor->saved, comm);
    struct ckpt_saver_options options = {
        .folder = folder, .io = io, .comm = comm, .layout = poor->layout, .groups_count = 1};
    if (comm->rank == 1)
        calloc_fails_in = poor->nth;
    poor->statuses[comm->rank] =
        ckpt_saver_open(&options, poor->saved->tensors, ARRAYS, &saver, &err);
    if (comm->rank == 1) {
        poor->has_failed_alloc = calloc_fails_in == 0;
        calloc_fails_in = 0;
    }
    if (saver)
        ckpt_saver_close(saver);
}

static void a_rank_without_memory_fails_the_opening_on_all(void **state)
{
    (void)state;
    struct arrays saved = arrays_make(specs, ARRAYS);
    for (int layout = CKPT_SHARDED; layout <= CKPT_CONSOLIDATED; layout++) {
        struct open_without_memory poor = {
            .saved = &saved, .layout = (enum ckpt_layout)layout, .has_failed_alloc = true};
        unsigned refused_count = 0;
        for (poor.nth = 1; poor.has_failed_alloc; poor.nth++) {
            thread_comm_run(RANKS, open_saver_without_memory, &poor);
            /* the allocation was not essential: a queue works without a ring, for example */
            bool succeeded_anyway = poor.statuses[1] == 0;
            assert_true(poor.has_failed_alloc || succeeded_anyway);
            for (int r = 0; r < RANKS; r++)
                assert_int_equal(poor.statuses[r], succeeded_anyway ? 0
                                                   : r == 1         ? -ENOMEM
                                                                    : -EREMOTEIO);
            refused_count += !succeeded_anyway;
        }
        print_message("%u allocations, %u refused\n", poor.nth - 2, refused_count);
        assert_true(refused_count > 10);
    }
    arrays_free(&saved);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, scratch_set_up, scratch_tear_down)
    const struct CMUnitTest tests[] = {
        CASE(an_error_of_any_writer_on_any_rank_fails_the_save_on_all),
        CASE(an_error_of_any_writer_of_a_shared_file_fails_the_save_on_all),
        CASE(a_step_refused_on_one_rank_fails_the_save_on_all),
        CASE(a_rank_without_memory_fails_the_opening_on_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
