/*
 * overlap — tests on real ranks that a group's gradients are sent before the pass has computed
 * those of later groups. Observes the order of calls, not times.
 */
#include "tests/support/ranks.h"
#include "tests/trainer/text_case.h"

#include "trainer/parallel/reduction/bucket.h"
#include "trainer/parallel/reduction/reduction.h"
#include "trainer/trainer.h"

enum {
    SETS_MAX = 32,
    STEPS = 3,
    /* an embedding, two blocks, and the norm before the head */
    GROUPS_MIN = 4
};

static char folder[TEST_PATH_BYTES_MAX], shards[2 * TEST_PATH_BYTES_MAX];
static struct io *io;

/* The first pass of a step whose gradients are sent. */
static struct {
    uint64_t first_group, groups_done; /* in the order of the pass */
    bool is_sent;                      /* part of the first group was sent */
} pass;
/* overlapped_count: number of passes that sent the first group before they computed the last. */
static uint64_t groups_count, overlapped_count;

int __real_reduction_begin(struct reduction *reduction, uint64_t step, struct err *err);
void __real_reduction_release(struct reduction *reduction, uint64_t group);
int __real_bucket_send(struct bucket_exchange *exchange, struct bucket *slot, struct err *err);
int __wrap_reduction_begin(struct reduction *reduction, uint64_t step, struct err *err);
void __wrap_reduction_release(struct reduction *reduction, uint64_t group);
int __wrap_bucket_send(struct bucket_exchange *exchange, struct bucket *slot, struct err *err);

/* Nothing from an earlier step is in progress, so a slot is free for the first group. */
int __wrap_reduction_begin(struct reduction *reduction, uint64_t step, struct err *err)
{
    memset(&pass, 0, sizeof pass);
    return __real_reduction_begin(reduction, step, err);
}

void __wrap_reduction_release(struct reduction *reduction, uint64_t group)
{
    groups_count = reduction->options.partition->params->groups_count;
    bool is_exchanged = !reduction_is_hookless(reduction, reduction->round);
    if (is_exchanged && pass.groups_done == 0)
        pass.first_group = group;
    if (is_exchanged && ++pass.groups_done == groups_count)
        overlapped_count += pass.is_sent;
    __real_reduction_release(reduction, group);
}

int __wrap_bucket_send(struct bucket_exchange *exchange, struct bucket *slot, struct err *err)
{
    int status = __real_bucket_send(exchange, slot, err);
    pass.is_sent =
        pass.is_sent || (!status && pass.groups_done > 0 && slot->group == pass.first_group);
    return status;
}

static void train(const char *const *extra)
{
    char dir[2 * TEST_PATH_BYTES_MAX], train[3 * TEST_PATH_BYTES_MAX];
    struct train_config config;
    struct trainer_result result;
    struct err err = {0};
    static uint64_t runs_count;
    snprintf(dir, sizeof dir, "run.dir=%s/run-%d", folder, (int)runs_count++);
    snprintf(train, sizeof train, "data.train=%s", shards);
    const char *sets[SETS_MAX] = {dir,
                                  train,
                                  "threads=1",
                                  "run.steps=3",
                                  "data.memory=8MiB",
                                  "data.workers=1",
                                  "data.text.block=16",
                                  "model.type=gpt2",
                                  "model.layers=2",
                                  "model.heads=2",
                                  "model.width=32",
                                  "batch.global=12",
                                  "batch.micro=2",
                                  "eval.every=0",
                                  "checkpoint.every=0"};
    size_t count = 0;
    while (sets[count])
        count++;
    for (; *extra; extra++)
        sets[count++] = *extra;
    assert_ok(config_parse("", 0, "none", sets, count, &config, &err), &err);
    const struct trainer_options options = {
        .config = &config, .comm = world, .local_rank = world->rank, .io = io};
    overlapped_count = 0;
    assert_ok(trainer_run(&options, &result, &err), &err);
    assert_true(groups_count >= GROUPS_MIN);
    assert_int_equal(overlapped_count, STEPS);
}

static int set_up(void **state)
{
    struct err err = {0};
    (void)state;
    ranks_make_folder(folder);
    assert_ok(io_open(folder, NULL, &io, &err), &err);
    if (world->rank == 0)
        text_case_make(io, folder, shards);
    snprintf(shards, sizeof shards, "%s/shards", folder);
    ranks_barrier();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    io_close(io);
    ranks_remove_folder(folder);
    return 0;
}

/* Gradients are sent once a step, in the last micro-batch's pass, or after each pass; for every
 * strategy and reduction. */
static void gradient_sync_overlaps_the_backward_pass(void **state)
{
    static const char *const strategies[] = {
        "parallel.strategy=ddp",           "parallel.strategy=zero1",
        "parallel.strategy=zero2",         "parallel.strategy=zero3",
        "parallel.strategy=shard_grad_op", "parallel.strategy=hybrid_shard"};
    static const char *const reductions[] = {"parallel.reduction=canonical",
                                             "parallel.reduction=fast"};
    (void)state;
    for (size_t s = 0; s < sizeof strategies / sizeof strategies[0]; s++)
        for (size_t r = 0; r < sizeof reductions / sizeof reductions[0]; r++)
            train((const char *const[]){strategies[s], reductions[r], NULL});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(gradient_sync_overlaps_the_backward_pass, set_up,
                                        tear_down),
    };
    return ranks_main(tests, sizeof tests / sizeof tests[0], 0);
}
