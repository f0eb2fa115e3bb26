/*
 * rank_failures — a disk that fails under one rank fails the save on all of them, says so there, and spoils nothing else.
 */
#include "io/io_fault.h"
#include "tests/ckpt/steps.h"
#include "tests/ckpt/thread_comm.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS = 3, OPERATIONS_MAX = 64 };

/* Two thirds of each are the others' to write: replicated arrays, their rows spread over the ranks. */
static const struct array_spec specs[] = {{"large", DTYPE_F32, "600x1000", 0}, {"small", DTYPE_U8, "99", 0}};

struct failing_save {
    const struct arrays *saved;
    char rule[64];
    int failing_rank;
    int statuses[RANKS], told_again[RANKS],
        next[RANKS]; /* of the save, of a second question, of the next save */
    char found[RANKS][ERR_TEXT_BYTES_MAX];
    uint64_t hits;
};

static void meet(struct comm *comm)
{
    struct comm_options options = {.what = "meeting"};
    struct err err = {0};
    assert_ok(comm_barrier(comm, &options, &err), &err);
}

/* Saves step 1, fails at step 2, saves step 3. */
static void save_and_fail(void *context, struct comm *comm)
{
    struct failing_save *save = context;
    struct ckpt_tensor tensors[2];
    int r = comm->rank;
    struct err err = {0};
    struct io *faulty = steps_open_faulty("seed=0");
    memcpy(tensors, save->saved->tensors, sizeof tensors);
    tensors[0].replicated = tensors[1].replicated = true;
    struct ckpt_saver_options options = {.folder = folder,
                                         .io = faulty,
                                         .comm = comm,
                                         .groups_count = 1,
                                         .run_id = "ranks",
                                         .numerics_id = "any"};
    struct ckpt_saver *saver = NULL;
    assert_ok(ckpt_saver_open(&options, tensors, 2, &saver, &err), &err);
    assert_ok(ckpt_saver_save(saver, 1, FIXTURE_STATE, &err), &err);
    assert_ok(ckpt_saver_wait(saver, &err), &err);
    if (r == save->failing_rank)
        steps_set_faults(faulty, "%s", save->rule);
    meet(comm);
    assert_ok(ckpt_saver_save(saver, 2, FIXTURE_STATE, &err), &err);
    ckpt_saver_before_update(saver, 0);
    save->statuses[r] = ckpt_saver_wait(saver, &err);
    snprintf(save->found[r], sizeof save->found[r], "%s", err.what);
    save->told_again[r] = ckpt_saver_wait(saver, &err);
    if (r == save->failing_rank) {
        save->hits = io_fault_counts(faulty).hits;
        assert_int_equal(io_fault_counts(faulty).abandoned, 0);
        steps_set_faults(faulty, "%s", "");
    }
    meet(comm);
    assert_ok(ckpt_saver_save(saver, 3, FIXTURE_STATE, &err), &err);
    save->next[r] = ckpt_saver_wait(saver, &err);
    ckpt_saver_close(saver);
    io_close(faulty);
}

/* What stands in the folder: the steps that were saved, each whole and right, and nothing else. */
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

static void an_error_in_any_writer_of_any_rank_fails_the_save_on_all(void **state)
{
    (void)state;
    static const char *const operations[] = {"begin", "join",  "create", "write",
                                             "wait",  "queue", "seal",   "publish"};
    static const struct {
        const char *name;
        int code;
    } errors[] = {
        {"enospc", -ENOSPC}, {"eio", -EIO}, {"edquot", -EDQUOT}, {"erofs", -EROFS}, {"enoent", -ENOENT}};
    struct arrays saved = arrays_make(specs, 2);
    arrays_fill(&saved, 5);
    int failures = 0;
    for (size_t o = 0; o < sizeof operations / sizeof operations[0]; o++) {
        for (int rank = 0; rank < RANKS; rank++) {
            for (int n = 1; n < OPERATIONS_MAX; n++) {
                struct failing_save save = {.saved = &saved, .failing_rank = rank};
                int error = (int)(o + (size_t)n) % 5;
                snprintf(save.rule, sizeof save.rule, "%s:%s@%d", operations[o], errors[error].name, n);
                thread_comm_run(RANKS, save_and_fail, &save);
                for (int r = 0; r < RANKS; r++) {
                    int expected = save.hits == 0 ? 0 : r == rank ? errors[error].code : -EREMOTEIO;
                    if (save.statuses[r] != expected)
                        print_error("%s on rank %d: rank %d: %s\n", save.rule, rank, r, save.found[r]);
                    assert_int_equal(save.statuses[r], expected);
                    assert_int_equal(save.told_again[r], 0); /* once */
                    assert_int_equal(save.next[r], 0);
                }
                check_folder(&saved, save.hits == 0);
                if (save.hits == 0)
                    break; /* beyond the last of them */
                failures++;
            }
        }
    }
    print_message("%d failures\n", failures);
    /* a begin, two joins, four each of create, write and seal, three waits, a publish */
    assert_true(failures >= 6 * RANKS);
    arrays_free(&saved);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_error_in_any_writer_of_any_rank_fails_the_save_on_all,
                                        scratch_set_up, scratch_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
