/*
 * weights — tests weights in host memory: how many groups the device holds at a time, and that
 * passes use the newest values.
 */
#include "tests/support/test.h"
#include "tests/trainer/model_case.h"

#include "trainer/parallel/weights.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { LAYERS = 5, GROUPS = LAYERS + 2 };

struct fixture {
    struct device *device;
    struct ops *ops;
    struct model *model;
    struct model_stage stage;
    struct partition partition;
    struct weights weights;
    float *expected;       /* all weights */
    uint64_t gathered_max; /* largest number of groups in buffers */
};

static uint64_t device_bytes(const struct fixture *f)
{
    struct device_mem_info info;
    f->device->ops->mem_info(f->device, &info);
    return info.used_bytes[MEM_DEVICE];
}

/* The test chooses some options; the rest are those of a single rank. Returns the status of
 * weights_init. */
static int open_weights(struct fixture *f, struct weights_options options, struct err *err)
{
    struct model_config config = case_gpt2;
    const struct partition_options alone = {.rank = 0, .ranks = 1, .shards = 1};
    config.layers = LAYERS;
    *f = (struct fixture){
        .stage = {.blocks_count = LAYERS, .has_embedding = true, .has_head = true}};
    open_test_ops(DTYPE_F32, 1, &f->device, &f->ops);
    assert_ok(model_open(&config, f->ops, 2, &f->model, err), err);
    const struct params *params = model_params(f->model);
    assert_int_equal(params->groups_count, GROUPS);
    assert_ok(partition_init(&f->partition, &alone, params, err), err);
    options.ops = f->ops;
    options.partition = &f->partition;
    options.shards = options.offloads = true;
    int status = weights_init(&f->weights, &options, f->model, &f->stage, err);
    if (status)
        return status;
    f->expected = malloc(params->elements * sizeof *f->expected);
    assert_non_null(f->expected);
    params_init_values(params, 3, DTYPE_F32, f->expected);
    case_fill_weights(&f->weights, params, f->expected);
    assert_ok(weights_refresh(&f->weights, err), err);
    return 0;
}

static void close_all(struct fixture *f)
{
    weights_deinit(&f->weights);
    free(f->expected);
    partition_deinit(&f->partition);
    model_close(f->model);
    assert_int_equal(device_bytes(f), 0);
    ops_close(f->ops);
    device_close(f->device);
}

static uint64_t count_gathered(const struct weights *weights)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < weights->buffers_count; i++)
        count += weights->buffers[i].group != UINT64_MAX;
    return count;
}

static void acquire_group(void *context, uint64_t group, enum pass_direction direction)
{
    struct fixture *f = context;
    const struct param_group *g = &model_params(f->model)->groups[group];
    (void)direction;
    weights_acquire(&f->weights, group);
    uint64_t whole = count_gathered(&f->weights);
    if (whole > f->gathered_max)
        f->gathered_max = whole;
    assert_memory_equal(f->weights.group_weights[group], f->expected + g->offset,
                        g->elements * sizeof *f->expected);
}

static void release_group(void *context, uint64_t group, enum pass_direction direction)
{
    struct fixture *f = context;
    (void)direction;
    weights_release(&f->weights, group);
}

/* A forward and a backward pass that only call the hooks. */
static void walk(struct fixture *f)
{
    const struct model_memory memory = {
        .acquire = acquire_group, .release = release_group, .context = f};
    struct err err;
    assert_ok(weights_begin_pass(&f->weights, &err), &err);
    model_walk(f->model, &f->stage, &memory, MODEL_FORWARD);
    model_walk(f->model, &f->stage, &memory, MODEL_BACKWARD);
    assert_ok(weights_status(&f->weights, &err), &err);
}

/* Modifies weights in place, like an update. */
static void modify_weights(struct fixture *f)
{
    const struct params *params = model_params(f->model);
    struct err err;
    for (uint64_t g = 0; g < params->groups_count; g++) {
        float *shard = weights_shard(&f->weights, g);
        for (uint64_t i = 0; i < params->groups[g].elements; i++)
            shard[i] = f->expected[params->groups[g].offset + i] += 1;
        assert_ok(weights_finish_update(&f->weights, g, &err), &err);
    }
}

/* Checks that the device holds no more weights than `groups` times the largest group. */
static void check_device_memory(struct weights_options options, uint32_t groups)
{
    struct fixture f;
    struct err err;
    assert_ok(open_weights(&f, options, &err), &err);
    uint64_t buffer = f.partition.group_elements_max * sizeof(float);
    struct device_mem_info info;
    f.device->ops->mem_info(f.device, &info);
    assert_int_equal(f.weights.buffers_count, groups);
    assert_int_equal(info.use_peak_bytes[MEM_FOR_PARAMETERS][MEM_DEVICE], groups * buffer);
    assert_int_equal(info.use_peak_bytes[MEM_FOR_PARAMETERS][MEM_PINNED],
                     model_params(f.model)->elements * sizeof(float));
    walk(&f);
    modify_weights(&f);
    walk(&f);
    walk(&f);
    assert_int_equal(f.gathered_max, groups);
    close_all(&f);
}

static void groups_are_gathered_ahead_and_released_after_use(void **state)
{
    (void)state;
    /* a pass uses one group, plus the embedding, whose table the head shares */
    check_device_memory((struct weights_options){.reshards = true}, 2);
    check_device_memory((struct weights_options){.reshards = true, .prefetch_count = 1}, 3);
    check_device_memory((struct weights_options){.reshards = true, .prefetch_count = 3}, 5);
    check_device_memory((struct weights_options){.reshards = true, .prefetch_count = 60}, GROUPS);
    check_device_memory((struct weights_options){.reshards = false}, GROUPS);
}

static void at_most_the_limit_of_groups_is_gathered(void **state)
{
    (void)state;
    check_device_memory(
        (struct weights_options){.reshards = true, .prefetch_count = 3, .groups_max = 2}, 2);
    check_device_memory(
        (struct weights_options){.reshards = true, .prefetch_count = 3, .groups_max = 4}, 4);
    check_device_memory(
        (struct weights_options){.reshards = false, .prefetch_count = 1, .groups_max = 3}, 3);
    check_device_memory(
        (struct weights_options){.reshards = true, .prefetch_count = 1, .groups_max = 60}, 3);
}

static void a_limit_below_the_need_of_a_pass_is_refused(void **state)
{
    struct fixture f;
    struct err err = {0};
    (void)state;
    assert_int_equal(
        open_weights(&f, (struct weights_options){.reshards = true, .groups_max = 1}, &err),
        -EINVAL);
    assert_non_null(strstr(err.what, "parallel.groups_at_once"));
    close_all(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_are_gathered_ahead_and_released_after_use),
        cmocka_unit_test(at_most_the_limit_of_groups_is_gathered),
        cmocka_unit_test(a_limit_below_the_need_of_a_pass_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
