/*
 * memory_need — a device that is too small is told before anything is allocated, with what would help.
 */
#include "tests/cuda_on_cpu/control.h"
#include "tests/cuda_on_cpu/order.h"
#include "tests/support/test.h"

#include "trainer/memory_need.h"

#include <errno.h>
#include <string.h>

enum { ITEMS = 16, LEAVES = 2 };

static const struct model_config CONFIG = {.type = MODEL_GPT2,
                                           .layers = 8,
                                           .heads = 4,
                                           .width = 128,
                                           .mlp_ratio = 4,
                                           .block = 64,
                                           .vocabulary = 257};

static const struct feed_options FEED = {.items = ITEMS, .block = 64, .vocabulary = 257};

/* The check on a device with so much memory, of which the ops take some. */
static int check(size_t device_bytes, uint64_t leaves, bool offloaded, struct err *err)
{
    struct device *device;
    struct ops *ops;
    struct model *model;
    const struct model_stage whole = {0, CONFIG.layers, true, true};
    shim_set_memory(device_bytes);
    assert_ok(device_open("cuda", &device, err), err);
    assert_ok(ops_open(device, DTYPE_BF16, 0, &ops, err), err);
    assert_ok(model_open(&CONFIG, ops, ITEMS, &model, err), err);
    struct partition partition;
    const struct partition_options alone = {.rank = 0, .ranks = 1, .shards = 1};
    assert_ok(partition_init(&partition, &alone, model_params(model), err), err);
    const struct weights_options weights = {.ops = ops, .partition = &partition, .pins_master = offloaded};
    const struct reduction_options reduction = {
        .ops = ops,
        .partition = &partition,
        .batching = {.global = leaves * ITEMS, .micro = ITEMS, .rank = 0, .ranks = 1}};
    const struct optimizer_options optimizer = {.offloaded = offloaded};
    const struct memory_need need = memory_need_of(model, &whole, &weights, &reduction, &optimizer, &FEED);
    assert_int_equal(need.total, need.weights + need.gradients + need.moments + need.activations +
                                     need.batches + MEMORY_NEED_SPARE_BYTES);
    int status = memory_need_check(&need, model, &whole, ops, ITEMS, err);
    partition_deinit(&partition);
    model_close(model);
    ops_close(ops);
    device_close(device);
    shim_set_memory((size_t)4 << 30);
    return status;
}

static void too_little_memory_is_told_with_what_would_save_some(void **state)
{
    (void)state;
    struct err err = {0};
    order_set(0);
    assert_int_equal(check((size_t)100 << 20, LEAVES, false, &err), -ENOMEM);
    assert_non_null(strstr(err.what, "memory is too small"));
    assert_non_null(strstr(err.expected, "activations of a micro-batch"));
    assert_non_null(strstr(err.found, "free"));
    assert_non_null(strstr(err.advice, "batch.micro: 8 saves"));
    assert_non_null(strstr(err.advice, "model.recompute: 1 saves"));
    assert_non_null(strstr(err.advice, "model.offload: 1 saves"));
    assert_non_null(strstr(err.advice, "parallel.offload.optimizer: true saves"));
    assert_null(strstr(err.expected, "pinned"));
    assert_non_null(strstr(err.advice, "batch.global equal to batch.micro saves"));
}

static void what_is_offloaded_is_told_and_not_advised_again(void **state)
{
    (void)state;
    struct err err = {0};
    order_set(0);
    assert_int_equal(check((size_t)80 << 20, LEAVES, true, &err), -ENOMEM);
    assert_non_null(strstr(err.expected, "moments 0 B"));
    assert_non_null(strstr(err.expected, "in the host"));
    assert_null(strstr(err.advice, "parallel.offload"));
}

static void an_evaluation_needs_neither_gradients_nor_moments(void **state)
{
    (void)state;
    struct err err = {0};
    order_set(0);
    assert_int_equal(check((size_t)100 << 20, 0, false, &err), -ENOMEM);
    assert_non_null(strstr(err.advice, "batch.micro: 8 saves"));
    assert_null(strstr(err.advice, "recompute"));
    assert_null(strstr(err.advice, "batch.global"));
}

static void enough_memory_is_no_error(void **state)
{
    (void)state;
    struct err err = {0};
    order_set(0);
    assert_ok(check((size_t)1 << 30, LEAVES, false, &err), &err);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(too_little_memory_is_told_with_what_would_save_some),
        cmocka_unit_test(what_is_offloaded_is_told_and_not_advised_again),
        cmocka_unit_test(an_evaluation_needs_neither_gradients_nor_moments),
        cmocka_unit_test(enough_memory_is_no_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
