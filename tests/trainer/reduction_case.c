/*
 * reduction_case — see reduction_case.h.
 */
#include "tests/trainer/reduction_case.h"

#include "tests/support/ranks.h"

static void add(struct params *params, const char *name, uint64_t rows, uint64_t cols,
                bool neighbor)
{
    struct err err;
    uint64_t index;
    const struct param_spec spec = {.name = name, .rows = rows, .cols = cols, .neighbor = neighbor};
    assert_ok(params_add(params, &spec, &index, &err), &err);
}

/* Odd shapes, a frozen tensor, a group without trained tensors, and a group smaller than the number
 * of ranks. */
static void describe(struct params *params)
{
    struct err err;
    assert_ok(params_begin_unit(params, "embed", &err), &err);
    add(params, "table", 301, 24, false);
    assert_ok(params_begin_unit(params, "block", &err), &err);
    add(params, "q", 48, 48, false);
    add(params, "k", 13, 48, true);
    add(params, "q.bias", 48, 0, false);
    add(params, "odd", 77, 30, false);
    assert_ok(params_begin_unit(params, "still", &err), &err);
    add(params, "frozen", 20, 20, false);
    assert_ok(params_begin_unit(params, "head", &err), &err);
    add(params, "bias", 3, 0, false);
    params->list[3].frozen = params->list[5].frozen = true;
    params_lay_out_trained(params);
}

uint64_t sum_case_used_bytes(const struct sum_case *sum_case)
{
    struct device_mem_info info;
    sum_case->device->ops->mem_info(sum_case->device, &info);
    return info.used_bytes[MEM_DEVICE] + info.used_bytes[MEM_PINNED];
}

void sum_case_open(struct sum_case *sum_case, const struct sum_case_plan *plan)
{
    struct err err;
    uint32_t rank = (uint32_t)world->rank, ranks = (uint32_t)world->ranks;
    const struct partition_options cut = {rank, ranks, plan->shards, plan->keep_below};
    *sum_case = (struct sum_case){.plan = *plan};
    assert_ok(device_open("cpu", &sum_case->device, &err), &err);
    assert_ok(ops_cpu_open(sum_case->device, DTYPE_F32, 1, &sum_case->ops, &err), &err);
    describe(&sum_case->params);
    assert_ok(partition_init(&sum_case->partition, &cut, &sum_case->params, &err), &err);
    const struct reduction_options options = {
        .kind = plan->kind,
        .comm = world,
        .ops = sum_case->ops,
        .partition = &sum_case->partition,
        .batching = {.global = plan->micros,
                     .micro = 1,
                     .rank = rank,
                     .ranks = ranks,
                     .interleaved = plan->each},
        .bucket_bytes = plan->bucket_bytes,
        .wire = {plan->wire, plan->wire == DTYPE_F16 ? 0x1p-7f : 1},
        .powersgd = plan->powersgd};
    sum_case->used_bytes = sum_case_used_bytes(sum_case);
    assert_ok(reduction_open(&options, &sum_case->reduction, &err), &err);
    assert_ok(reduction_connect(sum_case->reduction, &err), &err);
    assert_ok(reduction_open_exchange(sum_case->reduction, &err), &err);
}

void sum_case_close(struct sum_case *sum_case)
{
    reduction_close(sum_case->reduction);
    assert_int_equal(sum_case_used_bytes(sum_case), sum_case->used_bytes);
    partition_deinit(&sum_case->partition);
    params_deinit(&sum_case->params);
    ops_close(sum_case->ops);
    device_close(sum_case->device);
}

/* Like a group's backward pass: writes, or adds to, every trained element. */
static void make_gradients(const struct sum_case *sum_case, const struct model_memory *memory,
                           uint64_t group, uint64_t step, uint64_t micro)
{
    const struct param_group *g = &sum_case->params.groups[group];
    float *gradients = memory->gradients ? (float *)memory->gradients + g->trained_offset
                                         : memory->group_gradients[group];
    for (uint64_t p = g->first; p < g->first + g->count; p++) {
        const struct param *param = &sum_case->params.list[p];
        for (uint64_t i = 0; i < param->count && !param->frozen; i++) {
            float *place = &gradients[param->trained_offset - g->trained_offset + i];
            float value = sum_case->plan.gradient(step, micro, param->trained_offset + i);
            *place = reduction_accumulates(&sum_case->reduction->options) ? *place + value : value;
        }
    }
}

static void make_round(struct sum_case *sum_case, uint64_t step, uint64_t round)
{
    struct reduction *r = sum_case->reduction;
    struct model_memory memory = {0};
    struct err err;
    bool plain = reduction_is_hookless(r, round), computes = reduction_has_micro_batch(r, round);
    reduction_set_memory(r, round, &memory);
    if (!plain) /* like a head that is tied to the group */
        reduction_acquire(r, 0);
    for (uint64_t g = sum_case->params.groups_count; g-- > 0;) {
        if (!plain && g > 0)
            reduction_acquire(r, g);
        if (computes)
            make_gradients(sum_case, &memory, g, step,
                           batching_owned_micro(&r->options.batching, round));
        if (!plain)
            reduction_release(r, g);
    }
    assert_ok(reduction_end_round(r, round, &err), &err);
}

void sum_case_step(struct sum_case *sum_case, uint64_t step)
{
    struct reduction *r = sum_case->reduction;
    struct err err;
    assert_ok(reduction_begin(r, step, &err), &err);
    for (uint64_t round = 0; round < reduction_rounds(r); round++)
        make_round(sum_case, step, round);
    assert_ok(reduction_finish(r, &err), &err);
}
