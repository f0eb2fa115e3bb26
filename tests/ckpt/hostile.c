/*
 * hostile — tests that data from another rank in collective saves and loads is validated before
 * use. The test acts as that rank. It sends the same data as this rank, but corrupts it in one
 * gather.
 */
#include "ckpt/save/local_plan.h"
#include "tests/ckpt/steps.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { GATHERS_MAX = 64, THIS_RANK = 1, OTHER_RANK = 0, OTHER_BYTE = 0xff };

static struct {
    /* number of gathers so far; the gather in which all bytes are OTHER_BYTE */
    int gathers, corrupt_gather;
    bool has_gathered;
} other;

static int finish(struct comm *comm, struct comm_work *work)
{
    *work = (struct comm_work){.comm = comm, .done = true};
    return 0;
}

static int all_gather(struct comm *comm, const void *send, void *receive, size_t bytes,
                      const struct comm_options *options, struct comm_work *work, struct err *err)
{
    (void)options, (void)err;
    char *theirs = (char *)receive + OTHER_RANK * bytes;
    memcpy(theirs, send, bytes);
    if (++other.gathers == other.corrupt_gather) {
        memset(theirs, OTHER_BYTE, bytes);
        other.has_gathered = true;
    }
    return finish(comm, work);
}

static int all_reduce_i64(struct comm *comm, int64_t *values, size_t count, enum comm_i64_op op,
                          const struct comm_options *options, struct comm_work *work,
                          struct err *err)
{
    (void)values, (void)count, (void)op, (void)options, (void)err;
    return finish(comm, work);
}

static int split(struct comm *comm, int color, int key, struct comm **ret_comm, struct err *err);

static void close_comm(struct comm *comm)
{
    free(comm);
}

static const struct comm_ops ops = {.name = "hostile",
                                    .split = split,
                                    .all_gather = all_gather,
                                    .all_reduce_i64 = all_reduce_i64,
                                    .close = close_comm};

static int split(struct comm *comm, int color, int key, struct comm **ret_comm, struct err *err)
{
    (void)comm, (void)color, (void)key, (void)err;
    struct comm *made = malloc(sizeof *made);
    assert_non_null(made);
    *made = (struct comm){.ops = &ops, .rank = THIS_RANK, .ranks = 2};
    *ret_comm = made;
    return 0;
}

/* Opens a saver without arrays, so that both ranks' data are consistent. */
static int open_saver(struct err *err)
{
    struct comm world = {.ops = &ops, .rank = THIS_RANK, .ranks = 2};
    struct ckpt_saver_options options = {
        .folder = folder, .io = io, .comm = &world, .per_node = true, .groups_count = 1};
    struct ckpt_saver *saver = NULL;
    int status = ckpt_saver_open(&options, NULL, 0, &saver, err);
    if (!status)
        ckpt_saver_close(saver);
    return status;
}

static int find(struct err *err)
{
    static const struct ckpt_find_options any = {.below = UINT64_MAX};
    struct comm world = {.ops = &ops, .rank = THIS_RANK, .ranks = 2};
    char path[IO_PATH_BYTES_MAX];
    uint64_t step;
    return ckpt_find_collective(io, folder, &any, &world, path, &step, NULL, err);
}

/* Corrupts each gather in turn, asserts that none is accepted, and returns their number. */
static int check_gathers(int (*run_collective)(struct err *err))
{
    for (int gather = 1; gather <= GATHERS_MAX; gather++) {
        struct err err = {0};
        other.gathers = 0;
        other.has_gathered = false;
        other.corrupt_gather = gather;
        int status = run_collective(&err);
        if (!other.has_gathered)
            return gather - 1;
        if (status != -EPROTO || !strstr(err.what, "rank 0"))
            fail_msg("gather %d: %d, %s", gather, status, err.what);
    }
    return GATHERS_MAX;
}

static void a_malformed_save_plan_is_refused(void **state)
{
    (void)state;
    /* the gathers: node names, size and text of a rank's arrays, path to write to */
    assert_int_equal(check_gathers(open_saver), 4);
}

static void a_malformed_load_plan_is_refused(void **state)
{
    (void)state;
    assert_int_equal(check_gathers(find), 1);
}

/* A rank's local plan for two arrays; free the result. */
static struct local_plan make_local_plan(void)
{
    const struct ckpt_tensor tensors[] = {
        {.name = "a.weight", .dtype = DTYPE_F32, .rank = 2, .shape = {6, 5}, .extent = {3, 5}},
        {.name = "b",
         .dtype = DTYPE_U8,
         .rank = 1,
         .shape = {9},
         .extent = {9},
         .replicated = true}};
    struct layout_chunk chunks[2] = {{.tensor = &tensors[0], .box = {.rank = 2, .extent = {3, 5}}},
                                     {.tensor = &tensors[1], .box = {.rank = 1, .extent = {9}}}};
    const struct local_plan_input part = {.chunks = chunks, .chunks_count = 2, .file_bytes = 4096};
    struct local_plan plan;
    struct err err = {0};
    assert_ok(local_plan_collect(&part, 1, &plan, &err), &err);
    return plan;
}

static void check_refused(const struct local_plan *plan, const char *problem)
{
    struct err err = {0};
    assert_int_equal(local_plan_check(plan->texts, plan->bytes_max, 7, &err), -EPROTO);
    assert_non_null(strstr(err.what, "the save plan of rank 7 is invalid"));
    if (!strstr(err.what, problem))
        fail_msg("expected \"%s\" in: %s", problem, err.what);
}

static void a_malformed_local_plan_is_rejected(void **state)
{
    struct local_plan plan = make_local_plan();
    struct local_plan_head *head = (void *)plan.texts;
    struct local_plan_chunk *first = (void *)(head + 1);
    char *name = (char *)(first + 1);
    struct err err = {0};
    (void)state;
    assert_ok(local_plan_check(plan.texts, plan.bytes_max, 7, &err), &err);
    for (size_t bytes = 0; bytes < plan.bytes_max; bytes += 8) {
        char *cut = malloc(bytes + 1); /* exact size, so that a sanitizer detects overruns */
        assert_non_null(cut);
        memcpy(cut, plan.texts, bytes);
        assert_int_equal(local_plan_check(cut, bytes, 7, &err), -EPROTO);
        free(cut);
    }
    const struct {
        uint64_t *word, wrong;
        const char *problem;
    } cases[] = {
        {&head->file_bytes, UINT64_MAX, "its file is too large"},
        {&head->chunks_count, 1, "it continues after its arrays"},
        {&head->chunks_count, UINT64_MAX, "it ends within an array"},
        {&first->name_bytes, UINT64_MAX - 7, "it ends within an array"},
        {&first->name_bytes, 15, "it ends within an array"},
        {&first->name_bytes, 0, "a name is not terminated"},
        {&first->dtype, DTYPE_COUNT, "an invalid type, shape or part"},
        {&first->rank, DTYPE_RANK_MAX + 1, "an invalid type, shape or part"},
        {&first->rank, 1, "an invalid type, shape or part"}, /* but the shape has more dimensions */
        {&first->replicated, 2, "an invalid type, shape or part"},
        {&first->start[0], 4, "an invalid type, shape or part"},
        {&first->start[0], UINT64_MAX, "an invalid type, shape or part"},
        {&first->extent[1], 6, "an invalid type, shape or part"},
        {&first->shape[1], UINT64_MAX, "an invalid type, shape or part"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint64_t right = *cases[i].word;
        *cases[i].word = cases[i].wrong;
        check_refused(&plan, cases[i].problem);
        *cases[i].word = right;
    }
    memset(name, 'x', (size_t)first->name_bytes);
    check_refused(&plan, "a name is not terminated");
    free(plan.texts);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_malformed_save_plan_is_refused, scratch_set_up,
                                        scratch_tear_down),
        cmocka_unit_test_setup_teardown(a_malformed_load_plan_is_refused, scratch_set_up,
                                        scratch_tear_down),
        cmocka_unit_test(a_malformed_local_plan_is_rejected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
