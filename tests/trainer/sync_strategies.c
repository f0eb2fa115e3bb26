/*
 * Tests real ranks that shard weights as each strategy does: a flipped bit in any state they hold
 * is reported by name.
 */
#include "trainer/run/run.h"

#include "trainer/parallel/sync_check.h"

#include "tests/support/ranks.h"
#include "tests/trainer/model_case.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { STEP = 12 };

/* Contains only what a run has after a step. */
static struct run run;
static struct train_config config;

static void fill_weights(void)
{
    struct err err = {0};
    void *host = malloc(run.compute.params->elements * ops_master_bytes(run.compute.ops));
    assert_non_null(host);
    params_init_values(run.compute.params, 3, run.compute.ops->master, host);
    case_fill_weights(&run.compute.weights, run.compute.params, host);
    assert_ok(weights_refresh(&run.compute.weights, &err), &err);
    free(host);
}

/* shards: the number of shards of the moments; shares_weights: also shard the weights. */
static void open_run(uint32_t shards, bool shares_weights)
{
    struct err err = {0};
    run = (struct run){
        .ranks = {.comm = world, .uncounted_comm = world}, .config = &config, .step = STEP};
    open_test_ops(DTYPE_F32, 1, &run.compute.device, &run.compute.ops);
    assert_ok(model_open(&case_gpt2, run.compute.ops, 2, &run.compute.model, &err), &err);
    run.compute.params = model_params(run.compute.model);
    run.compute.stage = (struct model_stage){
        .blocks_count = case_gpt2.layers, .has_embedding = true, .has_head = true};
    const struct partition_options options = {
        .rank = (uint32_t)world->rank, .ranks = (uint32_t)world->ranks, .shards = shards};
    assert_ok(partition_init(&run.compute.partition, &options, run.compute.params, &err), &err);
    const struct weights_options weights = {.comm = world,
                                            .ops = run.compute.ops,
                                            .partition = &run.compute.partition,
                                            .shards = shares_weights,
                                            .reshards = true,
                                            .prefetch_count = 1};
    assert_ok(
        weights_init(&run.compute.weights, &weights, run.compute.model, &run.compute.stage, &err),
        &err);
    assert_ok(weights_connect(&run.compute.weights, &err), &err);
    assert_ok(weights_open_gather(&run.compute.weights, &err), &err);
    const struct optimizer_options optimizer = {.update = {.beta1 = 0.9, .beta2 = 0.95}};
    assert_ok(optimizer_init(&run.update.optimizer, &optimizer, run.compute.ops,
                             &run.compute.partition, &err),
              &err);
    fill_weights();
    assert_ok(run_open_sync_check(&run, &err), &err);
}

static void close_run(void)
{
    sync_check_close(run.sync_check);
    optimizer_deinit(&run.update.optimizer);
    weights_deinit(&run.compute.weights);
    partition_deinit(&run.compute.partition);
    model_close(run.compute.model);
    ops_close(run.compute.ops);
    device_close(run.compute.device);
}

static void flip(void *memory, size_t byte)
{
    ((unsigned char *)memory)[byte] ^= 0x10;
}

static bool is_last(void)
{
    return world->rank == world->ranks - 1;
}

/* All ranks find the difference, and the first prints it. */
static void assert_named(const char *tensor)
{
    struct err err = {0};
    char expected[PARAMS_NAME_BYTES_MAX + 64];
    assert_int_equal(run_check_sync(&run, &err), -EBADMSG);
    snprintf(expected, sizeof expected, "after step %d %s is not the same", STEP, tensor);
    if (world->rank > 0)
        assert_string_equal(err.what, "");
    else if (!strstr(err.what, expected))
        fail_msg("\"%s\" is not in \"%s\"", expected, err.what);
}

static void assert_in_sync(void)
{
    struct err err = {0};
    assert_ok(run_check_sync(&run, &err), &err);
    assert_ok(run_check_sync(&run, &err), &err);
}

/* ddp: each rank holds everything. */
static void a_bit_flip_in_replicated_weights_is_named(void **state)
{
    (void)state;
    open_run(1, false);
    assert_in_sync();
    const struct param *param = params_find(run.compute.params, "blocks.1.mlp.fc.weight");
    if (is_last())
        flip(run_tensors_row(&run.compute, &run.update.optimizer, param, 1, 2), 0);
    assert_named("exp_avg_sq of blocks.1.mlp.fc.weight");
    close_run();
}

/* zero1: flips a bit in weights that another rank updates. */
static void a_bit_flip_in_gathered_weights_is_named(void **state)
{
    (void)state;
    open_run((uint32_t)world->ranks, false);
    assert_in_sync();
    const struct param *param = params_find(run.compute.params, "blocks.0.attn.q.weight");
    if (is_last())
        flip(run.compute.weights.whole, param->offset * ops_compute_bytes(run.compute.ops));
    assert_named("blocks.0.attn.q.weight");
    close_run();
}

/* zero3: between passes no rank has all weights, and each shard is gathered from the only rank that
 * has it. */
static void gathered_weights_are_compared(void **state)
{
    (void)state;
    open_run((uint32_t)world->ranks, true);
    assert_in_sync();
    if (is_last()) /* already gathered, and not gathered again before an update */
        for (uint32_t i = 0; i < run.compute.weights.buffers_count; i++)
            if (run.compute.weights.buffers[i].group == 0)
                flip(run.compute.weights.buffers[i].memory, 5);
    assert_named("embed.tokens.weight");
    close_run();
}

/* Asserts that the last rank detects a flipped bit in state that only it holds. */
static void assert_found_before_the_update(const char *tensor)
{
    struct err err = {0};
    char expected[PARAMS_NAME_BYTES_MAX + 64];
    snprintf(expected, sizeof expected, "after step %d %s changed without an update", STEP, tensor);
    assert_int_equal(run_recheck_own_state(&run, &err), is_last() ? -EBADMSG : -EREMOTEIO);
    if (is_last() && !strstr(err.what, expected))
        fail_msg("\"%s\" is not in \"%s\"", expected, err.what);
}

/* Returns the first parameter with a part on this rank, and the address of that part. */
static const struct param *own_part(unsigned kind, void **ret_memory)
{
    for (uint64_t i = 0; i < run.compute.params->count; i++) {
        const struct param *param = &run.compute.params->list[i];
        struct span shard = partition_shard(&run.compute.partition, param->group,
                                            run.compute.partition.options.rank);
        struct row_range rows = span_rows(&shard, param);
        if (rows.count > 0) {
            *ret_memory =
                run_tensors_row(&run.compute, &run.update.optimizer, param, rows.first, kind);
            return param;
        }
    }
    fail();
    return NULL;
}

/* zero1 and zero3: the next update spreads an error in a part that only one rank holds to all
 * ranks. */
static void a_bit_flip_in_unreplicated_weights_is_found_before_the_update(void **state)
{
    struct err err = {0};
    (void)state;
    for (int sharded = 0; sharded < 2; sharded++)
        for (unsigned kind = 0; kind < 3; kind++) {
            static const char *const kinds[] = {"", "exp_avg of ", "exp_avg_sq of "};
            char name[PARAMS_NAME_BYTES_MAX + 16];
            void *memory = NULL;
            open_run((uint32_t)world->ranks, sharded);
            assert_ok(run_recheck_own_state(&run, &err),
                      &err); /* there is nothing to compare with yet */
            assert_in_sync();
            assert_ok(run_recheck_own_state(&run, &err), &err);
            assert_in_sync();
            const struct param *param = own_part(kind, &memory);
            snprintf(name, sizeof name, "%s%s", kinds[kind], param->name);
            if (is_last())
                flip(memory, 1);
            assert_found_before_the_update(name);
            close_run();
        }
}

/* hybrid_shard: ranks on two machines hold the same shard. */
static void a_bit_flip_in_one_of_two_replicas_is_named(void **state)
{
    (void)state;
    if (world->ranks < 4)
        return;
    open_run(2, true);
    assert_in_sync();
    /* the last rank's shard, which every second rank holds */
    struct span shard = partition_shard(&run.compute.partition, 2, (uint32_t)world->ranks - 1);
    const struct param *param = NULL;
    for (uint64_t i = 0; !param && i < run.compute.params->count; i++)
        if (run.compute.params->list[i].group == 2 &&
            span_rows(&shard, &run.compute.params->list[i]).count > 0)
            param = &run.compute.params->list[i];
    assert_non_null(param);
    if (is_last())
        flip(run_tensors_row(&run.compute, &run.update.optimizer, param,
                             span_rows(&shard, param).first, 1),
             0);
    char name[PARAMS_NAME_BYTES_MAX + 16];
    snprintf(name, sizeof name, "exp_avg of %s", param->name);
    assert_named(name);
    close_run();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bit_flip_in_replicated_weights_is_named),
        cmocka_unit_test(a_bit_flip_in_gathered_weights_is_named),
        cmocka_unit_test(gathered_weights_are_compared),
        cmocka_unit_test(a_bit_flip_in_unreplicated_weights_is_found_before_the_update),
        cmocka_unit_test(a_bit_flip_in_one_of_two_replicas_is_named),
    };
    return ranks_main(tests, sizeof tests / sizeof tests[0], 0);
}
