/*
 * offload — tests that data in pinned memory comes back unchanged, before it is used, in every
 * order of the streams.
 */
#include "tests/cuda_on_cpu/order.h"
#include "tests/support/test.h"

#include "trainer/models/offload.h"

#include <string.h>

enum { ITEMS_MAX = 7, PASSES = 3, ITEM_BYTES = 4096, SPOILED = 0xee };

struct rig {
    struct device *device;
    struct ops *ops;
    char *ring;             /* [OFFLOAD_SLOTS] on the device */
    unsigned char *arrived; /* [PASSES * ITEMS_MAX] pinned; what the backward passes have read */
};

static void open_rig(struct rig *rig)
{
    struct err err;
    assert_ok(device_open("cuda", &rig->device, &err), &err);
    assert_ok(ops_open(rig->device, DTYPE_F32, 1, &rig->ops, &err), &err);
    const struct device_ops *device = rig->device->ops;
    assert_ok(device->mem_alloc(rig->device, MEM_DEVICE, OFFLOAD_SLOTS * ITEM_BYTES,
                                (void **)&rig->ring, &err),
              &err);
    assert_ok(device->mem_alloc(rig->device, MEM_PINNED, PASSES * ITEMS_MAX * ITEM_BYTES,
                                (void **)&rig->arrived, &err),
              &err);
}

static void close_rig(struct rig *rig)
{
    rig->device->ops->mem_free(rig->device, MEM_PINNED, rig->arrived,
                               PASSES * ITEMS_MAX * ITEM_BYTES);
    rig->device->ops->mem_free(rig->device, MEM_DEVICE, rig->ring, OFFLOAD_SLOTS * ITEM_BYTES);
    ops_close(rig->ops);
    device_close(rig->device);
}

static char *slot_of(const struct rig *rig, uint32_t item)
{
    return rig->ring + item % OFFLOAD_SLOTS * ITEM_BYTES;
}

static unsigned char *arrived_at(const struct rig *rig, int pass, uint32_t item)
{
    return rig->arrived + (pass * ITEMS_MAX + item) * ITEM_BYTES;
}

static int value_of(int pass, uint32_t item)
{
    return 1 + pass * ITEMS_MAX + (int)item;
}

static void fill(const struct rig *rig, void *target, int value)
{
    struct err err;
    assert_ok(
        rig->device->ops->fill(rig->device, rig->ops->stream, target, value, ITEM_BYTES, &err),
        &err);
}

/* Queues a forward and a backward pass. The backward pass of a block may overwrite what it has
 * read. */
static void queue_pass(const struct rig *rig, struct offload *offload, int pass, uint32_t items)
{
    struct err err;
    for (uint32_t i = 0; i < items; i++) {
        offload_before_forward(offload, i);
        fill(rig, slot_of(rig, i), value_of(pass, i));
        offload_after_forward(offload, i, slot_of(rig, i));
    }
    for (uint32_t i = items; i-- > 0;) {
        offload_before_backward(offload, i);
        assert_ok(rig->device->ops->copy(rig->device, rig->ops->stream, arrived_at(rig, pass, i),
                                         slot_of(rig, i), ITEM_BYTES, &err),
                  &err);
        fill(rig, slot_of(rig, i), SPOILED);
        offload_after_backward(offload, i, slot_of(rig, i));
    }
}

static void every_item_is_copied_back_before_its_backward_pass(void **state)
{
    (void)state;
    for (size_t order = 0; order < order_count(); order++) {
        struct rig rig;
        struct err err;
        order_set(order);
        open_rig(&rig);
        for (uint32_t items = OFFLOAD_SLOTS + 1; items <= ITEMS_MAX; items++) {
            struct offload *offload;
            assert_ok(offload_open(rig.ops, items, ITEM_BYTES, &offload, &err), &err);
            for (int pass = 0; pass < PASSES; pass++)
                queue_pass(&rig, offload, pass, items);
            assert_ok(rig.ops->table->sync(rig.ops, &err), &err);
            assert_ok(offload_status(offload, &err), &err);
            for (int pass = 0; pass < PASSES; pass++)
                for (uint32_t i = 0; i < items; i++)
                    for (int b = 0; b < ITEM_BYTES; b++)
                        assert_int_equal(arrived_at(&rig, pass, i)[b], value_of(pass, i));
            assert_int_equal(offload_copied_bytes(offload),
                             PASSES * 2 * offload_pinned_bytes(items, ITEM_BYTES));
            offload_close(offload);
        }
        close_rig(&rig);
    }
}

/* A captured pass leaves no copy in progress, and gives the same results on every launch. */
static void a_pass_can_be_captured_in_a_graph(void **state)
{
    (void)state;
    enum { LAUNCHES = 3 };
    for (size_t order = 0; order < order_count(); order++) {
        struct rig rig;
        struct offload *offload;
        struct device_graph *graph;
        struct err err;
        order_set(order);
        open_rig(&rig);
        const struct device_ops *device = rig.device->ops;
        assert_ok(offload_open(rig.ops, ITEMS_MAX, ITEM_BYTES, &offload, &err), &err);
        assert_ok(device->graph_begin(rig.device, rig.ops->stream, &err), &err);
        queue_pass(&rig, offload, 0, ITEMS_MAX);
        assert_ok(device->graph_end(rig.device, rig.ops->stream, &graph, &err), &err);
        for (int launch = 0; launch < LAUNCHES; launch++) {
            memset(rig.arrived, 0, PASSES * ITEMS_MAX * ITEM_BYTES);
            assert_ok(device->graph_launch(rig.device, graph, rig.ops->stream, &err), &err);
            assert_ok(rig.ops->table->sync(rig.ops, &err), &err);
            for (uint32_t i = 0; i < ITEMS_MAX; i++)
                for (int b = 0; b < ITEM_BYTES; b++)
                    assert_int_equal(arrived_at(&rig, 0, i)[b], value_of(0, i));
        }
        assert_ok(offload_status(offload, &err), &err);
        device->graph_close(rig.device, graph);
        offload_close(offload);
        close_rig(&rig);
    }
}

static void opening_allocates_all_memory_for_passes(void **state)
{
    (void)state;
    struct rig rig;
    struct device_mem_info before, opened, after;
    struct offload *offload;
    struct err err;
    order_set(0);
    open_rig(&rig);
    rig.device->ops->mem_info(rig.device, &before);
    assert_ok(offload_open(rig.ops, ITEMS_MAX, ITEM_BYTES, &offload, &err), &err);
    rig.device->ops->mem_info(rig.device, &opened);
    assert_int_equal(opened.used_bytes[MEM_PINNED] - before.used_bytes[MEM_PINNED],
                     (ITEMS_MAX - OFFLOAD_SLOTS) * ITEM_BYTES);
    assert_int_equal(opened.used_bytes[MEM_DEVICE], before.used_bytes[MEM_DEVICE]);
    queue_pass(&rig, offload, 0, ITEMS_MAX);
    assert_ok(rig.ops->table->sync(rig.ops, &err), &err);
    rig.device->ops->mem_info(rig.device, &after);
    assert_memory_equal(after.peak_bytes, opened.peak_bytes, sizeof after.peak_bytes);
    offload_close(offload);
    rig.device->ops->mem_info(rig.device, &after);
    assert_memory_equal(after.used_bytes, before.used_bytes, sizeof after.used_bytes);
    close_rig(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_item_is_copied_back_before_its_backward_pass),
        cmocka_unit_test(a_pass_can_be_captured_in_a_graph),
        cmocka_unit_test(opening_allocates_all_memory_for_passes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
