/*
 * gradient_sync — tests with two real ranks that neither waits for the other at a point that
 * depends on timing.
 */
#include "trainer/parallel/reduction/gradient_sync.h"

#include "base/clock.h"
#include "tests/support/ranks.h"

#include <stdio.h>
#include <stdlib.h>

enum { GROUPS = PARAM_GATHER_SLOTS + 2, ROWS = 48, COLS = 20, TIMEOUT_S = 60 };

/* The state of one rank. Its device is the host under a different name, so transfers are staged,
 * and copies of sums can be delayed. */
static struct device *device;
static struct device_ops device_ops;
static int (*real_event_open)(struct device *device, struct device_event **ret_event,
                              struct err *err);
static int (*real_event_done)(struct device *device, struct device_event *event, bool *ret_done,
                              struct err *err);
/* events of the exchange, then of the gather */
static struct device_event *events[BUCKET_EXCHANGE_BUCKETS + PARAM_GATHER_SLOTS];
static size_t events_count;
static bool sums_are_late;
static struct params params;
static struct partition partition;
static struct gradient_sync sync;
static float *arena;
static unsigned shared_count;

static int open_event(struct device *target_device, struct device_event **ret_event,
                      struct err *err)
{
    int status = real_event_open(target_device, ret_event, err);
    assert_true(events_count < sizeof events / sizeof *events);
    events[events_count++] = *ret_event;
    return status;
}

static int is_event_done(struct device *target_device, struct device_event *event, bool *ret_done,
                         struct err *err)
{
    int status = real_event_done(target_device, event, ret_done, err);
    for (size_t i = BUCKET_EXCHANGE_BUCKETS; i < events_count; i++)
        if (events[i] == event && sums_are_late)
            *ret_done = false;
    return status;
}

static int receive(void *context, const struct bucket_exchange_chunk *chunk, struct err *err)
{
    struct span part = partition_trained_part(&partition, chunk->group, (uint32_t)world->rank);
    float *sum = arena + part.offset;
    (void)context;
    assert_int_equal(chunk->sources_count, 2);
    for (uint64_t i = 0; i < chunk->elements; i++)
        sum[chunk->first + i] =
            ((const float *)chunk->sources[0])[i] + ((const float *)chunk->sources[1])[i];
    if (!chunk->is_last)
        return 0;
    shared_count++;
    return gradient_sync_share(&sync, chunk->group, sum, arena, err);
}

static void describe(void)
{
    char unit[16], matrix[16];
    struct err err;
    uint64_t index;
    for (unsigned g = 0; g < GROUPS; g++) {
        snprintf(unit, sizeof unit, "unit%u", g);
        snprintf(matrix, sizeof matrix, "matrix%u", g);
        const struct param_spec spec = {.name = matrix, .rows = ROWS, .cols = COLS};
        assert_ok(params_begin_unit(&params, unit, &err), &err);
        assert_ok(params_add(&params, &spec, &index, &err), &err);
    }
    params_lay_out_trained(&params);
}

static void open_sync(struct ops *ops)
{
    const struct partition_options cut = {.rank = (uint32_t)world->rank, .ranks = 2, .shards = 1};
    struct err err;
    describe();
    assert_ok(partition_init(&partition, &cut, &params, &err), &err);
    const struct gradient_sync_options options = {
        .reduction = {.comm = world,
                      .ops = ops,
                      .partition = &partition,
                      .batching = {.global = 2, .micro = 1, .rank = cut.rank, .ranks = cut.ranks},
                      .bucket_bytes = 1 << 20,
                      .timeout_ns = TIMEOUT_S * CLOCK_NS_PER_S},
        .pieces_max = 1,
        .pieces_total_max = 2,
        .on_received = receive};
    assert_ok(gradient_sync_open(&sync, &options, &err), &err);
    assert_ok(gradient_sync_connect(&sync, &err), &err);
    assert_ok(gradient_sync_open_exchange(&sync, &err), &err);
    assert_int_equal(events_count, BUCKET_EXCHANGE_BUCKETS + PARAM_GATHER_SLOTS);
    arena = calloc(params.trained_elements, sizeof *arena);
    assert_non_null(arena);
    for (uint64_t i = 0; i < params.trained_elements; i++)
        arena[i] = (float)((uint64_t)(world->rank + 1) * i);
}

static void send(unsigned first, unsigned end)
{
    static const uint32_t counts[] = {1, 1};
    struct err err;
    for (unsigned g = first; g < end; g++) {
        const struct bucket_exchange_pieces pieces = {
            .sources = {arena + params.groups[g].trained_offset}, .counts = counts};
        assert_ok(gradient_sync_send(&sync, g, &pieces, &err), &err);
    }
}

static void await_shared(unsigned count)
{
    struct err err;
    while (shared_count < count)
        assert_ok(bucket_exchange_pump(sync.exchange, &err), &err);
}

/* The second rank is ahead in the pass and waits for the first while sums are being copied to
 * staging. The first rank has summed more groups than are gathered at a time, and must continue. */
static void buckets_without_a_free_slot_wait_for_the_end_of_the_pass(void **state)
{
    struct ops *ops;
    struct err err;
    void *shard;
    (void)state;
    assert_int_equal(world->ranks, 2);
    assert_ok(device_open("cpu", &device, &err), &err);
    assert_ok(ops_cpu_open(device, DTYPE_F32, 1, &ops, &err), &err);
    const struct device_ops *real = device->ops;
    device_ops = *real;
    real_event_open = real->event_open;
    real_event_done = real->event_done;
    device_ops.is_host = false;
    device_ops.event_open = open_event;
    device_ops.event_done = is_event_done;
    device->ops = &device_ops;
    open_sync(ops);
    if (world->rank == 0) {
        ranks_barrier();
        send(0, PARAM_GATHER_SLOTS);
        await_shared(PARAM_GATHER_SLOTS);
        ranks_barrier();
        send(PARAM_GATHER_SLOTS, PARAM_GATHER_SLOTS + 1);
        await_shared(PARAM_GATHER_SLOTS + 1);
        ranks_barrier();
    } else {
        sums_are_late = true;
        send(0, PARAM_GATHER_SLOTS);
        ranks_barrier();
        await_shared(PARAM_GATHER_SLOTS);
        send(PARAM_GATHER_SLOTS, PARAM_GATHER_SLOTS + 1);
        ranks_barrier();
        ranks_barrier(); /* as if waiting for the first rank's weights */
        sums_are_late = false;
    }
    send(PARAM_GATHER_SLOTS + 1, GROUPS);
    assert_ok(gradient_sync_finish(&sync, &err), &err);
    for (uint64_t g = 0; g < GROUPS; g++)
        assert_ok(gradient_sync_wait(&sync, g, arena, &shard, &err), &err);
    for (uint64_t i = 0; i < params.trained_elements; i++)
        assert_true(arena[i] == (float)(3 * i));
    gradient_sync_close(&sync);
    partition_deinit(&partition);
    params_deinit(&params);
    free(arena);
    device->ops = real;
    ops_close(ops);
    device_close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buckets_without_a_free_slot_wait_for_the_end_of_the_pass),
    };
    return ranks_main(tests, sizeof tests / sizeof tests[0], 0);
}
