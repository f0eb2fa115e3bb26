/*
 * reduction — tests on real ranks: every way of summing gives the sum over all micro-batches, wherever they were computed and whoever holds what,
 * and takes the memory that it says.
 *
 * Gradients are small integers, whose sums are exact in any order: what must come out is known bit by bit, and where they travel in fewer bits, as
 * what was rounded.
 */
#include "trainer/reduction.h"

#include "tests/support/ranks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct scene {
    struct device *device;
    struct ops *ops;
    struct params params;
    struct partition partition;
    struct reduction *reduction;
    uint64_t micros;
    uint64_t used_bytes; /* before the reduction */
};

static void add(struct params *params, const char *name, uint64_t rows, uint64_t cols, bool neighbour)
{
    struct err err;
    uint64_t index;
    const struct param_spec spec = {.name = name, .rows = rows, .cols = cols, .neighbour = neighbour};
    assert_ok(params_add(params, &spec, &index, &err), &err);
}

/* Odd shapes, something frozen, a group of which nothing is trained, and one that is smaller than the ranks. */
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

/* Of micro-batch `micro` the gradient of that element of all that is trained. */
static float gradient(uint64_t micro, uint64_t element)
{
    uint64_t bits = (micro * 1000003 + element) * UINT64_C(0x9E3779B97F4A7C15);
    return 37 * ((float)(bits >> 52) - 2048);
}

static uint64_t used_bytes(struct device *device)
{
    struct device_mem_info info;
    device->ops->mem_info(device, &info);
    return info.used_bytes[MEM_DEVICE] + info.used_bytes[MEM_PINNED];
}

struct plan {
    enum reduction_kind kind;
    bool each;
    uint32_t shards;
    uint64_t micros, bucket_bytes, keep_below;
    enum dtype wire;
};

static void open_scene(struct scene *scene, const struct plan *plan)
{
    struct err err;
    uint32_t rank = (uint32_t)world->rank, ranks = (uint32_t)world->ranks;
    const struct partition_options cut = {rank, ranks, plan->shards, plan->keep_below};
    *scene = (struct scene){.micros = plan->micros};
    assert_ok(device_open("cpu", &scene->device, &err), &err);
    assert_ok(ops_cpu_open(scene->device, DTYPE_F32, 1, &scene->ops, &err), &err);
    describe(&scene->params);
    assert_ok(partition_init(&scene->partition, &cut, &scene->params, &err), &err);
    const struct reduction_options options = {.kind = plan->kind,
                                              .comm = world,
                                              .ops = scene->ops,
                                              .partition = &scene->partition,
                                              .batching = {.global = plan->micros,
                                                           .micro = 1,
                                                           .rank = rank,
                                                           .ranks = ranks,
                                                           .interleaved = plan->each},
                                              .bucket_bytes = plan->bucket_bytes,
                                              .wire = {plan->wire, plan->wire == DTYPE_F16 ? 0x1p-7f : 1}};
    scene->used_bytes = used_bytes(scene->device);
    assert_ok(reduction_open(&options, &scene->reduction, &err), &err);
    assert_ok(reduction_connect(scene->reduction, &err), &err);
    assert_ok(reduction_open_exchange(scene->reduction, &err), &err);
}

static void close_scene(struct scene *scene)
{
    reduction_close(scene->reduction);
    assert_int_equal(used_bytes(scene->device), scene->used_bytes);
    partition_deinit(&scene->partition);
    params_deinit(&scene->params);
    ops_close(scene->ops);
    device_close(scene->device);
}

/* What a backward pass does with a group: every element that is trained is written, or added to. */
static void make_gradients(const struct scene *scene, const struct model_memory *memory, uint64_t group,
                           uint64_t micro)
{
    const struct param_group *g = &scene->params.groups[group];
    float *gradients =
        memory->gradients ? (float *)memory->gradients + g->trained_offset : memory->group_gradients[group];
    for (uint64_t p = g->first; p < g->first + g->count; p++) {
        const struct param *param = &scene->params.list[p];
        for (uint64_t i = 0; i < param->count && !param->frozen; i++) {
            float *place = &gradients[param->trained_offset - g->trained_offset + i];
            float value = gradient(micro, param->trained_offset + i);
            *place = reduction_adds(&scene->reduction->options) ? *place + value : value;
        }
    }
}

static void make_round(struct scene *scene, uint64_t round)
{
    struct reduction *r = scene->reduction;
    struct model_memory memory = {0};
    struct err err;
    bool plain = reduction_is_plain(r, round), computes = reduction_computes(r, round);
    reduction_set_memory(r, round, &memory);
    if (!plain) /* as where the head is tied to it */
        reduction_need(r, 0);
    for (uint64_t g = scene->params.groups_count; g-- > 0;) {
        if (!plain && g > 0)
            reduction_need(r, g);
        if (computes)
            make_gradients(scene, &memory, g, batching_owned(&r->options.batching, round));
        if (!plain)
            reduction_done(r, g);
    }
    assert_ok(reduction_end_round(r, round, &err), &err);
}

/* To so many significant bits, ties to even. */
static double rounded(double value, int bits)
{
    int exponent;
    double part = frexp(value, &exponent);
    return ldexp(nearbyint(ldexp(part, bits)), exponent - bits);
}

static double sum_of(uint64_t first, uint64_t end, uint64_t element)
{
    double sum = 0;
    for (uint64_t micro = first; micro < end; micro++)
        sum += gradient(micro, element);
    return sum;
}

/* What travels at a time from the micro-batch `first` on, of a rank that has those before `end`: to which one. */
static uint64_t piece_end(const struct reduction_options *options, uint64_t first, uint64_t end)
{
    uint64_t size = 1;
    if (options->kind == REDUCTION_FAST)
        return end;
    while (first % (2 * size) == 0 && first + 2 * size <= end)
        size *= 2;
    return first + size;
}

static double expected(const struct scene *scene, uint64_t element)
{
    const struct reduction_options *options = &scene->reduction->options;
    int bits = options->batching.ranks == 1 ? 53 : options->wire.type == DTYPE_BF16 ? 8 : 11;
    double sum = 0;
    if (options->wire.type == DTYPE_F32)
        return sum_of(0, scene->micros, element);
    for (uint64_t micro = 0; options->batching.interleaved && micro < scene->micros; micro++)
        sum += rounded(gradient(micro, element), bits);
    for (uint32_t rank = 0; !options->batching.interleaved && rank < options->batching.ranks; rank++) {
        uint64_t end = (rank + 1) * scene->micros / options->batching.ranks;
        for (uint64_t next, first = rank * scene->micros / options->batching.ranks; first < end;
             first = next) {
            next = piece_end(options, first, end);
            sum += rounded(sum_of(first, next, element), bits);
        }
    }
    return sum;
}

/* gradients: of the span. */
static void check(const struct scene *scene, uint64_t group, struct span span, const float *gradients)
{
    const struct param_group *g = &scene->params.groups[group];
    for (uint64_t p = g->first; p < g->first + g->count; p++) {
        const struct param *param = &scene->params.list[p];
        for (uint64_t i = 0; i < param->count && !param->frozen; i++) {
            uint64_t element = param->trained_offset + i;
            if (element >= span.offset && element < span.offset + span.elements)
                assert_true((double)gradients[element - span.offset] == expected(scene, element));
        }
    }
}

static void make_step(struct scene *scene)
{
    struct reduction *r = scene->reduction;
    uint32_t rank = (uint32_t)world->rank;
    struct err err;
    assert_ok(reduction_begin(r, &err), &err);
    for (uint64_t round = 0; round < reduction_rounds(r); round++)
        make_round(scene, round);
    assert_ok(reduction_finish(r, &err), &err);
    for (uint64_t g = 0; g < scene->params.groups_count; g++) {
        const void *shard;
        if (scene->params.groups[g].trained_elements == 0)
            continue;
        check(scene, g, partition_trained_part(&scene->partition, g, rank), reduction_part(r, g));
        assert_ok(reduction_shard(r, g, &shard, &err), &err);
        check(scene, g, partition_trained_shard(&scene->partition, g, rank), shard);
    }
}

static void try_plan(const struct plan *plan)
{
    struct scene scene;
    open_scene(&scene, plan);
    const struct reduction_need need = reduction_need_of(&scene.reduction->options);
    assert_int_equal(used_bytes(scene.device) - scene.used_bytes, need.device_bytes + need.pinned_bytes);
    for (int step = 0; step < 3; step++)
        make_step(&scene);
    close_scene(&scene);
}

static void try_kind(enum reduction_kind kind, enum dtype wire)
{
    uint32_t ranks = (uint32_t)world->ranks;
    const uint64_t buckets[] = {1, 4096, 8 << 20}, keeps[] = {0, 3000};
    for (uint64_t micros = ranks; micros <= 2 * ranks + 1; micros += ranks > 1 ? ranks / 2 : 1)
        for (int each = 0; each < 2; each++)
            for (uint32_t shards = 1; shards <= ranks; shards++)
                for (int i = 0; i < 3 && ranks % shards == 0; i++)
                    try_plan(&(struct plan){kind, each, shards, micros, buckets[i], keeps[i % 2], wire});
}

static void the_canonical_tree_sums_all_micro_batches(void **state)
{
    (void)state;
    try_kind(REDUCTION_CANONICAL, DTYPE_F32);
}

static void fast_sums_all_micro_batches(void **state)
{
    (void)state;
    try_kind(REDUCTION_FAST, DTYPE_F32);
}

static void what_travels_is_rounded_and_summed_in_fp32(void **state)
{
    (void)state;
    for (int kind = REDUCTION_CANONICAL; kind <= REDUCTION_FAST; kind++) {
        try_kind((enum reduction_kind)kind, DTYPE_BF16);
        try_kind((enum reduction_kind)kind, DTYPE_F16);
    }
}

static struct reduction_need need_of(enum reduction_kind kind, bool each)
{
    struct scene scene;
    const struct plan plan = {kind, each, 1, 4 * (uint64_t)world->ranks, 4096, 0, DTYPE_F32};
    open_scene(&scene, &plan);
    const struct reduction_need need = reduction_need_of(&scene.reduction->options);
    close_scene(&scene);
    return need;
}

static void fast_holds_one_buffer_of_gradients(void **state)
{
    (void)state;
    assert_int_equal(need_of(REDUCTION_FAST, false).buffers_count, 1);
    for (int each = 0; each < 2; each++)
        assert_true(need_of(REDUCTION_FAST, each).device_bytes <
                    need_of(REDUCTION_CANONICAL, each).device_bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_canonical_tree_sums_all_micro_batches),
        cmocka_unit_test(fast_sums_all_micro_batches),
        cmocka_unit_test(what_travels_is_rounded_and_summed_in_fp32),
        cmocka_unit_test(fast_holds_one_buffer_of_gradients),
    };
    return ranks_main(tests, sizeof tests / sizeof tests[0], 0);
}
